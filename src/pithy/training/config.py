"""How a model is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pithy.systems.recipe import Recipe
from pithy.training.precision import Precision
from pithy.training.predict import Judged
from pithy.values import Count, OpenShare, Positive, Range, Share, Strict, typed


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Strict):
    """Settings of the training loop; a recipe's defaults, then params.yaml's `train`, then the system's own."""

    epochs: Positive = 20
    batch_size: Positive = 64  # texts
    max_tokens: Positive = 16_384  # of a batch, padding included
    max_length: Positive = 128  # tokens of a text, prompt and special tokens included
    learning_rate: Annotated[float, Range(gt=0.0)] = 1e-3
    checkpoint_learning_rate: Annotated[float | None, Range(gt=0.0)] = None  # with pretrained weights
    optimizer: Literal["adamw", "adam", "adadelta"] = "adamw"
    beta2: OpenShare = 0.999  # adam and adamw
    epsilon: Annotated[float, Range(gt=0.0)] = 1e-8  # likewise
    weight_decay: Annotated[float, Range(ge=0.0)] = 0.01
    schedule: Literal["constant", "linear", "inverse_sqrt", "plateau"] = "linear"
    warmup: Share = 0.05  # of all steps
    warmup_steps: Annotated[int | None, Range(ge=1)] = None  # and at most so many
    clip: Annotated[float | None, Range(gt=0.0)] = 1.0  # gradient norm
    patience: Positive = 5  # evaluations without a gain on dev
    stop_on: Judged = "sentence"  # what that gain is of: the texts' score, the tokens' micro-F1, or their mean
    token_supervision: Share = 1.0  # of the training texts show their token labels
    evaluations: Positive = 1  # an epoch
    rollbacks: Count = 0  # times that a loss that is no number sends the training back, to go on at half the rate
    precision: Precision = "auto"  # of the matrix products of a run, scores included; `pithy predict` takes auto
    threads: Positive | Literal["auto"] = "auto"  # of the CPU (threads.py); part of the result: it orders the sums


def configure(name: str, recipe: Recipe, shared: Mapping[str, Any] | None = None) -> TrainingConfig:
    """The typed training settings of a recipe; `name` is the system's in params.yaml.

    A fault in `shared`, the run's own `train` section, is named there and not under the system.
    """
    typed(TrainingConfig, dict(shared or {}), "train")
    return typed(TrainingConfig, recipe.train, f"systems.{name}.train")
