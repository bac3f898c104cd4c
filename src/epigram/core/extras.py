"""Packages that only an extra of epigram installs."""

from __future__ import annotations

from importlib.util import find_spec

from epigram.core.errors import EpigramError, ParameterError


class MissingPackageError(EpigramError):
    """Package that is not installed; not a ParameterError, because the model or file that needs it is valid."""

    code = ParameterError.code


def require(what: str, extra: str, *packages: str) -> None:
    """Raise MissingPackageError if one of `packages`, which `what` needs and `extra` installs, is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        names = f"{', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise MissingPackageError(f"{what} needs {names}; run: pip install 'epigram[{extra}]'")
