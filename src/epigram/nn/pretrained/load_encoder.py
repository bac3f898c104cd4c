"""Encoders of the transformers library, built from a config, a checkpoint folder or a name on the hub."""

from __future__ import annotations

from typing import Any

import torch

from epigram.core.checkpoint_folders import checkpoint_folder
from epigram.core.errors import DataError, InputMissingError, SourceUnavailableError
from epigram.nn.pretrained.bert import BertConfig, random_bert
from epigram.nn.pretrained.checkpoint import bert_with_weights, load_bert
from epigram.nn.pretrained.config_check import check_config


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
    """Load the encoder of a checkpoint, given by its folder or its name on the hub.

    Raises InputMissingError if a path is not a folder, SourceUnavailableError if the hub cannot be reached, and
    DataError if the checkpoint is incomplete or not supported.
    """
    from safetensors import SafetensorError

    folder = checkpoint_folder(checkpoint)
    name = str(folder) if folder.is_dir() else checkpoint
    if name.startswith((".", "/", "~")) and not folder.is_dir():
        raise InputMissingError(f"checkpoint {checkpoint!r} is not a folder: check the path")
    try:
        return (load_bert(folder) if folder.is_dir() else None) or _load_by_transformers(name)
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).partition("\n")[0]
        kind = DataError if folder.is_dir() or not isinstance(error, OSError) else SourceUnavailableError
        raise kind(f"checkpoint {checkpoint!r} cannot be loaded: {reason}") from None


def _load_by_transformers(name: str) -> Any:
    """Load the encoder by the transformers library; a supported BERT is converted to `Bert`.

    Raises ValueError if weights are missing.
    """
    from transformers import AutoModel, PreTrainedConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    config, _ = PreTrainedConfig.get_config_dict(name)
    check_config(config, f"config.json of checkpoint {name!r}")
    model, report = AutoModel.from_pretrained(
        name, trust_remote_code=False, use_safetensors=True, dtype=torch.float32, output_loading_info=True
    )
    _check_complete(model, report["missing_keys"])
    bert_config = BertConfig.of(model.config.to_dict())
    if bert_config is None:
        return model
    return bert_with_weights(bert_config, ((name, weight.detach) for name, weight in model.state_dict().items()))


def _check_complete(model: Any, missing: set[str]) -> None:
    """Raise ValueError for `missing` weights: the library sets them to random values and only logs it.

    The pooler may be missing, because no head reads it. All weights are missing if config.json names another
    architecture than that of the weights, such as roberta for RoBERTa-wwm, which is a bert.
    """
    names = sorted(name for name, _ in model.named_parameters() if name in missing and not name.startswith("pooler."))
    if names:
        raise ValueError(
            f"weight {names[0]} is missing ({len(names)} in all); check that the weights are those of a "
            f"{model.config.model_type}, which is the model_type in config.json"
        )
