"""Copies of the repository in which mutants are applied and tests run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutation.mutants import ROOT, Mutant

HOOK = Path(__file__).parent / "subprocess_hook.py"


class Tree:
    """A copy of the repository in `folder`/repo. Python checks its .pyc files by content, so no change is missed."""

    def __init__(self, folder: Path) -> None:
        self.root = root = folder / "repo"
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        (root / ".venv").symlink_to(sys.prefix)
        shutil.copy(HOOK, root / "sitecustomize.py")
        compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "."]
        subprocess.run(compiled, cwd=root, check=True, stdout=subprocess.DEVNULL)

    @contextmanager
    def applied(self, mutant: Mutant) -> Iterator[None]:
        """Apply `mutant` to the tree while the context is open."""
        path = self.root / mutant.file
        data, edit = path.read_bytes(), mutant.edit
        path.write_bytes(data[: edit.start] + edit.new.encode() + data[edit.end :])
        try:
            yield
        finally:
            path.write_bytes(data)
            shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
