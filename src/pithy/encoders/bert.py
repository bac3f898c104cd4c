"""BERT's encoder (Devlin et al., 2019), MacBERT and MiniLM too, without the model classes of the transformers library.

Importing those takes 3 seconds a process, and their way through a layer as long as its matrix products do for one text.
Weights have the names and shapes of the library's `BertModel` without its pooler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, relu

from pithy.encoders.attention import attend
from pithy.layers.dropout import Dropout
from pithy.layers.masking import key_mask

tanh_gelu = partial(gelu, approximate="tanh")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu,
    "gelu_new": tanh_gelu,
    "gelu_pytorch_tanh": tanh_gelu,
    "relu": relu,
}
PLAIN = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}


@dataclass(kw_only=True)
class BertConfig:
    """What config.json says of the encoder, under the library's names and with its defaults."""

    vocab_size: int = 30_522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3_072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    model_type: str = "bert"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> BertConfig | None:
        """The config of a BERT that `Bert` is; None for any other, which the library builds."""
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        plain = all(values.get(name, value) == value for name, value in PLAIN.items())
        if values.get("model_type") != "bert" or not plain or known.get("hidden_act", "gelu") not in ACTIVATIONS:
            return None
        return cls(**known)

    def to_dict(self) -> dict[str, Any]:
        """Settings that `of`, and the library too, read back."""
        return asdict(self)


class Linear(nn.Linear):
    """A product whose weights `fresh` or a checkpoint gives, and nothing before that."""

    def reset_parameters(self) -> None:
        """Leave them without values."""


class Embedding(nn.Embedding):
    """A table whose vectors `fresh` or a checkpoint gives, and nothing before that."""

    def reset_parameters(self) -> None:
        """Leave them without values."""


class Output(NamedTuple):
    """What the library's encoders give: hidden states (B, L, D) and attention weights (B, H, L, L) of every layer."""

    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...]
    attentions: tuple[Tensor, ...]


class BertSelfAttention(nn.Module):
    """Queries, keys and values of all heads, and what they attend to: (B, L, D) → (B, L, D)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        if width % self.heads:
            raise ValueError(f"hidden_size {width} is not a multiple of num_attention_heads {self.heads}")
        self.query, self.key, self.value = Linear(width, width), Linear(width, width), Linear(width, width)
        self.joined: nn.Linear | None = None  # until `join_products`
        self.scale, self.dropout = (width // self.heads) ** -0.5, config.attention_probs_dropout_prob
        self.head_to_head, self.placement = None, "none"  # until `plug` sets them

    def forward(self, x: Tensor, mask: Tensor | None, **asked: Any) -> tuple[Tensor, Tensor | None]:
        """Context (B, L, D) of `x` (B, L, D), and the weights (B, H, L, L) where they are `asked` for."""
        split = (*x.shape[:2], self.heads, -1)
        q, k, v = (part.view(split).transpose(1, 2) for part in self._projected(x))  # (B, H, L, d)
        y, weights = attend(self, q, k, v, mask, self.scale, self.dropout if self.training else 0.0, **asked)
        return y.flatten(2), weights

    def _projected(self, x: Tensor) -> tuple[Tensor, ...]:
        if self.joined is not None:
            return cast(Tensor, self.joined(x)).chunk(3, 2)
        return self.query(x), self.key(x), self.value(x)

    def join_products(self) -> None:
        """Let one product give all three, for answers only: one text takes a fifth less, training gains nothing."""
        parts = self.query, self.key, self.value
        self.joined = Linear(self.query.in_features, 3 * self.query.out_features)
        self.joined.weight = nn.Parameter(torch.cat([part.weight for part in parts]), requires_grad=False)
        self.joined.bias = nn.Parameter(torch.cat([part.bias for part in parts]), requires_grad=False)
        del self.query, self.key, self.value


class Residual(nn.Module):
    """A projection, added to what the layer's part was given, and the norm: (B, L, K) and (B, L, D) → (B, L, D)."""

    def __init__(self, inner: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(inner, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        """The norm of `x` plus the projected `y`."""
        out: Tensor = self.LayerNorm(self.dropout(self.dense(y)) + x)
        return out


class Layer(nn.Module):
    """Post-LN layer: attention, then a two-layer perceptron, each with a residual: (B, L, D) → (B, L, D)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.attention = nn.ModuleDict({"self": BertSelfAttention(config), "output": Residual(width, config)})
        self.intermediate = nn.ModuleDict({"dense": Linear(width, inner)})
        self.output = Residual(inner, config)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: Tensor, mask: Tensor | None, **asked: Any) -> tuple[Tensor, Tensor | None]:
        """One layer on `x` (B, L, D), and its attention weights where they are `asked` for."""
        y, weights = self.attention["self"](x, mask, **asked)
        x = self.attention["output"](y, x)
        return self.output(self.activation(self.intermediate["dense"](x)), x), weights


class Embeddings(nn.Module):
    """Token vector, plus those of its position and of the first segment, and the norm: (B, L, D) → (B, L, D)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor) -> Tensor:
        """States of token vectors `x`."""
        places = self.position_embeddings.weight[: x.shape[1]] + self.token_type_embeddings.weight[0]  # (L, D)
        out: Tensor = self.dropout(self.LayerNorm(x + places))
        return out


class Bert(nn.Module):
    """Embeddings and N layers. Its weights have no values until `fresh` or a checkpoint gives them some."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})

    def get_input_embeddings(self) -> nn.Embedding:
        """The token vectors (V, D)."""
        return self.embeddings.word_embeddings

    def forward(
        self,
        *,
        attention_mask: Tensor,
        input_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **asked: Any,
    ) -> Output:
        """States of texts: `input_ids` (B, L) or their vectors `inputs_embeds` (B, L, D), 1 in the mask where valid.

        Of what else is `asked` for, `output_attentions` and `token_weight` (B, L) reach `attend`; the states of all
        layers come anyway.
        """
        x = self.embeddings(self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds)
        states, weights, mask = [x], [], key_mask(attention_mask.bool())
        layers: Any = self.encoder["layer"]
        for layer in layers:
            x, weight = layer(x, mask, **asked)
            states.append(x)
            weights.append(weight)
        return Output(x, tuple(states), tuple(weights))


def fresh(config: BertConfig) -> Bert:
    """Random weights: normal ones in the tables and products, none in the biases."""
    model = Bert(config)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=config.initializer_range)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
    return model
