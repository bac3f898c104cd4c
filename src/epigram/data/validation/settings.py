"""Settings of validation: section `validate` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from epigram.core.config_types import Folds, OpenShare, Positive, Range, Seed, Strict

Action = Literal["report", "drop", "fail"]
Removal = Literal["drop", "fail"]


@dataclass(frozen=True, kw_only=True)
class ValidateSettings(Strict):
    """Handling of imperfect rows, and the splits to create if the source has none."""

    on_empty: Action = "fail"  # a row without a text
    on_unlabelled: Removal = "fail"  # a row without a label
    on_replacement: Action = "report"  # U+FFFD, the result of a wrong decoding; a NUL byte always fails
    on_duplicate: Action = "report"  # the same text and label more than once in a split
    on_conflict: Action = "report"  # the same text with different labels
    on_leak: Action = "report"  # a text of dev or test that is also in train; drop removes it from train
    min_per_class: Positive = 2  # training rows of each label; fewer are an error
    dev: OpenShare = 0.1  # share of a new dev split
    test: OpenShare = 0.1  # share of a new test split
    folds: Folds = 5  # folds of a cross-validation inside train, where a new dev split would have few rows
    split_seed: Seed = 0  # seed of new splits and of folds
    max_train_rows: Annotated[int | None, Range(ge=1)] = None  # training rows at most; a stratified sample
