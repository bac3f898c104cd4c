"""Pretrained word vectors, read from files of the user."""
