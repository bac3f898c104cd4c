"""Pretraining of a small encoder or a checkpoint on the texts of a view, by masked language modelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from epigram.checkpoints.folders import checkpoint_folder
from epigram.core.errors import ParameterError
from epigram.inference.predictors.dataset_batches import data_spec_of, template_of
from epigram.models.devices import default_device
from epigram.nn.encoders.pretrained import PretrainedConfig
from epigram.nn.pretrained.checkpoint import load_masked_head
from epigram.nn.pretrained.families import SMALL_KEY
from epigram.text.dataset.encoded_dataset import View
from epigram.text.settings import PretrainSettings
from epigram.training.config import TrainingConfig
from epigram.training.loop.checkpoints import Checkpoints
from epigram.training.loop.progress import Report
from epigram.training.loop.trainer import Trainer
from epigram.training.pretraining.further import SIZES, check_further
from epigram.training.pretraining.masked_language import MaskedLanguage, MaskedLanguageModel, Quality
from epigram.training.pretraining.shards import Shards, Texts
from epigram.training.pretraining.word_masking import Masking

WARMUP = 0.1  # share of all steps
RATE, FURTHER_RATE = 1e-3, 1e-4  # learning rates of random weights, and of a checkpoint (Gururangan et al. 2020)


@dataclass(frozen=True)
class Pretrained:
    """Pretrained encoder, with its quality on the held-out texts before and after training."""

    encoder: Any
    steps: int
    before: Quality
    after: Quality


def pretrain_encoder(
    view: View,
    settings: PretrainSettings,
    train: Texts,
    heldout: Texts,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> Pretrained:
    """Pretrain the view's checkpoint or else the small encoder, from which `bert` starts, on the texts of a view.

    Raises ParameterError for settings that do not fit together.
    """
    torch.manual_seed(settings.seed)
    device, encoder = default_device(), _build_encoder(view, settings)
    head = {} if view.checkpoint is None else load_masked_head(checkpoint_folder(view.checkpoint))
    model = MaskedLanguageModel(encoder, head).to(device)
    frame, masking = template_of(view, settings.max_length), _masking(view, settings, device)
    rate = RATE if view.checkpoint is None else FURTHER_RATE
    config, shards = training_config(settings, rate), [Shards(texts, frame, device) for texts in (train, heldout)]
    objective = MaskedLanguage(shards[0], shards[1], masking, config, seed=settings.seed)
    trainer = Trainer(model, objective, seed=settings.seed, report=report, checkpoints=checkpoints)
    before = objective.measure(model)
    record = trainer.run()
    return Pretrained(encoder, trainer.steps, before, Quality(-record.score[1], record.accuracy))


def training_config(settings: PretrainSettings, rate: float = RATE) -> TrainingConfig:
    """Return the settings of the training loop for pretraining: AdamW and a linear schedule, as in Devlin et al.

    `rate` is the learning rate if the settings have none.
    """
    return TrainingConfig(
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate or rate,
        warmup=WARMUP,
    )


def _build_encoder(view: View, settings: PretrainSettings) -> Any:
    path = f"params.yaml: views.{view.view}.pretrain"
    if view.checkpoint is not None:
        check_further(view.view, view.checkpoint, settings)
    special = len(view.prefix_ids) + len(view.suffix_ids)
    if settings.max_length <= special:
        raise ParameterError(
            f"{path}.max_length is {settings.max_length}, but prompt and special tokens take {special}; increase it"
        )
    sizes = {} if view.checkpoint else {name: getattr(settings, name) for name in SIZES}
    encoder, context = PretrainedConfig(small=sizes), data_spec_of(view, settings.max_length)
    try:
        encoder.check(context)
        return encoder.build(context)
    except ValueError as error:
        message = str(error).replace(f"{SMALL_KEY}.", "")  # the sizes are keys of `pretrain` in params.yaml
        raise ParameterError(f"{path}: {message}") from None


def _masking(view: View, settings: PretrainSettings, device: torch.device) -> Masking:
    if view.mask_id is None:  # possible with a checkpoint only
        path = f"params.yaml: views.{view.view}.pretrain"
        raise ParameterError(f"{path} masks words, but the tokenizer of the checkpoint has no mask token")
    special = [view.pad_id, view.unk_id, view.mask_id, view.cls_id, view.sep_id]
    ordinary = np.setdiff1d(np.arange(view.vocabulary), [index for index in special if index is not None])
    return Masking(share=settings.mask_share, mask_id=view.mask_id, ordinary=torch.from_numpy(ordinary).to(device))
