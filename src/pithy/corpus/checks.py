"""The rules that rows break together: duplicates, conflicts, classes too small, labels that train lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pithy.corpus import faults
from pithy.corpus.keys import SPLITS, each_label, exact_text, label_column, label_key
from pithy.corpus.leakage import leak_faults
from pithy.corpus.token_labels import each_token_label, labels_tokens, token_label_counts
from pithy.settings import Action

LABEL_RULES = (faults.NO_LABEL, faults.UNKNOWN_LABEL, faults.UNKNOWN_SPLIT)


@dataclass(frozen=True)
class Verdict:
    """What the rules found in a corpus, and what they left of it."""

    kept: pl.DataFrame
    faults: pl.DataFrame  # all of them, also those that are only reported
    dropped: dict[str, int]  # rule → rows; a row that breaks two rules counts for both


def duplicates(frame: pl.DataFrame) -> pl.DataFrame:
    """Every row after the first of its split with the same text and label."""
    repeated = pl.struct("split", exact_text(), label_key(frame).alias("label")).is_first_distinct().not_()
    return faults.located(frame.filter(repeated), "text", faults.DUPLICATE)


def conflicts(frame: pl.DataFrame) -> pl.DataFrame:
    """Every row whose text stands in the same split with another label; the fault names the row's label."""
    keys = frame.select("split", text=exact_text(), label=label_key(frame))
    labels = keys.unique().group_by("split", "text").len("labels").filter(pl.col("labels") > 1)
    torn = keys.select("split", "text").with_row_index().join(labels, on=["split", "text"], how="semi")["index"].sort()
    return faults.located(frame[torn], label_column(frame), faults.CONFLICT)


def class_faults(
    frame: pl.DataFrame, labels: Sequence[str], min_per_class: int, *, inferred: bool = False
) -> pl.DataFrame:
    """Faults of the training rows as a whole: none at all, one class only (also of tokens), a class too small.

    A class of a multi-label corpus may be as small as it is: rare labels are the rule there. Labels that are `inferred`
    from those of tokens may be absent.
    """
    train = frame.filter(pl.col("split") == "train")
    if train.is_empty():
        return faults.stated("split", ["train"], faults.NO_TRAIN)
    tokens = list(token_label_counts(train))
    if len(tokens) < 2 and labels_tokens(frame):
        return faults.stated("token_labels", tokens or [None], faults.ONE_CLASS)
    if inferred:
        return faults.stated("label", [], faults.FEW)
    rows = dict.fromkeys(labels, 0) | dict(each_label(train).group_by("label").len().iter_rows())
    present = [label for label, number in rows.items() if number]
    if len(present) < 2:
        return faults.stated(label_column(frame), present or [None], faults.ONE_CLASS)
    needed = 0 if "labels" in frame.columns else min_per_class
    small = [f"{label}: {number:,} of {needed:,} rows" for label, number in rows.items() if number < needed]
    return faults.stated(label_column(frame), small, faults.FEW)


def unseen_labels(frame: pl.DataFrame, *, inferred: bool = False) -> pl.DataFrame:
    """The labels of dev or test, and of their tokens, that nothing in train carries, at the first row of each.

    Labels of texts that are `inferred` may be absent.
    """
    places = ("row", "file", "line", "split")
    tokens = _unseen(each_token_label(frame, *places), faults.UNSEEN_TOKEN_LABEL)
    return tokens if inferred else pl.concat([_unseen(each_label(frame, *places), faults.UNSEEN_LABEL), tokens])


def _unseen(lines: pl.DataFrame, rule: str) -> pl.DataFrame:
    train = lines.filter(pl.col("split") == "train")["label"].unique()
    unseen = lines.filter((pl.col("split") != "train") & ~pl.col("label").is_in(train.implode()))
    return faults.located(unseen.unique("label", keep="first", maintain_order=True), "label", rule)


def absent_labels(parts: Mapping[str, pl.DataFrame], labels: Sequence[str]) -> dict[str, list[str]]:
    """For dev and test, the labels that no row of theirs carries."""
    return {
        split: [label for label in labels if label not in set(each_label(part)["label"])]
        for split, part in parts.items()
        if split in SPLITS[1:]
    }


def judge(
    frame: pl.DataFrame,
    found: pl.DataFrame,
    labels: Sequence[str],
    min_per_class: int,
    actions: Mapping[str, Action],
    *,
    inferred: bool = False,
) -> Verdict:
    """Apply the rules across rows to `frame`, whose row faults are `found`; drop what `actions` says.

    `inferred`: the labels are those that the texts' tokens give them.

    Raises DataError, after all rules are judged, where one is broken whose action is to fail.
    """
    comparable = _without(frame, found.filter(pl.col("rule") != faults.REPLACEMENT))
    found = pl.concat([found, duplicates(comparable), conflicts(comparable), leak_faults(comparable)])
    doomed = found.filter(pl.col("rule").is_in([rule for rule, action in actions.items() if action == "drop"]))
    kept = _without(frame, doomed)
    labelled = _without(kept, found.filter(pl.col("rule").is_in(LABEL_RULES)))
    classes = class_faults(labelled, labels, min_per_class, inferred=inferred)
    found = pl.concat([found, classes, unseen_labels(labelled, inferred=inferred)])
    faults.refuse(found, actions, labels)
    return Verdict(kept, found, faults.counts(doomed))


def _without(frame: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(~pl.col("row").is_in(found["row"].drop_nulls().unique().implode()))
