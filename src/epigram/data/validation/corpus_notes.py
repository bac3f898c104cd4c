"""Sentences about what validation finds and changes, for the log and the notes of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epigram.core.limits import list_names
from epigram.data.sources.source import RowSample
from epigram.data.validation import violations
from epigram.data.validation.cross_row_rules import RuleResults
from epigram.data.validation.label_checks import label_notes, list_notes, rows_by_label
from epigram.data.validation.settings import Action
from epigram.data.validation.token_labels import MARKED, PLAIN

MAX_LABELS = 8  # labels listed in a sentence

RULE_PHRASES = {
    violations.EMPTY: "without text",
    violations.NO_LABEL: "without a label",
    violations.REPLACEMENT: "with the replacement character U+FFFD, a sign of a wrong encoding",
    violations.DUPLICATE: "that repeat the text and the label of an earlier row of their split",
    violations.CONFLICT: "with the text but not the label of another row of their split",
    violations.LEAK: "of train whose text is also in dev or test",
}


def inferred_labels(token_labels: Sequence[str]) -> list[str]:
    """Return a note if the source labels only tokens; the first of `token_labels` is the default."""
    if not token_labels:
        return []
    return [
        f"The source labels only tokens: a text has the label {PLAIN} if all its tokens have the label "
        f"{token_labels[0]}, otherwise {MARKED}."
    ]


def rows_without_split(rows: int) -> list[str]:
    """Return a note if some rows have no split although others do."""
    return [f"Rows without a split: {rows:,} assigned to train."] if rows else []


def dropped_repeats(distinct: str | None) -> list[str]:
    """Return a note if repeated texts were dropped because the source's files overlap."""
    same = {"exact": "the same text", "letters": "the same letters and digits"}
    if distinct is None:
        return []
    return [
        f"Training rows with {same[distinct]} as an earlier training row or a row of dev or test were dropped when "
        "the data was read."
    ]


def drawn_rows(sample: RowSample | None) -> list[str]:
    """Return notes on the random draw of rows."""
    if sample is None:
        return []
    shares = ", ".join(f"{share:.0%} {name}" for name, share in sample.resplit.items())
    most = f"At most {sample.per_class} training rows of each label were drawn at random"
    new = f"The rows of each label were split at random, not as in the source: {shares}"
    notes = ([most] if sample.per_class else []) + ([new] if shares else [])
    return [f"{note} (sample, seed {sample.seed})." for note in notes]


def machine_labels(rows: Mapping[str, int], of: Mapping[str, int]) -> list[str]:
    """Return a note if a machine has labelled some of the rows; `rows` and `of` have the numbers of each split."""
    if not any(rows.values()):
        return []
    parts = ", ".join(f"{name} {rows[name]:,} of {of[name]:,}" for name in rows if of[name])
    return [f"Labels by a machine: {parts}; a score against these is agreement with the machine, not accuracy."]


def repeated_headers(rows: Mapping[str, int]) -> list[str]:
    """Return notes on rows that repeat the column names; `rows` counts them by file."""
    return [
        f"Rows of {file} that repeat the column names: {number:,} left out." for file, number in rows.items() if number
    ]


def rule_violations(results: RuleResults, actions: Mapping[str, Action]) -> list[str]:
    """Return notes on rows that violate a rule and are dropped or kept; `leaked_texts` covers leaks that are kept."""
    kept = {
        rule: number
        for rule, number in violations.count_by_rule(results.violations).items()
        if actions[rule] == "report" and rule != violations.LEAK
    }
    return [
        f"Rows {RULE_PHRASES[rule]}: {number:,} {outcome} (validate.{violations.SETTINGS[rule]}: {actions[rule]})."
        for rules, outcome in ((results.dropped, "dropped"), (kept, "kept"))
        for rule, number in rules.items()
    ]


def leaked_texts(remaining: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return notes on texts in two splits: the counts in `remaining`, and the counts `found` in the source."""
    before = {(pair["rows_of"], pair["also_in"]): pair for pair in found}
    sentences = (_leak_sentence(pair, before.get((pair["rows_of"], pair["also_in"]), pair)) for pair in remaining)
    return list(filter(None, sentences))


def _leak_sentence(pair: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    source = f"in the source: {before['exact']:,} of {before['rows']:,}"
    if not pair["exact"]:
        return (
            f"No {pair['rows_of']} row has a text that is also in {pair['also_in']} ({source})."
            if before["exact"]
            else ""
        )
    changed = (pair["exact"], pair["rows"]) != (before["exact"], before["rows"])
    return (
        f"{pair['exact']:,} of {pair['rows']:,} {pair['rows_of']} rows have a text that is also in "
        f"{pair['also_in']}; {pair['same_label']:,} of them with the same label{f' ({source})' if changed else ''}."
    )


def sampled_train(rows: int, of: int, seed: int) -> str:
    """Return the note that train is a sample."""
    return f"Train is a stratified sample of {rows:,} of {of:,} rows (validate.max_train_rows, seed {seed})."


def absent_labels(labels: Mapping[str, Sequence[str]]) -> list[str]:
    """Return notes on labels without rows in dev or test, which cannot be measured there."""
    return [
        f"{split} has no row of {len(names)} label{'s' * (len(names) > 1)}: {list_names(names, MAX_LABELS)}."
        for split, names in labels.items()
        if names
    ]


def labels_to_check(lists: Mapping[tuple[str, ...], int], *, multi: bool) -> list[str]:
    """Return notes on labels that are probably not meant; `lists` counts the rows of each label or list of labels."""
    notes = [*(list_notes(lists) if multi else []), *label_notes(rows_by_label(lists))]
    return [f"{note[:1].upper()}{note[1:]}." for note in notes]
