"""Comparison of a run as stored in `summary.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from epigram.core.files import write_json
from epigram.core.records import read_record
from epigram.evaluation.records.results import Task

Outcome: TypeAlias = Literal["chosen", "tie", "worse", "unranked"]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Description of the corpus from validation (`corpus.json`)."""

    name: str
    language: Literal["zh", "en"]
    task: Task
    labels: list[str]
    rows: dict[str, int]
    notes: list[str]
    machine_labels: dict[str, int] = field(default_factory=dict)


def choosing_rows(splits: Mapping[str, int]) -> int:
    """Return how many texts choose the system: dev, or all folds of train."""
    return splits.get("dev") or splits.get("train", 0)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system. `*_score`, `test_low` and `test_high` are values of the summary's `score`; `*_std` is over the seeds.

    `outcome` and `p_dev` are relative to the best system on development data, `test_outcome` and `p_test` to the chosen
    one; p-values are Holm-corrected. An `unranked` system has a development score that is not its own. Parameters,
    depth, FLOPs and the two fields after `span_f1` (see `Cost`) are medians over the seeds; `*_pruned` are the values
    after pruning. `token_*` and `span_f1` are of the test words, None if the system labels no words. `dev_loss` is the
    log loss on dev. `megabytes` is the size of the saved model. Speed is None until a run adds the speed of its
    machine, so that the same data give the same summary everywhere. `scores` has every metric on test by name, a metric
    of words with the prefix `token_`, one of the text labels without the plain one with `sentence_`, and one of a level
    of the labels with `level_1_`; empty in the summary of an older version.
    """

    system: str
    seeds: list[int]
    dev_accuracy: float
    test_accuracy: float
    dev_score: float
    test_score: float
    test_low: float
    test_high: float
    dev_std: float | None
    test_std: float | None
    macro_f1: float
    ece: float
    parameters: int
    parameters_pruned: int
    depth: int | None
    depth_pruned: int | None
    flops: float
    outcome: Outcome
    p_dev: float | None
    p_test: float | None
    test_outcome: Literal["better", "worse", "tie"] | None
    token_f1: float | None = None
    token_f05: float | None = None
    span_f1: float | None = None
    parameters_without_embeddings: int | None = None
    batch_macs: float | None = None
    dev_loss: float | None = None
    megabytes: float | None = None
    ms_per_text: float | None = None
    texts_per_second: float | None = None
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Comparison of a run; rows are sorted by development score, best first, and followed by unranked ones.

    `cheapest_tied` is the cheapest of the systems tied with the best. `optimism` is the expected optimism of the best
    development score, a share of 1; None in the summary of an older version. `machine_labels` are the rows of each
    split that a machine has labelled.

    Without a test split, the test scores are the out-of-fold scores of dev; the expected optimism of the choice is
    subtracted from the chosen system's score.
    """

    dataset: str
    language: Literal["zh", "en"]
    task: Task
    score: str
    confidence: float
    alpha: float
    splits: dict[str, int]
    notes: list[str]
    chosen_system: str
    chosen_seed: int
    cheapest_tied: str | None
    verdict: str
    rows: list[Row]
    optimism: float | None = None
    machine_labels: dict[str, int] = field(default_factory=dict)

    @property
    def chosen(self) -> Row:
        """Row of the chosen system."""
        return next(row for row in self.rows if row.outcome == "chosen")

    @property
    def out_of_fold(self) -> bool:
        """Whether there is no test split, so that the test scores are out of fold."""
        return not self.splits["test"]

    @property
    def agreement(self) -> str:
        """Sentence on labels by a machine among the texts that test the systems; empty if there are none."""
        split = "train" if self.out_of_fold else "test"
        texts, machine = self.splits[split], self.machine_labels.get(split, 0)
        if not machine:
            return ""
        return (
            f"{'All' if machine == texts else f'{machine:,} of the'} {texts:,} labels that test it are by a machine: "
            "the scores are agreement with the machine, not accuracy."
        )

    @property
    def scores_words(self) -> bool:
        """Whether the labels of words are scored."""
        return self.score == "token_f1" or any(row.token_f1 is not None for row in self.rows)

    @property
    def unranked(self) -> list[str]:
        """Systems whose development score is not their own."""
        return [row.system for row in self.rows if row.outcome == "unranked"]

    def labels_no_words(self, row: Row) -> bool:
        """Return whether word labels rank the systems and this system labels no words."""
        return self.score == "token_f1" and row.token_f1 is None


def with_sizes(summary: Summary, megabytes: Mapping[str, float]) -> Summary:
    """Return the summary with the size of the saved model of each system."""
    return replace(summary, rows=[replace(row, megabytes=megabytes.get(row.system)) for row in summary.rows])


def write_summary(path: Path, summary: Summary) -> None:
    """Write `summary.json`."""
    write_json(path, asdict(summary))


def read_summary(path: Path) -> Summary:
    """Read `summary.json`. Raises InputMissingError or DataError."""
    return read_record(Summary, path)


def read_corpus(path: Path) -> Corpus:
    """Read `corpus.json`. Raises InputMissingError or DataError."""
    return read_record(Corpus, path)
