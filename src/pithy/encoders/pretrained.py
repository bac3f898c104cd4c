"""Any encoder of the transformers library, from a checkpoint; without one, a small BERT from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from torch import Tensor, nn

from pithy.encoders.attention import FAMILIES, install, plug, refuse_others
from pithy.encoders.bert import Bert
from pithy.encoders.families import SMALL, Family, Small, sized, small_config
from pithy.encoders.library import from_checkpoint, from_config
from pithy.encoders.outline import Outline, outlined
from pithy.encoders.transformer import TransformerConfig
from pithy.encoders.warm_start import settings_of, start
from pithy.errors import DataError
from pithy.layers.dropout import Dropout, replaced
from pithy.layers.encoder import Encoder
from pithy.layers.head_to_head import Site
from pithy.layers.types import Context, Encoded, Tokens
from pithy.layers.weighting import pos_table
from pithy.values import Strict


@dataclass(frozen=True, kw_only=True)
class PretrainedConfig(Strict):
    """`small` is the encoder built where the view has no checkpoint; `backbone` is a saved model's own config.

    Where the view was pretrained, the small encoder takes its sizes and its weights from there.
    A checkpoint must be of the `family`, where one is named, and the small encoder is then the library's own of it.
    `head_to_head` lets the heads weigh each other at the `site`: `residual` leaves the weights' start as it was.
    `pos_weight` weighs the tokens of every attention by their part of speech.
    """

    small: dict[str, Any] = field(default_factory=dict)
    family: Family | None = None
    head_to_head: Literal["none", "paper", "residual"] = "none"
    site: Site = "scores"
    pos_weight: Literal["none", "after", "inside", "log"] = "none"
    backbone: dict[str, Any] | None = None

    def build(self, context: Context) -> Encoder:
        """The checkpoint's encoder with its weights, a saved model's encoder without, or the small one."""
        if self.backbone is not None:
            return PretrainedEncoder(self, from_config(self.backbone), context)
        if context.checkpoint is not None:
            backbone = from_checkpoint(context.checkpoint)
            self._check(backbone.config.model_type, context.checkpoint)
            return PretrainedEncoder(self, backbone, context)
        if context.pretrained is not None:
            self._check_pretrained()
            return start(self._bert(settings_of(context.pretrained)), context.pretrained, context)
        small = self._small()
        if self.family is None:
            return small.build(context)
        return PretrainedEncoder(self, from_config(small_config(self.family, self.small, context)), context)

    def sketch(self, context: Context) -> TransformerConfig:
        """A Transformer of this encoder's width: by it one can tell whether a head fits, with nothing loaded.

        Raises as `build` does where a checkpoint's folder is enough to tell.
        """
        if context.pretrained is not None:
            self._check_pretrained()
        if context.checkpoint is None:
            return self._small()
        told = outlined(context.checkpoint)
        if told is None:
            return TransformerConfig(**self.plugged)
        self._check(told.family, context.checkpoint)
        return self._like(told)

    @property
    def plugged(self) -> dict[str, Any]:
        """What the attention is asked for beyond its own."""
        return {"head_to_head": self.head_to_head, "pos_weight": self.pos_weight}

    def _like(self, told: Outline) -> TransformerConfig:
        refuse_others(told.family, **self.plugged)
        return TransformerConfig(width=told.width, heads=told.heads, depth=1, hidden=1, **self.plugged)

    def _small(self) -> TransformerConfig:
        """The small encoder, of a family by its width alone. Raises ValueError for sizes that do not fit together."""
        if self.family is None:
            small = self._bert()
        else:
            sizes = sized(Small, self.small)
            small = self._like(Outline(self.family, sizes.width, sizes.heads))
        small.check(SMALL)
        return small

    def _bert(self, sizes: Mapping[str, Any] = MappingProxyType({})) -> TransformerConfig:
        """The small encoder, of `sizes` where it is not told otherwise."""
        own = {"dropout": 0.1, "site": self.site, **self.plugged, **self.small}
        return sized(TransformerConfig, {**sizes, **own})

    def _check_pretrained(self) -> None:
        if self.family is not None:
            raise ValueError(
                f"the view's pretrain teaches a small BERT of our own, and {self.family} is needed (encoder.family): "
                "give the system a view without pretrain, or take bert, which starts from it"
            )

    def _check(self, family: str, checkpoint: str) -> None:
        if self.family not in {None, family}:
            raise ValueError(
                f"the view's checkpoint {checkpoint!r} is of the family {family}, and {self.family} is needed "
                "(encoder.family): give the system a view of such a checkpoint, or take bert, which reads any"
            )


class PretrainedEncoder(Encoder):
    """A transformers backbone; its layers can be cut like any other's."""

    def __init__(self, own: PretrainedConfig, backbone: Any, context: Context) -> None:
        super().__init__()
        config = backbone.config
        if config.vocab_size < context.vocabulary:
            raise DataError(
                f"the checkpoint knows {config.vocab_size} tokens but the view has {context.vocabulary}: "
                "set the view's checkpoint to the model's own folder and run encode again"
            )
        refuse_others(config.model_type, **own.plugged)
        self.register_buffer("pos_weight", pos_table(own.pos_weight, context))
        self.pos_weight: Tensor | None
        if config.model_type in FAMILIES:
            equip = plug if isinstance(backbone, Bert) else install
            equip(backbone, gate=own.head_to_head, site=own.site, placement=own.pos_weight)
        replaced(backbone, nn.Dropout, Dropout)
        self.config: PretrainedConfig = own
        self.backbone, self.width = backbone, config.hidden_size

    @property
    def settings(self) -> PretrainedConfig:
        """The backbone's own config: a saved model needs no checkpoint to be built again."""
        values = {k: v for k, v in self.backbone.config.to_dict().items() if k not in {"transformers_version", "dtype"}}
        return replace(self.config, backbone=values)

    @property
    def blocks(self) -> nn.ModuleList:  # type: ignore[override]
        """The backbone's own stack of layers."""
        config = self.backbone.config
        if config.model_type == "albert":  # one group of weights, run through N times
            return nn.ModuleList([self.backbone.encoder.albert_layer_groups[0]] * config.num_hidden_layers)
        lists = [m for m in self.backbone.modules() if isinstance(m, nn.ModuleList)]
        return next(m for m in lists if len(m) == config.num_hidden_layers)

    @property
    def token_table(self) -> nn.Embedding:
        """The backbone's word embeddings (V, E)."""
        table: nn.Embedding = self.backbone.get_input_embeddings()
        return table

    def drop(self, layer: int) -> None:
        """Take out one layer, in the backbone's config too."""
        config, blocks = self.backbone.config, self.blocks
        del blocks[layer]
        config.num_hidden_layers = len(blocks)
        if config.model_type == "modernbert":
            del config.layer_types[layer]
            blocks[0].attn_norm = nn.Identity()  # as its first layer has: the embeddings are normalized

    def forward(self, tokens: Tokens) -> Encoded:
        """Hidden states of the embeddings and of every layer."""
        out = self._run(tokens, output_hidden_states=True)
        return Encoded(tuple(out.hidden_states), tokens)

    def attentions(self, tokens: Tokens) -> tuple[Tensor, ...]:
        """Attention weights (B, H, L, L) of every layer, by the eager form of the attention."""
        used = getattr(self.backbone.config, "_attn_implementation", None)
        if used != "sdpa":
            return tuple(self._run(tokens, output_attentions=True).attentions)
        self.backbone.set_attn_implementation("eager")  # the fused kernel never has them
        try:
            return tuple(self._run(tokens, output_attentions=True).attentions)
        finally:
            self.backbone.set_attn_implementation(used)

    def _run(self, tokens: Tokens, **wanted: bool) -> Any:
        texts = {"input_ids": tokens.ids} if tokens.vectors is None else {"inputs_embeds": tokens.vectors}
        weights = {} if self.pos_weight is None else {"token_weight": self.pos_weight[tokens.ids]}  # w (B, L)
        return self.backbone(**texts, **weights, attention_mask=tokens.valid.long(), return_dict=True, **wanted)
