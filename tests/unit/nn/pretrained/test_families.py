"""Tests of systems that expect a family of pretrained encoders: with its checkpoint, a wrong one, and none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from epigram.core.errors import DataError, ParameterError
from epigram.nn.encoders.pretrained import PretrainedConfig, PretrainedEncoder
from epigram.nn.pretrained.families import check_family, count_chinese_characters
from epigram.pruning.depth import truncated_copy
from epigram.recipes.registry import RECIPES
from tests.support.families import FAMILIES, OTHERS, checkpoint, context, texts

EXPECTED = {"roberta": "roberta", "albert": "albert", "macbert": "bert", "ernie": "ernie", "xlnet": "xlnet"}
ACCEPTED = {  # model_type of config.json
    "roberta": ["roberta", "xlm-roberta", "camembert", "bert"],
    "albert": ["albert"],
    "macbert": ["bert"],
    "ernie": ["ernie", "bert"],
    "xlnet": ["xlnet"],
}
XLNET = {"d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 24}


@pytest.mark.parametrize("model_type", [*FAMILIES, *OTHERS])
@pytest.mark.parametrize("name", EXPECTED)
def test_config_json_decides_where_it_can(name: str, model_type: str, tmp_path: Path) -> None:
    """The files of MacBERT, RoBERTa-wwm, ERNIE 1.0 and a Chinese BERT are alike: the system says which one it is."""
    config = {"model_type": model_type, "hidden_size": 16, "num_attention_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").touch()
    encoder = PretrainedConfig(family=RECIPES[name].encoder["family"])
    if model_type in ACCEPTED[name]:
        encoder.check(context(checkpoint=str(tmp_path)))
        assert encoder.state_width(context(checkpoint=str(tmp_path))) == 16
        return
    wanted = " or ".join(ACCEPTED[name])
    message = (
        f"encoder.family is '{name}', but the view's checkpoint '{tmp_path}' has the model_type {model_type}; expected "
        f"{wanted}: use a view with a checkpoint of {name}, or the system bert, which accepts any family"
    )
    with pytest.raises(ValueError) as refusal:
        encoder.check(context(checkpoint=str(tmp_path)))
    assert str(refusal.value) == message


CHINESE = {chr(0x4E00 + number): number for number in range(1_000)}
ENGLISH = dict.fromkeys([*list(CHINESE)[:999], "##\u4e00", "\u4e00\u4e01", "a", "the"], 0)


@pytest.mark.parametrize(
    ("name", "model_type", "vocabulary", "accepted"),
    [
        ("macbert", "bert", CHINESE, True),
        ("macbert", "bert", ENGLISH, False),
        ("roberta", "bert", CHINESE, True),
        ("roberta", "bert", ENGLISH, False),
        ("roberta", "roberta", ENGLISH, True),
        ("roberta", "camembert", ENGLISH, True),
        ("ernie", "bert", ENGLISH, True),  # ERNIE 2.0
        ("ernie", "bert", CHINESE, True),
        ("ernie", "ernie", ENGLISH, True),
        ("bert", "bert", ENGLISH, True),
        (None, "bert", ENGLISH, True),
    ],
)
@pytest.mark.parametrize("file", ["tokenizer.json", "vocab.txt"])
def test_a_bert_that_is_published_for_chinese_only_has_a_chinese_vocabulary(
    name: Any, model_type: str, vocabulary: dict[str, int], accepted: bool, file: str, tmp_path: Path
) -> None:
    text = json.dumps({"model": {"vocab": vocabulary}}) if file == "tokenizer.json" else "\n".join(vocabulary)
    (tmp_path / file).write_text(text, encoding="utf-8")
    if accepted:
        check_family(name, model_type, str(tmp_path))
        return
    message = (
        f"encoder.family is '{name}', but the view's checkpoint '{tmp_path}' has the model_type bert and only 999 "
        f"Chinese characters in its vocabulary; {name} exists in this architecture for Chinese only: use a view with a "
        f"checkpoint of {name}, or the system bert, which accepts any family"
    )
    with pytest.raises(ValueError) as refusal:
        check_family(name, model_type, str(tmp_path))
    assert str(refusal.value) == message


def test_a_folder_without_a_vocabulary_shows_nothing(tmp_path: Path) -> None:
    assert count_chinese_characters(tmp_path) is None
    check_family("macbert", "bert", str(tmp_path))
    for content in ("[]", "{}", '{"model": []}', '{"model": {"vocab": 3}}'):
        (tmp_path / "tokenizer.json").write_text(content)
        assert count_chinese_characters(tmp_path) is None
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": [["\u4e00", 0.5]]}}')  # a unigram model's pairs
    assert count_chinese_characters(tmp_path) == 0


@pytest.mark.parametrize(("name", "family"), EXPECTED.items())
def test_a_checkpoint_of_the_family_is_taken(name: str, family: str, tmp_path: Path) -> None:
    folder = checkpoint(family, tmp_path, {**FAMILIES, "xlnet": XLNET}[family])
    model = RECIPES[name].build(context(checkpoint=str(folder)))
    assert model.depth == 3 and model.eval()(texts()).logits.shape == (3, 2)


def test_the_system_roberta_reads_the_weights_of_a_bert(tmp_path: Path) -> None:
    folder = checkpoint("bert", tmp_path)
    model = RECIPES["roberta"].build(context(checkpoint=str(folder)))
    weights = load_file(folder / "model.safetensors")
    assert torch.equal(model.encoder.token_table.weight, weights["embeddings.word_embeddings.weight"])


@pytest.mark.parametrize("name", EXPECTED)
def test_a_checkpoint_of_another_family_is_refused(name: str, tmp_path: Path) -> None:
    folder = checkpoint("electra", tmp_path)
    message = rf"systems\.x: encoder\.family is '{name}', but the view's checkpoint '.*' has the model_type electra"
    with pytest.raises(ParameterError, match=message):
        RECIPES[name].build(context(checkpoint=str(folder)), "systems.x")


def test_weights_of_another_architecture_than_that_of_config_json_are_refused(tmp_path: Path) -> None:
    """A RoBERTa-wwm, whose weights are those of a bert, with the model_type roberta."""
    folder = checkpoint("bert", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "roberta"}))
    weights = load_file(folder / "model.safetensors")
    saved = {f"bert.{name}": weight for name, weight in weights.items()}
    save_file(saved, folder / "model.safetensors", metadata={"format": "pt"})
    message = (
        r"weight embeddings\.LayerNorm\.bias is missing \(53 in all\); check that the weights are those of a roberta"
    )
    with pytest.raises(DataError, match=message):
        RECIPES["bert"].build(context(checkpoint=str(folder)))


def test_a_checkpoint_may_lack_the_pooler(tmp_path: Path) -> None:
    folder = checkpoint("roberta", tmp_path)
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    assert len(kept) == len(weights) - 2
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    assert RECIPES["roberta"].build(context(checkpoint=str(folder))).depth == 3


@pytest.mark.parametrize("name", EXPECTED)
def test_without_a_checkpoint_it_is_a_small_one_of_the_family(name: str) -> None:
    model = RECIPES[name].build(context())
    assert isinstance(model.encoder, PretrainedEncoder)
    assert model.encoder.backbone.config.model_type == EXPECTED[name]
    assert truncated_copy(model, 2).eval()(texts()).logits.shape == (3, 2)


def test_a_size_that_there_is_not_is_named() -> None:
    recipe = RECIPES["roberta"].changed(encoder={"small": {"widht": 8}}, head={}, train={})
    with pytest.raises(ParameterError, match=r"encoder\.small\.widht is not a setting: did you mean 'width'"):
        recipe.build(context())
