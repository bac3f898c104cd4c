"""Small corpora with token labels."""

from __future__ import annotations

from typing import Any

NAMES = ["O", "NEG", "POS"]
LABELLED: dict[str, list[tuple[Any, ...]]] = {
    "train": [
        ("a well-made film", "pos", ["a", "well-made", "film"], ["O", "POS", "O"]),
        ("Playing is dull", "neg", ["Playing", "is", "dull"], ["O", "O", "NEG"]),
        ("played well", "pos", ["played", "well"], ["O", "POS"]),
    ],
    "dev": [("\u200b", "neg", ["\u200b"], ["NEG"]), ("no words here", "neg", None, None)],
    "test": [("a dull zebra", "neg", ["a", "dull", "zebra"], ["O", "NEG", "O"])],
}
