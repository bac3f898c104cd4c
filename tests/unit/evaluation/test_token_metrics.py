"""Tests of token metrics: scores equal those of scikit-learn and seqeval; a word has the label of its first token."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from seqeval import metrics as seqeval
from sklearn import metrics as sklearn

from epigram.core.arrays import Ragged
from epigram.core.config_types import validate_as
from epigram.core.errors import DataError
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.metrics.decisions import predict_labels
from epigram.evaluation.records.results import TokenScores, read_evaluation, write_evaluation
from epigram.evaluation.records.summary import Corpus
from epigram.evaluation.tokens.token_metrics import EXAMPLES, token_metrics
from epigram.evaluation.tokens.tokens import LabelledWords, tags
from epigram.evaluation.tokens.word_predictions import Words, most_likely, word_probabilities
from epigram.inference.predictors.measure import combine_seeds
from epigram.models.predict import Predicted
from epigram.report.columns import comparison_markdown
from epigram.workflow.evaluate import gold_words
from tests.support.evaluation_samples import corpus, system, words, wrongly

PLAIN = ["O", "LOC", "PER"]
PREFIXED = ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]


def drawn(names: list[str], rows: int = 60, seeds: int = 2) -> LabelledWords:
    """Return random labels for rows of 0 to 8 words; a prediction is correct with probability 0.67 or more."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, 9, rows)
    gold, noise = (generator.integers(0, len(names), (seeds, lengths.sum())) for _ in range(2))
    predicted = np.where(generator.random(noise.shape) < 0.67, gold[0], noise)
    return LabelledWords(Ragged.from_lengths(gold[0].astype(np.uint8), lengths), predicted.astype(np.uint8), names)


def scores(names: list[str], gold: list[list[int]], predicted: list[list[int]]) -> TokenScores:
    """Return the scores of one seed from rows of label numbers."""
    rows, flat = Ragged.from_lists(gold, np.uint8), Ragged.from_lists(predicted, np.uint8).values
    return LabelledWords(rows, flat[None], names).scores()[0]


def tagged(names: list[str], labels: Ragged[Any]) -> list[list[str]]:
    """Return the tags of each row."""
    return [row.tolist() for row in labels.with_values(tags(names, labels))]


def test_scores_of_words_are_those_of_scikit_learn_over_the_other_labels():
    labelled = drawn(PLAIN)
    for seed, found in zip(labelled.predicted, labelled.scores(), strict=True):
        known = {"y_true": labelled.gold.values, "y_pred": seed, "labels": [1, 2], "average": "micro"}
        assert found.precision == pytest.approx(sklearn.precision_score(**known))
        assert found.recall == pytest.approx(sklearn.recall_score(**known))
        assert found.f1 == pytest.approx(sklearn.f1_score(**known))
        assert found.f05 == pytest.approx(sklearn.fbeta_score(**known, beta=0.5))
        assert found.accuracy == pytest.approx(sklearn.accuracy_score(labelled.gold.values, seed))


@pytest.mark.parametrize("names", [PLAIN, PREFIXED], ids=["runs", "prefixes"])
def test_span_scores_are_those_of_seqeval(names):
    labelled = drawn(names)
    gold = tagged(names, labelled.gold)
    for seed, found in zip(labelled.predicted, labelled.scores(), strict=True):
        said = tagged(names, labelled.gold.with_values(seed))
        assert found.span_f1 == pytest.approx(seqeval.f1_score(gold, said))
        assert found.span_precision == pytest.approx(seqeval.precision_score(gold, said))
        assert found.span_recall == pytest.approx(seqeval.recall_score(gold, said))


def test_a_run_of_one_label_is_one_span_and_ends_with_its_row():
    labels = Ragged.from_lists([[1, 1, 2, 0, 2], [], [2, 1]], np.int64)
    assert tagged(PLAIN, labels) == [["B-LOC", "I-LOC", "B-PER", "O", "B-PER"], [], ["B-PER", "B-LOC"]]


def test_labels_that_are_bio_stay_as_they_are_under_any_default():
    assert tagged(["c", "B-X", "I-X"], Ragged.from_lists([[0, 2, 1, 2]], np.int64)) == [["O", "I-X", "B-X", "I-X"]]


def test_the_last_and_the_single_word_of_bilou_and_the_middle_of_bmes_are_those_of_bioes():
    names = ["O", "B-PER", "I-PER", "L-PER", "U-PER", "M-PER"]
    first, second = tagged(names, Ragged.from_lists([[4, 4, 1, 2, 3], [1, 5, 3, 1, 3, 0]], np.int64))
    assert first == ["S-PER", "S-PER", "B-PER", "I-PER", "E-PER"]
    assert second == ["B-PER", "I-PER", "E-PER", "B-PER", "E-PER", "O"]
    found = scores(names, [[4, 4, 1, 2, 3], [1, 5, 3, 1, 3]], [[4, 4, 1, 2, 0], [1, 5, 3, 1, 3]])
    assert found.span_f1 == pytest.approx(4 / 5)


def test_a_label_without_a_prefix_among_others_with_one_is_a_span_a_run():
    names = ["O", "B-PER", "I-PER", "MISC"]
    first, second = tagged(names, Ragged.from_lists([[1, 2, 1, 3, 3], [3, 0, 3]], np.int64))
    assert first == ["B-PER", "I-PER", "B-PER", "B-MISC", "I-MISC"]
    assert second == ["B-MISC", "O", "B-MISC"]


def test_labels_that_only_look_as_if_they_had_a_prefix_are_runs():
    said = tagged(["O", "E-mail", "U-turn"], Ragged.from_lists([[1, 1, 2, 2]], np.int64))
    assert said == [["B-E-mail", "I-E-mail", "B-U-turn", "I-U-turn"]]


def test_a_span_with_the_right_borders_counts_with_the_gold_type():
    found = scores(PLAIN, [[1, 1, 0, 2], [2, 0]], [[2, 2, 0, 2], [2, 2]])
    # Two of three predicted spans have the right borders; one of them also has the right type.
    assert (found.span_f1, found.border_f1) == pytest.approx((1 / 3, 2 / 3))
    assert (found.border_precision, found.border_recall) == pytest.approx((2 / 3, 2 / 3))


def test_without_a_marked_word_every_score_but_accuracy_is_zero_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = scores(PLAIN, [[0, 0], []], [[0, 0], []])
    assert found.accuracy == 1.0
    assert {value for name, value in vars(found).items() if name != "accuracy"} == {0.0}


def test_a_row_adds_its_own_words_to_the_score():
    labelled = LabelledWords(Ragged.from_lists([[1, 0], [], [2], [0]], np.int64), np.array([[1, 1, 0, 0]]))
    outcomes = labelled.words.row_scores()
    assert outcomes.gained.tolist() == [[2, 0, 0, 0]]
    assert outcomes.possible.tolist() == [[3, 0, 1, 0]]


def test_a_word_has_the_label_of_its_first_token():
    # Row 0: words 0 (two pieces), 1, 3; word 2 has no piece. Row 1 has no words in gold. Row 2 is truncated.
    said = word_probabilities(
        Ragged.from_lengths(np.eye(3)[[1, 2, 2, 1, 2, 1]], np.array([4, 1, 1])),
        Ragged.from_lists([[0, 0, 1, 3], [0], [0, 1, 2]], np.int64),
        np.array([4, 0, 3]),
    )
    assert most_likely(said).tolist() == [1, 2, 0, 1, 1, 0, 0]
    assert said.any(-1).tolist() == [True, True, False, True, True, False, False]


def test_an_unknown_token_in_an_empty_row_is_no_word():
    said = word_probabilities(
        Ragged.from_lengths(np.eye(2)[[1, 1]], np.array([1, 1])),
        Ragged.from_lists([[-1], [0]], np.int64),
        np.array([1, 1]),
    )
    assert most_likely(said).tolist() == [0, 1]


def test_seeds_are_put_together_and_a_system_without_tokens_says_nothing_of_words():
    rows = Ragged.from_lists([[0, 1]], np.int64)
    truth = Words(names=["O", "X"], labels=rows, texts=[["a", "b"]], separator=" ")
    part = SimpleNamespace(ids=rows, words=np.array([0, 1]))
    logits = np.zeros((1, 2), np.float32)
    seeds = [
        Predicted(logits, None, tokens=np.eye(2, dtype=np.float32)[order], counts=np.array([2]))
        for order in ([0, 1], [1, 0])
    ]
    assert combine_seeds(seeds, part, truth).words.tolist() == [[0, 1], [1, 0]]
    assert combine_seeds(seeds, part, truth).probabilities.shape == (2, 1, 2)
    assert combine_seeds([Predicted(logits, None)], part, truth).words is None
    assert combine_seeds(seeds, part, None).words is None


def validated(rows: list[tuple[int, list[str] | None, list[str] | None]]) -> pl.DataFrame:
    text = pl.List(pl.String)
    return pl.DataFrame(rows, {"row": pl.Int64, "tokens": text, "token_labels": text}, orient="row")


def test_gold_words_are_all_words_of_the_rows_in_the_views_order(tmp_path):
    view = SimpleNamespace(token_labels=["O", "PER"], language="en", view="token")
    frame = validated([(4, ["a", "b"], ["O", "PER"]), (5, None, None), (6, [], []), (7, ["c"], ["PER"])])
    found = gold_words(frame, view, tmp_path / "dev.parquet")
    assert [row.tolist() for row in found.labels] == [[0, 1], [], [], [1]]
    assert found.texts == [["a", "b"], [], [], ["c"]]
    with pytest.raises(DataError, match=r"dev\.parquet: token label 'LOC' is not in the view token"):
        gold_words(validated([(1, ["a"], ["LOC"])]), view, tmp_path / "dev.parquet")


def test_words_are_scored_beside_the_sentence_that_systems_are_ranked_by():
    wrong = [set(range(0, 60)), set(range(0, 30))]
    numbers = system("demo", [{1}, {2}], [{1, 3}, {2}], labelled=True, words_wrong=wrong).metrics
    assert numbers.score == "accuracy"
    assert numbers.test_score.value == pytest.approx(0.985)
    assert numbers.tokens.labels == ["O", "PER", "LOC"]
    assert numbers.tokens.test.f1 == pytest.approx(np.mean([seed.test_tokens.f1 for seed in numbers.seeds]))
    assert numbers.tokens.test_f1.value == pytest.approx(numbers.tokens.test.f1)
    assert numbers.tokens.test_f05.value == pytest.approx(numbers.tokens.test.f05)
    assert numbers.tokens.test_span_f1.value == pytest.approx(numbers.tokens.test.span_f1)
    assert numbers.tokens.test_f1.low < numbers.tokens.test_f1.value < numbers.tokens.test_f1.high
    assert [each.support for each in numbers.tokens.classes] == [200, 50, 50]


def test_the_table_of_word_labels_is_that_of_scikit_learn():
    truth, wrong = words(100), [set(range(0, 90))]
    table = system("demo", [set()], [set()], labelled=True, words_wrong=wrong).metrics.tokens.classes
    expected = sklearn.precision_recall_fscore_support(truth.labels.values, wrongly(truth, wrong)[0])
    for name, column in zip(("precision", "recall", "f1", "support"), expected, strict=True):
        assert [getattr(each, name) for each in table] == pytest.approx(column.tolist())


def test_the_table_of_many_word_labels_is_that_of_scikit_learn():
    names = ["O", *(f"L{n}" for n in range(19))]
    labelled = drawn(names, rows=400)
    texts = [["w"] * count for count in labelled.gold.lengths.tolist()]
    truth = SimpleNamespace(words=Words(names=names, labels=labelled.gold, texts=texts, separator=" "), rows=range(400))
    seeds = [SimpleNamespace(dev_tokens=each, test_tokens=each) for each in labelled.scores()]
    table = token_metrics(SimpleNamespace(truth=truth, words=labelled), seeds, resamples=2, confidence=0.95).classes
    expected = [sklearn.precision_recall_fscore_support(labelled.gold.values, seed) for seed in labelled.predicted]
    for name, column in zip(("precision", "recall", "f1", "support"), np.mean(expected, axis=0), strict=True):
        assert [getattr(each, name) for each in table] == pytest.approx(column.tolist())


def test_the_sentences_f1_leaves_the_plain_class_out():
    generator = np.random.default_rng(4)
    gold, probabilities = generator.integers(0, 3, 200), generator.random((1, 200, 3))
    outcomes = predict_labels("single", gold, probabilities, np.zeros((1, 0))).row_scores_without(1)
    said = probabilities[0].argmax(1)
    assert outcomes.scores() == pytest.approx(sklearn.f1_score(gold, said, labels=[0, 2], average="micro"))
    assert system("demo", [set()], [{0, 1}], labelled=True).metrics.sentence_f1.value == pytest.approx(98 / 100)
    unlabelled = system("demo", [set()], [set()]).metrics
    assert unlabelled.sentence_f1 is unlabelled.test_sentences is unlabelled.seeds[0].test_sentences is None


def test_examples_are_short_rows_with_a_marked_word_and_show_runs_of_words():
    tokens = system("demo", [set()], [set()], labelled=True, words_wrong=[{1}]).metrics.tokens
    assert len(tokens.examples) == EXAMPLES
    first = tokens.examples[0]  # the row with only one word, number 0
    assert (first.row, [vars(piece) for piece in first.pieces]) == (
        100,
        [{"text": "w0", "predicted": "PER", "gold": "PER"}],
    )
    assert all(any(piece.gold != "O" for piece in each.pieces) for each in tokens.examples)
    assert any(" " in piece.text for each in tokens.examples for piece in each.pieces)


def test_a_corpus_of_tokens_only_ranks_by_their_f1_and_names_the_systems_without():
    many, few = [set(range(0, 150))] * 2, [set(range(0, 6))] * 2
    only = {"labelled": True, "tokens_only": True}
    evaluations = [
        system("sentence", [set()] * 2, [set()] * 2, **only),
        system("rough", [set()] * 2, [set()] * 2, words_wrong=many, **only),
        system("fine", [set(range(50))] * 2, [set(range(50))] * 2, words_wrong=few, **only),
    ]
    summary = compare(validate_as(Corpus, corpus()), evaluations, 0.05)
    assert summary.score == "token_f1"
    assert [(row.system, row.outcome) for row in summary.rows] == [
        ("fine", "chosen"),
        ("rough", "worse"),
        ("sentence", "worse"),
    ]
    assert summary.rows[0].test_score == pytest.approx(summary.rows[0].token_f1)
    assert (summary.rows[2].test_score, summary.rows[2].token_f1) == (0.0, None)
    assert "sentence labels no tokens, which counts as a score of 0." in summary.notes
    assert "best development token F1" in summary.verdict
    assert "labels no tokens" in comparison_markdown(summary)


def test_predictions_of_words_are_small_and_survive_the_disk(tmp_path):
    evaluation = system("demo", [set()] * 3, [set()] * 3, labelled=True, words_wrong=[{1}, {2}, {3}])
    write_evaluation(tmp_path / "demo", evaluation)
    back = read_evaluation(tmp_path / "demo")
    assert back.metrics == evaluation.metrics
    assert back.test.words.predictions.dtype == np.uint8
    assert np.array_equal(back.test.words.predictions, evaluation.test.words.predictions)
    assert np.array_equal(back.test.words.offsets, words(100).labels.offsets)


def test_a_system_without_tokens_keeps_gold_alone(tmp_path):
    write_evaluation(tmp_path / "demo", system("demo", [set()], [set()], labelled=True))
    back = read_evaluation(tmp_path / "demo")
    assert back.test.words.predictions is None
    assert len(back.test.words.labels) == 300
    assert json.loads((tmp_path / "demo" / "metrics.json").read_text())["tokens"] is None


def test_tokens_of_a_row_without_gold_labels_say_nothing_of_the_next_row() -> None:
    """The first row has no words of the corpus, but its token is read; the word of the second row is not read."""
    read = Ragged.from_lengths(np.array([[0.2, 0.8]], np.float32), np.array([1, 0]))
    numbers = Ragged.from_lengths(np.array([0, 0]), np.array([1, 1]))
    assert word_probabilities(read, numbers, np.array([0, 1])).tolist() == [[0.0, 0.0]]
