"""Dockerfile and compose.yaml: linted, complete context, commands that exist. No image is built here."""

from __future__ import annotations

import subprocess
import sysconfig
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from epigram.cli.app import cli
from epigram.runner.project.template import files_of

ROOT = Path(__file__).parents[3]
SOURCES = ("src/epigram/cli/app.py", "LICENSE", "NOTICE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")


def admitted(name: str) -> bool:
    """Return whether .dockerignore, whose first rule excludes everything, admits a file to the build."""
    first, *rules = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert first == "*" and all(rule.startswith("!") for rule in rules)
    parents = [name, *(parent.as_posix() for parent in Path(name).parents)]
    return any(fnmatch(part, rule[1:]) for rule in rules for part in parents if "/" in rule or "/" not in part)


def test_the_build_gets_the_sources_and_the_template_and_nothing_of_the_user() -> None:
    needed = [*SOURCES, *files_of(ROOT), "requirements.lock"]
    assert [name for name in needed if not admitted(name)] == []
    private = ("data/local/reviews.csv", "runs/latest/model/config.json", ".git/config", ".epigram/hub/x", ".env")
    assert [name for name in private if admitted(name)] == []


def test_the_dockerfile_passes_the_linter() -> None:
    linter = Path(sysconfig.get_path("scripts")) / "hadolint"
    if not linter.exists():
        pytest.skip("requires the extra dev")
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_services_call_commands_of_epigram() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    commands: Any = get_command(cli)
    for name in ("server", "dashboard"):
        command, *arguments = services[name]["command"]
        commands.commands[command].make_context(command, list(map(str, arguments)))
    assert services["server"]["volumes"] == ["./runs:/runs:ro"] and services["server"]["read_only"]
    for name, service in services.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
