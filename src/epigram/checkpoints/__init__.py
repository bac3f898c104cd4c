"""Folders of pretrained encoders: local ones, packages of the index, and models of the Hugging Face hub."""
