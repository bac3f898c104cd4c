"""Masked language modeling: tokens that count, texts for the measurement, and learning rates."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from epigram.core.arrays import Ragged
from epigram.core.errors import TryAgainError
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import Tokens
from epigram.text.settings import PretrainSettings
from epigram.training.loop.rollback import DivergedError
from epigram.training.loop.trainer import Trainer
from epigram.training.pretraining.masked_language import MaskedLanguage, Quality
from epigram.training.pretraining.pretrain_encoder import training_config
from epigram.training.pretraining.shards import Shards, Texts
from epigram.training.pretraining.word_masking import Masking

VOCABULARY, MASK = 12, 4
CPU = torch.device("cpu")
FRAME = TextTemplate(
    language="en", max_length=8, prefix_ids=[2], suffix_ids=[3], pad_id=0, unk_id=1, mask_id=MASK, vocabulary=12
)


def texts(rows: list[list[int]]) -> Shards:
    """Return texts in which every token is a whole word."""
    ids = Ragged.from_lists(rows, np.int32)
    return Shards(Texts(ids, np.ones(len(ids.values), bool)), FRAME, CPU)


class Guess(nn.Module):
    """Model that gives token 5 a logit of `bias` and every other token 0, and records its inputs."""

    def __init__(self, bias: float) -> None:
        super().__init__()
        self.depth, self.dropped = 0, []  # type: ignore[var-annotated]
        self.bias = nn.Parameter(torch.tensor(bias))
        self.seen: list[tuple[bool, Tokens, Tensor]] = []

    def forward(self, tokens: Tokens, places: tuple[Tensor, ...]) -> Tensor:
        chosen = torch.zeros_like(tokens.valid)
        chosen[places] = True
        self.seen.append((self.training, tokens, chosen))
        return torch.nn.functional.one_hot(torch.full_like(places[0], 5), VOCABULARY) * self.bias


def measured(trainer: Trainer) -> Quality:
    """Return the quality of the trainer's model on the held-out texts."""
    assert isinstance(trainer.objective, MaskedLanguage)
    return trainer.objective.measure(trainer.model)


def pretrainer(model: nn.Module, train: Shards, held: Shards, share: float = 0.5, **settings: Any) -> Trainer:
    """Return a Trainer of masked language modelling; random replacements are the tokens from 5 on."""
    given = PretrainSettings(**{"epochs": 2, "batch_size": 2, "mask_share": share, "max_length": 8, **settings})
    masking = Masking(share=share, mask_id=MASK, ordinary=torch.arange(5, VOCABULARY))
    objective = MaskedLanguage(train, held, masking, training_config(given), seed=given.seed)
    return Trainer(model, objective, seed=given.seed)


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_quality_is_of_the_hidden_tokens_of_the_texts_held_out(bias: float) -> None:
    """The guess is right for two of three one-word texts. Train has only other words."""
    trainer = pretrainer(Guess(bias), texts([[7, 8], [9]]), texts([[5], [5], [6]]))
    quality = measured(trainer)
    total = exp(bias) + VOCABULARY - 1
    wanted = (total / exp(bias)) ** (2 / 3) * total ** (1 / 3)  # exp of the mean of -log p
    assert quality.perplexity == pytest.approx(wanted, rel=1e-2)  # the logits may be in bfloat16
    assert quality.accuracy == (pytest.approx(2 / 3) if bias else 0.0)  # of equal logits the first one is chosen
    assert measured(trainer) == quality, "the same words are hidden every time"


def test_half_of_the_words_are_hidden_and_no_special_token() -> None:
    model = Guess(1.0)
    trainer = pretrainer(model, texts([[5, 6, 7, 8], [9, 10, 11, 5]]), texts([[5]]), share=0.5, epochs=30)
    trainer.run()
    training = [(tokens, chosen) for mode, tokens, chosen in model.seen if mode]
    assert len(training) == 30
    shown, chosen = (torch.cat(parts) for parts in ([t.ids for t, _ in training], [each for _, each in training]))
    masks = shown == MASK
    assert not masks[~chosen].any()
    assert 0.65 < masks[chosen].float().mean() < 0.95  # 80% of 120 tokens, ± 4%; the others are replaced or kept
    for tokens, chosen in training:
        assert chosen.sum(1).tolist() == [2, 2]
        assert tokens.ids[:, 0].tolist() == [2, 2] and tokens.ids[:, -1].tolist() == [3, 3]
        assert not chosen[:, [0, -1]].any() and tokens.labels is None
    assert {mode for mode, _, _ in model.seen[-1:]} == {False}, "it ends with a measurement"


def test_the_rate_warms_up_for_a_tenth_of_the_steps_and_falls_to_the_last() -> None:
    trainer = pretrainer(Guess(0.0), texts([[6]] * 8), texts([[5]]), epochs=5, learning_rate=0.9)
    rates: list[float] = []
    trainer.optimizer.register_step_pre_hook(lambda used, *_: rates.append(used.param_groups[0]["lr"]))
    trainer.run()
    # 20 steps of two texts, two of them warm-up; then (20 - t) / 18
    assert rates == pytest.approx([0.45, 0.9, *(0.9 * (20 - t) / 18 for t in range(2, 20))])


def test_it_learns_from_train_and_never_from_what_is_held_out() -> None:
    """The masked words of train are 6, so the logit of 5 falls; those of the held-out texts are 5."""
    model = Guess(0.0)
    trainer = pretrainer(model, texts([[6]] * 4), texts([[5]] * 4), epochs=3, learning_rate=0.1)
    before = measured(trainer)
    record, after = trainer.run(), measured(trainer)
    assert (record.accuracy, -record.score[1]) == (after.accuracy, after.loss), "the record is of the last weights"
    assert model.bias.item() < -0.3
    assert after.perplexity > before.perplexity == pytest.approx(VOCABULARY, rel=1e-3)


def test_the_gradient_is_clipped_to_one() -> None:
    class Steep(Guess):
        def forward(self, tokens: Tokens, places: tuple[Tensor, ...]) -> Tensor:
            return 1000 * super().forward(tokens, places)

    model = Steep(0.0)
    trainer = pretrainer(model, texts([[6]] * 2), texts([[5]]), epochs=1)
    trainer.run()
    assert model.bias.grad is not None and model.bias.grad.item() == pytest.approx(1.0, rel=1e-3)


class Narrow(Guess):
    """Guess that has memory for `room` texts at a time."""

    room = 1

    def forward(self, tokens: Tokens, places: tuple[Tensor, ...]) -> Tensor:
        if len(tokens.ids) > self.room:
            raise MemoryError
        return super().forward(tokens, places)


def test_a_batch_that_needs_too_much_memory_is_trained_in_halves() -> None:
    whole, halved = Guess(0.0), Narrow(0.0)
    held = texts([[5]])  # one text, which fits
    for model in (whole, halved):
        trainer = pretrainer(model, texts([[6]] * 4), held, epochs=2, learning_rate=0.1)
        trainer.run()
        assert trainer.position.step == 4
    assert halved.bias.item() == pytest.approx(whole.bias.item(), rel=1e-2)  # the logits may be in bfloat16


def test_without_memory_for_one_text_the_message_names_the_settings_of_pretraining() -> None:
    model = Narrow(0.0)
    model.room = 0
    with pytest.raises(TryAgainError, match="lower batch_size or max_length of the view's pretrain"):
        pretrainer(model, texts([[6]] * 4), texts([[5]])).run()


def test_an_infinite_loss_ends_pretraining_with_the_setting_to_lower() -> None:
    with pytest.raises(DivergedError, match=r"at step 1 \(epoch 1\); lower the view's pretrain\.learning_rate$"):
        pretrainer(Guess(float("inf")), texts([[6]] * 4), texts([[5]])).run()
