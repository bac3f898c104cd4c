"""Validation: turn a corpus as read into three consistent splits and a report of all findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from epigram.core.config_types import parse_integer
from epigram.core.errors import DataError, ParameterError
from epigram.core.label_paths import check_hierarchy
from epigram.data.sources.source import check_named_labels
from epigram.data.validation import corpus_notes, violations
from epigram.data.validation.cross_row_rules import (
    RuleResults,
    absent_labels,
    apply_rules,
    count_leaks,
    count_repeats,
    in_train,
)
from epigram.data.validation.row_index import NO_SPLIT, TRAIN, LabelCodes, Part, Rows, SplitCodes, split_names
from epigram.data.validation.row_rules import RowScan, scan_rows
from epigram.data.validation.settings import Action, ValidateSettings
from epigram.data.validation.split_keys import read_keys
from epigram.data.validation.splits import (
    assign_folds,
    create_splits,
    describe_folds,
    lacks_test,
    limit_train,
    needs_folds,
)
from epigram.data.validation.statistics import corpus_statistics
from epigram.data.validation.token_labels import (
    INFERRED,
    inferred_label,
    labels_tokens,
    split_token_labels,
    token_label_counts,
    token_label_names,
)
from epigram.text.dataset.text_matching import exact_text, label_column
from epigram.text.dataset.validated_corpus import SPLITS, ValidatedCorpus

if TYPE_CHECKING:
    from epigram.data.sources.source import Source

EXAMPLES = 10  # listed in the report for each rule


@dataclass(frozen=True)
class Validated:
    """Three splits, their description for later stages, and the report."""

    parts: dict[str, Part]
    corpus: ValidatedCorpus
    report: dict[str, Any]


def validate(
    frame: pl.LazyFrame, source: Source, settings: ValidateSettings, headers: Mapping[str, int] | None = None
) -> Validated:
    """Check `frame` (text, label or labels, split, file, line, …) by all rules and split it into train, dev and test.

    A row without a split counts as train; a missing text counts as an empty one. The column `row` numbers the rows as
    read, and they keep that order. Rows are read in batches; memory holds only texts that several rows share.
    `headers` counts the rows of each file that were left out because they repeat the column names.
    Raises DataError with all violations at once, ParameterError if a split cannot be cut with the given settings.
    """
    rows, tokens_only = Rows(frame), source.task == "tokens"
    _check_source(rows, source)
    if tokens_only:
        rows.derive(inferred_label(token_label_names(split_token_labels(rows.batches()))))
    declared = INFERRED if tokens_only else source.labels
    scan = scan_rows(rows, source.task, declared, tokens=labels_tokens(rows.schema))
    labels = list(declared) or _sorted_labels(scan.index.labels)
    check_named_labels(source, labels, f"data/sources/{source.name}.yaml")
    check_hierarchy(source.hierarchy, labels, f"data/sources/{source.name}.yaml: hierarchy")
    actions = violations.actions_of(settings)
    results = apply_rules(scan, labels, settings.min_per_class, actions, inferred=tokens_only)
    repeated, label_codes = scan.index.repeated, scan.index.labels
    folds = 0  # a dev split, which corpora with token labels always have
    if needs_folds(results.kept, settings.dev) and not labels_tokens(rows.schema):
        folds = settings.folds if source.folds is None else source.folds
    keys = read_keys(rows, source, results.kept, repeated)
    scored = folds > 0 and keys.time is None and lacks_test(results.kept, settings.test)
    dev, test = None if folds else settings.dev, None if scored else settings.test
    with_splits, split_notes = create_splits(
        results.kept, label_codes, repeated, dev=dev, test=test, seed=settings.split_seed, keys=keys
    )
    split, sample_notes = _limit_train(with_splits, label_codes, settings)
    fold = assign_folds(split, label_codes, repeated, folds, settings.split_seed, keys) if folds else None
    classes = {name: dict.fromkeys(labels, 0) | label_codes.counts(split == code) for code, name in enumerate(SPLITS)}
    before, after = _rows_by_split(repeated, scan.index.split), _rows_by_split(repeated, split)
    leaking = {
        "found": count_leaks(before, _split_sizes(scan.index.split)),
        "left": count_leaks(after, _split_sizes(split)),
    }
    token_labels, trained = _token_labels(rows, with_splits), int((split == TRAIN).sum())
    notes = [
        *corpus_notes.inferred_labels(token_labels if tokens_only else []),
        *corpus_notes.dropped_repeats(source.distinct),
        *corpus_notes.drawn_rows(source.sample),
        *corpus_notes.repeated_headers(headers or {}),
        *corpus_notes.rows_without_split(rows.unassigned % rows.count),
        *corpus_notes.rule_violations(results, actions),
        *corpus_notes.leaked_texts(leaking["left"], leaking["found"]),
        *split_notes,
        *sample_notes,
        *(describe_folds(trained, folds, settings.split_seed, scored=scored, keys=keys) if folds else []),
        *corpus_notes.absent_labels(absent_labels(classes)),
        *corpus_notes.labels_to_check(label_codes.list_counts(results.kept != NO_SPLIT), multi=source.task == "multi"),
    ]
    parts, flagged = _output_parts(rows, split, after, fold)
    sliced = [name for name in (*source.keep, "time") if name in rows.schema and not rows.schema[name].is_nested()]
    described = _describe_corpus(source, labels, token_labels, parts, flagged, notes)
    corpus = replace(described, folds=folds, slices=sliced)
    measured = corpus_statistics(
        parts, classes, {name: count_repeats(part) for name, part in after.items()}, source.language
    )
    by_machine = measured["machine_labels"]
    notes += corpus_notes.machine_labels(by_machine, measured["rows"])
    corpus = replace(corpus, machine_labels=by_machine, notes=notes)
    tokens = {name: token_label_counts(part) for name, part in parts.items() if token_labels}
    found = {
        "token_classes": {name: dict.fromkeys(token_labels, 0) | counts for name, counts in tokens.items()},
        "leaks": leaking,
        "rules": _describe_rules(results, actions),
        "conflicts": _describe_conflicts(scan, results.violations),
    }
    return Validated(parts, corpus, corpus.content | measured | found)


def _check_source(rows: Rows, source: Source) -> None:
    if source.task == "files":
        raise ParameterError(
            f"params.yaml: dataset is {source.name!r}, which has no labelled texts (task: {source.task})"
        )
    if source.task == "tokens" and not {"tokens", "token_labels"} <= rows.schema.keys():
        raise ParameterError(
            f"data/sources/{source.name}.yaml: task is 'tokens', but the reader returns no token labels; set the "
            "columns tokens and token_labels, set spans, or use the reader conll or m2"
        )
    if not rows.count:
        files = ", ".join(file.path for file in source.files)
        raise DataError(f"{source.name} has no rows: no data in {files}")


def _sorted_labels(labels: LabelCodes) -> list[str]:
    """Return all labels, numbers sorted by value and after other labels."""
    names = {name for names in labels.lists for name in names if name.strip()}
    return sorted(names, key=lambda name: (-1 if (number := parse_integer(name)) is None else number, name))


def _rows_by_split(frame: pl.DataFrame, split: SplitCodes) -> dict[str, pl.DataFrame]:
    """Return the rows of `frame` in each split; `split` is (N,) for all rows of the corpus."""
    codes = split[frame["row"].to_numpy()]
    return {name: frame.filter(pl.Series(codes == code)) for code, name in enumerate(SPLITS)}


def _split_sizes(split: SplitCodes) -> dict[str, int]:
    return {name: int((split == code).sum()) for code, name in enumerate(SPLITS)}


def _limit_train(split: SplitCodes, labels: LabelCodes, settings: ValidateSettings) -> tuple[SplitCodes, list[str]]:
    train, rows = int((split == TRAIN).sum()), settings.max_train_rows
    if rows is None or rows >= train:
        return split, []
    sample = limit_train(split, labels, rows, settings.split_seed)
    return sample, [corpus_notes.sampled_train(rows, train, settings.split_seed)]


def _token_labels(rows: Rows, split: SplitCodes) -> list[str]:
    if not labels_tokens(rows.schema):
        return []
    kept = Part(
        rows, split != NO_SPLIT, lambda batch: batch.with_columns(split=split_names(split[batch["row"].to_numpy()]))
    )
    return token_label_names(split_token_labels(kept))


def _output_parts(
    rows: Rows, split: SplitCodes, shared: Mapping[str, pl.DataFrame], fold: NDArray[np.int8] | None
) -> tuple[dict[str, Part], dict[str, int]]:
    """Return the splits for later stages: train with the `fold` of each row, if it has folds.

    Dev and test flag rows whose text train has, and these are counted.
    """
    is_leaked, flagged = np.zeros(rows.count, np.bool_), {}
    for name in SPLITS[1:]:
        leaking = shared[name].filter(in_train(shared[name], shared["train"]))["row"].to_numpy()
        is_leaked[leaking], flagged[name] = True, len(leaking)

    def finish(name: str, batch: pl.DataFrame) -> pl.DataFrame:
        columns, row = batch.select("row", pl.exclude("row", "split")), batch["row"].to_numpy()
        if name != "train":
            return columns.with_columns(in_train=pl.Series(is_leaked[row], dtype=pl.Boolean))
        return columns if fold is None else columns.with_columns(fold=pl.Series(fold[row]))

    return {name: Part(rows, split == code, partial(finish, name)) for code, name in enumerate(SPLITS)}, flagged


def _describe_corpus(
    source: Source,
    labels: list[str],
    token_labels: list[str],
    parts: Mapping[str, Part],
    flagged: Mapping[str, int],
    notes: list[str],
) -> ValidatedCorpus:
    return ValidatedCorpus(
        name=source.name,
        language=source.language,
        task="multi" if source.task == "multi" else "single",
        labels=labels,
        token_labels=token_labels,
        tokens_only=source.task == "tokens",
        text_columns=source.columns_of_text,
        join=source.join,
        rows={name: part.height for name, part in parts.items()},
        label_names=[source.label_names[label] for label in labels] if source.label_names else [],
        notes=notes,
        dev_in_train=flagged["dev"],
        test_in_train=flagged["test"],
        hierarchy=source.hierarchy,
    )


def _describe_rules(results: RuleResults, actions: Mapping[str, Action]) -> list[dict[str, Any]]:
    """Describe every rule with a setting: rows that violate it, rows dropped, the first examples."""
    found = violations.count_by_rule(results.violations)
    return [
        {
            "rule": rule,
            "setting": violations.SETTINGS[rule],
            "action": action,
            "rows": found.get(rule, 0),
            "dropped": results.dropped.get(rule, 0),
            "examples": results.violations.filter(pl.col("rule") == rule).drop("rule").head(EXAMPLES).to_dicts(),
        }
        for rule, action in actions.items()
    ]


def _describe_conflicts(scan: RowScan, found: pl.DataFrame) -> dict[str, Any]:
    """Describe texts with conflicting labels in one split: their number per split, and examples with file and line."""
    conflicting = found.filter(pl.col("rule") == violations.CONFLICT)["row"]
    rows = scan.index.repeated.filter(pl.col("row").is_in(conflicting.implode())).with_columns(exact=exact_text())
    texts = rows.group_by("split", "exact", maintain_order=True).agg(
        pl.col(label_column(rows.columns)).alias("labels"), places=pl.format("{}:{}", "file", "line")
    )
    return {
        "texts": dict(texts.group_by("split", maintain_order=True).len().iter_rows()),
        "examples": texts.head(EXAMPLES)
        .with_columns(text=violations.shorten(pl.col("exact")))
        .drop("exact")
        .to_dicts(),
    }
