"""Sentences for the report about what validation found in a corpus and changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epigram.data.validation import violations
from epigram.data.validation.cross_row_rules import Verdict
from epigram.data.validation.settings import Action
from epigram.data.validation.token_labels import MARKED, PLAIN

NAMED = 8  # labels listed in a sentence

BREAKING = {
    violations.EMPTY: "have no text",
    violations.REPLACEMENT: "carry U+FFFD, which a wrong decoding leaves behind",
    violations.DUPLICATE: "repeat a text and its label within a split",
    violations.CONFLICT: "share their text with a row of another label in their split",
    violations.LEAK: "are in train although dev or test has their text",
}


def inferred(token_labels: Sequence[str]) -> list[str]:
    """Return a note if the source labels only tokens; the first of `token_labels` is the default."""
    if not token_labels:
        return []
    return [
        f"Only tokens are labelled: a text is {PLAIN} where every token has the label {token_labels[0]}, "
        f"{MARKED} otherwise."
    ]


def unassigned(rows: int) -> list[str]:
    """Return a note if some rows have no split although others do."""
    return [f"Rows that name no split: {rows:,}, counted as train."] if rows else []


def merged(distinct: str | None) -> list[str]:
    """Return a note if repeated texts were left out because the source's files overlap."""
    how = {"exact": "word for word", "letters": "in their letters and digits"}
    if distinct is None:
        return []
    return [f"Training rows that repeat another text, or one of dev or test, {how[distinct]} were left out on reading."]


def judged(verdict: Verdict, actions: Mapping[str, Action]) -> list[str]:
    """Return notes on rows that violate a rule and are dropped or kept; `leaked` covers leaks that are kept."""
    kept = {
        rule: number
        for rule, number in violations.counts(verdict.faults).items()
        if actions[rule] == "report" and rule != violations.LEAK
    }
    return [
        f"Rows that {BREAKING[rule]}: {number:,}, {what} (validate.{violations.SETTINGS[rule]}: {actions[rule]})."
        for rules, what in ((verdict.dropped, "dropped"), (kept, "kept"))
        for rule, number in rules.items()
    ]


def leaked(left: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return notes on texts in two splits, for the rows in use (`left`) and, if different, as `found` in the source."""
    before = {(pair["rows_of"], pair["also_in"]): pair for pair in found}
    said = [_shared(pair, before.get((pair["rows_of"], pair["also_in"]), pair)) for pair in left]
    return [sentence for sentence in said if sentence]


def _shared(pair: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    source = f"in the source: {before['exact']:,} of {before['rows']:,}"
    if not pair["exact"]:
        return f"No {pair['rows_of']} row is also in {pair['also_in']} ({source})." if before["exact"] else ""
    changed = (pair["exact"], pair["rows"]) != (before["exact"], before["rows"])
    return (
        f"{pair['exact']:,} of {pair['rows']:,} {pair['rows_of']} rows are also in {pair['also_in']}, "
        f"word for word; {pair['same_label']:,} of them with the same label{f' ({source})' if changed else ''}."
    )


def capped(rows: int, of: int, seed: int) -> str:
    """Return the note that train is a sample."""
    return f"Train is a stratified sample of {rows:,} of {of:,} rows (validate.max_train_rows, seed {seed})."


def absent(labels: Mapping[str, Sequence[str]]) -> list[str]:
    """Return notes on labels without rows in dev or test, which cannot be measured there."""
    return [
        f"{split} has no row of {len(names)} label{'s' * (len(names) > 1)}: "
        f"{', '.join(names[:NAMED])}{', …' if len(names) > NAMED else ''}."
        for split, names in labels.items()
        if names
    ]
