"""Tests of the classifiers on layers that tell which layers are needed."""

from __future__ import annotations

import torch

from epigram.pruning.probe import fit_classifiers


def test_a_classifier_of_one_label_does_not_depend_on_the_number_of_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2, 60, 3, generator=generator)
    labels = (features[0, :, 0] + torch.randn(60, generator=generator) > 0).long().unsqueeze(1)
    one, many = fit_classifiers(features, labels, 1), fit_classifiers(features, labels.tile(1, 50), 50)
    assert one.abs().max() > 0.5
    torch.testing.assert_close(many[..., :1], one, atol=2e-3, rtol=0)
    torch.testing.assert_close(many[..., :1], many[..., -1:], atol=1e-5, rtol=0)
