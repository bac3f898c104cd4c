"""Score on held-out texts that selects weights, layers and settings: `train.stop_on` of a system.

The score of the labels of texts is the project's primary metric, of a text that may have several labels at 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epigram.core.errors import ParameterError
from epigram.evaluation.comparison.formats import score_text
from epigram.evaluation.metrics.choice import choose_labels
from epigram.evaluation.metrics.metric_rows import Decided, label_rows
from epigram.evaluation.metrics.primary import TASK_METRIC, PrimaryMetric
from epigram.evaluation.metrics.registry import macro_f1
from epigram.models.batches import TextBatches
from epigram.models.predict import Array, Predicted, gold_labels
from epigram.training.config import TEXT_F1, TOKEN_F1, ScoredLabels

MACRO_F1 = PrimaryMetric("macro_f1", partial(label_rows, statistic=macro_f1))


def metric_score(predicted: Predicted, labels: NDArray[np.integer], metric: PrimaryMetric) -> float:
    """Return the score of the text labels by the `metric`; `labels` are class indices (N,) or indicators (N, C)."""
    if predicted.multi:
        return metric.score(Decided(labels > 0, (predicted.logits > 0)[None], predicted.probabilities[None]))
    chosen = choose_labels(predicted.logits if metric.prices is None else predicted.probabilities, metric.prices)
    return metric.score(Decided(labels, chosen[None], predicted.probabilities[None]))


@dataclass(frozen=True)
class DevScore:
    """Score of a system on held-out texts, by its setting `stop_on` and the project's primary metric."""

    stop_on: ScoredLabels
    metric: PrimaryMetric = TASK_METRIC

    def of(self, predicted: Predicted, texts: TextBatches) -> float:
        """Return the score on labelled `texts`.

        Raises ParameterError if the score needs labels that the texts or the predictions do not have.
        """
        if self.stop_on == "token":
            return predicted.token_score(texts.read_labels())
        if self.stop_on in TEXT_F1 and (predicted.multi or texts.token_labels is None):
            reason = "the texts may have several labels" if predicted.multi else "the data have no token labels"
            raise ParameterError(f"params.yaml: train.stop_on is {self.stop_on}, but {reason}; set it to sentence")
        score = self.of_texts(predicted, gold_labels(texts), texts.plain_class)
        return (predicted.token_score(texts.read_labels()) + score) / 2 if self.stop_on in TOKEN_F1 else score

    def of_texts(self, predicted: Predicted, labels: NDArray[np.integer], plain_class: int = 0) -> float:
        """Return the score of the text labels."""
        if self.stop_on in TEXT_F1:
            return predicted.text_f1(labels, plain_class)
        return metric_score(predicted, labels, MACRO_F1 if self.stop_on == "macro_f1" else self.metric)

    def of_parts(self, parts: Array, texts: TextBatches, *, multi: bool) -> list[float]:
        """Return the score of the text labels by each of the `parts` (K, N, C)."""
        labels = gold_labels(texts)
        return [self.of_texts(Predicted(part, None, multi), labels, texts.plain_class) for part in parts]

    def name(self, *, multi: bool) -> str:
        """Return the name of the score, for messages and reports."""
        if self.stop_on == "token":
            return "token F1"
        own = "macro-F1" if self.stop_on == "macro_f1" else self.metric.title
        texts = "text F1*" if self.stop_on in TEXT_F1 else f"{own} at 0.5" if multi else own
        return f"mean of token F1 and {texts}" if self.stop_on in TOKEN_F1 else texts

    def text(self, score: float) -> str:
        """Format a score: in percent, or the loss, whose negative is the score."""
        return score_text(self.metric.name if self.stop_on == "sentence" else self.stop_on, score)


TEXTS = DevScore("sentence")  # the score of the task
