"""Tests of the lock files: every package that make installs has a hash in a lock, and make requires the hashes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests import lock

ROOT = Path(__file__).parents[3]
LOCKS = (lock.RUN, lock.TEST, "requirements-build.lock", "requirements-cuda.lock", "requirements-peers.lock")


def packages(text: str) -> dict[str, list[str]]:
    """Return what pip reads in a lock file: each requirement with its hashes."""
    lines = text.replace("\\\n", " ").splitlines()
    split = [line.split(" --hash=") for line in lines if line and not line.startswith("#")]
    return {requirement.strip(): [each.strip() for each in hashes] for requirement, *hashes in split}


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_a_version_and_hashes(name: str) -> None:
    found = packages((ROOT / name).read_text())
    assert found
    for requirement, hashes in found.items():
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", requirement)
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), requirement


def test_torch_has_the_hashes_of_its_cpu_build_and_of_the_index() -> None:
    found = packages((ROOT / lock.RUN).read_text())["torch==2.13.0"]
    cpu = "sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
    assert cpu in found and len(found) > 10


def test_no_package_is_in_two_locks_with_two_versions() -> None:
    versions: dict[str, set[str]] = {}
    for name in LOCKS:
        for requirement in packages((ROOT / name).read_text()):
            versions.setdefault(lock.name_of(requirement), set()).add(requirement.split()[0].partition("==")[2])
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_the_constraints_are_the_versions_of_the_locks_of_runs_and_tests() -> None:
    pins = [*packages((ROOT / lock.RUN).read_text()), *packages((ROOT / lock.TEST).read_text())]
    assert packages((ROOT / lock.CONSTRAINTS).read_text()) == {pin: [] for pin in pins}
    assert len(pins) == len(set(map(lock.name_of, pins)))


def dependencies(requirements: list[str]) -> set[str]:
    """Return the normalized names of `requirements` and of all installed packages that they depend on here."""
    extras: dict[str, set[str]] = {}
    waiting = list(map(Requirement, requirements))
    while waiting:
        requirement = waiting.pop()
        name, wanted = lock.name_of(requirement.name), {"", *requirement.extras}
        if not wanted <= extras.get(name, set()):
            extras[name] = extras.get(name, set()) | wanted
            needed = map(Requirement, metadata.requires(name) or [])
            waiting += [r for r in needed if not r.marker or any(r.marker.evaluate({"extra": e}) for e in wanted)]
    return set(extras)


def test_a_run_installs_what_the_dependencies_and_two_extras_need_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = dependencies([*project["dependencies"], *extras["pipeline"], *extras["serve"]])
    assert {lock.name_of(pin) for pin in packages((ROOT / lock.RUN).read_text())} == needed
    assert {"dvc", "prefect", "torch"} <= needed and not {"ray", "onnx", "pytest"} & needed


def installs(target: str) -> list[list[str]]:
    """Return the words of pip's commands with which make would build `target` from nothing."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--dry-run", "--always-make", target]
    printed = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    commands = re.split(r"\n|\|\|", printed.replace("\\\n", " "))
    return [shlex.split(command) for command in commands if "/pip " in command and " install " in command]


@pytest.mark.parametrize(
    ("target", "more"),
    [
        ("run", []),
        ("test", [["requirements-test.lock"]]),
        ("peers", [["requirements-test.lock"], ["requirements-peers.lock"]]),
    ],
)
def test_make_installs_what_has_a_hash_and_the_project_itself(target: str, more: list[list[str]]) -> None:
    found = []
    for words in installs(target):
        assert {"--no-deps", "--no-build-isolation"} < set(words)
        if "--require-hashes" in words:
            found.append([words[n + 1] for n, word in enumerate(words) if word == "--requirement"])
        else:
            assert words[-3:] == ["--no-index", "--editable", "."]
    torch = ".venv/torch.lock"  # the torch lines of requirements-run.lock
    run = [[torch], [torch, "requirements-cuda.lock"], ["requirements-build.lock"], ["requirements-run.lock"]]
    assert found == [*run, *more]
    assert len(installs(target)) == len(found) + 1


UV = {
    "torch==2.13.0": "torch==2.13.0 \\\n    --hash=sha256:ff \\\n    --hash=sha256:aa\n",
    "cuda": "My_Package==1.0 \\\n    --hash=sha256:01\n"
    "nvidia-x==3.0 ; sys_platform == 'linux' \\\n    --hash=sha256:02\n"
    "torch==2.13.0 \\\n    --hash=sha256:ff\n",
}


def test_the_hashes_are_uv_s_and_that_of_the_cpu_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def uv(command: list[str], *, input: str, **_: Any) -> Any:
        if "--universal" in command:
            return SimpleNamespace(stdout=UV["cuda"])
        assert "--no-deps" in command
        blocks = [UV.get(pin, f"{pin} \\\n    --hash=sha256:0{len(pin)}\n") for pin in input.split()]
        return SimpleNamespace(stdout="".join(blocks))

    monkeypatch.setattr(lock, "ROOT", tmp_path)
    monkeypatch.setattr(lock.subprocess, "run", uv)
    (tmp_path / "requirements-run.lock").write_text("my-package==1.0\ntorch==2.13.0 \\\n    --hash=sha256:old\n")
    (tmp_path / "requirements-test.lock").write_text("checker==4\n")
    (tmp_path / "requirements-build.lock").write_text("tool==2\n")
    (tmp_path / "requirements-peers.lock").write_text("peer==3.1\n")
    assert lock.main() == 0
    found = {path.name: packages(path.read_text()) for path in tmp_path.iterdir()}
    cpu = lock.CPU["torch==2.13.0"][0]
    assert found == {
        "requirements.lock": {"checker==4": [], "my-package==1.0": [], "torch==2.13.0": []},
        "requirements-test.lock": {"checker==4": ["sha256:010"]},
        "requirements-run.lock": {
            "my-package==1.0": ["sha256:015"],
            "torch==2.13.0": [f"sha256:{each}" for each in sorted(["aa", "ff", cpu])],
        },
        "requirements-build.lock": {"tool==2": ["sha256:07"]},
        "requirements-peers.lock": {"peer==3.1": ["sha256:09"]},
        "requirements-cuda.lock": {"nvidia-x==3.0 ; sys_platform == 'linux'": ["sha256:02"]},
    }
