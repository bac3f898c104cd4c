"""The tokenizer of a view, its vocabulary, and the constant tokens before and after every text.

The library's trainer assigns ids to continuing pieces (`##a`) in hash map order and breaks ties by id, so the same
texts give a different vocabulary each time. This module counts the alphabet first, which fixes its ids.

A vocabulary is built from the training texts only; the words of the prompt are added to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer, trainers

from epigram.core.errors import ParameterError
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.prompts.prompts import Prompt
from epigram.text.settings import EncodeSettings, ViewSettings
from epigram.text.tokens.characters import WHITESPACE_CODES, by_frequency, count_characters
from epigram.text.tokens.pretrained_tokenizers import Checkpoint, read_checkpoint
from epigram.text.tokens.token_characters import alphabet
from epigram.text.tokens.tokenizers import (
    MASK,
    SPECIALS,
    UNK,
    build_word_vocabulary,
    character_tokenizer,
    special_ids,
    vocabulary_of,
    word_tokenizer,
    wordpiece_tokenizer,
)

MAX_ALPHABET_SHARE = 0.75  # maximum share of single characters in the vocabulary


def train_wordpiece(texts: Sequence[str], size: int, min_count: int) -> list[str]:
    """Return a vocabulary of at most `size` entries: special tokens, alphabet, merged pieces that occur at least twice.

    Characters that occur less than `min_count` times, and the rarest ones beyond the alphabet's share, are left out.
    """
    tokenizer = wordpiece_tokenizer(SPECIALS)
    normalized = [tokenizer.normalizer.normalize_str(text) for text in texts]
    counts = count_characters([normalized])
    counts[WHITESPACE_CODES] = 0
    alphabet = _alphabet(tokenizer, by_frequency(counts, min_count), int(MAX_ALPHABET_SHARE * size) - len(SPECIALS))
    erase = {ord(letter): " " for letter in set(by_frequency(counts, 1)).difference(alphabet)}
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=[*SPECIALS, *alphabet], show_progress=False
    )
    tokenizer.train_from_iterator((text.translate(erase) for text in normalized) if erase else normalized, trainer)
    return vocabulary_of(tokenizer)


def _alphabet(tokenizer: Tokenizer, letters: Sequence[str], room: int) -> list[str]:
    """Return the most frequent letters and their continuing forms that fit into `room` entries."""
    alphabet: list[str] = []
    for letter in letters:
        pieces = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(f"a{letter}"))
        forms = [letter, f"##{letter}"] if len(pieces) == 1 else [letter]  # Chinese characters and marks never continue
        if len(alphabet) + len(forms) > room:
            break
        alphabet += forms
    return alphabet


SAMPLE_TEXTS, SAMPLE_CHARACTERS = 200_000, 20_000_000  # limits of the WordPiece training sample
PLACEHOLDERS = re.compile(rf"({re.escape(MASK)}|{re.escape(UNK)})")  # placeholders in a prompt


@dataclass(frozen=True)
class ViewTokenizer:
    """A tokenizer and the constant ids around every text."""

    tokenizer: Tokenizer
    kind: str  # token or wordpiece
    prefix_ids: list[int]
    suffix_ids: list[int]
    max_length: int  # maximum number of tokens of a text
    characters: str  # alphabet of token characters; empty without characters


def build_view_tokenizer(
    view: ViewSettings,
    settings: EncodeSettings,
    corpus: ValidatedCorpus,
    prompt: Prompt | None = None,
    checkpoint: Checkpoint | None = None,
) -> ViewTokenizer:
    """Return the tokenizer and the framing of `view` for a corpus; `checkpoint` is the view's, if it is known.

    WordPiece inputs are [CLS] prompt text [SEP], as in BERT, unless the checkpoint reads no special tokens; a prompt
    may also have words after the text. Raises ParameterError if a checkpoint has no room for the prompt, and the errors
    of `read_checkpoint`.
    """
    prefix, suffix = ("", "") if prompt is None else (prompt["prefix"], prompt["suffix"])
    if view.checkpoint is None:
        build = build_token_tokenizer if view.tokenizer == "token" else build_wordpiece_tokenizer
        tokenizer, positions = build(corpus, settings, f"{prefix}{MASK}{suffix}"), None
        kind, marked = view.tokenizer, view.tokenizer == "wordpiece"
    else:
        kind = "wordpiece"
        tokenizer, positions, marked = checkpoint or read_checkpoint(view.checkpoint)
    special = special_ids(tokenizer)
    before, after = ([special.cls], [special.sep]) if marked else ([], [])
    prefix_ids = [index for index in before if index is not None] + prompt_ids(tokenizer, prefix)
    suffix_ids = prompt_ids(tokenizer, suffix) + [index for index in after if index is not None]
    room = settings.max_length if positions is None else positions - len(prefix_ids) - len(suffix_ids)
    if room < 1:
        raise ParameterError(
            f"params.yaml: augment.template: the prompt fills all {positions} positions of the model; use a shorter one"
        )
    characters = alphabet(corpus, settings.min_count) if view.characters else ""
    return ViewTokenizer(tokenizer, kind, prefix_ids, suffix_ids, min(settings.max_length, room), characters)


def build_token_tokenizer(corpus: ValidatedCorpus, settings: EncodeSettings, prompt: str = "") -> Tokenizer:
    """Return a tokenizer of characters for Chinese and of words for English; ties in frequency are in sorted order.

    Its vocabulary includes the words of `prompt`.
    """
    size = settings.max_vocabulary
    if corpus.language == "zh":
        counted = by_frequency(count_characters(corpus.texts("train")), settings.min_count)
        vocabulary = [*SPECIALS, *counted][:size]
        return character_tokenizer(_add_prompt_words(character_tokenizer(vocabulary), vocabulary, prompt))
    vocabulary = build_word_vocabulary(corpus.texts("train"), size, settings.min_count)
    return word_tokenizer(_add_prompt_words(word_tokenizer(vocabulary), vocabulary, prompt))


def build_wordpiece_tokenizer(corpus: ValidatedCorpus, settings: EncodeSettings, prompt: str = "") -> Tokenizer:
    """Train a WordPiece tokenizer on all training texts, or on an evenly spaced sample of a large corpus.

    Its vocabulary includes the words of `prompt`.
    """
    texts = corpus.sample("train", SAMPLE_TEXTS, SAMPLE_CHARACTERS)
    vocabulary = train_wordpiece(texts, settings.wordpiece_vocabulary, settings.min_count)
    return wordpiece_tokenizer(_add_prompt_words(wordpiece_tokenizer(vocabulary), vocabulary, prompt))


def prompt_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Return the ids of a part of a prompt; [MASK] and [UNK] map to the tokenizer's own tokens.

    Raises ParameterError if the tokenizer has no mask token.
    """
    special = special_ids(tokenizer)
    if MASK in prompt and special.mask is None:
        raise ParameterError(
            "params.yaml: a view with prompt: true needs a checkpoint whose tokenizer has a mask token"
        )
    slots = {MASK: special.mask, UNK: special.unk}
    ids: list[int] = []
    for part in PLACEHOLDERS.split(prompt):
        slot = slots.get(part)
        ids += tokenizer.encode(part, add_special_tokens=False).ids if slot is None else [slot]
    return ids


def _add_prompt_words(tokenizer: Tokenizer, vocabulary: list[str], prompt: str) -> list[str]:
    """Return `vocabulary` plus the prompt's words that it cannot represent, in sorted order."""
    unk = special_ids(tokenizer).unk
    words: set[str] = set()
    for part in PLACEHOLDERS.split(prompt):
        normalized = part if tokenizer.normalizer is None else tokenizer.normalizer.normalize_str(part)
        words.update(
            word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normalized) if part not in {MASK, UNK}
        )
    unknown = [word for word in sorted(words) if unk in tokenizer.encode(word, add_special_tokens=False).ids]
    return vocabulary + unknown
