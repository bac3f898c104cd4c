"""What the NumPy references read from the weights of a model, for several tests."""
