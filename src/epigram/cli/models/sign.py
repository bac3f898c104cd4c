"""epigram sign: signature of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epigram.process.display import echo


def main(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, for example runs/latest/model.")],
    key: Annotated[Path, typer.Option(help="Private elliptic-curve key (PEM file).")],
) -> None:
    """Sign all files of a model with a private key; check it with --require-signature.

    Example: epigram sign runs/latest/model --key private.pem
    """
    from epigram.inference import signing

    echo(f"{signing.sign(model, key)}: written")
