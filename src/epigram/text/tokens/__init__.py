"""Tokenizers, their vocabularies, and the characters, words and positions of tokens."""
