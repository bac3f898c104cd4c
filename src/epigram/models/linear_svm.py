"""TF-IDF over token n-grams with a linear SVM: the baseline that every user should see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from epigram.core.config_types import Positive, Range, Strict
from epigram.nn.layers.loss import classification_loss
from epigram.nn.layers.ngrams import count_known, max_n
from epigram.nn.layers.types import DataSpec, Prediction, Tokens

AUTO = "auto"
Auto = Literal["auto"]
Weighting = Literal["tfidf", "naive_bayes"]


class SvmSettings(NamedTuple):
    """Settings of one fit, none of which is `auto`; the defaults are those of the configuration."""

    orders: tuple[int, ...] = (1, 2)
    sublinear: bool = True
    weighting: Weighting = "tfidf"
    penalty: float = 1.0


FIRST = SvmSettings()


@dataclass(frozen=True, kw_only=True)
class LinearSvmConfig(Strict):
    """Settings of the linear SVM.

    `orders` are the lengths of the n-grams. Of the n-grams that occur in at least `min_rows` training texts, the
    `features` most frequent ones are kept. `sublinear` counts n occurrences in a text as 1 + log n. `weighting:
    naive_bayes` multiplies the features of each class by their log-count ratios (Wang and Manning, 2012). `penalty` is
    C of liblinear. What is `auto` is chosen on dev.
    """

    kind: ClassVar[str] = "linear_svm"
    by_gradient: ClassVar[bool] = False
    train_settings: ClassVar[tuple[str, ...]] = ("max_length", "class_weight")  # those with an effect

    orders: list[Positive] | Auto = field(default_factory=lambda: list(FIRST.orders))
    min_rows: Positive = 1
    features: Positive = 1_000_000
    sublinear: bool | Auto = FIRST.sublinear
    weighting: Literal["tfidf", "naive_bayes", "auto"] = FIRST.weighting
    penalty: Annotated[float, Range(gt=0.0)] | Auto = FIRST.penalty

    @property
    def automatic(self) -> list[str]:
        """The names of the settings that are `auto`."""
        return [name for name in SvmSettings._fields if getattr(self, name) == AUTO]

    @property
    def first(self) -> SvmSettings:
        """The settings with the default in place of each `auto`: the first ones that a search tries."""
        given = {name: getattr(self, name) for name in SvmSettings._fields if name not in self.automatic}
        first = FIRST._replace(**given)
        return first._replace(orders=tuple(first.orders))

    def fixed(self, settings: SvmSettings) -> LinearSvmConfig:
        """Return the configuration with these settings."""
        return replace(self, **{**settings._asdict(), "orders": list(settings.orders)})

    def build(self, context: DataSpec) -> LinearSvm:
        """Return the untrained model.

        Raises ValueError if the orders are not ascending and consecutive, or if the keys of their n-grams exceed 64
        bits.
        """
        orders = list(self.first.orders)
        if not orders or orders != list(range(orders[0], orders[0] + len(orders))):
            raise ValueError(f"model.orders is {orders}; expected consecutive numbers, for example [1, 2]")
        if orders[-1] > (largest := max_n(context.vocabulary)):
            raise ValueError(
                f"model.orders is {orders}, but with a vocabulary of {context.vocabulary:,} tokens only orders "
                f"up to {largest} have keys of at most 64 bits; remove the larger ones"
            )
        return LinearSvm(self, context)


class LinearSvm(nn.Module):
    """One-vs-rest linear SVM on TF-IDF; one scale, fitted on dev, turns its margins into logits.

    `epigram.training.fitters.linear_svm` sets the weights; they are not trained by gradient descent.
    """

    depth = 0

    def __init__(self, config: LinearSvmConfig, context: DataSpec) -> None:
        super().__init__()
        self.use(config)
        self.vocabulary, self.classes, self.multi = context.vocabulary, context.classes, context.multi
        self.install(torch.zeros(0, dtype=torch.int64), torch.zeros(0), torch.zeros(0, context.classes))

    def use(self, config: LinearSvmConfig) -> None:
        """Set the settings; before the fit, each `auto` reads as its default."""
        first = config.first
        self.config, self.orders, self.sublinear = config, (first.orders[0], first.orders[-1]), first.sublinear

    def install(
        self, keys: Tensor, idf: Tensor, weight: Tensor, bias: Tensor | None = None, scale: float = 1.0
    ) -> None:
        """Set the fitted n-gram `keys` (F,), sorted, `idf` (F,), `weight` (F, C), `bias` (C,) and `scale`."""
        self.register_buffer("keys", keys)
        self.register_buffer("idf", idf.float())
        self.weight = nn.Parameter(weight.float(), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(self.classes) if bias is None else bias.float(), requires_grad=False)
        self.register_buffer("scale", torch.tensor(float(scale)))
        self.keys: Tensor
        self.idf: Tensor
        self.scale: Tensor

    def load_state_dict(self, state: Mapping[str, Tensor], strict: bool = True, assign: bool = False) -> Any:
        """Load the state of a saved SVM with any number of features."""
        self.install(state["keys"], state["idf"], state["weight"], state["bias"], float(state["scale"]))

    def features(self, tokens: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """Return the known n-grams as (row (K,), feature (K,), TF-IDF value (K,)); each row has unit L2 norm."""
        row, feature, count = count_known(tokens, self.keys, self.vocabulary, self.orders)
        value = (1 + count.float().log() if self.sublinear else count.float()) * self.idf[feature]
        squares = torch.zeros(len(tokens.ids), device=value.device).index_add_(0, row, value.square())
        return row, feature, value / squares.clamp(min=1e-12).sqrt()[row]

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        """Return scaled margins (B, C) as logits, and the loss if `labels` are given."""
        row, feature, value = self.features(tokens)
        margin = self.bias.expand(len(tokens.ids), -1).clone()
        margin.index_add_(0, row, self.weight[feature] * value.unsqueeze(1))
        logits = margin * self.scale
        return Prediction(logits, None if labels is None else classification_loss(logits, labels))
