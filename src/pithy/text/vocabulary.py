"""How a view reads texts: its tokenizer, and what stands in front of and behind every text.

A vocabulary is counted over the training texts only; the prompt's words are added to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenizers import Tokenizer

from pithy.errors import ParameterError
from pithy.settings import EncodeSettings, View
from pithy.text.characters import by_frequency, count_characters
from pithy.text.checkpoints import read_checkpoint
from pithy.text.rows import Corpus
from pithy.text.spelling import alphabet
from pithy.text.tokenizers import (
    MASK,
    SPECIALS,
    UNK,
    by_character,
    by_piece,
    by_word,
    count_words,
    special_ids,
)
from pithy.text.wordpiece import train_pieces

SAMPLE_TEXTS, SAMPLE_CHARACTERS = 200_000, 20_000_000  # most that word pieces are trained on
SLOTS = re.compile(rf"({re.escape(MASK)}|{re.escape(UNK)})")  # what stands in a prompt beside words


@dataclass(frozen=True)
class Reading:
    """A tokenizer with the constant ids around every text."""

    tokenizer: Tokenizer
    kind: str  # token or wordpiece
    prefix_ids: list[int]
    suffix_ids: list[int]
    max_length: int  # most tokens of a text
    characters: str  # that spell the tokens; none where the view does not


def reading(view: View, settings: EncodeSettings, corpus: Corpus, prefix: str = "") -> Reading:
    """What `view` makes of a corpus; word pieces are framed as BERT's: [CLS] prompt text [SEP].

    Raises ParameterError where a checkpoint cannot hold the prompt, and what `read_checkpoint` raises.
    """
    if view.checkpoint is None:
        make = token_tokenizer if view.tokenizer == "token" else piece_tokenizer
        kind, tokenizer, positions = view.tokenizer, make(corpus, settings, prefix), None
    else:
        kind = "wordpiece"
        tokenizer, positions = read_checkpoint(view.checkpoint)
    special = special_ids(tokenizer)
    before, after = ([], []) if kind == "token" else ([special.cls], [special.sep])
    prefix_ids = [index for index in before if index is not None] + prompt_ids(tokenizer, prefix)
    suffix_ids = [index for index in after if index is not None]
    room = settings.max_length if positions is None else positions - len(prefix_ids) - len(suffix_ids)
    if room < 1:
        raise ParameterError(f"params.yaml: augment.template: its prompt fills all {positions} positions of the model")
    characters = alphabet(corpus, settings.min_count) if view.characters else ""
    return Reading(tokenizer, kind, prefix_ids, suffix_ids, min(settings.max_length, room), characters)


def token_tokenizer(corpus: Corpus, settings: EncodeSettings, prefix: str = "") -> Tokenizer:
    """Characters for Chinese, words for English; equal counts in the order of the text."""
    size = settings.max_vocabulary
    if corpus.language == "zh":
        counted = by_frequency(count_characters(corpus.texts("train")), settings.min_count)
        vocabulary = [*SPECIALS, *counted][:size]
        return by_character(_with_prompt(by_character(vocabulary), vocabulary, prefix))
    vocabulary = count_words(corpus.texts("train"), size, settings.min_count)
    return by_word(_with_prompt(by_word(vocabulary), vocabulary, prefix))


def piece_tokenizer(corpus: Corpus, settings: EncodeSettings, prefix: str = "") -> Tokenizer:
    """Word pieces, trained on all training texts or on an even sample of a large corpus."""
    texts = corpus.sample("train", SAMPLE_TEXTS, SAMPLE_CHARACTERS)
    vocabulary = train_pieces(texts, settings.wordpiece_vocabulary, settings.min_count)
    return by_piece(_with_prompt(by_piece(vocabulary), vocabulary, prefix))


def prompt_ids(tokenizer: Tokenizer, prefix: str) -> list[int]:
    """Ids of a prompt; its [MASK] and [UNK] are the tokenizer's own. Raises ParameterError where it has no mask."""
    special = special_ids(tokenizer)
    if MASK in prefix and special.mask is None:
        raise ParameterError("params.yaml: a view with prompt: true needs a checkpoint whose tokenizer has a mask")
    slots = {MASK: special.mask, UNK: special.unk}
    ids: list[int] = []
    for part in SLOTS.split(prefix):
        slot = slots.get(part)
        ids += tokenizer.encode(part, add_special_tokens=False).ids if slot is None else [slot]
    return ids


def _with_prompt(tokenizer: Tokenizer, vocabulary: list[str], prefix: str) -> list[str]:
    """`vocabulary` and behind it the prompt's words that it cannot spell, in the order of the text."""
    unk = special_ids(tokenizer).unk
    words: set[str] = set()
    for part in SLOTS.split(prefix):
        normal = part if tokenizer.normalizer is None else tokenizer.normalizer.normalize_str(part)
        words.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal) if part not in {MASK, UNK})
    unknown = [word for word in sorted(words) if unk in tokenizer.encode(word, add_special_tokens=False).ids]
    return vocabulary + unknown
