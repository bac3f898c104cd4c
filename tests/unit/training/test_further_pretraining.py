"""Further pretraining of a checkpoint on the user's texts: where it starts, what it learns, and who starts from it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from epigram.core.errors import ParameterError
from epigram.core.files import read_json
from epigram.inference.predictors.dataset_batches import data_spec_of
from epigram.models.serialization import load as saved_model
from epigram.nn.pretrained import warm_start
from epigram.nn.pretrained.checkpoint import load_masked_head
from epigram.nn.pretrained.load_encoder import from_checkpoint
from epigram.nn.pretrained.warm_start import find_pretrained
from epigram.recipes.registry import RECIPES
from epigram.stages import train
from epigram.text.dataset.encoded_dataset import View
from epigram.text.settings import PretrainSettings, ViewSettings
from epigram.training.pretraining import pretrain_encoder
from epigram.training.pretraining.further import FAMILIES
from epigram.training.pretraining.masked_language import MaskedLanguageModel
from epigram.training.pretraining.shards import Texts
from epigram.workflow.pretrain import pretrain_view
from tests.support import families, sentence_encoder, static_model
from tests.support.pretraining import CORPUS, PAIRS, encode, params, write_corpus
from tests.support.refusals import checked, pretrained
from tests.support.tiny_bert import SPECIAL, write_bert

pytestmark = pytest.mark.usefixtures("own_folder")

WORDS = ("and", *PAIRS, *PAIRS.values())
QUICK = PretrainSettings(epochs=1, batch_size=16, learning_rate=5e-3)
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("start") / "bert", WORDS)


@pytest.fixture(scope="module")
def further(
    encoded_view: Callable[[ViewSettings], Path], checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[View, Path]:
    """Return a view with a checkpoint, and the folder of this checkpoint after further pretraining."""
    view, out = encoded_view(ViewSettings(checkpoint=str(checkpoint))), tmp_path_factory.mktemp("new") / "out"
    pretrain_view("v", replace(QUICK, epochs=20), view, out, state=out.with_name("state"))
    return View.load(view), out


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_without_a_step_the_folder_gives_the_states_of_the_checkpoint(family: str, tmp_path: Path) -> None:
    folder, out = families.checkpoint(family, tmp_path / "start"), tmp_path / "out"
    for name in ("vocab.txt", "README.md"):
        (folder / name).write_text("a")
    out.mkdir()
    tokens, (_, encoder) = families.texts(), families.built(folder)
    wanted = encoder(tokens).last
    warm_start.write(out, encoder, folder / "vocab.txt", {"steps": 1}, str(folder))
    spec = families.context(checkpoint=str(folder), pretrained=find_pretrained(out, folder / "vocab.txt"))
    assert sorted(path.name for path in out.iterdir()) == ["about.json", "config.json", WEIGHTS, "vocab.txt"]
    assert (out / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    del encoder  # the library maps the file of its weights
    (folder / WEIGHTS).write_bytes(b"")  # it is not read again
    model: Any = families.recipe_of().build(spec)
    assert torch.equal(model.eval().encoder(tokens).last, wanted)


def test_it_learns_the_words_of_the_texts(further: tuple[View, Path], checkpoint: Path) -> None:
    view, folder = further
    about = read_json(folder / "about.json")
    ids = np.asarray(view.split("train").ids.values)
    unigram = np.bincount(ids).max() / len(ids)  # the accuracy of always predicting the most frequent token
    assert about["perplexity"]["after"] < 0.5 * about["perplexity"]["before"]
    assert about["accuracy"]["after"] > unigram + 0.1
    assert (about["texts"], about["held_out"]) == (392, 8)
    assert (folder / "vocab.txt").read_bytes() == (checkpoint / "vocab.txt").read_bytes()
    before, after = load_file(checkpoint / WEIGHTS), load_file(folder / WEIGHTS)
    assert before.keys() == after.keys()
    assert not torch.equal(before["encoder.layer.0.output.dense.weight"], after["encoder.layer.0.output.dense.weight"])


@pytest.mark.parametrize("system", ["bert", "embedding_linear"])
def test_a_trained_system_starts_from_the_further_pretrained_weights(
    further: tuple[View, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    view, folder = further
    setting = {"train": {"epochs": 1, "learning_rate": 1e-9}} if system == "bert" else {}
    params(tmp_path, {"checkpoint": view.checkpoint, "pretrain": {}}, systems={system: {"view": "v", **setting}})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train", system, str(view.folder), str(folder), "out"])
    train.main()
    model: Any = saved_model(tmp_path / "out/seed-0").model
    weights, wanted = model.encoder.backbone.state_dict(), load_file(folder / WEIGHTS)
    for name, tensor in wanted.items():
        torch.testing.assert_close(weights[name], tensor, atol=1e-6, rtol=0)
    assert str(folder) not in (tmp_path / "out/seed-0/config.json").read_text()


def pretrained_on(corpus: Any, checkpoint: Path, folder: Path, settings: PretrainSettings) -> dict[str, torch.Tensor]:
    """Return the weights of `checkpoint` after further pretraining on a corpus of labelled texts."""
    folder.mkdir()
    write_corpus(folder, corpus)
    view = encode(folder, ViewSettings(checkpoint=str(checkpoint)), "encoded")
    pretrain_view("v", settings, view, folder / "out", state=folder / "state")
    return load_file(folder / "out" / WEIGHTS)


def test_a_seed_gives_the_same_weights_whatever_dev_and_test_are(checkpoint: Path, tmp_path: Path) -> None:
    others: dict[str, list[tuple[str, str]]] = {
        **CORPUS,
        "dev": [("pepper salt", "pos"), ("moon", "neg")],
        "test": [("mouse paper", "neg"), ("wind", "pos")],
    }
    a = pretrained_on(CORPUS, checkpoint, tmp_path / "a", QUICK)
    b = pretrained_on(others, checkpoint, tmp_path / "b", QUICK)
    c = pretrained_on(CORPUS, checkpoint, tmp_path / "c", replace(QUICK, seed=1))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


@pytest.mark.parametrize(("family", "legacy"), [("bert", False), ("bert", True), ("ernie", False), ("roberta", False)])
@torch.no_grad()
def test_the_head_of_the_checkpoint_predicts_as_the_library_does(family: str, legacy: bool, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForMaskedLM

    torch.manual_seed(0)
    library = AutoModelForMaskedLM.from_config(AutoConfig.for_model(family, **families.SIZES)).eval()
    for weight in library.parameters():  # biases and norms too, which are 0 and 1
        weight.add_(0.1 * torch.randn(weight.shape))
    library.save_pretrained(tmp_path)
    if legacy:
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        weights = load_file(tmp_path / WEIGHTS)
        for new, old in names.items():
            weights = {name.replace(new, old): tensor for name, tensor in weights.items()}
        save_file(weights, tmp_path / WEIGHTS)
    _, encoder = families.built(tmp_path)
    tokens = families.texts()
    places = tokens.valid.nonzero(as_tuple=True)
    ours = MaskedLanguageModel(encoder, load_masked_head(tmp_path)).eval()(tokens, places)
    wanted = library(input_ids=tokens.ids, attention_mask=tokens.valid.long()).logits[places]
    torch.testing.assert_close(ours, wanted, atol=1e-4, rtol=1e-4)


def test_without_a_whole_head_a_new_one_is_random(checkpoint: Path) -> None:
    spec = families.context(checkpoint=str(checkpoint), vocabulary=len(SPECIAL) + len(WORDS), max_length=16)
    encoder: Any = families.recipe_of().build(spec).encoder  # type: ignore[union-attr]
    assert load_masked_head(checkpoint) == {}
    whole = MaskedLanguageModel(encoder).state_dict()
    ones = {name: torch.ones_like(weight) for name, weight in whole.items() if not name.startswith("encoder.")}
    for given in ({"bias": ones["bias"]}, {**ones, "transform.0.weight": torch.ones(1, 1)}):
        assert MaskedLanguageModel(encoder, given).bias.abs().max() == 0
    assert MaskedLanguageModel(encoder, ones).bias.min() == 1


@pytest.mark.parametrize(("given", "rate"), [(None, 1e-4), (3e-5, 3e-5)])
def test_the_learning_rate_of_a_checkpoint_is_low(
    further: tuple[View, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: float | None, rate: float
) -> None:
    class SeenError(Exception):
        pass

    def trainer(_: Any, objective: Any, **__: Any) -> None:
        raise SeenError(objective.config.learning_rate)

    monkeypatch.setattr(pretrain_encoder, "Trainer", trainer)
    texts = Texts(further[0].split("train").ids, np.ones(len(further[0].split("train").ids.values), bool))
    with pytest.raises(SeenError, match=str(rate)):
        pretrain_encoder.pretrain_encoder(further[0], PretrainSettings(learning_rate=given), texts, texts)


def test_a_checkpoint_is_refused_that_has_not_learned_masked_words(checkpoint: Path, tmp_path: Path) -> None:
    sentence_encoder.write_checkpoint(tmp_path / "use", ["good"])
    static_model.write_model(tmp_path / "static", ["good"])
    families.checkpoint("electra", tmp_path / "electra")
    families.checkpoint("xlnet", tmp_path / "xlnet", families.OTHERS["xlnet"])
    kinds = {
        "use": "a Universal",
        "static": "a table",
        "electra": "of the family electra",
        "xlnet": "of the family xlnet",
    }
    for name, kind in kinds.items():
        said = rf"^params\.yaml: views\.view\.pretrain predicts masked words.*/{name}', {kind}.*, has not learned; .*$"
        with pytest.raises(ParameterError, match=said):
            checked(checkpoint=str(tmp_path / name), pretrain=PretrainSettings(), recipe="tfidf_svm")
    system = {"recipe": "bert", "encoder": pretrained(attention="correlation")}
    checked(checkpoint=str(checkpoint), pretrain=PretrainSettings(), **system)  # the restriction is of small encoders


@pytest.mark.parametrize("size", ["width", "depth", "heads", "hidden"])
def test_sizes_have_no_effect_on_a_checkpoint(
    encoded_view: Callable[[ViewSettings], Path], checkpoint: Path, tmp_path: Path, size: str
) -> None:
    settings, said = PretrainSettings(**{size: 2}), rf"pretrain\.{size} has no effect, because the checkpoint has"
    with pytest.raises(ParameterError, match=rf"^params\.yaml: views\.view\.{said}"):
        checked(checkpoint=str(checkpoint), pretrain=settings, recipe="tfidf_svm")
    view = encoded_view(ViewSettings(checkpoint=str(checkpoint)))
    with pytest.raises(ParameterError, match=rf"^params\.yaml: views\.v\.{said}"):
        pretrain_view("v", settings, view, tmp_path / "out", state=tmp_path / "state")


def test_a_tokenizer_without_a_mask_is_refused(further: tuple[View, Path]) -> None:
    view = replace(further[0], mask_id=None)
    texts = Texts(view.split("train").ids, np.ones(1, bool))
    with pytest.raises(
        ParameterError, match=r"views\.v\.pretrain masks words, but the tokenizer of the checkpoint has"
    ):
        pretrain_encoder.pretrain_encoder(view, QUICK, texts, texts)


def test_the_folder_is_a_checkpoint_of_its_own(further: tuple[View, Path]) -> None:
    view, folder = further
    own: Any = RECIPES["bert"].build(replace(data_spec_of(view, 16), checkpoint=str(folder)))
    assert torch.equal(own.encoder.token_table.weight, from_checkpoint(str(folder)).embeddings.word_embeddings.weight)
    assert torch.equal(own.encoder.token_table.weight, load_file(folder / WEIGHTS)["embeddings.word_embeddings.weight"])
