"""Environments of the peers: one virtual environment for each tool, made from its packages when it is first used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.accuracy_catalogue import Tool
from benchmarks.timing import ROOT, SkippedError, environment

READY = "packages.txt"  # written when an environment is complete


def python_of(tool: Tool, cache: Path) -> str:
    """Return the interpreter of a tool's environment in the folder `cache`; that of this process for our own tools.

    Raises SkippedError if its packages cannot be installed.
    """
    if not tool.packages:
        return sys.executable
    folder, packages = cache / tool.name, "\n".join([*tool.packages, *filter(None, [tool.torch])]) + "\n"
    ready = folder / READY
    if not ready.exists() or ready.read_text(encoding="utf-8") != packages:
        shutil.rmtree(folder, ignore_errors=True)
        _install(tool, folder)
        ready.write_text(packages, encoding="utf-8")
    return str(folder / "bin/python")


def _install(tool: Tool, folder: Path) -> None:
    """Create an environment. PyTorch comes from a local wheel: that of the package index needs CUDA's packages."""
    _run(tool, [sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = list(tool.packages)
    if tool.torch:
        _run(tool, [*pip, "--no-index", "--no-deps", tool.torch])
        wanted.append(tool.torch)
    _run(tool, [*pip, *wanted])


def _run(tool: Tool, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise SkippedError(f"{tool.name}: its environment cannot be made: {lines[-1]}")


def variables(tool: Tool, threads: int) -> dict[str, str]:
    """Return the variables of a tool's process: the threads of its libraries, no access to a hub, our code.

    A peer does not find epigram; our own tools find the programs of this environment, such as DVC.
    """
    libraries = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    paths = [str(ROOT)] if tool.packages else [str(ROOT), str(ROOT / "src")]
    programs = os.environ["PATH"] if tool.packages else environment()["PATH"]
    return {
        "PATH": programs,
        **dict.fromkeys(libraries, str(threads)),
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "DVC_NO_ANALYTICS": "1",
        "PYTHONPATH": os.pathsep.join(paths),
    }
