"""Recurrent layers: LSTMs over tokens, characters and labels, and their language models."""
