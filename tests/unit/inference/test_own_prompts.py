"""A model with a prompt around the text: trained by the stage, it predicts the same in every interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import epigram.hf  # noqa: F401  registers the Auto classes
from epigram.inference.onnx.export import export
from epigram.inference.predictors.predictor import Predictor
from epigram.models.recipe import Recipe
from epigram.models.serialization import load
from epigram.text.settings import OwnTemplate, ViewSettings
from epigram.training.config import configure
from epigram.training.distributed.threads import resolve_threads
from tests.support.text_samples import EN
from tests.support.trained import train_seed

ENCODER = {"kind": "transformer", "width": 16, "heads": 2, "hidden": 16, "depth": 1}
LONG = " ".join(["good slow film"] * 9)


@pytest.mark.parametrize(
    ("text", "masks"), [("a text : {text} it was [MASK] .", 1), ("not [MASK] : {text} but [MASK]", 2)]
)
def test_a_prompt_around_the_text_is_whole_in_every_interface(
    text: str, masks: Any, encoded: Any, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    settings = ViewSettings(tokenizer="wordpiece", prompt=True)
    view = encoded(EN, "en", settings, OwnTemplate(text=text, masks=masks))
    recipe = Recipe(
        name="mine", about="", paper="", view="v", encoder=ENCODER, head={"kind": "prompt"},
        train={"epochs": 1, "max_length": 16, "precision": "fp32"},
    )  # fmt: skip
    config = resolve_threads(configure("mine", recipe), recipe, None)
    train_seed("mine", recipe, config, view, None, 0, tmp_path / "model")
    saved, predictor, texts = load(tmp_path / "model"), Predictor(tmp_path / "model"), ["good", LONG, ""]
    assert saved.model.head.config.gamma == {1: 1.0, 2: 0.5}[masks]
    assert [answer.truncated for answer in predictor.predict(texts)] == [False, True, False]
    batch = predictor.batches(texts).gather(np.arange(3))
    for ids, valid in zip(batch.ids, batch.valid, strict=True):
        row = ids[valid].tolist()
        assert row[: len(view.prefix_ids)] == view.prefix_ids and row[-len(view.suffix_ids) :] == view.suffix_ids
        assert row.count(view.mask_id) == masks and len(row) <= 16
    expected = predictor.probabilities(texts)
    tokens = AutoTokenizer.from_pretrained(tmp_path / "model")(texts, padding=True, return_tensors="pt")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    with torch.inference_mode():
        found = model(**tokens).logits.softmax(-1).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-2)
    if masks == 2:
        return  # an export takes ten seconds, and both numbers of masks use the same operators
    export(tmp_path / "model", tmp_path / "exported")
    np.testing.assert_allclose(Predictor(tmp_path / "exported").probabilities(texts), expected, atol=1e-2)
