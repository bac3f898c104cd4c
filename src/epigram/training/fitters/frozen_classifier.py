"""Fit of a linear head on a frozen encoder: logistic regression, or linear SVMs if the head also counts n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.models.batches import TextBatches
from epigram.models.classifier import Classifier
from epigram.models.precision import matmul_precision
from epigram.models.predict import Predicted, batch_limits, gold_labels
from epigram.nn.heads.linear import LinearHead
from epigram.nn.heads.linear_ngrams import LinearNgramsHead
from epigram.training import fitters
from epigram.training.config import ClassWeight
from epigram.training.ngram_regression import fit_ngrams
from epigram.training.trained import FitOptions, Trained, closed_form

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)  # C of scikit-learn: the inverse of the penalty's weight
NEVER = -30.0  # logit of a class without training texts

Floats = NDArray[np.floating[Any]]
Solution = tuple[Floats, Floats]  # weights (D, C) and biases (C,)


class LogisticOptions(NamedTuple):
    """Options of a logistic regression: C, and the weight of the classes."""

    penalty: float
    class_weight: ClassWeight


@fitters.register("frozen_classifier")
def fit_model(model: Classifier, train: TextBatches, dev: TextBatches, options: FitOptions) -> Trained:
    """Fit the head on the CPU; the encoder runs on the device of the texts."""
    if isinstance(model.head, LinearNgramsHead):
        fit_ngrams(model, train, dev, (encode(model, train), encode(model, dev)), options)
    else:
        fit(model, train, dev, options.config.class_weight)
    return replace(closed_form(model, dev), depth=model.depth)


def fit(model: Classifier, train: TextBatches, dev: TextBatches, class_weight: ClassWeight = "none") -> None:
    """Set the head's linear layer to the logistic regression with the penalty that has the lowest loss on `dev`.

    The encodings are standardized with the mean and the standard deviation of `train`, and the layer contains that
    transformation.
    """
    x, held_out = encode(model, train), encode(model, dev)
    mean, scale = x.mean(0), x.std(0)
    scale[scale == 0.0] = 1.0  # a constant feature
    x, held_out = (x - mean) / scale, (held_out - mean) / scale
    wanted, layer = gold_labels(dev), cast(LinearHead, model.head).out

    def loss(solution: Solution) -> float:
        weight, bias = solution
        return Predicted((held_out @ weight + bias).astype(np.float32), None, model.multi).loss(wanted)

    weight, bias = min(_solutions(x, gold_labels(train), layer.out_features, class_weight), key=loss)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy((weight / scale[:, None]).T))
        layer.bias.copy_(torch.from_numpy(bias - mean / scale @ weight))


@torch.inference_mode()
def encode(model: Classifier, texts: TextBatches) -> NDArray[np.float64]:
    """Return the encodings (N, D) that the head's linear layer reads, in the precision of predictions."""
    model.eval()
    head = cast(LinearHead, model.head)
    found = np.empty((len(texts), model.encoder.width))
    with matmul_precision("auto", texts.device):
        for batch in texts.in_order(*batch_limits(texts.device)):
            found[batch] = head.text_states(model.encode(texts.gather(batch))).float().cpu().numpy()
    return found


def _solutions(x: Floats, labels: NDArray[np.integer], classes: int, class_weight: ClassWeight) -> Iterator[Solution]:
    """Yield the weights (D, C) and biases (C,) for each penalty, for class indices (N,) or indicators (N, C)."""
    for penalty in PENALTIES:
        options = LogisticOptions(penalty, class_weight)
        if labels.ndim == 1:
            yield _fit_single_label(x, labels, classes, options)
        else:
            columns = [_fit_indicator(x, column, options) for column in labels.T]
            yield np.stack([weight for weight, _ in columns], 1), np.array([bias for _, bias in columns])


def _fit_single_label(x: Floats, labels: NDArray[np.integer], classes: int, options: LogisticOptions) -> Solution:
    weights, biases = np.zeros((x.shape[1], classes)), np.full(classes, NEVER)
    present = np.unique(labels)
    if len(present) == 1:
        biases[present] = 0.0
        return weights, biases
    weight, bias = _regress(x, labels, options)
    if len(present) == 2:  # scikit-learn returns the logit of the second class
        weight, bias = np.stack([-weight[0], weight[0]]) / 2, np.array([-bias[0], bias[0]]) / 2
    weights[:, present], biases[present] = weight.T, bias
    return weights, biases


def _fit_indicator(x: Floats, labels: NDArray[np.integer], options: LogisticOptions) -> tuple[Floats, float]:
    """Return the weights (D,) and the bias of one label; a label of all or no texts gets only a bias."""
    if labels.min() == labels.max():
        return np.zeros(x.shape[1]), -NEVER if labels[0] else NEVER
    weight, bias = _regress(x, labels, options)
    return weight[0], float(bias[0])


def _regress(x: Floats, labels: NDArray[np.integer], options: LogisticOptions) -> Solution:
    """Return the weights (M, D) and biases (M,) of scikit-learn's logistic regression."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=options.penalty, max_iter=1000, class_weight=None if options.class_weight == "none" else "balanced"
    ).fit(x, labels)
    return model.coef_, model.intercept_
