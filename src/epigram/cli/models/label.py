"""epigram label: labels for texts without any."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from epigram.cli.options import Encoding, Separator, Sheet, Text, file_options, split_list
from epigram.core.errors import ParameterError
from epigram.process.display import echo

if TYPE_CHECKING:
    from epigram.labelling.endpoint import Requests


@dataclass(frozen=True)
class Question:
    """Question before the texts are sent to an `endpoint`; with `yes`, it only shows what will be sent."""

    endpoint: str
    yes: bool

    def __call__(self, requests: Requests) -> None:
        """Show how much will be sent, and ask. Raises ParameterError without consent, and without a terminal."""
        texts, count = sum(map(len, requests.batches)), len(requests.batches)
        echo(
            f"{texts:,} texts in {count:,} request{'s' * (count > 1)} to {self.endpoint}: about {requests.sent:,} "
            f"tokens sent and {requests.received:,} received",
            file=sys.stderr,
        )
        if self.yes:
            return
        if not sys.stdin.isatty():
            raise ParameterError("there is no terminal to ask before the texts are sent; add --yes to send them")
        echo("Send them? [y/N] ", file=sys.stderr, end="", flush=True)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise ParameterError("nothing was sent")


def main(
    texts: Annotated[Path, typer.Argument(help="Texts: a file with one text per line, or a table.")],
    labels: Annotated[
        Path, typer.Option(help="File with one label per line; a description may follow: sports: games and players.")
    ],
    out: Annotated[Path, typer.Option(help="Table to write; its suffix is the format.")],
    text: Text = "text",
    language: Annotated[
        Literal["zh", "en"] | None, typer.Option(help="Language, which chooses the encoder. Default: detected.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="OpenAI-compatible endpoint, such as http://localhost:8000/v1.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Model of the endpoint.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send the texts to the endpoint without a question.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")] = False,
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
) -> None:
    """Label texts by the names and descriptions of the labels: by a pretrained encoder, or by a language model.

    By default, the label of a text is the one most similar to it, as an installed encoder sees it. With --endpoint and
    --model, the texts are sent to a language model that you run; OPENAI_API_KEY has its key, if it needs one. The table
    gets the columns label, confidence and labelled_by; by the last one, epigram fit and epigram suggest know that a
    machine has labelled a text.

    Example: epigram label texts.txt --labels labels.txt --out labelled.csv
    """
    if (endpoint is None) != (model is None):
        raise ParameterError("--endpoint and --model belong together; give both, or none to use an encoder")
    from epigram.labelling.endpoint import Endpoint
    from epigram.labelling.label import label_table
    from epigram.labelling.label_list import read_labels

    server = None if endpoint is None or model is None else Endpoint(endpoint, model)
    found = label_table(
        texts,
        read_labels(labels),
        out,
        text=split_list(text),
        language=language,
        endpoint=server,
        agree=Question("" if server is None else server.name, yes),
        force=force,
        options=file_options(encoding, separator, sheet),
    )
    without = sum(name is None for name in found.labels)
    note = f", {without:,} of them without a label" if without else ""
    echo(f"{out}: {len(found.labels):,} texts{note}")
