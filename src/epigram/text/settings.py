"""Settings of texts and views: sections `pos_table`, `augment`, `encode` and `views` of params.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from epigram.core.config_types import MappingAs, OpenShare, Positive, Range, Seed, Share, Strict
from epigram.core.errors import ParameterError
from epigram.core.settings import Params

NO_TAGGER = "none"  # value of `pos_table.tagger`


@dataclass(frozen=True, kw_only=True)
class PosTableSettings(Strict):
    """Attention weights of notional and function words (Transformer-F, Eq. 5), and where parts of speech come from.

    `tagger` is `builtin` (jieba for Chinese, the table itself for English), `none`, or in data/local a file with words
    and tags or the folder of a spaCy pipeline. `corrections` is a file in data/local that overrides every other source.
    """

    notional: Share = 1.0  # weight of nouns, verbs, adjectives and other notional words
    function: Share = 0.5  # weight of function words
    adverb: Literal["notional", "function"] = "notional"  # group of words to which adverbs belong
    tagger: str = "builtin"  # builtin, none, or in data/local a word list or the folder of a spaCy pipeline
    corrections: str | None = None  # a file in data/local that overrides every other source


TemplateName = Literal["plain", "complex", "auto"]


@dataclass(frozen=True, kw_only=True)
class OwnTemplate(Strict):
    """Prompt in the user's words, with [MASK] `masks` times in `text`.

    `{text}` in it marks the place of the text; without `{text}`, the text follows.
    """

    text: str  # {text} in it is the text
    masks: Literal[1, 2]  # number of [MASK] in it


@dataclass(frozen=True, kw_only=True)
class AugmentSettings(Strict):
    """Template of the prompt (prompt text augmentation, PTA)."""

    template: Annotated[TemplateName | OwnTemplate, MappingAs()] = "plain"  # auto: by the labels


@dataclass(frozen=True, kw_only=True)
class EncodeSettings(Strict):
    """Vocabulary sizes and maximum length of the encoded texts."""

    min_count: Positive = 1  # occurrences in train of a token in the vocabulary
    max_vocabulary: Positive = 50_000  # tokens of a view with the tokenizer `token`
    wordpiece_vocabulary: Positive = 8_000  # pieces of a view with the tokenizer `wordpiece` and no checkpoint
    max_length: Positive = 512  # tokens per text


@dataclass(frozen=True, kw_only=True)
class PretrainSettings(Strict):
    """Masked language modelling on the training texts, before the systems of a view are trained (Devlin et al. 2019).

    The sizes define the small encoder, from which the systems of the view start. A view with a checkpoint has no sizes:
    the checkpoint is trained further (Gururangan et al. 2020).
    """

    texts: str | None = None  # further texts, one per line: a file in data/local
    width: Positive = 128  # width of the token states
    depth: Positive = 4  # number of layers
    heads: Positive = 4  # attention heads of a layer
    hidden: Positive = 256  # width of the hidden layer of each perceptron
    max_length: Positive = 128  # tokens per input, prompt and special tokens included; longer texts are split
    mask_share: OpenShare = 0.15  # share of the words of a text
    epochs: Positive = 20  # passes over the texts
    batch_size: Positive = 64  # texts
    learning_rate: Annotated[float, Range(gt=0.0)] | None = None  # highest one; null: 1e-3, or 1e-4 with a checkpoint
    seed: Seed = 0  # seed of weights, order and masks
    threads: Positive = 1  # CPU threads; they affect the result, because they determine the order of the sums


@dataclass(frozen=True, kw_only=True)
class ViewSettings(Strict):
    """A tokenization, with or without the prompt, from scratch or of a pretrained checkpoint."""

    tokenizer: Literal["token", "wordpiece"] = "token"  # token: words (en) or characters (zh)
    prompt: bool = False  # whether texts are read in the prompt of `augment`
    checkpoint: str | None = None  # data/local/FOLDER, package:NAME or hub:ORG/NAME@REVISION
    characters: bool = False  # tokens are also represented by their characters
    texts: str | None = None  # texts without labels, one per line, that students learn from: a file in data/local
    vectors: str | None = None  # a file in data/local with token vectors: .npz, .txt or .vec
    pretrain: PretrainSettings | None = None  # {} enables it with the defaults


def read_view(params: Params) -> ViewSettings:
    """Return the view that a stage reads. Raises ParameterError for an invalid value."""
    view = params.entry("views", ViewSettings)
    check_one_start(params.key, view)
    return view


def check_one_start(name: str, view: ViewSettings) -> None:
    """Raise ParameterError for a view with two sources of token vectors: a file and an encoder."""
    given = [key for key in ("checkpoint", "pretrain") if getattr(view, key) is not None]
    if view.vectors is not None and given:
        raise ParameterError(
            f"params.yaml: views.{name} has vectors and {given[0]}; expected one source of initial token "
            "vectors: remove one, or define a separate view for each"
        )
