"""Table of violations: where each one is, which rule it violates, and how an error message lists them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import polars as pl

from epigram.core.errors import DataError
from epigram.data.validation.settings import Action, ValidateSettings
from epigram.process.display import one_line

EMPTY = "empty text"
NUL = "NUL byte"
REPLACEMENT = "replacement character U+FFFD"
NO_LABEL = "no label"
UNKNOWN_LABEL = "unknown label"
CONTROL_CHARACTER = "control character in a label"
UNKNOWN_SPLIT = "unknown split"
TOKEN_COUNT = "different numbers of tokens and token labels"
NO_TOKEN = "missing token"
TOKEN_MISMATCH = "tokens that do not match the text"
NO_TOKEN_LABEL = "token without a label"
MISSING_COLUMN = "missing column"
WRONG_TYPE = "wrong type"
DUPLICATE = "duplicate"
CONFLICT = "conflicting labels"
LEAK = "also in dev or test"
NO_TRAIN = "no training rows"
ONE_CLASS = "only one class"
TOO_FEW_ROWS = "too few rows of a class"
UNSEEN_LABEL = "label missing from train"
UNSEEN_TOKEN_LABEL = "token label missing from train"

SETTINGS = {
    EMPTY: "on_empty",
    NO_LABEL: "on_unlabelled",
    REPLACEMENT: "on_replacement",
    DUPLICATE: "on_duplicate",
    CONFLICT: "on_conflict",
    LEAK: "on_leak",
}  # rules whose action is a setting; a violation of any other rule is an error

COLUMNS = {
    "row": pl.Int64,
    "file": pl.String,
    "line": pl.Int64,
    "column": pl.String,
    "value": pl.String,
    "rule": pl.String,
}
MAX_LISTED = 20  # violations listed in a message
MAX_VALUE_LENGTH = 60  # characters of a value that are shown


def shorten(text: pl.Expr) -> pl.Expr:
    """Return at most MAX_VALUE_LENGTH characters of each text, and … for further ones."""
    rest = pl.when(text.str.len_chars() > MAX_VALUE_LENGTH).then(pl.lit("…")).otherwise(pl.lit(""))
    return text.str.slice(0, MAX_VALUE_LENGTH) + rest


def row_violations(rows: pl.DataFrame, column: str, rule: str) -> pl.DataFrame:
    """Return one violation for each of `rows`, with the value of `column`."""
    value = pl.col(column)
    if isinstance(rows.schema[column], pl.List):
        value = value.cast(pl.List(pl.String)).list.join(" ")
    return rows.select(
        "row",
        "file",
        pl.col("line").cast(pl.Int64),
        column=pl.lit(column),
        value=shorten(value.cast(pl.String)),
        rule=pl.lit(rule),
    )


def corpus_violations(column: str, values: Sequence[str | None], rule: str) -> pl.DataFrame:
    """Return one violation for each of `values`; it belongs to the corpus, not to a row."""
    return pl.DataFrame([{"column": column, "value": value, "rule": rule} for value in values], schema=COLUMNS)


def count_by_rule(found: pl.DataFrame) -> dict[str, int]:
    """Return the number of violations of each rule, in the order of first appearance."""
    return dict(found.group_by("rule", maintain_order=True).len().iter_rows())


def rows_to_drop(found: pl.DataFrame, actions: Mapping[str, Action]) -> pl.DataFrame:
    """Return the violations of rules with the action drop."""
    return found.filter(pl.col("rule").is_in([rule for rule, action in actions.items() if action == "drop"]))


def actions_of(settings: ValidateSettings) -> dict[str, Action]:
    """Return the action of each rule whose action is a setting."""
    return {rule: getattr(settings, name) for rule, name in SETTINGS.items()}


def raise_violations(found: pl.DataFrame, actions: Mapping[str, Action], labels: Sequence[str]) -> None:
    """Raise DataError if a rule is violated whose action is neither drop nor report.

    The message names every such rule and lists up to 20 violations.
    """
    fatal = found.filter(~pl.col("rule").is_in([rule for rule, action in actions.items() if action != "fail"]))
    if fatal.is_empty():
        return
    # every rule is represented, in the order of the rows
    turn = fatal.with_columns(turn=pl.int_range(pl.len()).over("rule"))
    shown = turn.sort("turn", maintain_order=True).head(MAX_LISTED).sort("row", nulls_last=True, maintain_order=True)
    lines = [_summary_line(fatal), *map(_describe_violation, shown.iter_rows(named=True))]
    if fatal.height > MAX_LISTED:
        lines.append(f"and {fatal.height - MAX_LISTED:,} more")
    if UNKNOWN_LABEL in count_by_rule(fatal):
        lines.append(f"known labels: {', '.join(labels[:MAX_LISTED])}{', …' if len(labels) > MAX_LISTED else ''}")
    raise DataError("\n".join(lines))


def _summary_line(fatal: pl.DataFrame) -> str:
    files = [*map(one_line, fatal["file"].drop_nulls().unique(maintain_order=True))]
    where = (
        "the corpus" if not files else files[0] if len(files) == 1 else f"{len(files)} files ({', '.join(files[:3])}…)"
    )
    violated = ", ".join(f"{number:,} × {rule}" for rule, number in count_by_rule(fatal).items())
    choices = [f"validate.{SETTINGS[rule]}" for rule in count_by_rule(fatal) if rule in SETTINGS]
    remedy = f", or set {', '.join(choices)} to drop in params.yaml" if choices else ""
    return f"{fatal.height:,} violation{'s' * (fatal.height > 1)} in {where}: {violated}; fix the data{remedy}"


def _describe_violation(violation: Mapping[str, object]) -> str:
    location = "" if violation["file"] is None else f"{one_line(str(violation['file']))}:{violation['line']} "
    value = "" if violation["value"] is None else f"={json.dumps(violation['value'], ensure_ascii=False)}"
    return f"{location}{violation['column']}{value} {violation['rule']}"
