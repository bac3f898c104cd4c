"""The explanation of one prediction, as Python objects and as values for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Method = Literal["weights", "attention", "gradients", "occlusion"]


@dataclass(frozen=True, kw_only=True)
class WordScore:
    """Word of a text, from character `start` to `end`. A score above 0 speaks for the label, one below 0 against it."""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, kw_only=True)
class Faithfulness:
    """How much the probability of the label falls without the words with the highest scores.

    `probabilities` has the probability without each of the `shares` of the words, `random_probabilities` its mean where
    random words are removed instead. `comprehensiveness` is the mean fall of the former, `random_comprehensiveness` of
    the latter: scores are worth reading if the first is clearly larger.
    """

    shares: list[float]
    probabilities: list[float]
    random_probabilities: list[float]
    comprehensiveness: float
    random_comprehensiveness: float

    @property
    def summary(self) -> str:
        """The fall of the probability in words."""
        return (
            f"without its top words the probability falls by {self.comprehensiveness:.3f}, without random words by "
            f"{self.random_comprehensiveness:.3f}"
        )


@dataclass(frozen=True, kw_only=True)
class SimilarText:
    """Training text with its labels, and the cosine similarity of its vector to the vector of another text."""

    text: str
    labels: list[str]
    similarity: float


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Scores of the words of a text for one label, which the model predicts with `probability`.

    The unit of the scores depends on the `method`; docs/explain.md describes it. `base` is the model's score without
    the words: base and scores sum to the score of the label. It is None if the method has none. `faithfulness` is None
    unless it was asked for. `similar` has the nearest training texts, the nearest one first, if they are saved with the
    model. `words` is empty for a text of nothing but whitespace, which has no label.
    """

    text: str
    label: str
    probability: float
    method: Method
    words: list[WordScore]
    base: float | None = None
    faithfulness: Faithfulness | None = None
    similar: list[SimilarText] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as values for JSON."""
        return asdict(self)

    @property
    def ranked(self) -> list[WordScore]:
        """The words, the most important ones first."""
        return sorted(self.words, key=lambda word: -abs(word.score))

    @property
    def highest(self) -> float:
        """Size of the largest score; 1 if all are 0."""
        return max((abs(word.score) for word in self.words), default=0.0) or 1.0

    def weights(self) -> list[tuple[int, int, float]]:
        """Return start, end and weight of each word: its score as a share of the largest one, from -1 to 1."""
        highest = self.highest
        return [(word.start, word.end, word.score / highest) for word in self.words]
