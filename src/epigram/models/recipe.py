"""Recipe of a system: a text view, an encoder, a head and training defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from epigram.checkpoints.folders import is_sentence_encoder, is_static_model
from epigram.core.config_types import nearest, shown, validate_as
from epigram.core.errors import DataError, ParameterError
from epigram.models.classifier import (
    ClassifierConfig,
    ContrastiveClassifierConfig,
    FrozenClassifierConfig,
    NeuralClassifier,
)
from epigram.models.linear_svm import LinearSvmConfig
from epigram.models.random_baseline import RandomBaselineConfig
from epigram.nn import encoders, heads
from epigram.nn.layers.types import DataSpec


def set_pretrained_vectors(table: nn.Embedding, vectors: Tensor) -> None:
    """Replace the random vectors of `table` (V, D) by pretrained `vectors` (V, E); rows of NaN keep the random ones.

    The vectors are scaled to the standard deviation of the random ones, for which the encoder is tuned. If E > D, they
    are projected onto their D directions of largest variance. If E < D, the other columns stay random. Raises DataError
    if the vectors have no variance.
    """
    known = ~vectors.isnan().any(1)
    reduced = reduce_width(vectors[known], table.embedding_dim)
    spread = reduced.std()
    if not spread > 0 or vectors[known].amin() == vectors[known].amax():
        raise DataError(
            "the pretrained vectors of the view's tokens do not differ from each other; set the view's vectors to a "
            "file of trained vectors, or remove the setting"
        )
    with torch.no_grad():
        rows = table.weight[known]
        rows[:, : reduced.shape[1]] = reduced * (table.weight.std() / spread)
        table.weight[known] = rows


def reduce_width(vectors: Tensor, width: int) -> Tensor:
    """Return `vectors` (K, E) in at most `width` dimensions: their principal components, uncentred."""
    if vectors.shape[1] <= width:
        return vectors
    _, directions = torch.linalg.eigh((vectors.T @ vectors).double())  # eigenvalues ascend
    kept = directions[:, -width:].flip(1)
    signs = kept.gather(0, kept.abs().argmax(0, keepdim=True)).sign()  # the sign of an eigenvector is arbitrary
    projected: Tensor = vectors @ (kept * signs).to(vectors)
    return projected


MODELS: dict[str, type] = {
    kind.kind: kind
    for kind in (
        ClassifierConfig,
        FrozenClassifierConfig,
        ContrastiveClassifierConfig,
        LinearSvmConfig,
        RandomBaselineConfig,
    )
}
ENCODERS: Mapping[str, type] = encoders.KINDS
HEADS: Mapping[str, type] = heads.KINDS
NO_CHANGE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings that a paper states for a system; where the paper is silent, the recipe's own values stay.

    `checkpoint`: the paper fine-tunes a pretrained encoder, so the view must have a checkpoint.
    """

    encoder: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    checkpoint: bool = False


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Definition of a system.

    `model`, `encoder` and `head` hold a `kind` and its settings, as a saved model does. Only a classifier is built from
    `encoder` and `head`. `train` are the training defaults from scratch. `checkpoint_train` overrides them when the
    encoder starts from a checkpoint.
    """

    name: str
    about: str
    paper: str
    view: str
    model: dict[str, Any] = field(default_factory=lambda: {"kind": ClassifierConfig.kind})
    encoder: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=lambda: {"kind": "linear"})
    train: dict[str, Any] = field(default_factory=dict)
    checkpoint_train: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of the model, which also names the function that fits it."""
        return str(self.model.get("kind"))

    @property
    def by_gradient(self) -> bool:
        """Whether the model is trained by gradient descent."""
        by_gradient: bool = MODELS[self.kind].by_gradient  # type: ignore[attr-defined]
        return by_gradient

    @property
    def train_settings(self) -> tuple[str, ...] | None:
        """The settings of `train` that have an effect on a model of this kind; None for all."""
        settings: tuple[str, ...] | None = MODELS[self.kind].train_settings  # type: ignore[attr-defined]
        return settings

    @property
    def training(self) -> str:
        """How a model that does not learn its labels by gradient descent is trained, for messages."""
        how = "learns from pairs of texts" if self.by_gradient else "is not trained by gradient descent"
        return f"the model {self.kind} {how}"

    @property
    def uses_label_names(self) -> bool:
        """Whether the model is fitted with the names of the labels, if they are words."""
        return bool(getattr(parse_part(MODELS, self.model, f"{self.name}.model"), "label_names", False))

    @property
    def has_encoder(self) -> bool:
        """Whether the model is built from an encoder and a head."""
        return issubclass(MODELS[self.kind], ClassifierConfig)

    def starting_from(self, checkpoint: str | None) -> Recipe:
        """Return this recipe with the training defaults for a view's `checkpoint`; None means from scratch.

        Only a pretrained encoder starts from the checkpoint; any other encoder uses only its tokenizer. A Universal
        Sentence Encoder and a table of token vectors are encoders of their own.
        """
        encoder = self.encoder
        starts = checkpoint is not None and encoder.get("kind") == "pretrained"
        if checkpoint is not None and starts:
            encoder = {**encoder, "kind": _encoder_kind(checkpoint)}
        train = {**self.train, **(self.checkpoint_train if starts else {})}
        return replace(self, encoder=encoder, train=train, checkpoint_train={})

    def changed(
        self,
        *,
        model: Mapping[str, Any] = NO_CHANGE,
        encoder: Mapping[str, Any] = NO_CHANGE,
        head: Mapping[str, Any] = NO_CHANGE,
        train: Mapping[str, Any] = NO_CHANGE,
    ) -> Recipe:
        """Return this recipe with settings of params.yaml applied.

        A part with another `kind` does not keep the recipe's settings; it starts from the defaults of that kind.
        """
        changes = {"model": model, "encoder": encoder, "head": head}
        parts = {name: _override(getattr(self, name), change) for name, change in changes.items()}
        return Recipe(**{**vars(self), **parts, "train": {**self.train, **train}})

    def labels_tokens(self) -> bool:
        """Return whether the model predicts token labels, if the data have them."""
        if self.has_encoder:
            return bool(parse_part(HEADS, self.head, "").labels_tokens)
        return bool(MODELS[self.kind].labels_tokens)  # type: ignore[attr-defined]

    def check(self, context: DataSpec, path: str = "") -> None:
        """Raise the errors of `build`, except errors of weights, without building the model."""
        config = parse_part(MODELS, self.model, f"{path}.model")
        try:
            if not self.has_encoder:
                config.check(context)
                return
            encoder = parse_part(ENCODERS, self.encoder, f"{path}.encoder")
            head = parse_part(HEADS, self.head, f"{path}.head")
            config.check_head(head)
            encoder.check(context)
            head.check(context, encoder)
        except ValueError as error:
            raise ParameterError(f"params.yaml: {path or self.name}: {error}") from None

    def build(self, context: DataSpec, path: str = "") -> nn.Module:
        """Return the model with initial weights; `path` is the system's key in params.yaml, for error messages.

        Raises ParameterError for unknown settings and for parts that do not fit together.
        """
        self.check(context, path)
        try:
            return self._build(context)
        except ValueError as error:
            raise ParameterError(f"params.yaml: {path or self.name}: {error}") from None

    def _build(self, context: DataSpec) -> nn.Module:
        if not self.has_encoder:
            model: nn.Module = parse_part(MODELS, self.model, "").build(context)
            return model
        encoder = parse_part(ENCODERS, self.encoder, "").build(context)
        if context.vectors is not None:
            set_pretrained_vectors(encoder.token_table, context.vectors)
        head = parse_part(HEADS, self.head, "").build(context, encoder)
        return NeuralClassifier(encoder, head, multi=context.multi)


def _encoder_kind(checkpoint: str) -> str:
    if is_sentence_encoder(checkpoint):
        return "sentence_encoder"
    return "static_embedding" if is_static_model(checkpoint) else "pretrained"


def _override(own: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    if change.get("kind", own.get("kind")) != own.get("kind"):
        return dict(change)
    return {**own, **change}


def parse_part(kinds: Mapping[str, type], values: Mapping[str, Any], path: str) -> Any:
    """Return the typed settings of the model, encoder or head that `kind` names.

    Raises ParameterError for an unknown kind or setting.
    """
    settings = dict(values)
    kind = settings.pop("kind", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise ParameterError(f"params.yaml: {path}.kind is {shown(repr(kind))}: {nearest(str(kind), list(kinds))}")
    return validate_as(kinds[kind], settings, path)


def settings_of(config: Any) -> dict[str, Any]:
    """Return every setting of a part, with its kind: the reverse of `parse_part`."""
    return {"kind": config.kind, **asdict(config)}
