"""Encoder of a transformers checkpoint or, without a checkpoint, a small encoder trained from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from epigram.core.errors import DataError
from epigram.nn import encoders
from epigram.nn.encoders.transformer import TransformerConfig
from epigram.nn.layers.dropout import Dropout, replace_dropout
from epigram.nn.layers.encoder import Encoder
from epigram.nn.layers.masking import key_mask
from epigram.nn.layers.pos_weighting import pos_table, token_weights
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from epigram.nn.pretrained.attention_settings import AttentionSettings
from epigram.nn.pretrained.checkpoint_info import CheckpointInfo, read_checkpoint_info
from epigram.nn.pretrained.families import ARCHITECTURES, SMALL_KEY, Family, SmallSizes, parse_sizes, small_config
from epigram.nn.pretrained.family_check import check_family
from epigram.nn.pretrained.load_encoder import from_checkpoint, from_config
from epigram.nn.pretrained.warm_start import build_pretrained, read_settings
from epigram.nn.transformers_adapter import unfused_attention


@encoders.register("pretrained")
@dataclass(frozen=True, kw_only=True)
class PretrainedConfig(AttentionSettings):
    """Settings of the encoder, with those of its attention.

    `small` are the sizes of the encoder that is built if the view has no checkpoint. If an encoder was pretrained on
    the view's texts, the small encoder takes its sizes and weights from that one.
    `family`, if given, is the required family of a checkpoint (see `check_family`), and the family of a small encoder
    of the transformers library.
    `backbone` is the config of a saved model's backbone.
    """

    small: dict[str, Any] = field(default_factory=dict)
    family: Family | None = None
    backbone: dict[str, Any] | None = None

    def build(self, context: DataSpec) -> Encoder:
        """Build a saved model's encoder without its weights, the checkpoint's encoder with weights, or the small one.

        Raises ValueError or DataError if the settings, the checkpoint and the view do not fit together.
        """
        self.check_attention()
        if self.backbone is not None:
            return PretrainedEncoder(self, from_config(self.backbone), context)
        if context.checkpoint is not None:
            backbone = from_checkpoint(context.checkpoint)
            check_family(self.family, backbone.config.model_type, context.checkpoint)
            return PretrainedEncoder(self, backbone, context)
        if context.pretrained is not None:
            self._check_pretrained()
            return build_pretrained(
                self._transformer_config(read_settings(context.pretrained)), context.pretrained, context
            )
        small = self._small_config()
        if self.family is None:
            return small.build(context)
        one_head = {"heads": 1} if self.attention == "correlation" else {}  # its width may be no multiple of heads
        config = small_config(self.family, {**self.small, **one_head}, context)
        return PretrainedEncoder(self, from_config(config), context)

    def sketch(self, context: DataSpec) -> TransformerConfig:
        """Return the config of a Transformer of this encoder's width, so a head can be checked without loading weights.

        Raises the errors of `build` that the checkpoint's folder alone reveals.
        """
        self.check_attention()
        if context.pretrained is not None:
            self._check_pretrained()
        if context.checkpoint is None:
            return self._small_config()
        info = read_checkpoint_info(context.checkpoint)
        if info is None:
            return TransformerConfig(**self.attention_settings)
        check_family(self.family, info.model_type, context.checkpoint)
        return self._sketch_like(info)

    def unused(self, context: DataSpec) -> dict[str, str]:
        """Return the settings without effect, each with the reason."""
        found = {} if self.head_to_head != "none" else {"site": "encoder.head_to_head is 'none'"}
        if context.checkpoint is not None:
            return found | {"small": f"the view's checkpoint {context.checkpoint!r} has its own sizes"}
        if self.family is not None:
            return found if self.attention == "dot" else {**found, "small.heads": "encoder.attention is 'correlation'"}
        nested = self._small_config().unused(context, SMALL_KEY)
        replaced = {setting.name for setting in fields(AttentionSettings)} & set(self.small)
        return {
            **found,
            **{f"small.{name}": reason for name, reason in nested.items()},
            **{name: f"{SMALL_KEY}.{name} replaces it" for name in sorted(replaced)},
        }

    def _sketch_like(self, info: CheckpointInfo) -> TransformerConfig:
        self.check_model_type(info.model_type)
        return TransformerConfig(width=info.width, heads=info.heads, depth=1, hidden=1, **self.attention_settings)

    def _small_config(self) -> TransformerConfig:
        """Return the small encoder's config, or for a family one of its width. Raises ValueError for invalid sizes."""
        if self.family is None:
            small = self._transformer_config()
        else:
            sizes = parse_sizes(SmallSizes, self.small)
            small = self._sketch_like(CheckpointInfo(ARCHITECTURES[self.family][0], sizes.width, sizes.heads))
        small.check(SMALL_KEY)
        return small

    def _transformer_config(self, sizes: Mapping[str, Any] = MappingProxyType({})) -> TransformerConfig:
        """Return the small encoder's config, with `sizes` as defaults."""
        own = {"dropout": 0.1, "site": self.site, **self.attention_settings, **self.small}
        return parse_sizes(TransformerConfig, {**sizes, **own})

    def _check_pretrained(self) -> None:
        if self.attention != "dot":
            raise ValueError(
                "encoder.attention is 'correlation', but the view pretrains a small encoder with dot products; "
                "use a view without pretrain, or set encoder.attention to dot"
            )
        if self.family is not None:
            raise ValueError(
                f"encoder.family is {self.family!r}, but the view pretrains a small encoder that has no family; "
                "use a view without pretrain, or a system without encoder.family, such as bert"
            )


class PretrainedEncoder(Encoder):
    """Encoder with a transformers `backbone`, whose layers can be removed.

    Raises DataError if the backbone's vocabulary is smaller than the view's, and ValueError if its attention cannot be
    replaced as the settings require.
    """

    def __init__(self, settings: PretrainedConfig, backbone: Any, context: DataSpec) -> None:
        super().__init__()
        config = backbone.config
        if config.vocab_size < context.vocabulary:
            raise DataError(
                f"the checkpoint has {config.vocab_size} tokens but the view has {context.vocabulary}; "
                "set the view's checkpoint to the model's own folder and rerun encode"
            )
        settings.replace_attention(backbone)
        self.register_buffer("pos_weight", pos_table(settings.pos_weight, context))
        self.pos_weight: Tensor | None
        replace_dropout(backbone, nn.Dropout, Dropout)
        self.config: PretrainedConfig = settings
        self.backbone, self.width = backbone, config.hidden_size

    @property
    def settings(self) -> PretrainedConfig:
        """The config with the backbone's own config in it, so a saved model can be built without the checkpoint."""
        values = {k: v for k, v in self.backbone.config.to_dict().items() if k not in {"transformers_version", "dtype"}}
        return replace(self.config, backbone=values)

    @property
    def blocks(self) -> nn.ModuleList:  # type: ignore[override]
        """The backbone's layers."""
        config = self.backbone.config
        if config.model_type == "albert":  # one group of weights, applied N times
            return nn.ModuleList([self.backbone.encoder.albert_layer_groups[0]] * config.num_hidden_layers)
        lists = [m for m in self.backbone.modules() if isinstance(m, nn.ModuleList)]
        return next(m for m in lists if len(m) == config.num_hidden_layers)

    @property
    def token_table(self) -> nn.Embedding:
        """The backbone's token embedding table (V, E)."""
        table: nn.Embedding = self.backbone.get_input_embeddings()
        return table

    def drop(self, layer: int) -> None:
        """Remove one layer (0-based; -1 is the last), also from the backbone's config."""
        config, blocks = self.backbone.config, self.blocks
        del blocks[layer]
        config.num_hidden_layers = len(blocks)
        if config.model_type == "modernbert":
            del config.layer_types[layer]
            blocks[0].attn_norm = nn.Identity()  # as in ModernBERT's first layer: the embeddings are normalized

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the states of the embeddings and of every layer, (B, L, D) each."""
        out = self._run(tokens, output_hidden_states=True)
        return Encoded(tuple(out.hidden_states), tokens)

    def attentions(self, tokens: Tokens) -> tuple[Tensor, ...]:
        """Return the attention weights (B, H, L, L) of every layer, computed by unfused attention.

        Correlation attention has one head.
        """
        with unfused_attention(self.backbone):
            return tuple(self._run(tokens, output_attentions=True).attentions)

    def _run(self, tokens: Tokens, **outputs: bool) -> Any:
        texts = {"input_ids": tokens.ids} if tokens.vectors is None else {"inputs_embeds": tokens.vectors}
        weight = token_weights(self.pos_weight, tokens)
        weights = {} if weight is None else {"token_weight": weight}
        mask = None if key_mask(tokens.valid, tokens.full) is None else tokens.valid.long()
        return self.backbone(**texts, **weights, attention_mask=mask, return_dict=True, **outputs)
