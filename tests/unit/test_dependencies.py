"""pyproject.toml declares what the code imports, and `epigram predict` needs only the core dependencies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.linear_models import TRAIN, svm

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN = {"epigram", "flows", "tasks"}
LOADED_BY_OTHERS = {
    "adbc-driver-postgresql",
    "adbc-driver-sqlite",
    "asyncpg",
    "dvc-s3",
    "pyarrow",
    "pyopenssl",
    "httptools",
    "uvloop",
}
FOLDERS = {  # folders whose modules may need an extra when they are imported
    "pipeline": ("flows", "tasks", "src/epigram/runner", "src/epigram/cli"),
    "serve": ("src/epigram/inference/server",),
}


def name_of(requirement: str) -> str:
    return normalized(Requirement(requirement).name)


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


CORE = set(map(name_of, PROJECT["dependencies"]))
EXTRAS = {
    extra: set(map(name_of, names)) for extra, names in PROJECT["optional-dependencies"].items() if extra != "dev"
}
OF_EXTRAS = {"mlflow": {"mlflow-skinny"}, "pandas": {"pandas"}}  # as installed by an extra that may be missing


@cache
def distributions() -> dict[str, set[str]]:
    """Return the distributions that install each package."""
    return OF_EXTRAS | {module: set(map(normalized, names)) for module, names in packages_distributions().items()}


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """Yield the top-level name of every imported package, and whether it is imported when the module is."""
    tree = ast.parse(file.read_text())
    outer = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for top in {name.partition(".")[0] for name in names} - OWN - sys.stdlib_module_names:
            yield top, id(node) in outer


FILES = [file for folder in ("src", "flows", "tasks") for file in sorted((ROOT / folder).rglob("*.py"))]


@cache
def all_imports() -> list[tuple[Path, str, bool]]:
    """Return file, package and whether the file's import needs it, of every import."""
    return [(file, module, eager) for file in FILES for module, eager in imports(file)]


def test_every_imported_package_is_declared() -> None:
    assert len(all_imports()) > 300
    for file, module, eager in all_imports():
        name = file.relative_to(ROOT).as_posix()
        allowed = CORE.union(*(EXTRAS[extra] for extra, folders in FOLDERS.items() if name.startswith(folders)))
        if not eager:
            allowed = allowed.union(*EXTRAS.values())
        said = f"{name} imports {module}, which pyproject.toml does not declare for it"
        assert distributions()[module] & allowed, said


def test_every_declared_package_is_used() -> None:
    used = set().union(*(distributions()[module] for _, module, _ in all_imports()))
    declared = CORE.union(*EXTRAS.values())
    text = "\n".join(file.read_text() for file in FILES)
    by_name = {name for name in declared if f'"{name.replace("-", "_")}' in text}  # such as import_module("networkx")
    assert declared - used - by_name - LOADED_BY_OTHERS == set()


def test_the_extra_dev_has_all_other_extras() -> None:
    own = next(each for each in map(Requirement, PROJECT["optional-dependencies"]["dev"]) if each.name == "epigram")
    assert own.extras == set(EXTRAS)


def core_modules() -> set[str]:
    """Return the import names of the core dependencies and of all that they depend on here."""
    waiting, seen = list(map(Requirement, PROJECT["dependencies"])), set[str]()
    while waiting:
        requirement = waiting.pop()
        extras = {"", *requirement.extras}
        key = f"{normalized(requirement.name)}{sorted(extras)}"
        if key not in seen:
            seen.add(key)
            needed = map(Requirement, requires(requirement.name) or [])
            waiting += [r for r in needed if not r.marker or any(r.marker.evaluate({"extra": e}) for e in extras)]
    names = {key.partition("[")[0] for key in seen}
    return {module for module, found in distributions().items() if found & names}


HIDE = """
import sys
from importlib.machinery import PathFinder
class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""


def run_with_core_only(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code that finds no package except those that the core dependencies install."""
    hidden = distributions().keys() - core_modules() - OWN - {"tests"}
    script = f"HIDDEN = {hidden!r}\n{HIDE}\n{code}"
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_predict_and_the_python_api_need_only_the_core_dependencies(tmp_path: Path) -> None:
    model = svm(tmp_path, "zh", TRAIN["zh"])
    code = f"""
import epigram
label = epigram.load({str(model)!r}).predict(["房间小"])[0].label
sys.argv = ["epigram", "predict", {str(model)!r}, "房间小"]
from epigram.cli import program
print(label)
program()
"""
    done = run_with_core_only(code, tmp_path)
    assert done.returncode == 0, done.stderr
    label, line = done.stdout.splitlines()
    assert line.startswith(f"{label}\t")


def test_stages_need_only_the_core_dependencies(tmp_path: Path) -> None:
    names = sorted(path.stem for path in (ROOT / "src/epigram/stages").glob("[!_]*.py"))
    code = f"import importlib\nfor name in {names!r}: importlib.import_module(f'epigram.stages.{{name}}')\n"
    code += "import epigram.hf, epigram.training.loop.trainer, epigram.recipes.registry, epigram.report.page\n"
    done = run_with_core_only(code, tmp_path)
    assert done.returncode == 0, done.stderr
