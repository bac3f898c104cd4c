"""Write docs/combinations.md: which parts can be combined, and why the others cannot.

python -m tests.support.combination_page
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.support.combinations import FACTORS, HEADS, REFUSALS, WITH_LAYERS, combinations, refusal_of
from tests.support.covering import Level

PAGE = Path(__file__).parents[2] / "docs/combinations.md"
NO_COLUMNS: Mapping[str, Callable[[str], str]] = MappingProxyType({})
NAMES = {  # of columns
    "correlation": "correlation",
    "paper": "HTH, paper",
    "residual": "HTH, residual",
    **{level: f"POS `{level}`" for level in FACTORS["POS"][1:]},
    "hook": "hook fusion",
    "none": "no prompt",
    "two masks": "prompt",
    "one": "one label",
    "several": "several labels",
}
INTRODUCTION = """# Combinations of parts

This page shows which encoders, heads and options can be combined in `params.yaml`. It is for users who build their own
systems; [systems](systems.md#combining-parts) explains the settings, [the glossary](glossary.md) the terms. ✓ means
that the combination works. A number means that it is refused before anything runs, for the reason with this number
below.

The command `python -m tests.support.combination_page` writes this page from the table of refusals in
`tests/support/combinations.py`. The contract tests check the table: each refused pair gives its message, and {count}
combinations that together contain every other pair are trained for two steps, pruned, saved, loaded and compared.

`bert`, `roberta` and `xlnet` stand for checkpoints: of the family that epigram implements itself, of a family whose
attention epigram replaces in the transformers library, and of a family whose attention cannot be replaced. `pretrained`
is the small encoder of a view without a checkpoint.
"""
ENCODER_OPTIONS = """
## Encoders and their options

Attention and part-of-speech weight (`pos_weight`) are settings of the encoder, hook fusion is a setting of the head.
Every encoder can have the plain attention of its method, no part-of-speech weight and no fusion. The stage `prune`
takes every encoder; it removes layers from those marked ✓, and keeps the others as they are.

"""
ATTENTION_OPTIONS = """
## Options of attention

For an encoder with attention. `dot` is the plain attention.

"""
ENCODER_HEADS = """
## Encoders and heads

The heads `attention_labeler` and `tagger` also need data with token labels.

"""
HEAD_OPTIONS = """
## Heads and their options

A head with hook fusion needs an encoder with layers. Every head can read a view with a prompt; a head that does not
read the masks reads the prompt as text.

"""
REASONS = """
## Reasons

"""


def rendered() -> str:
    """Return the page."""
    hth = [("HTH", FACTORS["HTH"][1:])]
    options = [("attention", FACTORS["attention"][1:]), *hth, ("POS", FACTORS["POS"][1:]), ("fusion", ["hook"])]
    return "".join(
        [
            INTRODUCTION.format(count=len(combinations())),
            ENCODER_OPTIONS,
            table(
                "encoder",
                options,
                {"layers to prune": lambda encoder: "✓" if encoder in WITH_LAYERS else ""},
            ),
            ATTENTION_OPTIONS,
            table("attention", hth),
            ENCODER_HEADS,
            table("encoder", [("head", HEADS)]),
            HEAD_OPTIONS,
            table("head", [("fusion", ["hook"]), ("prompt", FACTORS["prompt"]), ("labels", FACTORS["labels"])]),
            REASONS,
            *(f"{number}. {reason[0].upper()}{reason[1:]}.\n" for number, reason in enumerate(reasons(), 1)),
        ]
    )


def reasons() -> list[str]:
    """Return the distinct reasons, in the order of the table of refusals."""
    return list(dict.fromkeys(refusal.reason for refusal in REFUSALS))


def table(
    rows: str, columns: Sequence[tuple[str, Sequence[str]]], more: Mapping[str, Callable[[str], str]] = NO_COLUMNS
) -> str:
    """Return a Markdown table of the levels of factor `rows` against levels of other factors, and `more` columns."""
    levels = [(factor, level) for factor, shown in columns for level in shown]
    head = [rows, *(NAMES.get(level, f"`{level}`") for _, level in levels), *more]
    lines = [head, ["---"] * len(head)]
    for level in FACTORS[rows]:
        cells = [cell((rows, level), other) for other in levels]
        lines.append([f"`{level}`", *cells, *(column(level) for column in more.values())])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(one: Level, other: Level) -> str:
    """Return a mark for a pair that works, else the number of the reason."""
    refusal = refusal_of(one, other)
    return "✓" if refusal is None else str(reasons().index(refusal.reason) + 1)


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")
