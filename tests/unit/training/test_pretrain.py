"""Tests of pretraining on the user's texts: what is masked, what is learned, and which models get the weights."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.inference.predictors.dataset_batches import data_spec_of, template_of
from epigram.models.serialization import load as saved_model
from epigram.nn.pretrained.warm_start import find_pretrained
from epigram.recipes.registry import RECIPES
from epigram.stages import train
from epigram.text.dataset.encoded_dataset import View
from epigram.text.settings import (
    PretrainSettings,
    ViewSettings,
)
from epigram.text.unlabelled import write_texts
from epigram.training.pretraining import shards
from epigram.training.pretraining.shards import Shards, Texts
from epigram.workflow.pretrain import pretrain_view
from tests.support.pretraining import SMALL, params

pytestmark = pytest.mark.usefixtures("own_folder")

LENGTH = 64


@pytest.fixture(scope="module")
def pretrained(
    encoded_view: Callable[[ViewSettings], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[View, Path]:
    """Return a word-piece view with a prompt, and the folder of an encoder pretrained on it."""
    view, out = encoded_view(ViewSettings(tokenizer="wordpiece", prompt=True)), tmp_path_factory.mktemp("new") / "out"
    settings = PretrainSettings(**SMALL, max_length=LENGTH, epochs=12)
    pretrain_view("v", settings, view, out, state=out.with_name("state"))
    return View.load(view), out


def test_shards_hold_every_text_once(
    encoded_view: Callable[[ViewSettings], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = View.load(encoded_view(ViewSettings()))
    write_texts(tmp_path, view, None)
    kept, held = Texts.load(tmp_path, "train"), Texts.load(tmp_path, "held")
    assert (len(kept), len(held)) == (392, 8)
    whole = Shards(kept, template_of(view, 32), torch.device("cpu")).shard(0)
    monkeypatch.setattr(shards, "SHARD_TOKENS", 500)
    parts = Shards(kept, template_of(view, 32), torch.device("cpu"))
    assert len(parts.edges) > 1
    every = [each.gather(np.arange(len(each))).ids for each in map(parts.shard, range(len(parts.edges)))]
    assert torch.equal(torch.cat(every), whole.gather(np.arange(392)).ids)
    order = np.random.default_rng(0)
    assert parts.steps(16) == sum(len(each.epoch(order, 16, 10_000)) for each in parts.shuffled(order))


def test_it_learns_to_name_what_is_hidden(pretrained: tuple[View, Path]) -> None:
    view, folder = pretrained
    about = json.loads((folder / "about.json").read_text())
    ids = np.asarray(view.split("train").ids.values)
    unigram = np.bincount(ids).max() / len(ids)  # the accuracy of always predicting the most frequent token
    assert about["perplexity"]["after"] < 0.5 * about["perplexity"]["before"]
    assert about["accuracy"]["after"] > unigram + 0.2
    assert about["accuracy"]["before"] < unigram + 0.1
    assert (about["texts"], about["held_out"]) == (392, 8)
    assert sorted(path.name for path in folder.iterdir()) == ["about.json", "config.json", "model.safetensors"]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_a_seed_gives_the_same_weights_and_another_seed_others(
    encoded_view: Callable[[ViewSettings], Path], tmp_path: Path
) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        settings = PretrainSettings(**SMALL, epochs=1, seed=seed)
        pretrain_view("v", settings, encoded_view(ViewSettings()), tmp_path / name, state=tmp_path / "state")
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


@pytest.mark.parametrize("name", ["bert", "bert_cnn", "bert_hth", "bert_hth_pta_paper", "bert_pta", "bert_pta_soft"])
def test_the_weights_arrive(pretrained: tuple[View, Path], name: str) -> None:
    view, folder = pretrained
    model: Any = RECIPES[name].build(data_spec_of(view, LENGTH, folder))
    state = model.encoder.state_dict()
    for key, tensor in weights(folder).items():
        assert torch.equal(state[key], tensor), key
    assert all("head_to_head" in key for key in set(state) - set(weights(folder)))
    torch.manual_seed(0)
    apart: Any = RECIPES["transformer_hth"].build(data_spec_of(view, LENGTH, folder))
    assert apart.encoder.width == 128  # only encoders that can be pretrained take the weights


def test_a_trained_model_needs_it_no_more(
    pretrained: tuple[View, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, folder = pretrained
    params(tmp_path, None, systems={"bert_hth": {"view": "v", "train": {"epochs": 1, "max_length": 48}}})
    (tmp_path / "off").mkdir()
    (tmp_path / "off/about.json").write_text('{"steps": 0}')
    monkeypatch.chdir(tmp_path)
    for start, out, depth in ((folder, "on", 2), (tmp_path / "off", "as_before", 4)):
        monkeypatch.setattr(sys, "argv", ["train", "bert_hth", str(view.folder), str(start), out])
        train.main()
        saved = saved_model(tmp_path / out / "seed-0")
        assert saved.model.depth == depth
        assert str(folder) not in (tmp_path / out / "seed-0/config.json").read_text()


@pytest.mark.parametrize("length", [48, 80])
def test_a_model_may_read_shorter_or_longer_texts(pretrained: tuple[View, Path], length: int) -> None:
    view, folder = pretrained
    model: Any = RECIPES["bert"].build(data_spec_of(view, length, folder))
    positions, known = model.encoder.embedding.position.weight, weights(folder)["embedding.position.weight"]
    assert (len(positions), len(known)) == (length, LENGTH)
    kept = min(length, LENGTH)
    assert torch.equal(positions[:kept], known[:kept])
    assert positions[kept:].isfinite().all()


@pytest.mark.parametrize("small", [{"depth": 3}, {"heads": 4}, {"positions": "sinusoidal"}, {"embedding_norm": False}])
def test_other_sizes_are_refused(pretrained: tuple[View, Path], small: dict[str, Any]) -> None:
    view, folder = pretrained
    recipe = RECIPES["bert"].changed(encoder={"small": small}, head={}, train={})
    [name] = small
    with pytest.raises(ParameterError, match=rf"systems.bert: encoder.small.{name} is .* pretrained with"):
        recipe.build(data_spec_of(view, LENGTH, folder), "systems.bert")
    recipe = RECIPES["bert"].changed(encoder={"small": {"dropout": 0.3, "depth": 2}}, head={}, train={})
    assert recipe.build(data_spec_of(view, LENGTH, folder)).encoder.config.dropout == 0.3  # type: ignore[union-attr]


def test_an_encoder_of_another_vocabulary_is_refused(
    pretrained: tuple[View, Path], encoded_view: Callable[[ViewSettings], Path], tmp_path: Path
) -> None:
    view, folder = pretrained
    assert find_pretrained(folder, view.tokenizer_json) == folder
    other = View.load(encoded_view(ViewSettings()))
    with pytest.raises(DataError, match="different vocabulary"):
        find_pretrained(folder, other.tokenizer_json)
    with pytest.raises(DataError, match="does not match the view"):
        RECIPES["bert"].build(data_spec_of(other, LENGTH, folder))
    with pytest.raises(InputMissingError, match=r"about\.json is missing"):
        find_pretrained(tmp_path / "nowhere", view.tokenizer_json)
