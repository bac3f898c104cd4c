"""The tokenizer of a pretrained checkpoint, from a local folder or from the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from epigram.core.checkpoint_folders import checkpoint_folder, is_sentence_encoder
from epigram.core.config_types import parse_json
from epigram.core.errors import DataError, InputMissingError, SourceUnavailableError
from epigram.core.files import read_limited_text
from epigram.text.sentencepiece import read_unigram
from epigram.text.tokenizers import SPECIALS, load, wordpiece_tokenizer

CONFIG_FILES = ("tokenizer_config.json", "config.json")
PADDING_OFFSET_FAMILIES = {  # position ids start at the padding id + 1, so that the table's first rows are unused
    "camembert", "data2vec-text", "ibert", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl", "xmod",
}  # fmt: skip


class Checkpoint(NamedTuple):
    """Tokenizer of a checkpoint, and the maximum number of tokens of its model (None if unknown)."""

    tokenizer: Tokenizer
    positions: int | None


def read_checkpoint(name: str) -> Checkpoint:
    """Load the tokenizer of `name` from its files; only small files are downloaded from the hub.

    The files are tokenizer.json or vocab.txt, or sp.model of a Universal Sentence Encoder, which has no limit.

    Raises InputMissingError if the folder or the tokenizer does not exist, SourceUnavailableError if the hub cannot be
    reached, and DataError if a file cannot be read.
    """
    if is_sentence_encoder(name):
        return Checkpoint(read_unigram(checkpoint_folder(name) / "sp.model"), None)
    configs = {file: _read_config(name, file) for file in CONFIG_FILES}
    path = _find_file(name, "tokenizer.json")
    if path is not None:
        tokenizer = load(path)
    else:
        path = _find_file(name, "vocab.txt")
        if path is None:
            raise InputMissingError(f"checkpoint {name!r} has neither tokenizer.json nor vocab.txt")
        tokenizer = _from_vocabulary(path, bool(configs["tokenizer_config.json"].get("do_lower_case", True)))
    limits = (configs["tokenizer_config.json"].get("model_max_length"), _usable_positions(configs["config.json"]))
    known = [int(limit) for limit in limits if isinstance(limit, (int, float)) and 0 < limit < 1e6]  # 1e30: no limit
    return Checkpoint(tokenizer, min(known, default=None))


def _usable_positions(config: dict[str, Any]) -> Any:
    """Return the number of usable positions of the model with this `config`, None if `config` does not give it."""
    positions, family = config.get("max_position_embeddings"), config.get("model_type")
    if not isinstance(positions, int) or not isinstance(family, str) or family not in PADDING_OFFSET_FAMILIES:
        return positions
    padding = config.get("pad_token_id")
    return positions - 1 - (padding if isinstance(padding, int) else 1)


def _from_vocabulary(path: Path, lowercase: bool) -> Tokenizer:
    try:
        vocabulary = read_limited_text(path).splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 at byte {error.start}: it is not a BERT vocabulary") from None
    missing = [special for special in SPECIALS if special not in vocabulary]
    if missing:
        raise DataError(f"{path} has no {', '.join(missing)}: it is not a BERT vocabulary")
    return wordpiece_tokenizer(vocabulary, lowercase=lowercase)


def _read_config(name: str, file: str) -> dict[str, Any]:
    path = _find_file(name, file)
    try:
        values = {} if path is None else parse_json(read_limited_text(path))
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a JSON object")
    return values


def _find_file(name: str, file: str) -> Path | None:
    """Return the path of a file of the checkpoint, or None if the checkpoint does not have it."""
    folder = checkpoint_folder(name)
    if folder.is_dir():
        return folder / file if (folder / file).is_file() else None
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputMissingError(f"checkpoint {name!r} is not a folder: check the path")
    return _download(name, file)


def _download(name: str, file: str) -> Path | None:
    import httpx
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )
    from huggingface_hub.utils.logging import set_verbosity_error

    set_verbosity_error()  # type: ignore[no-untyped-call]  # else each failed attempt logs a line
    try:
        return Path(hf_hub_download(name, file))
    except LocalEntryNotFoundError as error:
        raise SourceUnavailableError(_unreachable(name, error)) from None
    except EntryNotFoundError:
        return None
    except (HFValidationError, RepositoryNotFoundError):
        raise InputMissingError(f"checkpoint {name!r} is neither a folder nor the name of a model on the hub") from None
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        raise SourceUnavailableError(_unreachable(name, error)) from None


def _unreachable(name: str, error: Exception) -> str:
    reason = str(error).strip().splitlines()[:1]
    return f"checkpoint {name!r} is not a local folder and cannot be downloaded from the hub: {''.join(reason)}"
