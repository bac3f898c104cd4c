"""Reproducible training of a WordPiece vocabulary, independent of the run and of the number of threads.

The library's trainer assigns ids to continuing pieces (`##a`) in hash map order and breaks ties by id, so the same
texts give a different vocabulary each time. This module counts the alphabet first, which fixes its ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, trainers

from epigram.text.tokens.characters import WHITESPACE_CODES, by_frequency, count_characters
from epigram.text.tokens.tokenizers import SPECIALS, vocabulary_of, wordpiece_tokenizer

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
