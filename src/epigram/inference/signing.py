"""Signatures of saved models with the package model-signing: the user's own key pair, no network access.

A signature covers every other file of the folder, including the manifest, and is stored in the folder.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.extras import require
from epigram.core.files import write_text
from epigram.models import manifest
from epigram.models.manifest import SIGNATURE

KEY_ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
)  # raised for a key that is not PEM, is encrypted or has another type


def sign(folder: Path, key: Path) -> Path:
    """Sign `folder` with the private `key` (elliptic curve, PEM), write the signature file and return its path.

    Raises InputMissingError if a file is missing, DataError if the model has changed since it was saved,
    ParameterError if `key` is not a valid private key, and MissingPackageError if the package is not installed.
    """
    hashing, signing = _package("hashing"), _package("signing")
    _require_file(key)
    manifest.verify(folder)
    try:
        signer = signing.Config().use_elliptic_key_signer(private_key=key)
    except KEY_ERRORS:
        raise ParameterError(f"{key} is not an unencrypted private key of an elliptic curve in PEM format") from None
    files = hashing.Config().set_ignored_paths(paths=[SIGNATURE])
    with TemporaryDirectory() as scratch:
        signer.set_hashing_config(files).sign(folder.resolve(), Path(scratch) / SIGNATURE)
        write_text(folder / SIGNATURE, (Path(scratch) / SIGNATURE).read_text(encoding="utf-8"))
    return folder / SIGNATURE


def require_signature(folder: Path, key: Path) -> None:
    """Raise DataError unless `folder` has a valid signature for the public `key`.

    Raises InputMissingError if the key is missing, ParameterError if `key` is not a valid public key, and
    MissingPackageError if the package is not installed.
    """
    verifying = _package("verifying")
    _require_file(key)
    try:
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=key)
    except KEY_ERRORS:
        raise ParameterError(f"{key} is not a public key of an elliptic curve in PEM format") from None
    manifest.verify(folder)
    if not (folder / SIGNATURE).is_file():
        raise DataError(f"{folder} is not signed: it has no {SIGNATURE}; sign it with `epigram sign`")
    try:
        with redirect_stdout(sys.stderr):  # the package prints warnings to stdout
            verifier.verify(folder.resolve(), folder / SIGNATURE)
    except OSError:
        raise
    except Exception as error:  # raised by the package, its parsers and the cryptography library
        reason = shown(" ".join(str(error).split()) or type(error).__name__)
        raise DataError(f"{folder} does not match its signature, or was signed with another key: {reason}") from None


def _package(module: str) -> Any:
    require("a signature", "signing", "model_signing")
    return import_module(f"model_signing.{module}")


def _require_file(key: Path) -> None:
    if not key.is_file():
        raise InputMissingError(f"{key} is missing; expected a key file in PEM format")
