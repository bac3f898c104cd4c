"""Generator of all mutants of a file, without messages, annotations and logs, which are no behavior."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.mutation.operators import AXES, HARMLESS, OPERATORS
from tests.mutation.source import Edit, Source

LOGGERS = {"log", "logger", "logging", "warnings", "print"}


def edits(source: Source) -> list[Edit]:
    """Return every edit of `source` in text order; a few of them may be invalid."""
    return sorted(set(_visit(source, source.tree)), key=lambda edit: (edit.start, edit.end, edit.kind, edit.new))


def valid(source: Source, edit: Edit) -> bool:
    """Return whether the edited text compiles and its syntax tree differs."""
    try:
        return ast.dump(ast.parse(source.changed(edit))) != ast.dump(source.tree)
    except SyntaxError:
        return False


def _visit(source: Source, node: ast.AST) -> Iterator[Edit]:
    if _skipped(node):
        return
    for operator in OPERATORS.get(type(node), []):
        yield from operator(source, node)
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "type_params", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _visit(source, child)


def _skipped(node: ast.AST) -> bool:
    """Return whether `node` is a message, a type-checking block, an import or a log call."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in HARMLESS or (node.arg in AXES and _is_number(node.value))
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test) or "__main__" in ast.dump(node.test)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func).split(".")[0].lower() in LOGGERS
    return False


def _is_number(node: ast.AST) -> bool:
    operand = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(operand, ast.Constant) and isinstance(operand.value, int)
