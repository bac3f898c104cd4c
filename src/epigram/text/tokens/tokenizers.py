"""From-scratch tokenizers: characters for Chinese, words for English, WordPiece for both.

Each is a `tokenizers.Tokenizer` whose tokenizer.json is complete. `encode_special_tokens` is on, so the characters
"[MASK]" in a text are not a mask token (`load` sets the option, because the library does not save it).

* Characters: every character is a token, including spaces and Latin letters, without normalization.
* Words: lower case, NFC, ’ as '; n't, 's, 'm, 'd, 're, 've, 'll are separate words (don't → do n't, as in treebanks),
  numbers such as 3.5 or 10:30 are one word, every other punctuation mark is a word.
* WordPiece: BERT's normalizer and pre-tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from math import ceil, prod
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from epigram.core.config_types import shown
from epigram.core.errors import DataError, InputMissingError, is_panic

MAX_GROWTH = 256  # published models lengthen a text by a factor of 4 at most
STEPS = ("normalizers", "pretokenizers")


def growth_bound(tokenizer: Tokenizer) -> int:
    """Return the upper bound: the product of the factors of all normalizer and pre-tokenizer steps."""
    parts = [part for part in (tokenizer.normalizer, tokenizer.pre_tokenizer) if part is not None]
    return prod(_factor(step) for part in parts for step in _steps(json.loads(part.__getstate__())))


def _steps(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normalizer or pre-tokenizer, nested sequences included."""
    inner = [step for key in STEPS for step in part.get(key) or ()]
    if not inner:
        yield part
    for step in inner:
        yield from _steps(step)


def _factor(step: dict[str, Any]) -> int:
    kind = step["type"]
    if kind == "Replace":
        replaced = step["pattern"].get("String") or ""  # a regex may match the empty string at every character
        content = len(step["content"])
        return max(1, ceil(content / len(replaced)) if replaced else 1 + content)
    if kind == "Prepend":
        return max(1, len(step["prepend"]))
    return 2 if kind == "ByteLevel" else 1


PAD, UNK, CLS, SEP, MASK = SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# Special tokens in checkpoints of BERT and of other families.
SPECIAL_NAMES = {
    "pad": (PAD, "<pad>"),
    "unk": (UNK, "<unk>"),
    "cls": (CLS, "<s>"),
    "sep": (SEP, "</s>"),
    "mask": (MASK, "<mask>"),
}

MAX_ENTRIES = 1 << 24  # maximum vocabulary size
RARE_CHARACTERS = "𪛖 ꙮ ⸙"  # characters that are in hardly any vocabulary
CHARACTER_PATTERN = "(?m:.)"  # Oniguruma: any character, including line breaks
WORD_PATTERN = (
    r"\p{N}+(?:[.,:/]\p{N}+)+"
    r"|[\p{L}\p{N}_]\w*?(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b"
    r"|[\p{L}\p{N}_]\w*|\S"
)


class SpecialIds(NamedTuple):
    """Ids of the special tokens; None for tokens that the tokenizer lacks."""

    pad: int
    unk: int
    cls: int | None
    sep: int | None
    mask: int | None


def special_ids(tokenizer: Tokenizer) -> SpecialIds:
    """Return the special token ids of any tokenizer. Raises DataError if it has no padding or no unknown token."""
    # token_to_id avoids the dictionary of all entries, which a large vocabulary takes long to make
    ids = {kind: map(tokenizer.token_to_id, names) for kind, names in SPECIAL_NAMES.items()}
    found = {kind: next((index for index in each if index is not None), None) for kind, each in ids.items()}
    pad, unk = found["pad"], found["unk"]
    if pad is None or unk is None:
        pad_names, unk_names = (" or ".join(SPECIAL_NAMES[kind]) for kind in ("pad", "unk"))
        raise DataError(f"the tokenizer needs the tokens {pad_names} and {unk_names}: use another tokenizer")
    return SpecialIds(pad, unk, found["cls"], found["sep"], found["mask"])


def character_tokenizer(vocabulary: Sequence[str]) -> Tokenizer:
    """Return a character tokenizer; `vocabulary` starts with the special tokens."""
    tokenizer = Tokenizer(models.WordLevel(_number_entries(vocabulary), unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTER_PATTERN), "isolated")
    return _add_special_tokens(tokenizer)


def word_tokenizer(vocabulary: Sequence[str]) -> Tokenizer:
    """Return a tokenizer of English words; `vocabulary` starts with the special tokens."""
    return _add_special_tokens(_word_splitter(models.WordLevel(_number_entries(vocabulary), unk_token=UNK)))


def wordpiece_tokenizer(vocabulary: Sequence[str], *, lowercase: bool = True) -> Tokenizer:
    """Return a WordPiece tokenizer with BERT's normalization; `vocabulary` contains the special tokens."""
    tokenizer = Tokenizer(models.WordPiece(_number_entries(vocabulary), unk_token=UNK))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return _add_special_tokens(tokenizer)


def is_character_tokenizer(tokenizer: Tokenizer) -> bool:
    """Return whether every character is one token without normalization, so that ids can be looked up by code point."""
    split = tokenizer.pre_tokenizer
    if tokenizer.normalizer is not None or not isinstance(split, pre_tokenizers.Split):
        return False
    return isinstance(tokenizer.model, models.WordLevel) and json.loads(split.__getstate__()) == {
        "type": "Split",
        "pattern": {"Regex": CHARACTER_PATTERN},
        "behavior": "Isolated",
        "invert": False,
    }


def load(path: Path) -> Tokenizer:
    """Load tokenizer.json so that texts cannot contain special tokens. Raises InputMissingError or DataError."""
    if not path.is_file():
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)")
    try:
        tokenizer = disable_padding_and_truncation(Tokenizer.from_file(str(path)))
        if growth_bound(tokenizer) <= MAX_GROWTH:
            tokenizer.encode(RARE_CHARACTERS, add_special_tokens=False)  # fails for a model without an unknown token
            return tokenizer
    except BaseException as error:  # the library raises a bare Exception or panics
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise DataError(f"{path} is not a valid tokenizer ({shown(str(error))})") from None
    raise DataError(f"{path} may make a text more than {MAX_GROWTH} times as long, which is not allowed")


def disable_padding_and_truncation(tokenizer: Tokenizer) -> Tokenizer:
    """Turn off padding, truncation and the recognition of special tokens in texts; return `tokenizer`."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


def split_words(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each text, split as in the English `token` view."""
    tokenizer = _word_splitter(models.WordLevel({}, unk_token=UNK))
    for text in texts:
        normalized = tokenizer.normalizer.normalize_str(text)
        yield [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalized)]


def build_word_vocabulary(batches: Iterable[Sequence[str]], size: int, min_count: int) -> list[str]:
    """Return the special tokens and the most frequent words, at most `size` entries; ties are in alphabetical order."""
    tokenizer = _word_splitter(models.WordLevel({}, unk_token=UNK))
    trainer = trainers.WordLevelTrainer(
        vocab_size=size, min_frequency=min_count, special_tokens=list(SPECIALS), show_progress=False
    )
    tokenizer.train_from_iterator(batches, trainer)
    return vocabulary_of(tokenizer)


def vocabulary_of(tokenizer: Tokenizer) -> list[str]:
    """Return every entry, including added tokens, in the order of the ids; unassigned ids read `[unused]`."""
    ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    if (largest := max(ids.values(), default=-1)) >= MAX_ENTRIES:
        raise DataError(f"tokenizer.json has an entry with the id {largest:,}: it is damaged")
    entries = ["[unused]"] * (largest + 1)
    for entry, index in ids.items():
        entries[index] = entry
    return entries


def _word_splitter(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Lowercase(), normalizers.Replace("’", "'")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD_PATTERN), "removed", invert=True)
    return tokenizer


def _add_special_tokens(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    return disable_padding_and_truncation(tokenizer)


def _number_entries(vocabulary: Sequence[str]) -> dict[str, int]:
    return {entry: index for index, entry in enumerate(vocabulary)}
