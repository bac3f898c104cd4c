"""Data page of the report (HTML without scripts or external resources), and its sentences about the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from epigram.core.limits import list_names, most_frequent
from epigram.core.templates import environment
from epigram.data.sources.source import RowSample
from epigram.data.validation import violations
from epigram.data.validation.cross_row_rules import RuleResults
from epigram.data.validation.label_checks import label_notes, list_notes, rows_by_label
from epigram.data.validation.settings import Action
from epigram.data.validation.token_labels import MARKED, PLAIN

MAX_LABELS = 8  # labels listed in a sentence

RULE_PHRASES = {
    violations.EMPTY: "without text",
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


Report = Mapping[str, Any]


def render_page(report: Report) -> str:
    """Return the HTML fragment for one validated corpus; `report` is the content of report.json."""
    env = environment("epigram.data.validation")
    env.filters |= {
        "number": lambda value: "–" if value is None else f"{value:,}",
        "percent": lambda share: f"{100 * share:.1f}%",
        "names": list_names,
    }
    found, remaining = report["leaks"]["found"], report["leaks"]["left"]
    units = ["characters"] if report["vocabulary"]["unit"] == "character" else list(report["length"])
    tokens = {split: sum(counts.values()) for split, counts in report["token_classes"].items()}
    return env.get_template("data.html.j2").render(
        report=report,
        classes=_class_table(report["classes"], report["rows"]),
        token_classes=_class_table(report["token_classes"], tokens) if tokens else None,
        histograms=[_histogram(unit, report["length"][unit]) for unit in units],
        leaks=[("source", found), *([] if found == remaining else [("after validation", remaining)])],
    )


def _class_table(classes: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the rows of the labels that are most frequent in train; `sizes` are the rows, or tokens, of each split.

    A row has a label, its rows and share in each split, and its rows in train relative to the largest class.
    """
    names, train = list(classes["train"]), list(classes["train"].values())
    largest = max(train, default=0) or 1
    rows = [
        (
            names[place],
            [(counts[names[place]], counts[names[place]] / (sizes[split] or 1)) for split, counts in classes.items()],
            train[place] / largest,
        )
        for place in most_frequent(train)
    ]
    return {"splits": list(classes), "rows": rows, "total": len(names)}


def _histogram(unit: str, lengths: Report) -> dict[str, Any]:
    """Return the number of texts in each length bin, all splits together, with the bin's lower edge and its range."""
    edges: Sequence[int] = lengths["edges"]
    texts = [sum(column) for column in zip(*lengths["counts"].values(), strict=True)]
    spans = [*(f"{low:,} to {high - 1:,}" for low, high in pairwise(edges)), f"{edges[-1]:,} or more"]
    labels = [*map(str, edges[:-1]), f"{edges[-1]}+"]
    return {"unit": unit, "highest": max(texts) or 1, "bars": list(zip(labels, spans, texts, strict=True))}
