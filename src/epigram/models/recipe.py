"""Recipe of a system: a text view, an encoder, a head and training defaults."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, cast

from torch import nn

from epigram.core.config_types import nearest, shown, validate_as
from epigram.core.errors import ParameterError
from epigram.models.classifier import Classifier
from epigram.models.linear_svm import LinearSvmConfig
from epigram.models.pretrained_vectors import set_pretrained_vectors
from epigram.models.random_baseline import RandomBaselineConfig
from epigram.nn import encoders, heads
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.head import Head
from epigram.nn.layers.types import DataSpec

Fitting = Literal["gradient", "solver", "counting"]


class EncoderConfig(Protocol):
    """Settings that build an encoder."""

    def build(self, context: DataSpec) -> Encoder:
        """Return the encoder for the data that `context` describes."""


class HeadConfig(Protocol):
    """Settings that build a head on an encoder."""

    def build(self, context: DataSpec, encoder: Encoder) -> Head:
        """Return the head for the data and the encoder. Raises ValueError if head and encoder do not fit."""


# a model that is encoder and head in one
COMPLETE_MODELS: dict[str, type] = {"linear_svm": LinearSvmConfig, "random_baseline": RandomBaselineConfig}
ENCODERS: Mapping[str, type] = ChainMap(COMPLETE_MODELS, encoders.KINDS)  # type: ignore[arg-type]
HEADS: Mapping[str, type] = heads.KINDS


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Definition of a system. `encoder` and `head` hold a `kind` and its settings, as a saved model does."""

    name: str
    about: str
    paper: str
    view: str
    encoder: dict[str, Any]
    head: dict[str, Any] = field(default_factory=lambda: {"kind": "linear"})
    train: dict[str, Any] = field(default_factory=dict)

    @property
    def fitting(self) -> Fitting:
        """How the weights are determined. A model that is not trained by gradient is encoder and head in one."""
        fitting: Fitting = getattr(ENCODERS[self.encoder["kind"]], "fitting", "gradient")
        return fitting

    def changed(self, *, encoder: Mapping[str, Any], head: Mapping[str, Any], train: Mapping[str, Any]) -> Recipe:
        """Return this recipe with settings of params.yaml applied.

        A part with another `kind` does not keep the recipe's settings; it starts from the defaults of that kind.
        """
        values = {**vars(self), "encoder": _override(self.encoder, encoder), "head": _override(self.head, head)}
        return Recipe(**{**values, "train": {**self.train, **train}})

    def build(self, context: DataSpec, path: str = "") -> nn.Module:
        """Return the model with initial weights; `path` is the system's key in params.yaml, for error messages.

        Raises ParameterError for unknown settings and for parts that do not fit together.
        """
        encoder_config = parse_part(ENCODERS, self.encoder, f"{path}.encoder")
        head_config = parse_part(HEADS, self.head, f"{path}.head")
        try:
            encoder = encoder_config.build(context)
            if self.fitting != "gradient":
                return cast(nn.Module, encoder)
            if context.vectors is not None:
                set_pretrained_vectors(encoder.token_table, context.vectors)
            return Classifier(encoder, head_config.build(context, encoder), multi=context.multi)
        except ValueError as error:
            raise ParameterError(f"params.yaml: {path or self.name}: {error}") from None


def _override(own: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    if change.get("kind", own["kind"]) != own["kind"]:
        return dict(change)
    return {**own, **change}


def parse_part(kinds: Mapping[str, type], values: Mapping[str, Any], path: str) -> Any:
    """Return the typed settings of the encoder or head that `kind` names.

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
