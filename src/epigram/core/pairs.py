"""Pairs of texts: two columns of a table as one text, of which a model reads two sides."""

PAIR = "\N{SYMBOL FOR RECORD SEPARATOR}"  # separator of the sides
