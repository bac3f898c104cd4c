"""Input format of a model: what surrounds each text, how long it may be, and the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_type_hints

from epigram.core.config_types import has_type
from epigram.models.sizes import check_numbers


@dataclass(frozen=True, kw_only=True)
class TextTemplate:
    """Input format of a model: the tokens around each text, the maximum length and the vocabulary."""

    language: str
    max_length: int
    prefix_ids: list[int]
    suffix_ids: list[int]
    pad_id: int
    unk_id: int
    mask_id: int | None
    vocabulary: int
    characters: str = ""  # all characters of tokens, for models that read characters
    token_labels: list[str] = field(default_factory=list)  # the default label first
    plain_class: int = 0  # class with the smallest share of non-default token labels
    text_columns: list[str] = field(default_factory=lambda: ["text"])  # columns of a table that make up the text
    join: str = " "  # separator of these columns
    pos_words: dict[str, Any] | None = None  # weights of words, for models with part-of-speech weights; see PosWords

    @property
    def room(self) -> int:
        """Maximum number of tokens of a text, without prompt and special tokens."""
        return self.max_length - len(self.prefix_ids) - len(self.suffix_ids)


def character_count(characters: str) -> int:
    """Return the number of character ids, ids for none and unknown included; 0 if tokens have no characters."""
    return len(characters) + 2 if characters else 0


def read_template(values: Any) -> TextTemplate:
    """Return the frame in config.json. Raises TypeError or ValueError for one that no model can have."""
    for name, hint in get_type_hints(TextTemplate).items():
        if name in values and not has_type(values[name], hint):
            raise TypeError(f"frame.{name} is not {hint}")
    frame = TextTemplate(**values)
    check_numbers([frame.max_length, frame.vocabulary])
    ids = [frame.pad_id, frame.unk_id, frame.mask_id or 0, *frame.prefix_ids, *frame.suffix_ids]
    if min(ids) < 0 or max(ids) >= frame.vocabulary:
        raise ValueError("frame has token ids outside its vocabulary")
    if frame.max_length <= len(frame.prefix_ids) + len(frame.suffix_ids):
        raise ValueError("frame.max_length leaves no room for a text")
    return frame
