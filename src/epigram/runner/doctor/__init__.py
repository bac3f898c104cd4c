"""Checks of `epigram doctor`: the installation, the machine and the project."""
