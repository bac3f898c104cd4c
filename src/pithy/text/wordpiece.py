"""Training of a WordPiece vocabulary that comes out the same on every run and every number of threads.

The library's trainer gives ids to continuing pieces (`##a`) in the order of a hash map and settles ties by id, so
that the same texts give another vocabulary each time. Here the alphabet is counted first, which fixes its ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, trainers

from pithy.text.characters import by_frequency, count_characters
from pithy.text.tokenizers import SPECIALS, by_piece, vocabulary_of

BLANKS = [code for code in range(0x3001) if chr(code).isspace()]
ALPHABET = 0.75  # at most this share of the vocabulary are single characters


def train_pieces(texts: Sequence[str], size: int, min_count: int) -> list[str]:
    """A vocabulary of at most `size` entries: specials, alphabet, merged pieces seen at least twice.

    Characters seen less than `min_count` times and the rarest ones beyond the alphabet's share are left out.
    """
    tokenizer = by_piece(SPECIALS)
    normal = [tokenizer.normalizer.normalize_str(text) for text in texts]
    counts = count_characters([normal])
    counts[BLANKS] = 0
    alphabet = _alphabet(tokenizer, by_frequency(counts, min_count), int(ALPHABET * size) - len(SPECIALS))
    erase = {ord(letter): " " for letter in set(by_frequency(counts, 1)).difference(alphabet)}
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=[*SPECIALS, *alphabet], show_progress=False
    )
    tokenizer.train_from_iterator((text.translate(erase) for text in normal) if erase else normal, trainer)
    return vocabulary_of(tokenizer)


def _alphabet(tokenizer: Tokenizer, letters: Sequence[str], room: int) -> list[str]:
    """The most frequent letters and their continuing forms that fit into `room` entries."""
    alphabet: list[str] = []
    for letter in letters:
        pieces = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(f"a{letter}"))
        forms = [letter, f"##{letter}"] if len(pieces) == 1 else [letter]  # Chinese characters and marks stand alone
        if len(alphabet) + len(forms) > room:
            break
        alphabet += forms
    return alphabet
