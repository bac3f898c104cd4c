"""Packages that only an extra of epigram installs."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from epigram.core.errors import EpigramError, ParameterError


class MissingPackageError(EpigramError):
    """Package that is not installed; not a ParameterError, because the model or file that needs it is valid."""

    code = ParameterError.code


def require(what: str, extra: str, *packages: str) -> None:
    """Raise MissingPackageError if one of `packages`, which `what` needs and `extra` installs, is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        names = f"{', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise MissingPackageError(f"{what} needs {names}; run: {install_command(extra)}")


def install_command(extra: str = "") -> str:
    """Return the command that installs epigram with `extra` into this environment, from the same clone or wheel."""
    try:  # pip's record of the folder or file that epigram was installed from; nothing for an index
        origin = json.loads(distribution("epigram").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    path, extras = unquote(urlsplit(origin.get("url", "")).path), f"[{extra}]" if extra else ""
    if not path:
        return pip_install(f"epigram{extras}")
    target = f"{path}{extras}"
    if not origin.get("dir_info", {}).get("editable"):
        return pip_install(target)
    return pip_install("-c", str(Path(path) / "requirements.lock"), "-e", target)


def pip_install(*arguments: str) -> str:
    """Return the command that installs packages into this environment."""
    return shlex.join([sys.executable, "-m", "pip", "install", *arguments])
