"""Tests of pretraining batches: which tokens are read and masked, how the loss is measured, and resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from epigram.core.arrays import Ragged
from epigram.models.text_template import TextTemplate
from epigram.nn.encoders.pretrained import PretrainedConfig
from epigram.nn.layers.types import DataSpec
from epigram.text.settings import PretrainSettings
from epigram.training.loop.callback import Callback
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.snapshot import take_snapshot
from epigram.training.loop.trainer import Trainer
from epigram.training.pretraining.masked_language import MaskedLanguage, MaskedLanguageModel
from epigram.training.pretraining.pretrain_encoder import training_config
from epigram.training.pretraining.shards import Shards, Texts
from epigram.training.pretraining.word_masking import Masking
from tests.support.tiny_bert import SPECIAL, write_bert

VOCABULARY, UNKNOWN, MASK = 20, 1, 4
FRAME = TextTemplate(
    language="en", max_length=6, prefix_ids=[2, 15], suffix_ids=[3], pad_id=0, unk_id=UNKNOWN, mask_id=MASK,
    vocabulary=VOCABULARY,
)  # fmt: skip


def shards(rows: list[list[int]]) -> Shards:
    """Return texts of whole words, as pretraining reads them."""
    ids = Ragged.from_lists(rows, np.int64)
    return Shards(Texts(ids, np.ones(len(ids.values), dtype=bool)), FRAME, torch.device("cpu"))


def test_pieces_leave_room_for_the_prompt_and_no_token_is_lost() -> None:
    texts = shards([[5, 6, 7, 8, 9, 10, 11], [12]]).shard(0)  # 6 positions, of which prompt and [SEP] take 3
    assert texts.gather(np.arange(4)).ids.tolist() == [
        [2, 15, 5, 6, 7, 3],
        [2, 15, 8, 9, 10, 3],
        [2, 15, 11, 3, 0, 0],
        [2, 15, 12, 3, 0, 0],
    ]


def test_an_unknown_token_is_no_word_that_can_be_hidden() -> None:
    tokens = shards([[5, UNKNOWN, 7]]).shard(0).gather(np.array([0]))
    assert tokens.labels is not None
    assert tokens.labels.tolist() == [[-1, -1, 0, -1, 2, -1]]


def pretrainer(checkpoints: Checkpoints | None = None, checkpoint: str | None = None) -> Trainer:
    """Return a Trainer for a tiny encoder, or a tiny `checkpoint`, on 24 random texts: two epochs of six steps."""
    torch.manual_seed(0)
    sizes = {"width": 8, "depth": 1, "heads": 1, "hidden": 8}
    draw = np.random.default_rng(0)
    texts = shards([draw.integers(5, 15, 3).tolist() for _ in range(24)])
    spec = DataSpec(vocabulary=VOCABULARY, classes=2, max_length=6, checkpoint=checkpoint)
    encoder = PretrainedConfig(small=sizes).build(spec)
    masking = Masking(share=0.3, mask_id=MASK, ordinary=torch.arange(5, VOCABULARY))
    settings = PretrainSettings(epochs=2, batch_size=4, learning_rate=0.01, seed=3)
    objective = MaskedLanguage(texts, texts, masking, training_config(settings), seed=settings.seed)
    return Trainer(MaskedLanguageModel(encoder), objective, seed=settings.seed, checkpoints=checkpoints)


class StoppedError(Exception):
    """Raised in place of a kill."""


class StopAfterFour(Callback):
    """Ends a training after its fourth step."""

    def between_steps(self, trainer: Trainer) -> None:
        """Raise StoppedError after the fourth step."""
        if trainer.position.step == 4:
            raise StoppedError


def test_every_measurement_hides_the_same_words() -> None:
    trainer = pretrainer()
    assert isinstance(trainer.objective, MaskedLanguage)
    assert trainer.objective.measure(trainer.model) == trainer.objective.measure(trainer.model)


@pytest.mark.parametrize("further", [False, True], ids=["small encoder", "checkpoint"])
def test_a_resumed_pretraining_ends_with_the_same_weights(tmp_path: Path, further: bool) -> None:
    words = tuple(f"w{number}" for number in range(VOCABULARY - len(SPECIAL)))
    start = str(write_bert(tmp_path / "bert", words)) if further else None
    whole = pretrainer(checkpoint=start)
    record = whole.run()
    stopped = pretrainer(checkpoint=start)
    stopped.callbacks.append(StopAfterFour())
    with pytest.raises(StoppedError):
        stopped.run()
    state, checkpoints = take_snapshot(stopped), Checkpoints(tmp_path / "state")
    assert state is not None
    checkpoints.save(4, state)
    resumed = pretrainer(Checkpoints(tmp_path / "state"), start)
    assert resumed.run() == record
    assert resumed.position.step == whole.position.step == 12
    for name, weights in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], weights), name
