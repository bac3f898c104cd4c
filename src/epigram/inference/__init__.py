"""Use of saved models: predictions for texts and tables, exports, attention maps, signatures."""
