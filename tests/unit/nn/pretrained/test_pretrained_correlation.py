"""Tests of correlation attention on pretrained encoders: its weights, refusals, and saving."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from epigram.core.errors import ParameterError
from epigram.inference.predictors.predictor import Predictor
from epigram.models.precision import has_fast_bf16, prepare_for_inference
from epigram.models.serialization import load, save
from epigram.models.text_template import TextTemplate
from epigram.nn.encoders.pretrained import PretrainedConfig
from epigram.nn.encoders.transformer import TransformerEncoder
from epigram.nn.layers.types import Tokens
from epigram.nn.transformers_adapter import QUERY_KEY
from epigram.text.tokens.tokenizers import SPECIALS, word_tokenizer
from tests.support.families import (
    DEPTH,
    FAMILIES,
    MASK,
    OTHERS,
    PAD,
    VOCABULARY,
    built,
    checkpoint,
    context,
    recipe_of,
    texts,
)

ON: dict[str, Any] = {"attention": "correlation", "temperature": 0.2}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: checkpoint(family, root / family) for family in FAMILIES}


@pytest.mark.parametrize("family", QUERY_KEY)
@torch.no_grad()
def test_all_weights_but_queries_and_keys_are_those_of_the_checkpoint(family: str, folders: dict[str, Path]) -> None:
    encoder = built(folders[family], **ON)[1]
    own, stored = encoder.backbone.state_dict(), load_file(folders[family] / "model.safetensors")
    removed = {name for name in stored if name.split(".")[-2] in QUERY_KEY[family]}
    layers = 1 if family == "albert" else DEPTH
    assert len(removed) == 4 * layers  # weight and bias of queries and keys
    expected = {name for name in stored if not name.startswith("pooler.")} - removed
    assert {name for name in own if not name.startswith("pooler.") and "correlation" not in name} == expected
    assert all(torch.equal(own[name], stored[name]) for name in expected)
    plain = built(folders[family])[1]
    tokens = texts()
    assert (encoder(tokens).last - plain(tokens).last)[tokens.valid].abs().max() > 1e-2


@pytest.mark.parametrize("family", QUERY_KEY)
def test_values_and_temperature_get_gradients(family: str, folders: dict[str, Path]) -> None:
    model, encoder = built(folders[family], **ON, learn_temperature=True)
    model(texts(), torch.tensor([0, 1, 0])).loss.backward()
    parts = [module for module in encoder.modules() if hasattr(module, "correlation")]
    assert len(parts) == (1 if family == "albert" else DEPTH)
    for part in parts:
        value = part.v_lin if family == "distilbert" else part.value
        assert value.weight.grad.abs().sum() > 0 and part.correlation.temperature.grad.abs() > 0


@pytest.mark.parametrize("family", QUERY_KEY)
@torch.no_grad()
def test_attention_weights_of_the_one_head(family: str, folders: dict[str, Path]) -> None:
    encoder, tokens = built(folders[family], **ON)[1], texts()
    maps = encoder.attentions(tokens)
    assert len(maps) == DEPTH and maps[0].shape == (3, 1, 20, 20)
    rows = maps[0].sum(-1)[:, 0][tokens.valid]
    torch.testing.assert_close(rows, torch.ones_like(rows))
    assert not maps[0][:, 0][~tokens.valid[:, None, :].expand(3, 20, 20)].any()


@pytest.mark.parametrize("family", QUERY_KEY)
@torch.no_grad()
def test_saved_cut_and_reloaded_without_the_checkpoint(family: str, folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders[family], tmp_path / "checkpoint")
    model = built(tmp_path / "checkpoint", **ON)[0]
    shutil.rmtree(tmp_path / "checkpoint")
    word_tokenizer([*SPECIALS, *(f"w{i}" for i in range(len(SPECIALS), VOCABULARY))]).save(
        str(tmp_path / "tokenizer.json")
    )
    frame = TextTemplate(
        language="en", max_length=32, prefix_ids=[2], suffix_ids=[3], pad_id=PAD, unk_id=0, mask_id=MASK,
        vocabulary=VOCABULARY,
    )  # fmt: skip
    shorter = copy.deepcopy(model)
    shorter.drop(0)
    for number, made in enumerate((model, shorter)):
        folder = tmp_path / str(number)
        save(
            folder, made, recipe=recipe_of(**ON), frame=frame, labels=["a", "b"], tokenizer=tmp_path / "tokenizer.json",
            facts={},
        )  # fmt: skip
        saved = load(folder).model
        assert saved.depth == DEPTH - number and torch.equal(saved(texts()).logits, made(texts()).logits)
        ids = torch.tensor([[2, 7, 8, 9, 3]])
        wanted = made(Tokens(ids, torch.ones_like(ids).bool())).logits.softmax(-1)[0]
        found = Predictor(folder).predict(["w7 w8 w9"])[0].probabilities
        assert [found["a"], found["b"]] == pytest.approx(wanted.tolist(), abs=0.02)  # bfloat16


@torch.no_grad()
def test_inference_with_packed_weights(folders: dict[str, Path]) -> None:
    if not has_fast_bf16("cpu"):
        pytest.skip("requires a CPU with fast bfloat16")
    model, tokens = built(folders["bert"], **ON)[0], texts()
    wanted = model(tokens).logits
    with torch.autocast("cpu", torch.bfloat16):
        got = prepare_for_inference(model)(tokens).logits
    assert (got - wanted).abs().max() < 0.05 * wanted.abs().max()


@pytest.mark.parametrize("family", [*OTHERS, "modernbert"])
def test_a_family_that_cannot_have_it_is_refused_by_name(family: str, tmp_path: Path) -> None:
    folder = checkpoint(family, tmp_path, OTHERS.get(family))
    reason = {"modernbert": "encodes positions in queries and keys, which correlation attention does not have"}
    message = (
        rf"encoder.attention is 'correlation', but the attention of {family} "
        rf"{reason.get(family, 'cannot be replaced')}; set it to dot, or use a checkpoint of one of these families:"
    )
    with pytest.raises(ParameterError, match=message):
        built(folder, attention="correlation")
    with pytest.raises(ValueError, match=message):
        PretrainedConfig(attention="correlation").check(context(checkpoint=str(folder)))


def test_correlations_have_no_heads_to_average(folders: dict[str, Path]) -> None:
    message = (
        "encoder.head_to_head is 'paper', but encoder.attention is 'correlation', which has one head; set "
        "encoder.attention to dot, or encoder.head_to_head to none"
    )
    for spec in (context(checkpoint=str(folders["bert"])), context()):
        with pytest.raises(ValueError) as refusal:
            PretrainedConfig(attention="correlation", head_to_head="paper").check(spec)
        assert str(refusal.value) == message


def test_a_view_that_pretrains_with_dot_products_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"encoder\.attention is 'correlation', but the view pretrains a small"):
        PretrainedConfig(**ON).check(context(pretrained=tmp_path))


def test_without_a_checkpoint_the_small_encoder_has_it() -> None:
    small: Any = PretrainedConfig(**ON, row_norm=False).build(context())
    assert isinstance(small, TransformerEncoder)
    assert (small.config.attention, small.config.row_norm, small.config.temperature) == ("correlation", False, 0.2)
    roberta: Any = PretrainedConfig(**ON, family="roberta").build(context())
    assert type(roberta.backbone).__name__ == "RobertaModel"
    parts = [module.correlation for module in roberta.modules() if hasattr(module, "correlation")]
    assert len(parts) == 4 and all(part.temperature.item() == pytest.approx(0.2) for part in parts)
