"""Training settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from epigram.core.config_types import Count, OneOf, OpenShare, Positive, Range, Share, Strict, validate_as
from epigram.core.effects import Only, Unless
from epigram.models.precision import Precision
from epigram.models.recipe import Recipe
from epigram.training import optimizers

ClassWeight = Literal["none", "balanced"]
# What a model is scored on: the text labels (metric, macro-F1 or F1*), the token labels (F1*), or the mean of both.
ScoredLabels = Literal["sentence", "macro_f1", "sentence_f1", "token", "mean", "mean_f1"]
TEXT_F1 = ("sentence_f1", "mean_f1")  # scores that need the class without marked tokens
TOKEN_F1 = ("token", "mean", "mean_f1")  # scores that need predicted token labels
LAYERS = Only("encoder.has_layers", True, because="the encoder {encoder.kind} has no layers with rates of their own")
ONE_LINEAR_LAYER = (  # without dropout: it would drop parts of means that are much larger than their differences
    Only("head.kind", "linear", because="the head {head.kind} is not one linear layer on the states of the encoder"),
    Unless("head.pool", "attention"),
    Only("head.fusion", "last"),
    Only("head.dropout", 0.0),
)
CLASS_LOSS = (
    Unless("head.sentence_weight", 0.0),
    Unless(
        "head.searches",
        True,
        when=("data.multi", True),
        because="the head {head.kind} has a loss of its own for several labels per text",
    ),
)
LABEL_PROMPT = Unless("head.gamma", 0.0)
TOKEN_LABELS = (
    Unless("data.token_labels", (), because="the data have no token labels"),
    Only("head.learns_tokens", True, because="the head {head.kind} does not learn from token labels"),
)
OptionalPositive = Annotated[int | None, Range(ge=1)]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Strict):
    """Settings of the training loop.

    The `train` section of params.yaml overrides the recipe's defaults, and the system's own `train` overrides both.
    """

    epochs: Positive = 20  # passes over train
    min_steps: Count = 0  # planned at least: few texts are trained for more epochs, with patience in proportion
    batch_size: Positive = 64  # texts
    max_tokens: Positive = 16_384  # tokens per batch, padding included
    max_length: Positive = 128  # tokens per text, prompt and special tokens included
    learning_rate: Annotated[float, Range(gt=0.0)] = 1e-3  # highest learning rate of the schedule
    # factor of the learning rate from each layer to the layer below
    layer_decay: Annotated[float, Range(gt=0.0, le=1.0), LAYERS] = 1.0
    # start the linear head from a logistic regression (fitted_head.py)
    fitted_head: Annotated[bool, *ONE_LINEAR_LAYER] = False
    optimizer: Annotated[str, OneOf(optimizers.KINDS)] = "adamw"  # method that minimizes the loss
    # decay rate of the second moments, for adam and adamw
    beta2: Annotated[OpenShare, Unless("optimizer", "adadelta", "row_adagrad")] = 0.999
    epsilon: Annotated[float, Range(gt=0.0)] = 1e-8  # term added to the optimizer's denominator
    # decay of the weights in each step, as a share of the learning rate
    weight_decay: Annotated[float, Range(ge=0.0), Unless("optimizer", "row_adagrad")] = 0.01
    schedule: Literal["constant", "linear", "inverse_sqrt", "plateau"] = "linear"  # course of the learning rate
    warmup: Share = 0.05  # share of all steps; 1.0: `warmup_steps`, however many steps there are
    warmup_steps: Annotated[OptionalPositive, Unless("warmup", 0.0)] = None  # maximum of the warm-up steps
    clip: Annotated[float | None, Range(gt=0.0)] = 1.0  # maximum gradient norm
    # evaluations without improvement on dev before early stopping
    patience: Annotated[Positive, Only("patience_steps", None)] = 5
    patience_steps: OptionalPositive = None  # instead of `patience`: steps since the best evaluation
    # dev score that selects the weights: the metric, macro-F1 or F1* of the texts, F1* of the tokens, or a mean
    stop_on: ScoredLabels = "sentence"
    class_weight: Annotated[ClassWeight, *CLASS_LOSS] = "none"  # balanced: each class has the same share of the loss
    label_smoothing: Annotated[float, Range(ge=0.0, lt=1.0), *CLASS_LOSS, LABEL_PROMPT] = 0.0  # ε
    # γ of the focal loss; 0 is the cross-entropy
    focal_gamma: Annotated[float, Range(ge=0.0), *CLASS_LOSS, LABEL_PROMPT] = 0.0
    token_supervision: Annotated[Share, *TOKEN_LABELS] = 1.0  # share of the training texts that keep their token labels
    evaluations: Annotated[Positive, Only("evaluation_steps", None)] = 1  # evaluations per epoch
    evaluation_steps: OptionalPositive = None  # instead of `evaluations`: evaluate after each epoch and this many steps
    rollbacks: Count = 0  # maximum number of rollbacks to the best weights, at half the rate, after a non-finite loss
    precision: Precision = "auto"  # number type in matrix products, also in evaluation; `epigram predict` uses auto
    threads: Positive | Literal["auto"] = "auto"  # CPU threads; they affect the order of sums, and so the result
    processes: Positive | Literal["auto"] = 1  # processes that train one model; they affect the result as well

    def for_student(self) -> Self:
        """Return the settings, with all settings off that need the labels that a student lacks."""
        return replace(self, class_weight="none", label_smoothing=0.0, focal_gamma=0.0, fitted_head=False)

    def lengthened(self, batches: int) -> Self:
        """Return the settings with enough epochs of that many `batches` for `min_steps`.

        `patience` counts evaluations, so it rises by the same factor and stays the same share of the training.
        """
        epochs = max(self.epochs, ceil_divide(self.min_steps, batches))
        return replace(self, epochs=epochs, patience=ceil_divide(self.patience * epochs, self.epochs))


def ceil_divide(number: int, divisor: int) -> int:
    """Return `number` / `divisor`, rounded up."""
    return -(-number // divisor)


def configure(name: str, recipe: Recipe, shared: Mapping[str, Any] | None = None) -> TrainingConfig:
    """Return the typed training settings of a recipe; `name` is the system's in params.yaml.

    An error in `shared`, the run's own `train` section, is reported there and not under the system.
    """
    validate_as(TrainingConfig, dict(shared or {}), "train")
    return validate_as(TrainingConfig, recipe.train, f"systems.{name}.train")
