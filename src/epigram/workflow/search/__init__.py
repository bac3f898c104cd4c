"""Search for the best systems within a time: which trials to run, and the plan of a run that follows from them."""
