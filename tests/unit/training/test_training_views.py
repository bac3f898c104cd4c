"""Tests of the training data of a view: shown token labels, the plain class, and the device of fitting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.inference.predictors.dataset_batches import batches_of, data_spec_of, template_of
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.encoded_dataset import Split
from epigram.training import fit_system
from epigram.training.config import configure
from epigram.training.fitters import Trained
from tests.support.text_samples import EN

LENGTHS = np.array([2, 3, 1, 4, 2, 3, 2, 3, 1, 1])
LABELS = np.array([0, 1, 1, 0, 1, 0, 1, 1, 0, 1])


class Words:
    """View of ten texts; each word of class 0 has the label 1 or 2, each word of class 1 has the default label."""

    view, language, task, tokenizer = "toy", "en", "single", "token"
    labels, token_labels, characters, vectors, checkpoint = ["marked", "plain"], ["O", "A", "B"], "", None, None
    prefix_ids: list[int] = []  # noqa: RUF012
    suffix_ids: list[int] = []  # noqa: RUF012
    pad_id, unk_id, mask_id, vocabulary, max_length = 0, 1, None, 30, 8

    def pos_weight(self) -> np.ndarray:
        return np.ones(30, np.float32)

    def split(self, name: str) -> Split:
        tokens = np.repeat(LABELS, LENGTHS) == 0
        return Split(
            ids=Ragged.from_lengths(np.arange(len(tokens), dtype=np.int32) + 5, LENGTHS),
            labels=LABELS,
            rows=np.arange(10),
            in_train=None,
            token_labels=np.where(tokens, 1 + np.arange(len(tokens)) % 2, 0).astype(np.int16),
            words=np.zeros(len(tokens), np.int32),
            characters=None,
        )


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_of_the_texts_shows_its_token_labels(share: float) -> None:
    view: Any = Words()
    texts = batches_of(view, "train", template_of(view, 8), token_supervision=(share, 3))
    labels = texts.gather(np.arange(10)).labels
    assert labels is not None
    shown = (labels >= 0).any(1)
    assert int(shown.sum()) == round(10 * share)
    assert all((row[:length] >= 0).all() for row, length in zip(labels[shown], LENGTHS[shown.numpy()], strict=True))
    again = batches_of(view, "train", template_of(view, 8), token_supervision=(share, 3)).gather(np.arange(10)).labels
    assert again is not None
    assert again.equal(labels), "the same seed shows the same texts"


def test_the_plain_class_has_the_fewest_marked_tokens() -> None:
    view: Any = Words()
    assert data_spec_of(view, 8).plain_class == 1
    assert data_spec_of(view, 8).token_labels == ("O", "A", "B")
    assert batches_of(view, "dev", template_of(view, 8)).plain_class == 1


class ThreeClasses(Words):
    """View with an additional class 0 without texts: the labels of the texts are 1 and 2."""

    labels = ["absent", "marked", "plain"]  # noqa: RUF012

    def split(self, name: str) -> Split:
        return replace(super().split(name), labels=LABELS + 1)


def test_a_class_without_text_is_not_the_plain_class() -> None:
    view: Any = ThreeClasses()
    assert data_spec_of(view, 8).plain_class == template_of(view, 8).plain_class == 2


def fitted(view: Any, name: str, **model: Any) -> Trained:
    recipe = RECIPES[name].changed(model=model)
    return fit_system.fit_system(recipe, configure(name, recipe), view, seed=0, path="systems.mine")


@pytest.mark.parametrize("name", ["tfidf_svm", "random"])
def test_what_is_not_trained_by_gradient_is_fitted_on_the_cpu(
    name: str, encoded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = encoded(EN, "en")
    wanted = fitted(view, name)
    monkeypatch.setattr(
        fit_system, "default_device", lambda: torch.device("meta")
    )  # NumPy cannot read this device, as with a GPU
    found = fitted(view, name)
    assert (found.dev_accuracy, found.parameters) == (wanted.dev_accuracy, wanted.parameters)
    assert {each.device.type for each in found.model.state_dict().values()} == {"meta"}, "where others are trained"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"orders": [2, 3]}, r"model\.orders is \[2, 3\], but no training text has 2 tokens"),
        ({"min_rows": 9}, r"model\.min_rows is 9, but no n-gram occurs in that many training texts"),
    ],
)
def test_settings_of_the_svm_that_leave_no_n_gram(settings: dict[str, Any], said: str, encoded: Any) -> None:
    words = {**EN, "train": [("good", "pos"), ("slow", "neg"), ("great", "pos")]}
    with pytest.raises(ParameterError, match=r"^params\.yaml: systems\.mine\." + said):
        fitted(encoded(words, "en"), "tfidf_svm", **settings)
