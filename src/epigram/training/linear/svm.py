"""Linear SVMs by liblinear: one-vs-rest weights of sparse features, and the scale that turns margins into logits."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epigram.core import deadline
from epigram.models.linear_svm import Weighting
from epigram.models.predict import Predicted
from epigram.training.config import ClassWeight
from epigram.training.objectives.classification import balanced_weights
from epigram.training.tuning import calibrated

Floats = NDArray[np.floating[Any]]
Solution = tuple[Floats, Floats]  # weights (F, C) and biases (C,)


class SvmOptions(NamedTuple):
    """Options of a liblinear fit: C, the seed of its order, and the weights of the classes and of the features."""

    penalty: float
    seed: int
    class_weight: ClassWeight
    weighting: Weighting = "tfidf"


def fit_svms(x: Any, labels: NDArray[np.integer], classes: int, options: SvmOptions) -> Solution:
    """Return weights (F, C) and biases (C,) of one-vs-rest SVMs for class indices (N,) or indicators (N, C).

    The weights apply to the features `x` (N, F), a sparse matrix, and include any weighting of the options.
    """
    deadline.check()
    if labels.ndim == 1:
        return _fit_single_label(x, labels, classes, options)
    fits = (_fit_svm(x, column, options, _class_weight(options)) for column in labels.T)
    return _collect(fits, x.shape[1], labels.shape[1])


def _fit_single_label(x: Any, labels: NDArray[np.integer], classes: int, options: SvmOptions) -> Solution:
    """Return weights (F, C) and biases (C,) for class indices (N,); a class without rows gets only a bias."""
    present, codes = np.unique(labels, return_inverse=True)
    if options.weighting == "naive_bayes" and len(present) > 2:
        weight, bias = _fit_each_class(x, codes, options)
    else:
        weight, bias = _fit_svm(x, codes, options, _class_weight(options))
    if len(present) == 2:  # liblinear returns one margin for two classes
        weight, bias = np.hstack([-weight, weight]), np.concatenate([-bias, bias])
    if len(present) == classes:
        return weight, bias
    weights, biases = np.zeros((x.shape[1], classes)), np.full(classes, -1.0)
    weights[:, present], biases[present] = weight, bias if len(present) > 1 else 1.0
    return weights, biases


def _fit_each_class(x: Any, codes: NDArray[np.integer], options: SvmOptions) -> Solution:
    """Return weights (F, C) and biases (C,) of an SVM per class; as in liblinear, the rest has the weight 1."""
    share = balanced_weights(codes) if options.class_weight == "balanced" else np.ones(codes.max() + 1)
    fits = (_fit_svm(x, codes == code, options, {1: float(own)}) for code, own in enumerate(share))
    return _collect(fits, x.shape[1], len(share))


def _collect(fits: Iterable[Solution], features: int, classes: int) -> Solution:
    """Return weights (F, C) and biases (C,) of fits of one class each; each fit is freed before the next one."""
    weights, biases = np.empty((features, classes)), np.empty(classes)
    for place, (weight, bias) in enumerate(fits):
        weights[:, [place]], biases[[place]] = weight, bias
    return weights, biases


def _class_weight(options: SvmOptions) -> str | None:
    """Return the name of the class weights in scikit-learn."""
    return None if options.class_weight == "none" else "balanced"


def _fit_svm(x: Any, labels: NDArray[Any], options: SvmOptions, class_weight: Any) -> Solution:
    """Return weights (F, M) and biases (M,) of one liblinear fit; a label of all or no rows gets only a bias.

    With naive-Bayes weighting, feature f of x is multiplied by r_f, so its weight in terms of x is r_f · w_f.
    """
    from scipy.sparse import csr_matrix
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    if len(np.unique(labels)) == 1:
        return np.zeros((x.shape[1], 1)), np.array([1.0 if labels[0] else -1.0])
    ratio = None
    if options.weighting == "naive_bayes":
        ratio = log_count_ratios(x, labels > 0)
        x = csr_matrix((x.data * ratio[x.indices], x.indices, x.indptr), shape=x.shape)
    svm = LinearSVC(
        C=options.penalty,
        random_state=options.seed,
        class_weight=class_weight,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(x, labels)
    weight: Floats = svm.coef_.T
    return weight if ratio is None else weight * ratio[:, None], svm.intercept_


def log_count_ratios(x: Any, has_label: NDArray[np.bool_]) -> Floats:
    """Return the log-count ratio r (F,) of each feature of `x` (N, F), in CSR form, for the texts with a label.

    Wang and Manning (2012), section 2.1: r = log((p / ‖p‖₁) / (q / ‖q‖₁)), where p is 1 + the number of texts with the
    label that have the feature, and q is the same for texts without the label.
    """
    own = np.repeat(has_label, np.diff(x.indptr))
    p, q = (1.0 + np.bincount(x.indices[of], minlength=x.shape[1]) for of in (own, ~own))
    ratios: Floats = np.log(p / p.sum()) - np.log(q / q.sum())
    return ratios


def fit_scale(margins: Predicted, labels: NDArray[np.integer]) -> float:
    """Return the scale of the margins: 1 / T for the temperature T that fits them best, with smoothed targets."""
    return 1.0 / calibrated(margins, labels)[1]


def scaled(margins: Predicted, scale: float) -> Predicted:
    """Return the margins times `scale`."""
    return Predicted(margins.logits * np.float32(scale), None, margins.multi)
