"""The commands of README and docs, page by page and in order, on fixture data under the printed names.

`epigram` commands run unchanged. Flows run with the project's own settings until they would start Prefect's server:
arguments, data set, systems and settings are checked before that. Commands that start a service, contact a remote or
take long are only parsed.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.main import get_command

from epigram.cli import app as cli
from epigram.runner.workspace import overrides
from epigram.runner.workspace.request import Request
from tests.support.families import checkpoint
from tests.support.linear_models import TRAIN, svm
from tests.support.static_model import write_model

pytest.importorskip("onnxruntime", reason="requires the extra onnx")

ROOT = Path(__file__).parents[2]
TRANSLATIONS = sorted((ROOT / "docs").rglob("*.zh.md"))  # test_chinese_pages.py: with the commands of the English pages
FOLDERS = (ROOT / "docs", ROOT / "docs/papers", ROOT / "docs/tutorials", ROOT / "docs/howto")
PAGES = [
    path
    for path in [
        ROOT / "README.md",
        ROOT / "README.zh.md",
        *(page for folder in FOLDERS for page in sorted(folder.glob("*.md"))),
    ]
    if "```sh" in path.read_text("utf-8") and path not in TRANSLATIONS
]
PARSED_TARGETS = {"install", "test", "test-all", "bench", "drill", "mutants", "stop"}
PARSED_COMMANDS = {"dashboard", "stop", "push", "serve"}  # these start or stop a service, or send a model to a server
OTHERS = {
    "git",
    "curl",
    "docker",
    "export",
    ".",
    ".venv/bin/pip",
    "pip",
    "python3",
}  # not part of epigram; they change only the user's files
REVIEWS = [
    *[("房间很大，早餐好吃", "good"), ("前台态度差", "bad"), ("还会再来", "good"), ("太吵了", "bad")],
    *[("位置方便", "good"), ("床单不干净", "bad")],
] * 4
MARKED = ("nice", "poor", "good", "cold")


class StartedError(Exception):
    """Raised when a flow has passed all its checks."""


def blocks(page: Path) -> list[list[str]]:
    """Return the commands of each block of a page."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        lines = [re.split(r"\s+#\s", line)[0].strip() for line in block.splitlines()]
        found.append([part for line in lines for part in re.split(r" && | \|\| true", line) if part])
    return found


def commands(page: Path) -> list[str]:
    return [command for block in blocks(page) for command in block]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with the project's settings and sources, a model, and the files that the pages name."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for name in ("Makefile", "params.yaml", "dvc.yaml", ".dvc/config", "data/sources", "flows", "tasks"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tmp_path / name).parent.mkdir(exist_ok=True)
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "data/sources/reviews.yaml").unlink(missing_ok=True)  # present if the user has followed the README
    checkpoint("bert", tmp_path / "data/local/macbert")
    (tmp_path / "fitted").mkdir()
    (tmp_path / "runs").mkdir()
    svm(tmp_path / "fitted", "zh", TRAIN["zh"]).parent.rename(tmp_path / "runs/latest")
    rows = "".join(f"{text},{label}\n" for text, label in REVIEWS)
    (tmp_path / "in.csv").write_text("review,stars\n" + rows, "utf-8")
    (tmp_path / "reviews.csv").write_text("review,stars\n" + rows, "utf-8")
    (tmp_path / "labelled_later.csv").write_text("review,stars\n" + rows, "utf-8")
    (tmp_path / "topics.csv").write_text("text,topics\n" + "房大,room|staff\n早餐好,food\n还会再来,\n" * 20, "utf-8")
    marked = [{"text": f"{word} soup, kind clerk", "label": [[5, 9, "FOOD"], [16, 21, "STAFF"]]} for word in MARKED]
    (tmp_path / "marked.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in marked), "utf-8")
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text, _ in REVIEWS), "utf-8")
    (tmp_path / "labels.txt").write_text("good: 好\nbad: 差\n", "utf-8")
    write_model(tmp_path / "encoder", ["good", "boring", "film", *"好大早还便差吵不"])
    monkeypatch.setattr("epigram.labelling.similarity.installed_encoder", lambda language: str(tmp_path / "encoder"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("epigram.runner.workspace.overrides.check", checked(overrides.check))
    monkeypatch.setattr("epigram.runner.service.server.start", stop)
    monkeypatch.setattr("epigram.checkpoints.installation.install", lambda name: True)  # the environment stays as it is
    monkeypatch.setattr("epigram.cli.models.encoders._load", lambda checkpoint: None)
    monkeypatch.setattr("epigram.runner.prefect.ray_address.ping", lambda address: None)
    monkeypatch.setattr("epigram.fitting.estimates.installed_encoder", lambda language: None)  # its fit takes a minute
    return tmp_path


def checked(first: Callable[[Request], None]) -> Callable[[Request], None]:
    """Return a check of the overrides (`first`) and of the systems' settings, which the flow checks later."""

    def check(request: Request) -> None:
        first(request)
        params = request.root / "params.yaml"
        before = params.read_text("utf-8")
        overrides.write(params, request)
        overrides.check_systems(params)
        params.write_text(before, "utf-8")

    return check


def stop(*_: object) -> NoReturn:
    raise StartedError


def carry_out(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run or parse one command; a rejected command is an error."""
    settings, words = {}, shlex.split(command.partition(" > ")[0])
    while re.match(r"[A-Z_]+=", words[0]):
        name, _, settings[name] = words.pop(0).partition("=")
    match words:
        case ["make", target, *variables]:
            line = made(target, variables, settings)
            if target not in PARSED_TARGETS:
                carry_out(line, monkeypatch)
        case [".venv/bin/epigram" | "epigram", name, *arguments] if name in (*cli.FLOW_COMMANDS, *PARSED_COMMANDS):
            start_flow(name, arguments, monkeypatch)
        case [".venv/bin/epigram" | "epigram", "label" as name, *arguments] if "--endpoint" in arguments:
            parsed: Any = get_command(cli.cli)
            parsed.commands[name].make_context(name, arguments)
        case [".venv/bin/epigram" | "epigram", *arguments]:
            run_epigram(arguments, monkeypatch)
        case ["cd", folder]:
            os.chdir(folder)
        case [".venv/bin/dvc" | "dvc", *arguments]:
            from dvc.cli import parse_args

            parse_args(arguments)
        case ["gto" | "mlflow" as program, name, *arguments]:
            group = {"gto": "app", "mlflow": "cli"}[program]
            getattr(importlib.import_module(f"{program}.cli"), group).commands[name].make_context(name, arguments)
        case [".venv/bin/python" | "python", "-m", module, *arguments]:
            assert module.startswith("tests.") and importlib.util.find_spec(module) is not None, arguments
        case [program, *_]:
            assert program in OTHERS, f"no test knows how to run {program}"


def run_epigram(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["epigram", *arguments])
    try:
        cli.app()
    except SystemExit as end:
        if end.code:
            raise


def made(target: str, variables: list[str], settings: dict[str, str]) -> str:
    """Return the command that `make` would run if the environment were ready."""
    ready = [part for name in ("ready", "tests", "peers") for part in ("-o", f".venv/.{name}")]
    done = subprocess.run(
        ["make", "-n", *ready, target, *variables],
        env=os.environ | settings, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\\\n", " ").strip()


def start_flow(name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the command of a flow until it would start Prefect's server."""
    commands: Any = get_command(cli.cli)
    if name in PARSED_COMMANDS or not {"--rollback", "--rebuild", "--forget"}.isdisjoint(arguments):
        commands.commands[name].make_context(name, arguments)
        return
    monkeypatch.setenv("EPIGRAM_DEBUG", "1")  # errors are raised, not printed
    monkeypatch.setattr("sys.path", [*sys.path])  # the command adds the folder
    if "--show" in arguments:
        cli.app([name, *arguments])
        return
    with pytest.raises(StartedError):
        cli.app([name, *arguments])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_carried_out(
    page: Path, clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands(page)
    for block in blocks(page):
        os.chdir(clone)
        for command in block:
            with pytest.MonkeyPatch.context() as patch:
                try:
                    carry_out(command, patch)
                except (Exception, SystemExit) as error:
                    raise AssertionError(f"{page.name}: {command}\n{error!r}\n{capsys.readouterr().err}") from error
    if page.name == "README.md":
        header, *rows = (clone / "out.csv").read_text("utf-8").splitlines()
        assert header == "review,stars,label,probability" and len(rows) == len(REVIEWS)
        assert (clone / "data/sources/reviews.yaml").exists()
    if page.name == "export.md":
        assert {path.name for path in (clone / "exported").iterdir()} >= {"model.onnx", "ngrams.json"}


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("docs/explain.md", r"room 0\.\d+ weights\n很大 2 4 0\.\d+\n房间 .+\n好吃 .+\n0\.\d+\n"),
        ("README.md", r"room (0\.\d+|1\.0)\n"),
        ("docs/zero_labels.md", r"\['positive', 'negative'\] \[True, True\]\n"),
        ("docs/tutorials/several_labels.md", r"\['food', 'room'\]\n"),
        ("docs/howto/own_metric.md", r"bad\n"),
        ("docs/howto/large_file.md", r"24\n"),
        ("docs/fit.md", r"bad\n1\.0\n\['bad' 'good'\] \[\[.* .*\]\] tfidf_svm\n"),
    ],
)
def test_the_python_examples_of_a_page_run(
    page: str, printed: str, clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    exec("".join(examples), {})
    assert re.fullmatch(printed, capsys.readouterr().out)


@pytest.mark.parametrize(
    "command",
    [
        "make run DATASET=mrs",
        "make run SYSTEMS=transformr",
        'make run SET="train.epoch=5"',
        ".venv/bin/epigram predict runs/latest/model in.csv --txt review --out out.csv",
        ".venv/bin/epigram sweep --over datset=mr",
        ".venv/bin/epigram retrain --roll-back",
        ".venv/bin/dvc push --runcache",
        "make srve",
        "cargo build",
    ],
)
def test_a_command_with_a_slip_does_not_pass(
    command: str, clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BaseException) as failed:
        carry_out(command, monkeypatch)
    assert not isinstance(failed.value, StartedError)
