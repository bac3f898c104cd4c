"""What is fitted on held-out predictions: the temperature and the thresholds of a model."""
