"""epigram push: upload of a model to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epigram.process.display import echo


def main(
    repository: Annotated[str, typer.Argument(metavar="ORG/NAME", help="Repository, created if it does not exist.")],
    model: Annotated[Path, typer.Option(help="Folder of a saved model.")] = Path("runs/latest/model"),
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    training_texts: Annotated[
        bool, typer.Option("--training-texts", help="Upload the training texts of `fit --neighbors` too.")
    ] = False,
) -> None:
    """Upload a model to the Hugging Face hub, or to the server in HF_ENDPOINT, with the token in HF_TOKEN.

    Anybody who can read the repository loads it by epigram.load("hub:ORG/NAME").

    Example: epigram push me/reviews --private
    """
    from epigram.inference.hub import push

    echo(push(model, repository, private=private, training_texts=training_texts))
