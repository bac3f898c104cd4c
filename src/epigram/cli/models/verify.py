"""epigram verify: check of a model's files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epigram.process.display import echo


def main(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, for example runs/latest/model.")],
    require_signature: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Also check the signature with this public key (PEM file).")
    ] = None,
) -> None:
    """Check that a model's files are unchanged, and print the SHA-256 of its data, code, parameters and weights.

    Example: epigram verify runs/latest/model
    """
    from epigram.inference import signing
    from epigram.models import manifest

    files = manifest.verify(model)
    if require_signature is not None:
        signing.require_signature(model, require_signature)
    for name, digest in manifest.read_provenance(model).items():
        echo(f"{name}: {digest}")
    signature = ", signature valid" if require_signature is not None else ""
    if not signature and (model / manifest.SIGNATURE).exists():
        signature = "; to check the signature, use --require-signature"
    echo(f"{model}: {len(files)} files are unchanged{signature}")
