"""Examination of the training rows: suspected labels, near duplicates with different labels, learning curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from epigram.core.sampling import choose_rows
from epigram.data.validation.row_index import TRAIN, LabelCodes
from epigram.data.validation.splits import assign_folds
from epigram.evaluation.arrays import Ints
from epigram.evaluation.quality.data_quality import DataQuality, Pair, Suspect
from epigram.evaluation.quality.label_noise import find_suspects, wrong_probability
from epigram.evaluation.quality.learning_curve import MIN_SIZES, LearningCurve, learning_curve
from epigram.evaluation.quality.near_duplicates import find_near_duplicates
from epigram.evaluation.quality.out_of_fold import OutOfFold, predict_out_of_fold, text_features
from epigram.evaluation.settings import ExamineSettings
from epigram.text.dataset.text_matching import LOOSE, loose_text
from epigram.text.dataset.validated_corpus import ValidatedCorpus

FOLDS = 5
SHARES = (1 / 16, 1 / 8, 1 / 4, 0.35, 1 / 2, 0.7, 1.0)  # shares of the training rows of a fold
SMALLEST = 10  # rows of the smallest share
COMPARED = 5  # times `examine.rows` texts are compared with each other
MAX_CELLS = 1_000_000  # judged rows times labels
CHARACTERS = 2_000  # maximum number of characters that are read of a text
MAX_PAIRS = 1_000  # maximum number of pairs in the report
SEED = 0  # seed of the folds


def examine_train(corpus: ValidatedCorpus, settings: ExamineSettings) -> DataQuality:
    """Return the findings about train. Corpora with several labels a text, or with labels on words only, have none."""
    rows = corpus.count("train")
    if corpus.task == "multi" or corpus.tokens_only:
        what = "words have labels, texts have none" if corpus.tokens_only else "a text can have several labels"
        return DataQuality(rows=rows, reason=f"Labels are examined only if each text has one: here {what}.")
    train = sample_train(corpus, COMPARED * settings.rows)
    different = train.unique([LOOSE, "label"], keep="first", maintain_order=True)
    pairs, pair_count = _near_duplicates(different, corpus, settings.similarity)
    found: dict[str, Any] = {"rows": rows, "compared": different.height, "pairs": pairs, "pair_count": pair_count}
    most = min(settings.rows, max(MAX_CELLS // len(corpus.labels), 1))
    judged = _learnable(train[choose_rows(train.height, most)])
    if judged["label"].n_unique() < 2:
        reason = f"No labels are judged: fewer than two labels have {FOLDS} different texts."
        return DataQuality(**found, reason=reason)
    return _judge(judged, corpus, found)


def sample_train(corpus: ValidatedCorpus, most: int) -> pl.DataFrame:
    """Return at most `most` rows of train, drawn with a fixed seed, in order: file, line, text, label and LOOSE."""
    sampled = corpus.frame("train", "file", "line", "text", "label", most=most)
    short = pl.col(LOOSE).str.slice(0, CHARACTERS)
    return sampled.with_columns(loose_text().alias(LOOSE)).with_columns(short)


def _near_duplicates(different: pl.DataFrame, corpus: ValidatedCorpus, similarity: float) -> tuple[list[Pair], int]:
    """Return the most similar pairs with different labels, at most MAX_PAIRS, and the number of all pairs."""
    labels = corpus.label_ids(different["label"], corpus.labels)
    found = find_near_duplicates(different[LOOSE].to_list(), labels, corpus.language, similarity=similarity)
    first, second = (different[places[:MAX_PAIRS]].to_dicts() for places in (found.first, found.second))
    pairs = [
        Pair(
            file=one["file"],
            line=one["line"],
            label=one["label"],
            other_file=other["file"],
            other_line=other["line"],
            other_label=other["label"],
            similarity=cosine,
            text=one["text"],
            other_text=other["text"],
        )
        for one, other, cosine in zip(first, second, found.similarity.tolist(), strict=False)
    ]
    return pairs, len(found.first)


def _learnable(train: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of labels that every training of a cross-validation has."""
    return train.filter(pl.col(LOOSE).n_unique().over("label") >= FOLDS)


def _judge(judged: pl.DataFrame, corpus: ValidatedCorpus, found: dict[str, Any]) -> DataQuality:
    names = sorted(judged["label"].unique().to_list())
    labels, folds = corpus.label_ids(judged["label"], names), folds_of(judged)
    features = text_features(judged["text"].str.slice(0, CHARACTERS).to_list(), corpus.language, len(names))
    predicted = predict_out_of_fold(features, labels, folds, shares_of(judged.height, len(names)), classes=len(names))
    suspects = find_suspects(predicted.probabilities, labels)
    rows = judged[suspects.rows].drop(LOOSE).to_dicts()
    curve, curve_reason = _curve(predicted, folds, found["rows"])
    return DataQuality(
        **found,
        judged=judged.height,
        accuracy=float(1.0 - predicted.wrong[-1].mean()),
        commonest=float(np.bincount(labels).max() / len(labels)),
        suspects=[
            Suspect(**row, likely_label=names[likely], margin=margin)
            for row, likely, margin in zip(rows, suspects.likely.tolist(), suspects.margin.tolist(), strict=True)
        ],
        expected_wrong=float(wrong_probability(predicted.probabilities, labels, suspects).sum()),
        curve=curve,
        curve_reason=curve_reason,
    )


def folds_of(frame: pl.DataFrame) -> Ints:
    """Return the fold of each row, (N,): stratified by label, and equal texts are in one fold."""
    codes = LabelCodes(frame.height)
    codes.add(0, frame["label"])
    repeated = frame.select(LOOSE).with_row_index("row").filter(pl.len().over(LOOSE) > 1)
    return assign_folds(np.full(frame.height, TRAIN, np.uint8), codes, repeated, FOLDS, SEED)


def shares_of(rows: int, labels: int) -> list[float]:
    """Return the shares of SHARES that have at least SMALLEST rows, and two for each label."""
    training = rows * (FOLDS - 1) // FOLDS
    return [share for share in SHARES if share == 1.0 or round(share * training) >= max(SMALLEST, 2 * labels)]


def _curve(predicted: OutOfFold, folds: Ints, rows: int) -> tuple[LearningCurve | None, str]:
    if len(predicted.sizes) < MIN_SIZES:
        return None, f"No learning curve is fitted: the labelled texts give fewer than {MIN_SIZES} training sizes."
    return learning_curve(predicted.sizes, predicted.wrong, folds, rows), ""
