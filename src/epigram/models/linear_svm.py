"""TF-IDF over token n-grams with a linear SVM: the baseline that every user should see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from epigram.core.config_types import Positive, Range, Strict
from epigram.nn.layers.loss import classification_loss
from epigram.nn.layers.ngrams import Counted, count_known, has_only_counted, max_n
from epigram.nn.layers.types import DataSpec, Prediction, Tokens

AUTO = "auto"
Auto = Literal["auto"]
Weighting = Literal["tfidf", "naive_bayes"]


class SvmSettings(NamedTuple):
    """Settings of one fit, none of which is `auto`; the configuration has the same defaults."""

    orders: tuple[int, ...] = (1, 2)
    sublinear: bool = True
    weighting: Weighting = "tfidf"
    penalty: float = 1.0
    characters: tuple[int, ...] = ()


FIRST = SvmSettings()


@dataclass(frozen=True, kw_only=True)
class LinearSvmConfig(Strict):
    """Settings of the linear SVM.

    `orders` are the lengths of token n-grams, and `characters` the lengths of character n-grams inside each token, none
    by default. Of the n-grams that occur in at least `min_rows` training texts, the `features` most frequent are kept.
    `sublinear` counts n occurrences in a text as 1 + log n. `weighting: naive_bayes` multiplies the features of each
    class by their log-count ratios (Wang and Manning, 2012). `penalty` is C of liblinear. A setting with the value
    `auto` is chosen on dev.
    """

    kind: ClassVar[str] = "linear_svm"
    by_gradient: ClassVar[bool] = False
    train_settings: ClassVar[tuple[str, ...]] = ("max_length", "class_weight")  # settings with an effect
    labels_tokens: ClassVar[bool] = False

    orders: list[Positive] | Auto = field(default_factory=lambda: list(FIRST.orders))
    characters: list[Positive] | Auto = field(default_factory=list)
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
        return first._replace(orders=tuple(first.orders), characters=tuple(first.characters))

    def fixed(self, settings: SvmSettings) -> LinearSvmConfig:
        """Return the configuration with these settings."""
        lists = {"orders": list(settings.orders), "characters": list(settings.characters)}
        return replace(self, **{**settings._asdict(), **lists})

    def build(self, context: DataSpec) -> LinearSvm:
        """Return the untrained model."""
        return LinearSvm(self, context)

    def check(self, context: DataSpec) -> None:
        """Check the orders of the n-grams.

        Raises ValueError if orders are not ascending and consecutive, if the keys of their n-grams exceed 64 bits, and
        if tokens have no characters to count.
        """
        first = self.first
        _check_orders("orders", list(first.orders), context.vocabulary, "tokens")
        if first.characters:
            if not context.characters:
                raise ValueError("model.characters needs a view with characters: true")
            _check_orders("characters", list(first.characters), context.characters, "characters")


def _check_orders(name: str, orders: list[int], vocabulary: int, units: str) -> None:
    if not orders or orders != list(range(orders[0], orders[0] + len(orders))):
        raise ValueError(f"model.{name} is {orders}; expected consecutive numbers, for example [1, 2]")
    if orders[-1] > (largest := max_n(vocabulary)):
        raise ValueError(
            f"model.{name} is {orders}, but with a vocabulary of {vocabulary:,} {units} only orders up to {largest} "
            "have keys of at most 64 bits; remove the larger ones"
        )


class LinearSvm(nn.Module):
    """One-vs-rest linear SVM on TF-IDF; one scale, fitted on dev, turns its margins into logits.

    `epigram.training.fitters.linear_svm` sets the weights; they are not trained by gradient descent.
    """

    depth = 0

    def __init__(self, config: LinearSvmConfig, context: DataSpec) -> None:
        super().__init__()
        self.vocabulary, self.alphabet = context.vocabulary, context.characters
        self.classes, self.multi = context.classes, context.multi
        self.use(config)
        self.install(torch.zeros(0, dtype=torch.int64), torch.zeros(0), torch.zeros(0, context.classes))

    def use(self, config: LinearSvmConfig) -> None:
        """Set the settings; before the fit, each `auto` reads as its default."""
        first = config.first
        spelled = (first.characters[0], first.characters[-1]) if first.characters else None
        self.counted = Counted(self.vocabulary, (first.orders[0], first.orders[-1]), self.alphabet, spelled)
        self.config, self.sublinear = config, first.sublinear

    def fitting(self, settings: SvmSettings) -> SvmSettings:
        """Return the settings without the n-grams whose keys do not fit the vocabulary or the alphabet."""
        longest, spelled = max_n(self.vocabulary), max_n(self.alphabet) if settings.characters else 0
        return settings._replace(
            orders=tuple(n for n in settings.orders if n <= longest),
            characters=tuple(n for n in settings.characters if n <= spelled),
        )

    @property
    def share(self) -> float:
        """L2 norm of the token features, and of the character features if these are counted."""
        return 1.0 if self.counted.spelled is None else 0.5**0.5

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
        """Load the state of a saved SVM with any number of features. Raises ValueError for parts that do not fit."""
        keys, features = state["keys"], len(state["keys"])
        shapes = {"idf": (features,), "weight": (features, self.classes), "bias": (self.classes,), "scale": ()}
        wrong = [name for name, shape in shapes.items() if tuple(state[name].shape) != shape]
        if wrong or keys.dtype != torch.int64 or keys.ndim != 1 or not has_only_counted(keys, self.counted):
            raise ValueError(f"{wrong[0] if wrong else 'keys'} does not fit the model")
        self.install(state["keys"], state["idf"], state["weight"], state["bias"], float(state["scale"]))

    def features(self, tokens: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """Return the known n-grams as (row (K,), feature (K,), TF-IDF value (K,)).

        Each row has unit L2 norm. If characters are counted, token and character features have the norm √½ each.
        """
        row, feature, count = count_known(tokens, self.keys, self.counted)
        return row, feature, self.values(len(tokens.ids), row, feature, count)

    def values(self, rows: int, row: Tensor, feature: Tensor, count: Tensor) -> Tensor:
        """Return the TF-IDF values (K,) of the known n-grams of so many `rows`: row, feature and count are (K,)."""
        value = (1 + count.float().log() if self.sublinear else count.float()) * self.idf[feature]
        part = row if self.counted.spelled is None else 2 * row + (self.keys[feature] < 0)
        squares = torch.zeros(2 * rows, device=value.device).index_add_(0, part, value.square())
        return value * self.share / squares.clamp(min=1e-12).sqrt()[part]

    def forward(self, tokens: Tokens, labels: Tensor | None = None) -> Prediction:
        """Return scaled margins (B, C) as logits, and the loss if `labels` are given."""
        row, feature, value = self.features(tokens)
        margin = self.bias.expand(len(tokens.ids), -1).clone()
        margin.index_add_(0, row, self.weight[feature] * value.unsqueeze(1))
        logits = margin * self.scale
        return Prediction(logits, None if labels is None else classification_loss(logits, labels))
