"""Validation rules across rows: duplicates, conflicting labels, classes that are too small, labels that train lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from epigram.data.validation import violations as faults
from epigram.data.validation.leakage import leak_faults
from epigram.data.validation.row_batches import Rows
from epigram.data.validation.row_index import OUT, TRAIN, Split, Values
from epigram.data.validation.row_scan import Survey
from epigram.data.validation.settings import Action
from epigram.data.validation.text_matching import SPLITS, each_label, exact_text, label_column, label_key
from epigram.data.validation.token_labels import each_token_label

LABEL_RULES = (faults.NO_LABEL, faults.CONTROL, faults.UNKNOWN_LABEL, faults.UNKNOWN_SPLIT)


@dataclass(frozen=True)
class Verdict:
    """Result of the rules: the rows that are kept, and the violations."""

    kept: Split  # OUT for dropped rows
    faults: pl.DataFrame  # all violations, including those that are only reported
    dropped: dict[str, int]  # rule → rows; a row that violates two rules counts for both


def duplicates(frame: pl.DataFrame) -> pl.DataFrame:
    """Return every row that repeats the text and the label of an earlier row of its split."""
    repeated = pl.struct("split", exact_text(), label_key(frame).alias("label")).is_first_distinct().not_()
    return faults.located(frame.filter(repeated), "text", faults.DUPLICATE)


def conflicts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return every row whose text occurs in the same split with another label; `value` is the row's label."""
    keys = frame.select("split", text=exact_text(), label=label_key(frame))
    labels = keys.unique().group_by("split", "text").len("labels").filter(pl.col("labels") > 1)
    torn = keys.select("split", "text").with_row_index().join(labels, on=["split", "text"], how="semi")["index"].sort()
    return faults.located(frame[torn], label_column(frame.columns), faults.CONFLICT)


def class_faults(
    seen: Survey, split: Split, labels: Sequence[str], min_per_class: int, *, inferred: bool = False
) -> pl.DataFrame:
    """Return violations of the training rows as a whole: no rows, only one label or token label, too small a class.

    Multi-label corpora have no minimum class size, because rare labels are normal there. Labels that are `inferred`
    from token labels may be absent.
    """
    train, column = split == TRAIN, label_column(seen.rows.schema)
    if not train.any():
        return faults.stated("split", ["train"], faults.NO_TRAIN)
    if seen.index.token_labels is not None:
        tokens = list(seen.index.token_labels.counts(train))
        if len(tokens) < 2:
            return faults.stated("token_labels", tokens or [None], faults.ONE_CLASS)
    if inferred:
        return faults.stated("label", [], faults.FEW)
    rows = dict.fromkeys(labels, 0) | seen.index.labels.counts(train)
    present = [label for label, number in rows.items() if number]
    if len(present) < 2:
        return faults.stated(column, present or [None], faults.ONE_CLASS)
    needed = 0 if column == "labels" else min_per_class
    small = [f"{label}: {number:,} of {needed:,} rows" for label, number in rows.items() if number < needed]
    return faults.stated(column, small, faults.FEW)


def unseen_labels(seen: Survey, split: Split, *, inferred: bool = False) -> pl.DataFrame:
    """Return the labels and token labels of dev or test that train lacks, each at its first row.

    Text labels that are `inferred` from token labels may be absent.
    """
    places = ("row", "file", "line", "split")
    found = [pl.DataFrame(schema=faults.COLUMNS)]
    if not inferred:
        carriers, train = _carriers(seen.rows, seen.index.labels, split)
        found.append(_unseen(each_label(carriers, *places), train, faults.UNSEEN_LABEL))
    if seen.index.token_labels is not None:
        carriers, train = _carriers(seen.rows, seen.index.token_labels, split)
        found.append(_unseen(each_token_label(carriers, *places), train, faults.UNSEEN_TOKEN_LABEL))
    return pl.concat(found)


def _carriers(rows: Rows, values: Values, split: Split) -> tuple[pl.DataFrame, list[str]]:
    """Return the first rows of dev and test with labels that train lacks, and the labels that train has."""
    train = values.counts(split == TRAIN)
    held_out = np.flatnonzero((split != TRAIN) & (split != OUT))
    first = values.first(held_out)
    strange = [
        place
        for names, place in zip(values.lists, first.tolist(), strict=True)
        if place < len(held_out) and not train.keys() >= set(names)
    ]
    chosen = np.zeros(len(split), np.bool_)
    chosen[held_out[strange]] = True
    return rows.where(chosen), list(train)


def _unseen(lines: pl.DataFrame, train: list[str], rule: str) -> pl.DataFrame:
    unseen = lines.filter(~pl.col("label").is_in(train))
    return faults.located(unseen.unique("label", keep="first", maintain_order=True), "label", rule)


def absent_labels(classes: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """Return the labels without a row in dev and in test; `classes` counts the rows of each label per split."""
    return {split: [label for label, rows in classes[split].items() if not rows] for split in SPLITS[1:]}


def judge(
    seen: Survey, labels: Sequence[str], min_per_class: int, actions: Mapping[str, Action], *, inferred: bool = False
) -> Verdict:
    """Apply the rules across rows, and drop the rows that violate a rule with the action drop.

    `inferred`: the text labels are inferred from token labels. Raises DataError, after all rules are checked, if a
    rule is violated whose action is fail or that has no action.
    """
    broken = seen.faults.filter(pl.col("rule") != faults.REPLACEMENT)["row"]
    comparable = seen.index.repeated.filter(~pl.col("row").is_in(broken.implode()))
    found = pl.concat([seen.faults, duplicates(comparable), conflicts(comparable), leak_faults(comparable)])
    doomed = found.filter(pl.col("rule").is_in([rule for rule, action in actions.items() if action == "drop"]))
    kept = _without(seen.index.split, doomed)
    labelled = _without(kept, found.filter(pl.col("rule").is_in(LABEL_RULES)))
    classes = class_faults(seen, labelled, labels, min_per_class, inferred=inferred)
    found = pl.concat([found, classes, unseen_labels(seen, labelled, inferred=inferred)])
    faults.refuse(found, actions, labels)
    return Verdict(kept, found, faults.counts(doomed))


def _without(split: Split, found: pl.DataFrame) -> Split:
    left = split.copy()
    left[found["row"].drop_nulls().to_numpy()] = OUT
    return left
