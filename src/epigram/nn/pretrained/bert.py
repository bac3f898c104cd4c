"""BERT's encoder (Devlin et al., 2019), also for MacBERT and MiniLM, without the classes of the transformers library.

Importing those classes takes 3 seconds per process. For one text, their overhead per layer takes as long as the layer's
matrix products. Weights have the names and shapes of the library's `BertModel` without its pooler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, relu

from epigram.nn.layers.autocast import LayerNorm
from epigram.nn.layers.dropout import Dropout
from epigram.nn.pretrained.transformers_attention import attend

tanh_gelu = partial(gelu, approximate="tanh")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": gelu,
    "gelu_new": tanh_gelu,
    "gelu_pytorch_tanh": tanh_gelu,
    "relu": relu,
}
REQUIRED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}


@dataclass(kw_only=True)
class BertConfig:
    """Settings of the encoder in config.json, with the names and defaults of the transformers library."""

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
        """Return the config from the `values` of config.json, or None for a model that `Bert` does not implement."""
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        plain = all(values.get(name, value) == value for name, value in REQUIRED.items())
        if values.get("model_type") != "bert" or not plain or known.get("hidden_act", "gelu") not in ACTIVATIONS:
            return None
        return cls(**known)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a dictionary that `of` and the transformers library can read."""
        return asdict(self)


class Linear(nn.Linear):
    """Linear layer that does not initialize its weights; `random_bert` or a checkpoint sets them."""

    def reset_parameters(self) -> None:
        """Leave the weights uninitialized."""


class Embedding(nn.Embedding):
    """Embedding that does not initialize its weights; `random_bert` or a checkpoint sets them."""

    def reset_parameters(self) -> None:
        """Leave the weights uninitialized."""


class Output(NamedTuple):
    """Output with the library's field names: hidden states (B, L, D) and attentions (B, H, L, L) of every layer."""

    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...]
    attentions: tuple[Tensor, ...]


class BertSelfAttention(nn.Module):
    """Multi-head self-attention without the output projection: (B, L, D) → (B, L, D).

    Raises ValueError if the width is not a multiple of the number of heads.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        if width % self.heads:
            raise ValueError(f"hidden_size {width} is not a multiple of num_attention_heads {self.heads}")
        self.query, self.key, self.value = Linear(width, width), Linear(width, width), Linear(width, width)
        self.joined: nn.Linear | None = None  # set by `join_products`
        self.scale, self.dropout = (width // self.heads) ** -0.5, config.attention_probs_dropout_prob
        self.head_to_head, self.placement = None, "none"  # `set_attention_parts` may change these three
        self.correlation: nn.Module | None = None

    def forward(self, x: Tensor, mask: Tensor | None, **options: Any) -> tuple[Tensor, Tensor | None]:
        """Return the context (B, L, D) of `x` (B, L, D) and the weights (B, H, L, L) or None (see `attend`)."""
        split = (*x.shape[:2], self.heads, -1)
        q, k, v = (part.view(split).transpose(1, 2) for part in self._projected(x))  # (B, H, L, d)
        y, weights = attend(self, q, k, v, mask, self.scale, self.dropout if self.training else 0.0, **options)
        return y.flatten(2), weights

    def _projected(self, x: Tensor) -> tuple[Tensor, ...]:
        if self.joined is not None:
            return cast(Tensor, self.joined(x)).chunk(3, 2)
        return self.query(x), self.key(x), self.value(x)

    def join_products(self) -> None:
        """Compute queries, keys and values by one matrix product, for inference only.

        One text takes a fifth less time; training would gain nothing. Correlation attention has only the values.
        """
        if self.correlation is not None:
            return
        parts = self.query, self.key, self.value
        self.joined = Linear(self.query.in_features, 3 * self.query.out_features)
        self.joined.weight = nn.Parameter(torch.cat([part.weight for part in parts]), requires_grad=False)
        self.joined.bias = nn.Parameter(torch.cat([part.bias for part in parts]), requires_grad=False)
        del self.query, self.key, self.value


class Residual(nn.Module):
    """Projection, residual connection and layer norm: (B, L, K) and (B, L, D) → (B, L, D), K = `inner`."""

    def __init__(self, inner: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(inner, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, y: Tensor, x: Tensor) -> Tensor:
        """Return LN(dense(`y`) + `x`) for `y` (B, L, K) and `x` (B, L, D)."""
        out: Tensor = self.LayerNorm(self.dropout(self.dense(y)) + x)
        return out


class Layer(nn.Module):
    """Post-LN layer: attention, then a two-layer perceptron, both with a residual: (B, L, D) → (B, L, D)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.attention = nn.ModuleDict({"self": BertSelfAttention(config), "output": Residual(width, config)})
        self.intermediate = nn.ModuleDict({"dense": Linear(width, inner)})
        self.output = Residual(inner, config)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: Tensor, mask: Tensor | None, **options: Any) -> tuple[Tensor, Tensor | None]:
        """Apply the layer to `x` (B, L, D); return the states, and the weights or None (see `attend`)."""
        y, weights = self.attention["self"](x, mask, **options)
        x = self.attention["output"](y, x)
        return self.output(self.activation(self.intermediate["dense"](x)), x), weights


class Embeddings(nn.Module):
    """Sum of the token, position and segment embeddings, with layer norm: (B, L, D) → (B, L, D)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = Embedding(config.type_vocab_size, width)
        self.LayerNorm = LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, segments: Tensor | int = 0) -> Tensor:
        """Return the states (B, L, D) of token vectors `x` (B, L, D) with their `segments` (B, L)."""
        offsets = self.position_embeddings.weight[: x.shape[1]] + self.token_type_embeddings.weight[segments]
        out: Tensor = self.dropout(self.LayerNorm(x + offsets))
        return out


class Bert(nn.Module):
    """BERT encoder: embeddings and N layers; `random_bert` or a checkpoint sets the weights."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embedding table (V, D) of the token ids."""
        return self.embeddings.word_embeddings

    def forward(
        self,
        *,
        attention_mask: Tensor | None,
        input_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        token_type_ids: Tensor | int = 0,
        **options: Any,
    ) -> Output:
        """Encode `input_ids` (B, L) or token vectors `inputs_embeds` (B, L, D); `attention_mask` is 1 for real tokens.

        Without a mask, all tokens are real. `token_type_ids` (B, L) are the segments. `options` goes to
        `attend`, which reads `output_attentions` and `token_weight` (B, L). The output always contains the states of
        all layers.
        """
        vectors = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        x = self.embeddings(vectors, token_type_ids)
        mask = None if attention_mask is None else attention_mask.bool()[:, None, None, :]
        states, weights = [x], []
        layers: Any = self.encoder["layer"]
        for layer in layers:
            x, weight = layer(x, mask, **options)
            states.append(x)
            weights.append(weight)
        return Output(x, tuple(states), tuple(weights))


def random_bert(config: BertConfig) -> Bert:
    """Build an encoder with random weights: normal in embeddings and linear layers, zero biases and padding vector."""
    model = Bert(config)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=config.initializer_range)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
    return model
