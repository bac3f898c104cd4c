"""Any encoder of the transformers library, from a checkpoint; without one, a small BERT from scratch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pithy.encoders.transformer import TransformerConfig
from pithy.errors import DataError, InputMissingError, SourceUnavailableError
from pithy.layers.encoder import Encoder
from pithy.layers.types import Context, Encoded, Tokens
from pithy.settings import Strict, typed


@dataclass(frozen=True, kw_only=True)
class PretrainedConfig(Strict):
    """`small` is the encoder built where the view has no checkpoint; `backbone` is a saved model's own config."""

    small: dict[str, Any] = field(default_factory=dict)
    backbone: dict[str, Any] | None = None

    def build(self, context: Context) -> Encoder:
        """The checkpoint's encoder with its weights, a saved model's encoder without, or the small one."""
        if self.backbone is not None:
            return PretrainedEncoder(_from_config(self.backbone), context)
        if context.checkpoint is not None:
            return PretrainedEncoder(_from_checkpoint(context.checkpoint), context)
        return typed(TransformerConfig, {"dropout": 0.1, **self.small}, "encoder.small").build(context)


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

    def __init__(self, backbone: Any, context: Context) -> None:
        super().__init__()
        config = backbone.config
        if config.vocab_size < context.vocabulary:
            raise DataError(
                f"the checkpoint knows {config.vocab_size} tokens but the view has {context.vocabulary}: "
                "set the view's checkpoint to the model's own folder and run encode again"
            )
        self.backbone, self.width = backbone, config.hidden_size

    @property
    def settings(self) -> PretrainedConfig:
        """The backbone's own config: a saved model needs no checkpoint to be built again."""
        values = {k: v for k, v in self.backbone.config.to_dict().items() if k not in {"transformers_version", "dtype"}}
        return PretrainedConfig(backbone=values)

    @property
    def blocks(self) -> nn.ModuleList:  # type: ignore[override]
        """The backbone's own stack of layers."""
        count = self.backbone.config.num_hidden_layers
        stacks = [m for m in self.backbone.modules() if isinstance(m, nn.ModuleList) and len(m) == count]
        return stacks[0]

    def drop(self, layer: int) -> None:
        """Take out one layer, in the backbone's config too."""
        blocks = self.blocks
        del blocks[layer]
        self.backbone.config.num_hidden_layers = len(blocks)

    def forward(self, tokens: Tokens) -> Encoded:
        """Hidden states of the embeddings and of every layer."""
        out = self.backbone(
            input_ids=tokens.ids, attention_mask=tokens.valid.long(), output_hidden_states=True, return_dict=True
        )
        return Encoded(tuple(out.hidden_states), tokens)
