"""From-scratch tokenizers: characters for Chinese, words for English, word pieces for both.

Each is a `tokenizers.Tokenizer` whose tokenizer.json is complete. Texts are read with `encode_special_tokens` on: a
text that holds the letters "[MASK]" is not thereby a mask (`load` sets it; the library does not save it).

* Characters: every character is a token, blanks and Latin letters too, exactly as it is written.
* Words: lower case, NFC, ’ as '; n't, 's, 'm, 'd, 're, 've, 'll are words of their own (don't → do n't, as in the
  treebanks), numbers such as 3.5 or 10:30 are one word, every other mark is a word.
* Word pieces: BERT's normalizer and pre-tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from pithy.errors import DataError, InputMissingError, is_panic
from pithy.text.growth import LARGEST, growth
from pithy.values import shown

PAD, UNK, CLS, SEP, MASK = SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# How checkpoints of other families write the same.
NAMES = {
    "pad": (PAD, "<pad>"),
    "unk": (UNK, "<unk>"),
    "cls": (CLS, "<s>"),
    "sep": (SEP, "</s>"),
    "mask": (MASK, "<mask>"),
}

MOST_ENTRIES = 1 << 24  # ids of a vocabulary
RARE = "𪛖 ꙮ ⸙"  # what hardly any vocabulary has
CHARACTER = "(?m:.)"  # Oniguruma: any character, a line break too
WORD = (
    r"\p{N}+(?:[.,:/]\p{N}+)+"
    r"|[\p{L}\p{N}_]\w*?(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b"
    r"|[\p{L}\p{N}_]\w*|\S"
)


class SpecialIds(NamedTuple):
    """Ids of the special tokens; None for what a tokenizer does not have."""

    pad: int
    unk: int
    cls: int | None
    sep: int | None
    mask: int | None


def special_ids(tokenizer: Tokenizer) -> SpecialIds:
    """The special tokens of any tokenizer. Raises DataError where it can neither pad nor say "unknown"."""
    ids = _ids_of(tokenizer)
    found = {kind: next((ids[name] for name in names if name in ids), None) for kind, names in NAMES.items()}
    pad, unk = found["pad"], found["unk"]
    if pad is None or unk is None:
        raise DataError(f"the tokenizer lacks one of {NAMES['pad']} or {NAMES['unk']}: it cannot be used here")
    return SpecialIds(pad, unk, found["cls"], found["sep"], found["mask"])


def by_character(vocabulary: Sequence[str]) -> Tokenizer:
    """A tokenizer of characters; `vocabulary` starts with the specials."""
    tokenizer = Tokenizer(models.WordLevel(_ids(vocabulary), unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTER), "isolated")
    return _special(tokenizer)


def by_word(vocabulary: Sequence[str]) -> Tokenizer:
    """A tokenizer of English words; `vocabulary` starts with the specials."""
    return _special(_words(models.WordLevel(_ids(vocabulary), unk_token=UNK)))


def by_piece(vocabulary: Sequence[str], *, lowercase: bool = True) -> Tokenizer:
    """A WordPiece tokenizer as BERT's; `vocabulary` holds the specials."""
    tokenizer = Tokenizer(models.WordPiece(_ids(vocabulary), unk_token=UNK))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return _special(tokenizer)


def is_by_character(tokenizer: Tokenizer) -> bool:
    """Whether every character is a token as it stands, so that ids can be looked up by code point."""
    split = tokenizer.pre_tokenizer
    if tokenizer.normalizer is not None or not isinstance(split, pre_tokenizers.Split):
        return False
    return isinstance(tokenizer.model, models.WordLevel) and json.loads(split.__getstate__()) == {
        "type": "Split",
        "pattern": {"Regex": CHARACTER},
        "behavior": "Isolated",
        "invert": False,
    }


def load(path: Path) -> Tokenizer:
    """Read tokenizer.json so that texts cannot forge special tokens. Raises InputMissingError or DataError."""
    if not path.is_file():
        raise InputMissingError(f"{path} is missing: run the stage that writes it (dvc repro)")
    try:
        tokenizer = plain(Tokenizer.from_file(str(path)))
        if growth(tokenizer) <= LARGEST:
            tokenizer.encode(RARE, add_special_tokens=False)  # a model without its unknown token fails over the first
            return tokenizer
    except BaseException as error:  # the library raises a bare Exception, or panics
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise DataError(f"{path} is not a tokenizer ({shown(str(error))})") from None
    raise DataError(f"{path} could make a text more than {LARGEST} times as long, which is refused")


def plain(tokenizer: Tokenizer) -> Tokenizer:
    """`tokenizer` without padding and truncation, reading special tokens in a text as the text that they are."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return tokenizer


def split_words(texts: Iterable[str]) -> Iterator[list[str]]:
    """The words of each text as the English `token` view cuts them."""
    tokenizer = _words(models.WordLevel({}, unk_token=UNK))
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text)
        yield [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]


def count_words(batches: Iterable[Sequence[str]], size: int, min_count: int) -> list[str]:
    """The specials, then the most frequent words, equal counts in the order of the text; at most `size` in all."""
    tokenizer = _words(models.WordLevel({}, unk_token=UNK))
    trainer = trainers.WordLevelTrainer(
        vocab_size=size, min_frequency=min_count, special_tokens=list(SPECIALS), show_progress=False
    )
    tokenizer.train_from_iterator(batches, trainer)
    return vocabulary_of(tokenizer)


def vocabulary_of(tokenizer: Tokenizer) -> list[str]:
    """Every entry, added tokens included, in the order of the ids; an id that no entry has reads `[unused]`."""
    ids = _ids_of(tokenizer)
    entries = ["[unused]"] * (max(ids.values(), default=-1) + 1)
    for entry, index in ids.items():
        entries[index] = entry
    return entries


def _ids_of(tokenizer: Tokenizer) -> dict[str, int]:
    ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    if (largest := max(ids.values(), default=0)) >= MOST_ENTRIES:
        raise DataError(f"tokenizer.json gives an entry the id {largest:,}: it is damaged")
    return ids


def _words(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Lowercase(), normalizers.Replace("’", "'")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
    return tokenizer


def _special(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    return plain(tokenizer)


def _ids(vocabulary: Sequence[str]) -> dict[str, int]:
    return {entry: index for index, entry in enumerate(vocabulary)}
