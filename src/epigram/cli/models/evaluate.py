"""epigram evaluate: the scores of a model on a table with labels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epigram.cli.options import Encoding, Separator, Sheet, TextOfModel, file_options, split_list
from epigram.inference.hub import local_folder
from epigram.process.display import echo, json_text, printable

if TYPE_CHECKING:
    from epigram.fitting.evaluate import ModelScores

PAIRS = 10  # pairs of labels that are shown


def main(
    model: Annotated[Path, typer.Argument(help="Folder of a model, for example runs/latest/model, or hub:ORG/NAME.")],
    source: Annotated[Path, typer.Argument(help="Table with texts and labels.")],
    text: TextOfModel = None,
    label: Annotated[str, typer.Option(help="Column of the labels.")] = "label",
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a model on a table with labels, for example one that was labelled after its training.

    Example: epigram evaluate runs/latest/model new.csv --text review --label stars
    """
    from epigram.fitting.evaluate import evaluate
    from epigram.inference.predictors.open_predictor import open_predictor

    columns = split_list(text) if text else None
    predictor = open_predictor(local_folder(model))
    options = file_options(encoding, separator, sheet)
    found = evaluate(predictor, source, text=columns, label=label, options=options)
    for note in found.notes:
        echo(f"note: {note}", file=sys.stderr)
    echo("", before=f"{json_text(found.to_dict())}\n" if as_json else as_lines(found), end="")


def as_lines(found: ModelScores) -> str:
    """Return the scores, the scores of each label, and the most frequent mistakes as lines."""
    from epigram.evaluation.comparison.formats import percent
    from epigram.evaluation.metrics.primary import title_of

    titles, width = {name: title_of(name) for name in found.scores}, max(len(one.label) for one in found.labels)
    lines = [f"{found.rows:,} texts"]
    lines += [
        f"{titles[name]:<12} {percent(score.value):>5}%  (95% interval {percent(score.low)} to {percent(score.high)})"
        for name, score in found.scores.items()
    ]
    lines += ["", f"{'label':<{width}}  precision  recall     F1  texts"]
    lines += [
        f"{printable(one.label):<{width}}  {percent(one.precision):>9}  {percent(one.recall):>6}  {percent(one.f1):>5}"
        f"  {one.support:>5,}"
        for one in found.labels
    ]
    wrong = sorted((pair for pair in found.confusion if pair[0] != pair[1]), key=lambda pair: -pair[2])[:PAIRS]
    lines += ["", "most frequent mistakes: label, predicted label, texts"] if wrong else []
    lines += [f"{printable(gold)}, {printable(said)}, {count:,}" for gold, said, count in wrong]
    return "\n".join(lines) + "\n"
