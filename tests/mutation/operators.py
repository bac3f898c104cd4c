"""Mutation operators: small changes of a syntax tree that a good test detects."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.mutation.source import Edit, Source

COMPARE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COMPARE |= {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*"}
NAMES = {"argmax": "argmin", "amax": "amin", "max": "min", "maximum": "minimum", "mean": "sum", "any": "all"}
NAMES |= {"floor": "ceil"}
NAMES |= {new: old for old, new in NAMES.items()}
AXES = {"axis", "dim"}
SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
# Keyword arguments without an effect on results: dropping them gives an equivalent mutant.
HARMLESS = {"strict", "encoding", "stacklevel", "indent", "ensure_ascii", "sort_keys", "newline", "non_blocking"}

EPSILON = 1e-6  # smaller numbers avoid a division by zero: doubling them has no effect on results

Edits = Iterator[Edit]


def between(source: Source, left: ast.AST, right: ast.AST, pattern: str, swap: dict[str, str], kind: str) -> Edits:
    """Swap the operator between two operands."""
    start, end = source.end(left), source.start(right)
    found = re.search(pattern, source.data[start:end].decode())
    if found and (old := " ".join(found[0].split())) in swap:
        yield Edit(kind, start + found.start(), start + found.end(), swap[old])


def compare(source: Source, node: ast.Compare) -> Edits:
    """Include or exclude equality, or invert, in each comparison."""
    operands = [node.left, *node.comparators]
    for left, right in pairwise(operands):
        pattern = r"is\s+not|not\s+in|is|in|<=|>=|==|!=|<|>"
        yield from between(source, left, right, pattern, COMPARE, "compare")


def arithmetic(source: Source, node: ast.BinOp) -> Edits:
    """Swap + and -, * and /."""
    texts = any(isinstance(each, ast.JoinedStr) or _is_text(each) for each in (node.left, node.right))
    if type(node.op) in SYMBOLS and not texts:
        yield from between(source, node.left, node.right, r"//|\*\*|[-+*/%]", ARITHMETIC, "arithmetic")


def augmented(source: Source, node: ast.AugAssign) -> Edits:
    """Change the operator of an augmented assignment, or drop the statement."""
    if type(node.op) in SYMBOLS and not _is_text(node.value):
        yield from between(source, node.target, node.value, r"//|[-+*/%](?==)", ARITHMETIC, "arithmetic")
    yield Edit("drop statement", source.start(node), source.end(node), "pass")


def boolean(source: Source, node: ast.BoolOp) -> Edits:
    """Swap `and` and `or`, one at a time."""
    for left, right in pairwise(node.values):
        yield from between(source, left, right, r"\b(and|or)\b", {"and": "or", "or": "and"}, "boolean")


def unary(source: Source, node: ast.UnaryOp) -> Edits:
    """Drop `not`, and the minus sign of anything but a constant."""
    if isinstance(node.op, ast.Not) or (isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant)):
        yield Edit("unary", source.start(node), source.start(node.operand), "")


def constant(source: Source, node: ast.Constant) -> Edits:
    """Change a number or a boolean."""
    start, end, value = source.start(node), source.end(node), node.value
    if isinstance(value, bool):
        yield Edit("constant", start, end, str(not value))
    elif isinstance(value, int):
        for new in {0: ("1",), 1: ("0", "2")}.get(value, (str(value - 1), str(value + 1))):
            yield Edit("constant", start, end, new)
    elif isinstance(value, float) and not 0 < value <= EPSILON:
        yield Edit("constant", start, end, repr(value * 2 or 1.0))


def name(source: Source, node: ast.Call) -> Edits:
    """Replace a function by its counterpart: argmin and argmax, min and max, sum and mean, and so on."""
    called = node.func
    old = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    if old in NAMES:
        end = source.end(called)
        yield Edit("function", end - len(old), end, NAMES[old])


def keywords(source: Source, node: ast.Call) -> Edits:
    """Drop a keyword argument, or use another axis."""
    values = [*node.args, *(each.value for each in node.keywords)]
    for keyword in node.keywords:
        if keyword.arg in AXES and source.text(keyword.value) in {"0", "1", "-1", "2", "-2"}:
            new = "0" if source.text(keyword.value) in {"1", "-1", "2"} else "-1"
            yield Edit("axis", source.start(keyword.value), source.end(keyword.value), new)
        if keyword.arg and keyword.arg not in HARMLESS and not _is_text(keyword.value):
            before = [source.end(each) for each in values if source.end(each) < source.start(keyword)]
            after = [source.start(each) for each in node.keywords if source.start(each) > source.end(keyword)]
            start, end = source.start(keyword), source.end(keyword)
            cut = (max(before), end) if before else (start, min(after)) if after else (start, end)
            yield Edit("drop argument", *cut, "")


def bounds(source: Source, node: ast.Slice) -> Edits:
    """Drop a bound of a slice, or shift it by one."""
    for bound in (node.lower, node.upper):
        if bound is not None:
            start, end = source.start(bound), source.end(bound)
            yield Edit("slice", start, end, "")
            if not isinstance(bound, ast.Constant | ast.UnaryOp):
                yield Edit("slice", start, end, f"({source.text(bound)}) - 1")


def condition(source: Source, node: ast.If | ast.IfExp) -> Edits:
    """Negate the condition."""
    start, end = source.start(node.test), source.end(node.test)
    yield Edit("condition", start, end, f"not ({source.text(node.test)})")


def returned(source: Source, node: ast.Return) -> Edits:
    """Return None."""
    if node.value is not None and not isinstance(node.value, ast.Constant):
        yield Edit("return", source.start(node.value), source.end(node.value), "None")


def statement(source: Source, node: ast.Expr) -> Edits:
    """Drop a call whose value is unused."""
    if isinstance(node.value, ast.Call):
        yield Edit("drop statement", source.start(node), source.end(node), "pass")


OPERATORS: dict[type[ast.AST], list[Callable[..., Edits]]] = {
    ast.Compare: [compare],
    ast.BinOp: [arithmetic],
    ast.AugAssign: [augmented],
    ast.BoolOp: [boolean],
    ast.UnaryOp: [unary],
    ast.Constant: [constant],
    ast.Call: [name, keywords],
    ast.Slice: [bounds],
    ast.If: [condition],
    ast.IfExp: [condition],
    ast.Return: [returned],
    ast.Expr: [statement],
}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
