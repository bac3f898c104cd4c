"""Prompt templates of prompt text augmentation (PTA): a sentence with two masks before every text.

The first mask stands for the label of the text, the second for a label that the text does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict, get_type_hints

from epigram.core.config_types import has_type
from epigram.core.errors import DataError
from epigram.core.files import read_json
from epigram.text.tagsets import Language
from epigram.text.tokenizers import MASK, UNK

Template = Literal["plain", "complex", "auto"]

# Words are separated by spaces because `auto` replaces them one by one; Chinese prompts drop the spaces.
PLAIN_ZH = "下面 句子 的 标签 是 [MASK] , 所以 标签 不 是 [MASK] :"
PLAIN_EN = "The label of the following sentence is [MASK] , so the label is not [MASK] :"

POSITIVE = {"positive", "pos", "正面", "正向", "积极"}
NEGATIVE = {"negative", "neg", "负面", "负向", "消极"}


class Prompt(TypedDict):
    """Content of prompt.json."""

    language: str
    template: str
    prefix: str
    masks: int


def build_prompt(template: Template, language: Language, labels: Sequence[str]) -> Prompt:
    """Return the prompt of a template for any label set; it always contains two masks.

    `plain` names no label, `complex` names all labels, `auto` is `plain` with every word replaced by [UNK].
    """
    prefix = {"plain": _plain, "complex": _complex, "auto": _auto}[template](language, labels)
    return Prompt(language=language, template=template, prefix=prefix, masks=prefix.count(MASK))


def read_prompt(folder: Path) -> Prompt:
    """Read the prompt that the augment stage wrote into `folder`. Raises InputMissingError or DataError."""
    path = folder / "prompt.json"
    value = read_json(path)
    if not isinstance(value, dict) or not all(
        has_type(value.get(key), hint) for key, hint in get_type_hints(Prompt).items()
    ):
        raise DataError(f"{path} is not a valid prompt: delete it and run dvc repro augment")
    content: Prompt = value  # type: ignore[assignment]
    return content


def _plain(language: Language, labels: Sequence[str]) -> str:
    return _join_words(PLAIN_ZH if language == "zh" else PLAIN_EN, language)


def _auto(language: Language, labels: Sequence[str]) -> str:
    words = (PLAIN_ZH if language == "zh" else PLAIN_EN).split(" ")
    return _join_words(" ".join(UNK if word.isalpha() else word for word in words), language)


def _join_words(words: str, language: Language) -> str:
    if language == "zh":
        return words.replace(" ", "")
    return words.replace(" ,", ",").replace(" :", ":") + " "


def _complex(language: Language, labels: Sequence[str]) -> str:
    """Return a prompt that numbers the labels, with the paper's wording if they are positive and negative."""
    sentiment = _is_sentiment(labels)
    if language == "zh":
        names = ["正面" if label.lower() in POSITIVE else "负面" for label in labels] if sentiment else labels
        legend = ",".join(f"{index}代表{_replace_brackets(name)}" for index, name in enumerate(names))
        if sentiment:
            return f"如果{legend},下面这句话的情绪是{MASK}面,所以情绪不是{MASK}面:"
        return f"如果{legend},下面这句话的标签是{MASK},所以标签不是{MASK}:"
    what = "sentiment" if sentiment else "label"
    items = [f"{index} is {_replace_brackets(label)}" for index, label in enumerate(labels)]
    legend = " and ".join([", ".join(items[:-1]), items[-1]])
    return f"If {legend}, the {what} of the following sentence is the {MASK}, so the {what} is not the {MASK}: "


def _is_sentiment(labels: Sequence[str]) -> bool:
    folded = {label.lower() for label in labels}
    return len(folded) == 2 and bool(folded & POSITIVE) and bool(folded & NEGATIVE)


def _replace_brackets(label: str) -> str:
    """Replace the square brackets in a label name, so that no label contains a mask token."""
    return label.translate({ord("["): "(", ord("]"): ")"})
