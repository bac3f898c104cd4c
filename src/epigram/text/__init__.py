"""Texts before training: the writing of the encoded data set, the settings of views, and files of the user."""
