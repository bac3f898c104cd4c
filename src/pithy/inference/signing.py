"""Signatures of saved models by the package model-signing: a key pair of the user's own, no network.

The signature covers every file of the folder, the manifest included, and is a file of the folder itself.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pithy.errors import DataError, InputMissingError, ParameterError
from pithy.files import write_text
from pithy.systems import manifest
from pithy.systems.manifest import SIGNATURE
from pithy.values import shown

NO_KEY = (ValueError, TypeError, AttributeError)  # not PEM, encrypted, or of another kind


def sign(folder: Path, key: Path) -> Path:
    """Write the signature of `folder` by the private `key`, an elliptic curve key in PEM; return its file.

    Raises InputMissingError where the package or a file is missing, DataError for a model that is not as it was saved,
    ParameterError for a file that is not such a key.
    """
    hashing, signing = _package("hashing"), _package("signing")
    _require_file(key)
    manifest.verify(folder)
    try:
        signer = signing.Config().use_elliptic_key_signer(private_key=key)
    except NO_KEY:
        raise ParameterError(f"{key} is not an unencrypted private key of an elliptic curve in PEM") from None
    files = hashing.Config().set_ignored_paths(paths=[SIGNATURE])
    with TemporaryDirectory() as scratch:
        signer.set_hashing_config(files).sign(folder.resolve(), Path(scratch) / SIGNATURE)
        write_text(folder / SIGNATURE, (Path(scratch) / SIGNATURE).read_text(encoding="utf-8"))
    return folder / SIGNATURE


def require_signature(folder: Path, key: Path) -> None:
    """Raise DataError unless `folder` is as the owner of the public `key` signed it.

    Raises InputMissingError where the package or the key is missing, ParameterError for a file that is not a key.
    """
    verifying = _package("verifying")
    _require_file(key)
    try:
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=key)
    except NO_KEY:
        raise ParameterError(f"{key} is not a public key of an elliptic curve in PEM") from None
    manifest.verify(folder)
    if not (folder / SIGNATURE).is_file():
        raise DataError(f"{folder} is not signed: it has no {SIGNATURE}; its owner signs it with  pithy sign")
    try:
        with redirect_stdout(sys.stderr):  # the package prints warnings
            verifier.verify(folder.resolve(), folder / SIGNATURE)
    except OSError:
        raise
    except Exception as error:  # of the package, of its parsers and of the cryptography library
        reason = shown(" ".join(str(error).split()) or type(error).__name__)
        raise DataError(f"{folder} is not as it was signed, or another key signed it: {reason}") from None


def _package(module: str) -> Any:
    if find_spec("model_signing") is None:
        raise InputMissingError("signatures need model-signing, not installed here: pip install 'pithy[signing]'")
    return import_module(f"model_signing.{module}")


def _require_file(key: Path) -> None:
    if not key.is_file():
        raise InputMissingError(f"{key} is missing: name the file of a key in PEM")
