"""epigram explain: the words that speak for the label of a text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from epigram.cli.models.predict import is_file_name
from epigram.core.errors import ParameterError
from epigram.inference.hub import local_folder
from epigram.process.display import echo, json_text, printable
from epigram.text.lines import decode_arguments

if TYPE_CHECKING:
    from epigram.inference.predictors.explanation import Explanation


def main(
    model: Annotated[Path, typer.Argument(help="Folder of a model, for example runs/latest/model, or hub:ORG/NAME.")],
    texts: Annotated[list[str], typer.Argument(help="Texts.")],
    method: Annotated[
        Literal["auto", "weights", "attention", "gradients", "occlusion"],
        typer.Option(help="What measures the words. Default: what fits the model."),
    ] = "auto",
    label: Annotated[
        str | None, typer.Option(metavar="NAME", help="Label to explain. Default: the most probable one.")
    ] = None,
    faithfulness: Annotated[
        bool,
        typer.Option("--faithfulness", help="Also test the scores: predict without the top words."),
    ] = False,
    form: Annotated[
        Literal["text", "html", "svg", "json"],
        typer.Option("--format", help="html: a page. svg: a picture. json: one object per text."),
    ] = "text",
    out: Annotated[Path | None, typer.Option(help="File to write. Default: stdout.")] = None,
) -> None:
    """Show which words of a text speak for its label, and which against it.

    Example: epigram explain runs/latest/model "a text"
    """
    if file := next((each for each in texts if is_file_name(each) and Path(each).is_file()), None):
        raise ParameterError(f'{file} is a file; expected texts: epigram explain {model} "a text"')
    from epigram.core.files import write_text
    from epigram.inference.explanations.explain import explain
    from epigram.inference.predictors.open_predictor import open_predictor

    predictor, given = open_predictor(local_folder(model)), decode_arguments(texts)
    found = explain(predictor, given, method=method, label=label, faithfulness=faithfulness)
    if out is None:
        colours = form == "text" and sys.stdout.isatty()
        echo("", before=_rendered(found, form, colours=colours), end="")
        return
    write_text(out, _rendered(found, form, colours=False))
    echo(f"{out}: {len(found):,} text{'s' if len(found) > 1 else ''}")


def _rendered(found: list[Explanation], form: str, *, colours: bool) -> str:
    """Return the explanations in the format `form`, without unprintable characters."""
    from epigram.inference.explanations.pages import to_html, to_svg
    from epigram.inference.explanations.terminal import to_terminal

    if form in ("html", "svg"):
        return printable((to_html if form == "html" else to_svg)(found))
    if form == "text":
        return to_terminal(found, colours=colours)
    return "".join(f"{json_text(explanation.to_dict())}\n" for explanation in found)
