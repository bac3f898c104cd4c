"""dvc.yaml is complete: it lists every file, setting and code dependency of each stage."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any, get_type_hints

import grimp
import pytest
import yaml

from epigram.runner.dvc.graph import read
from epigram.runner.workspace.settings import Settings

ROOT = Path(__file__).parents[2]
STAGES: dict[str, dict[str, Any]] = {
    name: stage.get("do", stage) for name, stage in yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"].items()
}
MODULES = {name: re.findall(r"^python -m (epigram\.stages\.\w+) ", stage["cmd"])[0] for name, stage in STAGES.items()}


BY_NAME = [
    ("epigram.recipes.registry", "epigram.recipes"),
    ("epigram.nn.encoders", "epigram.nn.encoders"),
    ("epigram.nn.heads", "epigram.nn.heads"),
    ("epigram.training.fitters", "epigram.training.fitters"),
    ("epigram.training.optimizers", "epigram.training.optimizers"),
]


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("epigram", cache_dir=None)


def used_by(module: str, imports: grimp.ImportGraph) -> set[str]:
    """Return the modules that `module` can import; a registry imports each module of its packages by name."""
    used = {module, *imports.find_upstream_modules(module)}
    for registry, package in BY_NAME:
        if registry in used:
            parts = imports.find_children(package)
            used |= parts.union(*(imports.find_upstream_modules(part) for part in parts))
    return used


def test_every_stage_has_its_file_and_every_file_its_stage() -> None:
    files = {path.stem for path in (ROOT / "src/epigram/stages").glob("*.py")} - {"__init__"}
    assert {f"epigram.stages.{name}" for name in files} == set(MODULES.values())
    assert all(module == f"epigram.stages.{name}" for name, module in MODULES.items())


@pytest.mark.parametrize("path", [*ROOT.glob("flows/*.py"), *ROOT.glob("tasks/*.py")], ids=lambda path: path.stem)
def test_flows_and_tasks_name_no_stage_and_run_no_process(path: Path) -> None:
    """Stages and their order come from dvc.yaml, so that a new stage needs no change of a flow."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert not {text for text in strings if text.partition("@")[0] in STAGES}
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    assert not {name for name in imported if name and name.partition(".")[0] in {"dvc", "subprocess", "typer"}}


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_declares_the_settings_that_it_reads(name: str) -> None:
    read = getattr(importlib.import_module(MODULES[name]), "PARAMS", ())
    assert [param.replace("${key}", "{key}") for param in STAGES[name].get("params", [])] == list(read)


def test_params_yaml_has_every_section_that_dvc_reads() -> None:
    """DVC refuses a stage whose parameter is not in params.yaml, whatever its default."""
    sections = yaml.safe_load((ROOT / "params.yaml").read_text("utf-8"))
    read = {param.partition(".")[0] for stage in STAGES.values() for param in stage.get("params", [])}
    assert "report" in read and read <= sections.keys()


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_all_code_that_it_imports(name: str, imports: grimp.ImportGraph) -> None:
    stage = MODULES[name]
    deps = [ROOT / dep for dep in STAGES[name]["deps"]]
    missing = []
    for module in used_by(stage, imports):
        path = ROOT / "src" / Path(*module.split("."))
        file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        if module.startswith("epigram.process"):  # how a stage runs; no output depends on it
            continue
        if file.stat().st_size and not any(file == dep or dep in file.parents for dep in deps):
            missing.append(str(file.relative_to(ROOT)))
    assert not missing, f"{name} imports code that dvc.yaml does not list: {sorted(missing)}"


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_no_code_that_it_does_not_import(name: str, imports: grimp.ImportGraph) -> None:
    stage = MODULES[name]
    used = used_by(stage, imports)
    for dep in STAGES[name]["deps"]:
        if dep.startswith("src/"):
            module = ".".join(Path(dep).with_suffix("").parts[1:])
            assert any(each == module or each.startswith(f"{module}.") for each in used), f"{name} does not use {dep}"


@pytest.mark.parametrize("section", ["retrain", "drift"])
@pytest.mark.parametrize("name", STAGES)
def test_no_stage_reruns_for_settings_that_only_the_runner_reads(
    name: str, section: str, imports: grimp.ImportGraph
) -> None:
    kind = get_type_hints(Settings)[section]
    for module in (kind.__module__, Settings.__module__):
        file = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
        assert file.is_file()
        assert module not in used_by(MODULES[name], imports)
        assert not any(dep == file or dep in file.parents for dep in (ROOT / each for each in STAGES[name]["deps"]))
    assert section not in {param.partition(".")[0] for param in STAGES[name].get("params", [])}


def test_the_stages_that_run_networks_ask_for_gpus() -> None:
    asked = {name: stage["meta"]["gpus"] for name, stage in STAGES.items() if "meta" in stage}
    one = dict.fromkeys(("pretrain", "prune", "evaluate"), "one")
    assert asked == {**one, "train": "processes"}
    graph = read(ROOT)
    assert {stage.name.partition("@")[0]: stage.gpus for stage in graph if stage.gpus} == {
        name: asked[name] for name in ("pretrain", "train", "prune", "evaluate")
    }


def test_no_stage_is_named_in_the_runners() -> None:
    stage = re.compile(rf"\b({'|'.join(STAGES)})\b")
    for file in (ROOT / "flows").glob("*.py"):
        assert not stage.findall(file.read_text()), f"{file.name} names a stage"
    quoted = re.compile(rf"""["']({"|".join(STAGES)})\b""")
    for file in [*(ROOT / "tasks").glob("*.py"), *(ROOT / "src/epigram/runner").rglob("*.py")]:
        assert not quoted.findall(file.read_text()), f"{file.name} names a stage"


def test_nothing_is_persisted_or_uncached() -> None:
    assert not any(isinstance(out, dict) for stage in STAGES.values() for out in stage["outs"])
