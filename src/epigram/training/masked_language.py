"""Pretraining by masked language modelling: an encoder learns to predict masked words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from epigram.core.errors import ParameterError, defer_signals
from epigram.inference.dataset_batches import data_spec_of, default_device, template_of
from epigram.models.batches import Rows, TextBatches
from epigram.models.precision import matmul_precision
from epigram.nn.encoders.pretrained import PretrainedConfig
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.types import Tokens
from epigram.nn.pretrained.families import SMALL_KEY
from epigram.text.encoded_dataset import View
from epigram.text.settings import PretrainSettings
from epigram.training.checkpoint import Checkpoints, checkpoint_or_stop
from epigram.training.config import TrainingConfig
from epigram.training.history import CHECK_INTERVAL, Position, Progress, Report, estimate_pace
from epigram.training.optimization import build_optimizer, build_schedule
from epigram.training.shards import Shards, Texts
from epigram.training.state import State, capture, restore
from epigram.training.step import optimizer_step
from epigram.training.word_masking import Masking

WARMUP, CLIP = 0.1, 1.0  # share of all steps; maximum gradient norm


class Quality(NamedTuple):
    """Quality of predicted masked tokens: perplexity and accuracy."""

    perplexity: float
    accuracy: float


@dataclass(frozen=True)
class Pretrained:
    """Pretrained encoder, with its quality on the held-out texts before and after training."""

    encoder: Any
    steps: int
    before: Quality
    after: Quality


class MaskedLanguageModel(nn.Module):
    """Encoder with a dense layer and the token table as output weights (Devlin et al. 2019)."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        table = encoder.token_table
        self.encoder = encoder
        self.transform = nn.Sequential(
            nn.Linear(encoder.width, table.embedding_dim), nn.GELU(), nn.LayerNorm(table.embedding_dim)
        )
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings))

    def forward(self, tokens: Tokens, chosen: Tensor) -> Tensor:
        """Return the logits (M, V) of the M tokens that the mask `chosen` (B, L) selects."""
        states = self.encoder(tokens).last[chosen]
        return linear(self.transform(states), self.encoder.token_table.weight, self.bias)


class Pretrainer:
    """Trainer of a masked language model on `train`, with evaluation on the held-out texts `heldout`.

    With `checkpoints`, it resumes from the latest one, and the result is that of an uninterrupted training.
    """

    def __init__(
        self,
        model: MaskedLanguageModel,
        train: Shards,
        heldout: Shards,
        masking: Masking,
        settings: PretrainSettings,
        report: Report | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.model, self.train, self.heldout, self.masking, self.settings = model, train, heldout, masking, settings
        self.report, self.checkpoints = report, checkpoints
        config = TrainingConfig(learning_rate=settings.learning_rate, warmup=WARMUP)
        self.steps = settings.epochs * train.steps(settings.batch_size)
        self.optimizer = build_optimizer(model, config, settings.learning_rate)
        self.schedule = build_schedule(self.optimizer, config, self.steps)
        self.order, self.mask_generator = (
            np.random.default_rng(settings.seed),
            torch.Generator().manual_seed(settings.seed),
        )
        self.position = Position(order=dict(self.order.bit_generator.state))
        self.running, self.quality = torch.zeros((), device=train.device), Quality(float("inf"), 0.0)
        self.started, self.first_step = time.monotonic(), 0

    def run(self) -> Quality:
        """Train to the end and return the quality of the last weights."""
        self._resume()
        with defer_signals() as stop_signal:
            while self.position.epoch <= self.settings.epochs:
                for _ in self._epoch():
                    checkpoint_or_stop(self.checkpoints, stop_signal(), self.position.step, self.state)
        return self.quality

    def _epoch(self) -> Iterator[None]:
        """Train on the remaining batches of the epoch; yield after each one."""
        position, number = self.position, 0
        for texts in self.train.shuffled(self.order):
            for rows in self._batches(texts, self.order):
                number += 1
                if number <= position.done:
                    continue
                self._step(texts, rows)
                position.done = number
                if number % CHECK_INTERVAL == 0:
                    self._report()
                yield
        self.quality = self.measure()
        self._report()
        position.epoch, position.done, position.order = position.epoch + 1, 0, dict(self.order.bit_generator.state)
        yield

    def _batches(self, texts: TextBatches, order: np.random.Generator) -> list[Rows]:
        size = self.settings.batch_size
        return texts.epoch(order, size, size * self.train.frame.max_length)  # a limit that no batch exceeds

    def _step(self, texts: TextBatches, rows: Rows) -> None:
        self.model.train()
        total, count, _ = self._masked_loss(texts, rows, self.mask_generator)
        loss = optimizer_step(self.model, [total / max(1, count)], self.optimizer, CLIP)
        self.schedule.step()
        self.position.step += 1
        self.running = loss if self.position.step == 1 else torch.lerp(self.running, loss, 0.05)

    def state(self) -> State | None:
        """Return all that the next step depends on; None if the loss is NaN or infinite."""
        if not self.running.isfinite():
            return None
        state = capture(self.model, self.optimizer, self.schedule)
        own = {"running": self.running, "hidden": self.mask_generator.get_state()}
        facts = {"place": asdict(self.position), "quality": list(self.quality)}
        return State({**state.tensors, **own}, {**state.facts, **facts})

    def _resume(self) -> None:
        state = self.checkpoints.latest() if self.checkpoints else None
        if state is None:
            return
        restore(state, self.model, self.optimizer, self.schedule)
        self.mask_generator.set_state(state.tensors["hidden"])
        self.running = state.tensors["running"].to(self.running.device)
        self.position, self.quality = Position(**state.facts["place"]), Quality(*state.facts["quality"])
        self.order.bit_generator.state = self.position.order
        self.first_step = self.position.step
        self._report(f"resuming from step {self.first_step:,} of {self.steps:,}")

    def _masked_loss(self, texts: TextBatches, rows: Rows, generator: torch.Generator) -> tuple[Tensor, int, Tensor]:
        """Return the summed loss over a batch's masked tokens, their number, and how many are predicted correctly."""
        tokens = texts.gather(rows)
        assert tokens.labels is not None
        ids, chosen = self.masking(tokens.ids, tokens.labels, generator)
        with matmul_precision("auto", texts.device):
            logits = self.model(replace(tokens, ids=ids, labels=None), chosen).float()
        gold = tokens.ids[chosen]
        return cross_entropy(logits, gold, reduction="sum"), len(gold), (logits.argmax(1) == gold).sum()

    @torch.inference_mode()
    def measure(self) -> Quality:
        """Return perplexity and accuracy on the held-out texts; the same words are masked every time."""
        self.model.eval()
        order, mask_generator = np.random.default_rng(0), torch.Generator().manual_seed(self.settings.seed)
        loss, count, hits = 0.0, 0, 0
        for texts in self.heldout.shuffled(order):
            for rows in self._batches(texts, order):
                total, tokens, correct = self._masked_loss(texts, rows, mask_generator)
                loss, count, hits = loss + float(total), count + tokens, hits + int(correct)
        return Quality(float(np.exp(loss / max(1, count))), hits / max(1, count))

    def _report(self, note: str = "") -> None:
        """Report the progress. Raises ParameterError if the loss is NaN or infinite."""
        loss, position, epochs = float(self.running), self.position, self.settings.epochs
        if not np.isfinite(loss):
            raise ParameterError(f"loss is {loss} at step {position.step}; lower the view's pretrain.learning_rate")
        if self.report is None:
            return
        speed, left = estimate_pace(
            time.monotonic() - self.started, position.step - self.first_step, self.steps - position.step
        )
        rate = speed * self.settings.batch_size
        self.report(
            Progress(position.epoch, epochs, position.step, self.steps, loss, self.quality.accuracy, rate, left, note)
        )


def pretrain(
    view: View,
    settings: PretrainSettings,
    train: Texts,
    heldout: Texts,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> Pretrained:
    """Pretrain the small encoder, which `bert` uses without a checkpoint, on the texts of a view.

    Raises ParameterError for settings that do not fit together.
    """
    path = f"params.yaml: views.{view.view}.pretrain"
    special = len(view.prefix_ids) + len(view.suffix_ids)
    if settings.max_length <= special:
        raise ParameterError(
            f"{path}.max_length is {settings.max_length}, but prompt and special tokens take {special}; increase it"
        )
    torch.manual_seed(settings.seed)
    sizes = {name: getattr(settings, name) for name in ("width", "depth", "heads", "hidden")}
    try:
        encoder = PretrainedConfig(small=sizes).build(data_spec_of(view, settings.max_length))
    except ValueError as error:
        message = str(error).replace(f"{SMALL_KEY}.", "")  # in params.yaml the sizes are keys of `pretrain`
        raise ParameterError(f"{path}: {message}") from None
    device, frame = default_device(), template_of(view, settings.max_length)
    model = MaskedLanguageModel(encoder).to(device)
    shards = [Shards(texts, frame, device) for texts in (train, heldout)]
    masking = _masking(view, settings, device)
    trainer = Pretrainer(model, shards[0], shards[1], masking, settings, report, checkpoints)
    before = trainer.measure()
    return Pretrained(encoder, trainer.steps, before, trainer.run())


def _masking(view: View, settings: PretrainSettings, device: torch.device) -> Masking:
    assert view.mask_id is not None  # all tokenizers of the package have one
    special = [view.pad_id, view.unk_id, view.mask_id, view.cls_id, view.sep_id]
    ordinary = np.setdiff1d(np.arange(view.vocabulary), [index for index in special if index is not None])
    return Masking(share=settings.mask_share, mask_id=view.mask_id, ordinary=torch.from_numpy(ordinary).to(device))
