"""Scores and losses that select a model, for predictions small enough to count by hand."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch import Tensor, nn

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.models.batches import TextBatches
from epigram.models.predict import Predicted, predict
from epigram.nn.layers.types import Prediction, Tokens
from epigram.training.dev_score import DevScore
from tests.support.scripted import texts

ONE = Predicted(np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 3.0, 0.0], [1.0, 0.0, 0.0]], np.float32), None)
SEVERAL = Predicted(np.array([[1.0, -1.0], [2.0, 3.0], [-1.0, -2.0]], np.float32), None, multi=True)
INDICATORS = np.array([[1, 0], [0, 1], [0, 1]])


def test_accuracy_is_the_share_of_texts_whose_highest_logit_is_their_label() -> None:
    assert ONE.score(np.array([0, 2, 1, 1])) == 0.75
    assert ONE.score(np.array([2, 0, 0, 1])) == 0.0


def test_micro_f1_counts_logits_above_zero() -> None:
    # predicted: label 0 of the first text, both of the second; two of these are right, of three gold labels
    assert SEVERAL.score(INDICATORS) == pytest.approx(2 * 2 / (3 + 3))
    assert SEVERAL.score(np.zeros((3, 2))) == 0.0


def test_probabilities_are_a_softmax_or_for_several_labels_a_sigmoid() -> None:
    total = exp(2) + exp(1) + 1
    assert ONE.probabilities[0].tolist() == pytest.approx([exp(2) / total, exp(1) / total, 1 / total], rel=1e-6)
    assert SEVERAL.probabilities[0].tolist() == pytest.approx([1 / (1 + exp(-1)), 1 / (1 + exp(1))], rel=1e-6)


def test_loss_is_the_mean_negative_log_likelihood() -> None:
    single = Predicted(np.log(np.array([[0.5, 0.5], [0.9, 0.1]], np.float32)), None)
    assert single.loss(np.array([0, 1])) == pytest.approx(-(log(0.5) + log(0.1)) / 2, rel=1e-5)
    p = np.array([[0.8, 0.4], [0.5, 0.1]])
    several = Predicted(np.log(p / (1 - p)).astype(np.float32), None, multi=True)
    wanted = -(log(0.8) + log(0.6) + log(0.5) + log(0.1)) / 4  # labels 1, 0 and 0, 1
    assert several.loss(np.array([[1, 0], [0, 1]])) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(("plain", "score"), [(0, 2 * 1 / (2 + 3)), (1, 2 * 1 / (3 + 2)), (2, 2 * 2 / (3 + 3))])
def test_text_f1_leaves_the_plain_class_out(plain: int, score: float) -> None:
    """Predicted 0, 2, 1, 0; gold 0, 1, 1, 2. Right are the first text, of class 0, and the third, of class 1."""
    assert ONE.text_f1(np.array([0, 1, 1, 2]), plain) == pytest.approx(score)


def test_a_part_has_its_own_score() -> None:
    parts = np.stack([ONE.logits, -ONE.logits])
    assert Predicted(ONE.logits, parts).scores(np.array([0, 2, 1, 1])) == [0.75, 0.25]  # −logits: only the last text


def test_token_score_is_the_micro_f1_of_all_labels_but_the_default() -> None:
    said, gold = [0, 1, 1, 2, 0, 2], np.array([0, 1, 2, 2, 1, -1])
    tokens = np.eye(3, dtype=np.float32)[said]
    # known tokens: the first five; predicted 1, 1, 2; gold 1, 2, 2, 1; the second and the fourth are right
    assert Predicted(ONE.logits, None, tokens=tokens).token_score(gold) == pytest.approx(2 * 2 / (3 + 4))


class ByToken(nn.Module):
    """Logits that identify a text by its first token, in two parts, one the negative of the other."""

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        assert not self.training and not torch.is_grad_enabled()
        logits = torch.stack([tokens.ids[:, 0].float(), tokens.valid.sum(1).float()], 1)
        return Prediction(logits, parts=torch.stack([logits, -logits]))


def test_predictions_come_back_in_the_order_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epigram.models.predict.BATCH_LIMITS", (2, 100))
    lengths = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    rows = Ragged.from_lengths(np.repeat(np.arange(10, 18), lengths), lengths)
    made = TextBatches(rows, prefix=[], suffix=[], max_length=9, pad_id=0, unk_id=1)
    found = predict(ByToken().train(), made, precision="fp32")
    assert found.logits.tolist() == [[10 + n, length] for n, length in enumerate(lengths)]
    assert found.parts is not None
    np.testing.assert_array_equal(found.parts, [found.logits, -found.logits])
    assert found.counts is not None and found.counts.tolist() == lengths.tolist()


@pytest.mark.parametrize(
    ("judged", "score"),
    [
        ("sentence", 0.3),
        ("macro_f1", 3 / 13),
        ("sentence_f1", 6 / 13),
        ("token", 0.5),
        ("mean", 0.4),
        ("mean_f1", (0.5 + 6 / 13) / 2),
    ],
)
def test_the_score_of_dev_is_that_of_the_setting(judged: str, score: float) -> None:
    """Three of ten texts are right, and three of the nine tokens with label 1 are found: F1 = 6 / (3 + 9).

    All texts have label 0. As the plain class is 1, their F1 is 2 · 3 / (3 + 10).
    """
    dev = texts(10)
    dev.plain_class = 1
    dev.token_labels = torch.tensor([1] * 9 + [0, -1])  # the last entry is for positions without a token
    logits = np.where(np.arange(10)[:, None] < 3, [[1.0, 0.0]], [[0.0, 1.0]]).astype(np.float32)
    tokens = np.eye(2, dtype=np.float32)[[1] * 3 + [0] * 7]
    assert DevScore(judged).of(Predicted(logits, None, tokens=tokens), dev) == pytest.approx(score)  # type: ignore[arg-type]


@pytest.mark.parametrize("multi", [False, True])
def test_the_macro_f1_is_that_of_scikit_learn(multi: bool) -> None:
    """The label 3 is neither gold nor predicted: it counts as 0 only if a text may have several labels."""
    random = np.random.default_rng(0)
    logits = np.concatenate([random.normal(size=(40, 3)), np.full((40, 1), -9.0)], 1).astype(np.float32)
    gold = random.integers(0, 2, (40, 4)) * [1, 1, 1, 0] if multi else random.integers(0, 2, 40)
    chosen = logits > 0 if multi else logits.argmax(1)
    wanted = f1_score(gold, chosen, average="macro", zero_division=0)
    assert DevScore("macro_f1").of_texts(Predicted(logits, None, multi), gold) == pytest.approx(wanted)
    assert wanted != pytest.approx(Predicted(logits, None, multi).score(gold))


def test_each_layer_has_the_score_of_the_setting() -> None:
    """The first layer predicts label 0 for three of ten texts of label 0, the second one for all."""
    first = np.where(np.arange(10)[:, None] < 3, [[1.0, 0.0]], [[0.0, 1.0]])
    parts = np.stack([first, np.tile([1.0, 0.0], (10, 1))]).astype(np.float32)
    assert DevScore("sentence").of_parts(parts, texts(10), multi=False) == pytest.approx([0.3, 1.0])
    assert DevScore("macro_f1").of_parts(parts, texts(10), multi=False) == pytest.approx([3 / 13, 1.0])
    assert DevScore("macro_f1").name(multi=False) == "macro-F1"


def test_f1_of_the_texts_needs_one_label_per_text_and_token_labels() -> None:
    dev = texts(3)
    with pytest.raises(ParameterError, match=r"train\.stop_on is sentence_f1, .* the data have no token labels"):
        DevScore("sentence_f1").of(ONE, dev)
    dev.token_labels = torch.tensor([1, 1, 1, -1])
    with pytest.raises(ParameterError, match=r"train\.stop_on is sentence_f1, .* texts may have several labels"):
        DevScore("sentence_f1").of(SEVERAL, dev)
