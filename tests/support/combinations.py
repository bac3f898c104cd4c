"""Combinations of parts: the levels of each factor, and the pairs of levels that are refused, each with its reason.

A pair that is not in `REFUSALS` works: tests/contract/test_pairs_of_parts.py trains, saves and loads a covering array
of them. `python -m tests.support.combination_page` writes the pairs to docs/combinations.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from epigram.nn import encoders, heads
from tests.support.covering import Case, Level, covering_array

CHECKPOINTS = ("bert", "roberta", "xlnet")  # families of checkpoints; the first has epigram's own implementation
ENCODERS = (*encoders.KINDS, *CHECKPOINTS)
HEADS = (*(kind for kind in heads.KINDS if kind != "prompt"), "prompt", "soft prompt")
FACTORS = {
    "encoder": ENCODERS,
    "head": HEADS,
    "attention": ("dot", "correlation"),
    "HTH": ("no", "paper", "residual"),
    "POS": ("none", "embedding", "after", "inside", "log"),
    "fusion": ("last", "hook"),
    "prompt": ("none", "two masks"),
    "labels": ("one", "several"),
    "prune": ("none", "last", "worst"),
}

WITH_ATTENTION = ("transformer", "universal_transformer", "pretrained", *CHECKPOINTS)
WITHOUT_ATTENTION = tuple(kind for kind in ENCODERS if kind not in WITH_ATTENTION)
WITH_LAYERS = (*WITH_ATTENTION, "bilstm", "semantic_perceptron")
WITHOUT_LAYERS = tuple(kind for kind in ENCODERS if kind not in WITH_LAYERS)
WHOLE_TEXTS = ("sentence_encoder", "static_embedding")  # pretrained encoders with one state per text
PROMPTS = ("prompt", "soft prompt")
IN_ATTENTION = ("after", "inside", "log")
HTH = ("paper", "residual")
IS_EMBEDDING = r"encoder\.pos_weight is 'embedding'; expected 'none', 'after', 'inside' or 'log'"


@dataclass(frozen=True)
class Refusal:
    """Pairs of levels that are refused: one of `first` with one of `second`, each a factor and its levels.

    `message` is a regular expression that the error message matches; `reason` is for the documentation.
    """

    first: tuple[str, Sequence[str]]
    second: tuple[str, Sequence[str]]
    message: str
    reason: str

    def contains(self, one: Level, other: Level) -> bool:
        """Return whether the refusal is of these two levels, in either order."""
        return any(
            a[0] == self.first[0] and a[1] in self.first[1] and b[0] == self.second[0] and b[1] in self.second[1]
            for a, b in ((one, other), (other, one))
        )


REFUSALS = (
    Refusal(
        ("encoder", WITHOUT_ATTENTION),
        ("attention", ("correlation",)),
        r"encoder\.attention is not a setting",
        "the encoder has no attention",
    ),
    Refusal(
        ("encoder", WITHOUT_ATTENTION),
        ("HTH", HTH),
        r"encoder\.head_to_head is not a setting",
        "the encoder has no attention",
    ),
    Refusal(
        ("encoder", ("xlnet",)),
        ("attention", ("correlation",)),
        r"encoder\.attention is 'correlation', but the attention of xlnet cannot be replaced",
        "the attention of this family cannot be replaced",
    ),
    Refusal(
        ("encoder", ("xlnet",)),
        ("HTH", HTH),
        r"encoder\.head_to_head is '\w+', but the attention of xlnet cannot be replaced",
        "the attention of this family cannot be replaced",
    ),
    Refusal(
        ("encoder", ("xlnet",)),
        ("POS", IN_ATTENTION),
        r"encoder\.pos_weight is '\w+', but the attention of xlnet cannot be replaced",
        "the attention of this family cannot be replaced",
    ),
    Refusal(
        ("encoder", WHOLE_TEXTS),
        ("POS", ("embedding", *IN_ATTENTION)),
        r"encoder\.pos_weight is not a setting",
        "the encoder has no part-of-speech weights",
    ),
    Refusal(
        ("encoder", tuple(kind for kind in WITHOUT_ATTENTION if kind not in WHOLE_TEXTS)),
        ("POS", IN_ATTENTION),
        r"encoder\.pos_weight is '\w+'; expected 'none' or 'embedding'",
        "the encoder has no attention; use `embedding`",
    ),
    Refusal(
        ("encoder", WITH_ATTENTION),
        ("POS", ("embedding",)),
        IS_EMBEDDING,
        "the encoder applies the weights in its attention; use `after`, `inside` or `log`",
    ),
    *(
        Refusal(  # no encoder has both
            (factor, levels),
            ("POS", ("embedding",)),
            IS_EMBEDDING,
            "the encoder applies the weights in its attention; use `after`, `inside` or `log`",
        )
        for factor, levels in (("attention", ("correlation",)), ("HTH", HTH))
    ),
    Refusal(
        ("attention", ("correlation",)),
        ("HTH", HTH),
        r"encoder\.head_to_head is '\w+', but encoder\.attention is 'correlation', which has one head",
        "correlation attention has one head, and head-to-head attention weighs the heads against each other",
    ),
    Refusal(
        ("encoder", WITHOUT_LAYERS),
        ("fusion", ("hook",)),
        r"head\.fusion is 'hook', but this encoder has no layers to fuse",
        "the encoder has no layers of equal width to fuse",
    ),
    Refusal(
        ("encoder", WITHOUT_LAYERS),
        ("head", ("layer_ensemble",)),
        "head: layer_ensemble needs an encoder with layers",
        "the head has a classifier on every layer, and the encoder has no layers",
    ),
    Refusal(
        ("encoder", ("dpcnn", "vdcnn", *WHOLE_TEXTS)),
        ("head", ("attention_labeler", "tagger", *PROMPTS)),
        r"head: \w+ needs an encoder with one state per token",
        "the head reads every token, and the encoder shortens the text",
    ),
    Refusal(
        ("encoder", ("convolution", "embedding", "fast_text", "region", "semantic_perceptron")),
        ("head", PROMPTS),
        "head: prompt reads the states of the masks, which depend on few tokens of the text with",
        "the head reads the states of the masks, and these depend on few tokens of the text",
    ),
    Refusal(
        ("head", PROMPTS),
        ("prompt", ("none",)),
        "head: prompt needs a view with prompt: true",
        "the head reads the masks of a prompt",
    ),
    Refusal(
        ("head", ("attention_labeler", *PROMPTS)),
        ("labels", ("several",)),
        r"head: \w+ predicts one label per text, and the texts have several",
        "the head predicts one label per text",
    ),
)


@cache
def refusal_of(one: Level, other: Level) -> Refusal | None:
    """Return the refusal of a pair of levels, or None if the pair works."""
    return next((refusal for refusal in REFUSALS if refusal.contains(one, other)), None)


def combinations() -> list[Case]:
    """Return cases that contain every pair of levels that works."""
    return covering_array(FACTORS, lambda one, other: refusal_of(one, other) is None)
