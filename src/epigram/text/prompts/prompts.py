"""Prompt templates of prompt text augmentation (PTA): a sentence with two masks before every text.

The first mask stands for the label of the text, the second for a label that the text does not have. A template of the
user's own may have only the first mask, and words after the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, get_type_hints
from unicodedata import category

from tokenizers import Tokenizer

from epigram.core.config_types import find_fault
from epigram.core.errors import DataError, ParameterError
from epigram.core.files import read_json
from epigram.text.dataset.language import Language
from epigram.text.settings import OwnTemplate, TemplateName
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import MASK, UNK

SEPARATORS = re.compile(r"(?<=[a-z])(?=[A-Z])|[\W\d_]+")  # sci.space, not_spam, WrittenWork, label 1
WORD = re.compile("[\u4e00-\u9fff]|[^\\W\\d_]{2}")  # a Chinese character, or two letters
SPACES = " ▁"  # space of a text, and of SentencePiece
BYTE = re.compile("<0x[0-9A-F]{2}>")


def name_words(name: str) -> str:
    """Return the words of a label's name, separated by spaces: WrittenWork → Written Work, sci.space → sci space."""
    return SEPARATORS.sub(" ", name).strip()


def label_tokens(names: Sequence[str], tokenizer: Tokenizer, max_length: int) -> list[list[int]]:
    """Return the first `max_length` token ids of the words of each label's name, or [] if the labels are not words.

    They are words if each name has a word of at least two letters or a Chinese character, no two names have the same
    words, and the tokenizer knows a part of each name that is not a single byte.
    """
    words = [name_words(name) for name in names]
    if len({each.casefold() for each in words}) < len(words) or not all(WORD.search(each) for each in words):
        return []
    encoder = TextEncoder(tokenizer)
    rows: list[list[int]] = [row.tolist() for row in encoder.encode(words, max_length).ids]
    return rows if all(any(_is_known(index, tokenizer, encoder.unk_id) for index in row) for row in rows) else []


def _is_known(index: int, tokenizer: Tokenizer, unknown: int) -> bool:
    """Return whether a token is neither unknown nor a space nor a part of a character."""
    if index == unknown or BYTE.fullmatch(str(tokenizer.id_to_token(index))):
        return False
    text = tokenizer.decode([index])  # a part of a character becomes U+FFFD
    return "\ufffd" not in text and text.strip(SPACES) != ""


TEXT = "{text}"  # the place of the text in a template of the user's own

# Words are separated by spaces because `auto` replaces them one by one; Chinese prompts drop the spaces.
PLAIN_ZH = "下面 句子 的 标签 是 [MASK] , 所以 标签 不 是 [MASK] :"
PLAIN_EN = "The label of the following sentence is [MASK] , so the label is not [MASK] :"

POSITIVE = {"positive", "pos", "正面", "正向", "积极"}
NEGATIVE = {"negative", "neg", "负面", "负向", "消极"}


class Prompt(TypedDict):
    """Content of prompt.json."""

    language: str
    template: str
    prefix: str  # words before every text
    suffix: str  # words after every text
    masks: int


def build_prompt(template: TemplateName | OwnTemplate, language: Language, labels: Sequence[str]) -> Prompt:
    """Return the prompt of a template for `labels`, the names of the labels in the language of the texts.

    `plain` names no label, `complex` names all labels, `auto` is `plain` without its comma and with every word replaced
    by [UNK] (Fig. 5 of the HTH paper); each has two masks. Raises the errors of `split_template`.
    """
    if isinstance(template, OwnTemplate):
        prefix, suffix = split_template(template)
        return Prompt(language=language, template="own", prefix=prefix, suffix=suffix, masks=template.masks)
    words = (PLAIN_ZH if language == "zh" else PLAIN_EN).split(" ")
    if template == "auto":
        words = [UNK if word.isalpha() else word for word in words if word != ","]
    prefix = _complex(language, labels) if template == "complex" else _join_words(" ".join(words), language)
    return Prompt(language=language, template=template, prefix=prefix, suffix="", masks=prefix.count(MASK))


def split_template(template: OwnTemplate) -> tuple[str, str]:
    """Return the parts of a template before and after the text.

    Raises ParameterError for another number of masks, more than one place for the text, and control characters.
    """
    masks, places = template.text.count(MASK), template.text.count(TEXT)
    if masks != template.masks:
        raise ParameterError(
            f"params.yaml: augment.template.text has {masks} {MASK}; expected {template.masks}, the value of "
            "augment.template.masks"
        )
    if places > 1:
        raise ParameterError(f"params.yaml: augment.template.text has {places} {TEXT}; expected at most one")
    if any(category(character) == "Cc" for character in template.text):
        raise ParameterError(
            "params.yaml: augment.template.text has a line break or another control character; remove it"
        )
    prefix, _, suffix = template.text.partition(TEXT)
    return prefix, suffix


def mask_counts(template: TemplateName | OwnTemplate) -> tuple[int, int]:
    """Return how many masks a template has before and after the text. Raises the errors of `split_template`."""
    if not isinstance(template, OwnTemplate):
        return 2, 0
    before, after = split_template(template)
    return before.count(MASK), after.count(MASK)


def read_prompt(folder: Path) -> Prompt:
    """Read the prompt that the augment stage wrote into `folder`. Raises InputMissingError or DataError."""
    path = folder / "prompt.json"
    value = read_json(path)
    if fault := find_fault(value, get_type_hints(Prompt), "prompt"):
        raise DataError(f"{path} is not a valid prompt ({fault}): delete it and run dvc repro augment")
    content: Prompt = value
    return content


def _join_words(words: str, language: Language) -> str:
    if language == "zh":
        return words.replace(" ", "")
    return words.replace(" ,", ",").replace(" :", ":") + " "


def _complex(language: Language, labels: Sequence[str]) -> str:
    """Return a prompt that numbers the labels, with the paper's wording if they are positive and negative."""
    folded = {label.lower() for label in labels}
    sentiment = len(folded) == 2 and bool(folded & POSITIVE) and bool(folded & NEGATIVE)
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


def _replace_brackets(label: str) -> str:
    """Replace the square brackets in a label name, so that no label contains a mask token."""
    return label.translate({ord("["): "(", ord("]"): ")"})
