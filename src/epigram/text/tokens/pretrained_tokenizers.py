"""The tokenizer of a pretrained checkpoint, read from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer

from epigram.checkpoints.folders import checkpoint_folder, is_sentence_encoder, is_static_model
from epigram.core.config_types import parse_json
from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import read_limited_text
from epigram.text.tokens.sentencepiece import read_unigram
from epigram.text.tokens.tokenizers import SPECIALS, load, wordpiece_tokenizer

PADDING_OFFSET_FAMILIES = {  # position ids start at the padding id + 1, so that the table's first rows are unused
    "camembert", "data2vec-text", "ibert", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl", "xmod",
}  # fmt: skip


class Checkpoint(NamedTuple):
    """Tokenizer of a checkpoint, and the maximum number of tokens of its model (None if unknown).

    `marked`: the model reads a text between the special tokens [CLS] and [SEP].
    """

    tokenizer: Tokenizer
    positions: int | None
    marked: bool = True


def read_checkpoint(name: str) -> Checkpoint:
    """Load the tokenizer of the checkpoint `name` from its folder.

    The files are tokenizer.json or vocab.txt, or sp.model of a Universal Sentence Encoder, which has no limit. A table
    of token vectors has none either, and reads no special tokens.

    Raises InputMissingError if the folder or the tokenizer does not exist, and DataError if a file cannot be read.
    """
    folder = checkpoint_folder(name)
    if is_sentence_encoder(name):
        return Checkpoint(read_unigram(folder / "sp.model"), None)
    if is_static_model(name):
        return Checkpoint(load(folder / "tokenizer.json"), None, marked=False)
    tokenizer_config, config = (_read_config(folder / file) for file in ("tokenizer_config.json", "config.json"))
    if (folder / "tokenizer.json").is_file():
        tokenizer = load(folder / "tokenizer.json")
    elif (folder / "vocab.txt").is_file():
        tokenizer = _from_vocabulary(folder / "vocab.txt", bool(tokenizer_config.get("do_lower_case", True)))
    else:
        raise InputMissingError(f"checkpoint {name!r} has neither tokenizer.json nor vocab.txt")
    limits = (tokenizer_config.get("model_max_length"), _usable_positions(config))
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


def _read_config(path: Path) -> dict[str, Any]:
    try:
        values = parse_json(read_limited_text(path)) if path.is_file() else {}
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a JSON object")
    return values
