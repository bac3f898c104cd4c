"""python -m epigram.cli: the `epigram` command."""

from epigram.cli import program

program()
