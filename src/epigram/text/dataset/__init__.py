"""The validated corpus and the encoded data set as training reads them, and the words in encoded texts."""
