"""Python file with exact positions; an edit replaces bytes and keeps the rest."""

from __future__ import annotations

import ast
from bisect import bisect
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

SIMPLE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Edit:
    """Replacement of the bytes from `start` to `end` by `new`."""

    kind: str
    start: int
    end: int
    new: str


class Source:
    """Text of a file, its syntax tree, and positions as byte offsets."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.tree = ast.parse(text)

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of every line."""
        return [0, *accumulate(len(line) for line in self.data.splitlines(keepends=True))]

    def start(self, node: ast.AST) -> int:
        """Return the offset at which `node` begins."""
        return self.line_starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined, no-any-return]

    def end(self, node: ast.AST) -> int:
        """Return the offset at which `node` ends."""
        return self.line_starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined, no-any-return]

    def text(self, node: ast.AST) -> str:
        """Return the text of `node`."""
        return self.data[self.start(node) : self.end(node)].decode()

    def line(self, offset: int) -> int:
        """Return the number, from 1, of the line that contains `offset`."""
        return bisect(self.line_starts, offset)

    def changed(self, edit: Edit) -> str:
        """Return the text after `edit`."""
        return (self.data[: edit.start] + edit.new.encode() + self.data[edit.end :]).decode()

    @cached_property
    def statements(self) -> list[tuple[int, int]]:
        """First and last line of every simple statement, and of the header of every compound one."""
        spans = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt):
                last = node.end_lineno or node.lineno
                if isinstance(node, SIMPLE):
                    body = node.cases[0].pattern if isinstance(node, ast.Match) else node.body[0]
                    last = max(node.lineno, body.lineno - 1)
                spans.append((node.lineno, last))
        return spans

    def span(self, first: int, last: int) -> range:
        """Return the lines of all statements that overlap the lines `first` to `last`."""
        touched = [each for each in self.statements if each[0] <= last and each[1] >= first]
        return range(min([first, *(a for a, _ in touched)]), max([last, *(b for _, b in touched)]) + 1)

    def function(self, line: int) -> str:
        """Return the dotted name of the function whose body contains `line`; empty outside of functions."""
        found, name = "", ""
        for names, node in self.named:
            if isinstance(node, FUNCTIONS) and node.body[0].lineno <= line <= (node.end_lineno or 0):
                found, name = ".".join(names), node.name
        return found if name else ""

    @cached_property
    def named(self) -> list[tuple[tuple[str, ...], ast.AST]]:
        """All functions and classes with their dotted names, outer before inner."""
        return self._named(self.tree, ())

    def _named(self, node: ast.AST, names: tuple[str, ...]) -> list[tuple[tuple[str, ...], ast.AST]]:
        found = []
        for child in ast.iter_child_nodes(node):
            inner = (*names, child.name) if isinstance(child, (*FUNCTIONS, ast.ClassDef)) else names
            if inner is not names:
                found.append((inner, child))
            found += self._named(child, inner)
        return found
