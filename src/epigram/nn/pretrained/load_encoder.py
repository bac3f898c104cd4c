"""Encoders of the transformers library, built from a config or the folder of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from epigram.checkpoints.folders import checkpoint_folder, verify_checkpoint
from epigram.core.errors import DataError
from epigram.nn.pretrained.bert import BertConfig, random_bert
from epigram.nn.pretrained.checkpoint import check_config, load_bert


def from_config(values: dict[str, Any]) -> Any:
    """Build an encoder with random weights from the config of a saved model.

    Raises DataError if the config is not supported.
    """
    check_config(values, "config.json")
    bert_config = BertConfig.of(values)
    if bert_config is not None:
        return random_bert(bert_config)
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(**values)
    return AutoModel.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]


def from_checkpoint(checkpoint: str) -> Any:
    """Load the encoder of a checkpoint.

    Raises the errors of `checkpoint_folder`, and DataError if the checkpoint was changed, is incomplete or not
    supported.
    """
    from safetensors import SafetensorError

    folder = checkpoint_folder(checkpoint)
    verify_checkpoint(checkpoint)
    try:
        return load_bert(folder) or _load_by_transformers(folder)
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"checkpoint {checkpoint!r} cannot be loaded: {reason}") from None


def _load_by_transformers(folder: Path) -> Any:
    """Load the encoder by the transformers library. Raises ValueError if weights are missing."""
    from transformers import AutoModel, PreTrainedConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    config, _ = PreTrainedConfig.get_config_dict(folder)
    check_config(config, f"{folder}/config.json")
    model, report = AutoModel.from_pretrained(
        folder, trust_remote_code=False, use_safetensors=True, dtype=torch.float32, output_loading_info=True
    )
    _check_complete(model, report["missing_keys"])
    return model


def _check_complete(model: Any, missing: set[str]) -> None:
    """Raise ValueError for `missing` weights: the library sets them to random values and only logs it.

    The pooler may be missing, because no head reads it. All weights are missing if config.json names the wrong
    architecture, such as roberta for RoBERTa-wwm, which is a bert.
    """
    names = sorted(name for name, _ in model.named_parameters() if name in missing and not name.startswith("pooler."))
    if names:
        raise ValueError(
            f"weight {names[0]} is missing ({len(names)} in all); check that the weights are those of a "
            f"{model.config.model_type}, which is the model_type in config.json"
        )
