"""Data sets: their sources, the readers of their files, the validation of their rows, and rows that arrive later."""
