"""Validation rules across rows: duplicates, conflicts, leaks (one text in two splits), small classes, unseen labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from epigram.data.validation import violations
from epigram.data.validation.row_index import NO_SPLIT, TRAIN, LabelCodes, Rows, SplitCodes
from epigram.data.validation.row_rules import RowScan
from epigram.data.validation.settings import Action
from epigram.data.validation.token_labels import explode_token_labels
from epigram.text.dataset.text_matching import LOOSE, exact_text, explode_labels, label_column, label_key
from epigram.text.dataset.validated_corpus import SPLITS

PAIRS = (("test", "train"), ("dev", "train"), ("test", "dev"))
LABEL_RULES = (violations.NO_LABEL, violations.CONTROL_CHARACTER, violations.UNKNOWN_LABEL, violations.UNKNOWN_SPLIT)


@dataclass(frozen=True)
class RuleResults:
    """Result of the rules: the rows that are kept, and the violations."""

    kept: SplitCodes  # NO_SPLIT for dropped rows
    violations: pl.DataFrame  # all violations, also if they are only reported
    dropped: dict[str, int]  # rule → rows; a row that violates two rules counts for both


def find_duplicates(frame: pl.DataFrame) -> pl.DataFrame:
    """Return every row that repeats the text and the label of an earlier row of its split."""
    repeated = pl.struct("split", exact_text(), label_key(frame).alias("label")).is_first_distinct().not_()
    return violations.row_violations(frame.filter(repeated), "text", violations.DUPLICATE)


def find_conflicts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return every row whose text occurs in the same split with another label; `value` is the row's label."""
    keys = frame.select("split", text=exact_text(), label=label_key(frame))
    labels = keys.unique().group_by("split", "text").len("labels").filter(pl.col("labels") > 1)
    conflicting = (
        keys.select("split", "text").with_row_index().join(labels, on=["split", "text"], how="semi")["index"].sort()
    )
    return violations.row_violations(frame[conflicting], label_column(frame.columns), violations.CONFLICT)


def count_leaks(parts: Mapping[str, pl.DataFrame], rows: Mapping[str, int]) -> list[dict[str, object]]:
    """Count, for each pair of splits, the rows of the first split whose text also occurs in the second.

    `parts` (with a column `#loose`) may omit rows whose text no other row has; `rows` is the full size of each split.
    `exact` ignores leading and trailing whitespace. `same_label` also requires the same label. `normalised` ignores
    case, width, punctuation and whitespace.
    """
    keyed = {
        name: part.select(exact=exact_text(), same_label=pl.struct(exact_text(), label_key(part)), normalised=LOOSE)
        for name, part in parts.items()
    }
    return [
        {"rows_of": one, "also_in": other, "rows": rows[one]}
        | {key: int(keyed[one][key].is_in(keyed[other][key].unique().implode()).sum()) for key in keyed[one].columns}
        for one, other in PAIRS
        if rows[one] and rows[other]
    ]


def in_train(part: pl.DataFrame, train: pl.DataFrame) -> pl.Series:
    """Return for each row of `part` whether `train` has its text, ignoring leading and trailing whitespace."""
    seen = train.select(exact_text().unique()).to_series()
    return part.select(in_train=exact_text().is_in(seen.implode())).to_series()


def count_repeats(part: pl.DataFrame) -> int:
    """Count the rows whose text an earlier row has, ignoring leading and trailing whitespace."""
    return part.height - int(part.select(exact_text().n_unique()).item())


def find_leaks(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the training rows whose text also occurs in dev or test."""
    held_out = frame.filter(pl.col("split") != "train").select(exact_text().unique()).to_series()
    leaking = frame.filter((pl.col("split") == "train") & exact_text().is_in(held_out.implode()))
    return violations.row_violations(leaking, "text", violations.LEAK)


def check_classes(
    scan: RowScan, split: SplitCodes, labels: Sequence[str], min_per_class: int, *, inferred: bool = False
) -> pl.DataFrame:
    """Return violations of the training rows as a whole: no rows, only one label or token label, too small a class.

    Multi-label corpora have no minimum class size, because rare labels are normal there. Labels that are `inferred`
    from token labels may be absent.
    """
    train, column = split == TRAIN, label_column(scan.rows.schema)
    if not train.any():
        return violations.corpus_violations("split", ["train"], violations.NO_TRAIN)
    if scan.index.token_labels is not None:
        tokens = list(scan.index.token_labels.counts(train))
        if len(tokens) < 2:
            return violations.corpus_violations("token_labels", tokens or [None], violations.ONE_CLASS)
    if inferred:
        return violations.corpus_violations("label", [], violations.TOO_FEW_ROWS)
    rows = dict.fromkeys(labels, 0) | scan.index.labels.counts(train)
    present = [label for label, number in rows.items() if number]
    if len(present) < 2:
        return violations.corpus_violations(column, present or [None], violations.ONE_CLASS)
    required = 0 if column == "labels" else min_per_class
    small = [f"{label}: {number:,} of {required:,} rows" for label, number in rows.items() if number < required]
    return violations.corpus_violations(column, small, violations.TOO_FEW_ROWS)


def find_unseen_labels(scan: RowScan, split: SplitCodes, *, inferred: bool = False) -> pl.DataFrame:
    """Return the labels and token labels of dev or test that train lacks, each at its first row.

    Text labels that are `inferred` from token labels may be absent.
    """
    columns = ("row", "file", "line", "split")
    unseen = [pl.DataFrame(schema=violations.COLUMNS)]
    if not inferred:
        rows, train = _rows_with_unseen_labels(scan.rows, scan.index.labels, split)
        unseen.append(_unseen_violations(explode_labels(rows, *columns), train, violations.UNSEEN_LABEL))
    if scan.index.token_labels is not None:
        rows, train = _rows_with_unseen_labels(scan.rows, scan.index.token_labels, split)
        unseen.append(_unseen_violations(explode_token_labels(rows, *columns), train, violations.UNSEEN_TOKEN_LABEL))
    return pl.concat(unseen)


def _rows_with_unseen_labels(rows: Rows, values: LabelCodes, split: SplitCodes) -> tuple[pl.DataFrame, list[str]]:
    """Return the first rows of dev and test with labels that train lacks, and the labels that train has."""
    train = values.counts(split == TRAIN)
    held_out = np.flatnonzero((split != TRAIN) & (split != NO_SPLIT))
    first = values.first(held_out)
    unseen = [
        position
        for names, position in zip(values.lists, first.tolist(), strict=True)
        if position < len(held_out) and not train.keys() >= set(names)
    ]
    mask = np.zeros(len(split), np.bool_)
    mask[held_out[unseen]] = True
    return rows.collect(mask), list(train)


def _unseen_violations(lines: pl.DataFrame, train: list[str], rule: str) -> pl.DataFrame:
    unseen = lines.filter(~pl.col("label").is_in(train))
    return violations.row_violations(unseen.unique("label", keep="first", maintain_order=True), "label", rule)


def absent_labels(classes: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """Return the labels without a row in dev and in test; `classes` counts the rows of each label per split.

    Dev has no rows if train has folds, and then lacks no label.
    """
    held_out = {split: classes[split] for split in SPLITS[1:] if any(classes[split].values())}
    return {split: [label for label, rows in counts.items() if not rows] for split, counts in held_out.items()}


def apply_rules(
    scan: RowScan, labels: Sequence[str], min_per_class: int, actions: Mapping[str, Action], *, inferred: bool = False
) -> RuleResults:
    """Apply the rules across rows, and drop the rows that violate a rule with the action drop.

    `inferred`: the text labels are inferred from token labels. Raises DataError, after all rules are checked, if a
    rule is violated whose action is fail or that has no action.
    """
    invalid = scan.violations.filter(pl.col("rule") != violations.REPLACEMENT)["row"]
    comparable = scan.index.repeated.filter(~pl.col("row").is_in(invalid.implode()))
    found = pl.concat(
        [scan.violations, find_duplicates(comparable), find_conflicts(comparable), find_leaks(comparable)]
    )
    to_drop = violations.rows_to_drop(found, actions)
    kept = _drop_rows(scan.index.split, to_drop)
    labelled = _drop_rows(kept, found.filter(pl.col("rule").is_in(LABEL_RULES)))
    classes = check_classes(scan, labelled, labels, min_per_class, inferred=inferred)
    found = pl.concat([found, classes, find_unseen_labels(scan, labelled, inferred=inferred)])
    violations.raise_violations(found, actions, labels)
    return RuleResults(kept, found, violations.count_by_rule(to_drop))


def _drop_rows(split: SplitCodes, found: pl.DataFrame) -> SplitCodes:
    remaining = split.copy()
    remaining[found["row"].drop_nulls().to_numpy()] = NO_SPLIT
    return remaining
