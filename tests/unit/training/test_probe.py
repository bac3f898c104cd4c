"""Tests of the classifiers on layers that tell which layers are needed."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from epigram.models.predict import Predicted
from epigram.training.frozen import probe as module
from epigram.training.frozen.probe import fit_classifiers, probe


def test_a_classifier_of_one_label_does_not_depend_on_the_number_of_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2, 60, 3, generator=generator)
    labels = (features[0, :, 0] + torch.randn(60, generator=generator) > 0).long().unsqueeze(1)
    one, many = fit_classifiers(features, labels, 1), fit_classifiers(features, labels.tile(1, 50), 50)
    assert one.abs().max() > 0.5
    torch.testing.assert_close(many[..., :1], one, atol=2e-3, rtol=0)
    torch.testing.assert_close(many[..., :1], many[..., -1:], atol=1e-5, rtol=0)


def test_the_scale_and_the_offset_of_a_layer_do_not_change_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both layers tell the label equally well, one by differences of a hundred-thousandth, the other by units."""
    generator = np.random.default_rng(0)
    labels = np.arange(200) % 2
    signal = (2 * labels - 1 + generator.normal(0, 0.3, 200))[:, None]
    features = torch.tensor(np.stack([signal, 0.05 + 1e-5 * signal])).float()
    texts: Any = mock.MagicMock(labels=labels, targets=lambda rows: torch.tensor(labels[rows]))
    texts.__len__.return_value = 200
    monkeypatch.setattr(module, "layer_means", lambda model, texts, rows: features[:, rows])
    one, other = (Predicted(votes, None).score(labels) for votes in probe(None, texts, texts, 2))
    assert one > 0.99 and other == pytest.approx(one, abs=0.01)
