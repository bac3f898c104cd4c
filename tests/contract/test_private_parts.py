"""Private parts of other libraries are used only in the adapters."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path.relative_to(ROOT) for folder in ("src", "flows", "tasks") for path in (ROOT / folder).rglob("*.py"))
LOCKS = sorted(ROOT.glob("requirements*.lock"))
ADAPTERS = {
    Path("src/epigram/nn/torch_adapter.py"),
    Path("src/epigram/nn/transformers_adapter.py"),
    Path("src/epigram/runner/service/prefect_adapter.py"),
    *(path for path in FILES if path.parent == Path("src/epigram/runner/dvc")),
}
PUBLIC = {"_exit", "_replace", "_asdict", "_fields"}  # of os and of named tuples
STANDARD_LIBRARY = {"_is_text_encoding"}  # of codecs: the only mark of encodings between text and bytes
DVC = ("dvc.repo", "dvc.dvcfile", "dvc.stage", "dvc.lock", "dvc.schema", "dvc.utils", "dvc.exceptions")
INTERNAL = ("prefect.server", "prefect.context", "prefect._", "torch._", "transformers.masking_utils", "ray._", *DVC)
INTERNAL_TEXTS = ("PREFECT__", "Failed to reach API", "prefect.flow-run.heartbeat", "__dynamo")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC | STANDARD_LIBRARY


def own_names(trees: list[ast.Module]) -> set[str]:
    """Return the names that this project defines itself, as functions, variables or attributes of `self`."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    stored = {node.attr for node in nodes if isinstance(node, ast.Attribute) and owner(node) in {"self", "cls"}}
    return functions | stored


def owner(node: ast.Attribute) -> str:
    return node.value.id if isinstance(node.value, ast.Name) else ""


def private_uses(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield the private parts of other libraries that a module uses."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if is_private(name) and owner(node) not in {"self", "cls"}:
                if name not in own:
                    yield ast.unparse(node)
            case ast.Attribute(attr="forward", ctx=ast.Store()):
                yield f"replaced {ast.unparse(node)}"
            case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, ast.Constant(str(name)), *_]):
                if is_private(name) and name not in own:
                    yield ast.unparse(node)
            case ast.ImportFrom(module=str(module), names=names, level=0) if not module.startswith("epigram"):
                full = [f"{module}.{each.name}" for each in names]
                yield from (each for each in full if each.startswith(INTERNAL) or is_private(each.rpartition(".")[2]))
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.startswith(INTERNAL))
            case ast.Constant(str(text)) if text.startswith(INTERNAL_TEXTS):
                yield repr(text)


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in FILES}


@cache
def own() -> set[str]:
    return own_names(list(trees().values()))


def test_private_parts_are_used_only_in_adapters() -> None:
    code = {path: tree for path, tree in trees().items() if path not in ADAPTERS}
    found = {str(path): uses for path, tree in code.items() if (uses := [*private_uses(tree, own())])}
    assert not found, f"move these uses of other libraries' private parts into an adapter: {found}"


@pytest.mark.parametrize(
    "code",
    [
        "import torch\ntorch._C.get()",
        "layer._weight",
        "from torch.utils.flop_counter import _FlopCounterMode",
        "from prefect.server.api import server",
        "import prefect.context",
        "from dvc.repo import Repo",
        "getattr(config, '_attn_implementation', None)",
        "setattr(function, '__dynamo_disable', function)",
        "layer.forward = run",
        "names = {'PREFECT__SERVER_FINAL': '1'}",
    ],
)
def test_each_kind_of_private_use_is_found(code: str) -> None:
    assert [*private_uses(ast.parse(code), own())]


@pytest.mark.parametrize("code", ["self._own = 1", "tokens._replace(ids=1)", "os._exit(0)", "y = layer.forward(x)"])
def test_public_and_own_names_are_not_reported(code: str) -> None:
    assert not [*private_uses(ast.parse(code), own())]


@pytest.mark.parametrize("name", ["torch", "transformers", "dvc", "prefect", "prefect-ray", "ray"])
def test_a_library_with_an_adapter_is_pinned_to_the_minor_version_of_the_lock(name: str) -> None:
    """Another minor version may lack a private part; the lock has the version that the tests ran with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    declared = [*project["dependencies"], *(each for extra in extras for each in extra)]
    pins = [found[1] for each in declared if (found := re.match(rf"{name}(?:\[\w+\])?==(\d+\.\d+)\.[\d*]+$", each))]
    locked = re.search(rf"^{name}==(\d+\.\d+)\.", "\n".join(path.read_text() for path in LOCKS), re.MULTILINE)
    assert locked is not None
    assert pins == [locked[1]], f"pyproject.toml does not pin {name} to the minor version {locked[1]} of the lock"
