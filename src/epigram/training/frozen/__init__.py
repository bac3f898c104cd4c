"""Linear models on the states of a frozen pretrained encoder."""
