"""Any encoder of the transformers library, from a checkpoint; without one, a small BERT from scratch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pithy.encoders.families import Family, small_config
from pithy.encoders.head_to_head import install
from pithy.encoders.transformer import TransformerConfig
from pithy.errors import DataError, InputMissingError, SourceUnavailableError
from pithy.layers.encoder import Encoder
from pithy.layers.head_to_head import Site
from pithy.layers.types import Context, Encoded, Tokens
from pithy.settings import Strict, typed


@dataclass(frozen=True, kw_only=True)
class PretrainedConfig(Strict):
    """`small` is the encoder built where the view has no checkpoint; `backbone` is a saved model's own config.

    A checkpoint must be of the `family`, where one is named, and the small encoder is then the library's own of it.
    `head_to_head` lets the heads weigh each other at the `site`: `residual` leaves the weights' start as it was.
    """

    small: dict[str, Any] = field(default_factory=dict)
    family: Family | None = None
    head_to_head: Literal["none", "paper", "residual"] = "none"
    site: Site = "scores"
    backbone: dict[str, Any] | None = None

    def build(self, context: Context) -> Encoder:
        """The checkpoint's encoder with its weights, a saved model's encoder without, or the small one."""
        if self.backbone is not None:
            return PretrainedEncoder(self, _from_config(self.backbone), context)
        if context.checkpoint is not None:
            backbone = _from_checkpoint(context.checkpoint)
            self._check(backbone.config.model_type, context.checkpoint)
            return PretrainedEncoder(self, backbone, context)
        if self.family is not None:
            return PretrainedEncoder(self, _from_config(small_config(self.family, self.small, context)), context)
        bert = {"dropout": 0.1, "head_to_head": self.head_to_head, "site": self.site, **self.small}
        return typed(TransformerConfig, bert, "encoder.small").build(context)

    def _check(self, family: str, checkpoint: str) -> None:
        if self.family not in {None, family}:
            raise ValueError(
                f"the view's checkpoint {checkpoint!r} is of the family {family}, and {self.family} is needed "
                "(encoder.family): give the system a view of such a checkpoint, or take bert, which reads any"
            )


def _from_config(values: dict[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(**values)
    return AutoModel.from_config(config)  # type: ignore[no-untyped-call]


def _from_checkpoint(checkpoint: str) -> Any:
    """Raises SourceUnavailableError where the hub cannot be reached, DataError for a folder that is not whole."""
    from safetensors import SafetensorError
    from transformers import AutoModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    folder = Path(checkpoint).expanduser()
    name = str(folder) if folder.is_dir() else checkpoint
    if name.startswith((".", "/", "~")) and not folder.is_dir():
        raise InputMissingError(f"checkpoint {checkpoint!r} is not a folder: check the path")
    try:
        return AutoModel.from_pretrained(name, trust_remote_code=False, use_safetensors=True, dtype=torch.float32)
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).partition("\n")[0]
        kind = DataError if folder.is_dir() or not isinstance(error, OSError) else SourceUnavailableError
        raise kind(f"checkpoint {checkpoint!r} cannot be loaded: {reason}") from None


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
        if own.head_to_head != "none":
            install(backbone, own.head_to_head, own.site)
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
        used = self.backbone.config._attn_implementation
        if used == "sdpa":  # the fused kernel never has them
            self.backbone.set_attn_implementation("eager")
        try:
            return tuple(self._run(tokens, output_attentions=True).attentions)
        finally:
            self.backbone.set_attn_implementation(used)

    def _run(self, tokens: Tokens, **wanted: bool) -> Any:
        texts = {"input_ids": tokens.ids} if tokens.vectors is None else {"inputs_embeds": tokens.vectors}
        return self.backbone(**texts, attention_mask=tokens.valid.long(), return_dict=True, **wanted)
