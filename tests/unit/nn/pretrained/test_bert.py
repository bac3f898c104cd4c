"""Tests of epigram's BERT: it gives the numbers of transformers from the same files, without its model classes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from epigram.core.errors import DataError
from epigram.models.precision import has_fast_bf16, prepare_for_inference
from epigram.models.serialization import load, save
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import Tokens
from epigram.nn.pretrained.bert import Bert, BertConfig, random_bert
from tests.support.families import DEPTH, FAMILIES, MASK, PAD, VOCABULARY, built, checkpoint, recipe_of, texts

WEIGHTS = "model.safetensors"
Close = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint("bert", tmp_path_factory.mktemp("bert"))


def library(folder: Path) -> Any:
    from transformers import AutoModel

    return AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def changed(folder: Path, new: Path, weights: Any, **config: Any) -> Path:
    """Copy a checkpoint to `new` with changed settings and with the weights that `weights` returns."""
    shutil.copytree(folder, new)
    values = json.loads((new / "config.json").read_text())
    (new / "config.json").write_text(json.dumps({**values, **config}))
    save_file(weights(load_file(folder / WEIGHTS)), new / WEIGHTS)
    return new


def last(folder: Path, tokens: Tokens, **encoder: Any) -> Tensor:
    states: Tensor = built(folder, **encoder)[1](tokens).last
    return states[tokens.valid]


@torch.no_grad()
@pytest.mark.parametrize("act", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
@pytest.mark.parametrize("vectors", [False, True], ids=["ids", "vectors"])
def test_states_and_attentions_are_the_library_s(act: str, vectors: bool, tmp_path: Path) -> None:
    folder, tokens = checkpoint("bert", tmp_path, {**FAMILIES["bert"], "hidden_act": act}), texts()
    _, encoder = built(folder)
    assert isinstance(encoder.backbone, Bert)
    given: dict[str, Any] = {"input_ids": tokens.ids}
    if vectors:
        tokens = Tokens(tokens.ids, tokens.valid, torch.randn(*tokens.ids.shape, 16))
        given = {"inputs_embeds": tokens.vectors}
    wanted = library(folder)(
        **given, attention_mask=tokens.valid.long(), output_hidden_states=True, output_attentions=True
    )
    states, attentions = encoder(tokens).states, encoder.attentions(tokens)
    assert len(states) == DEPTH + 1 and len(attentions) == DEPTH
    for ours, theirs in zip(states, wanted.hidden_states, strict=True):
        torch.testing.assert_close(ours[tokens.valid], theirs[tokens.valid], **Close)
    for ours, theirs in zip(attentions, wanted.attentions, strict=True):
        torch.testing.assert_close(ours, theirs, **Close)


def test_gradients_are_the_library_s(folder: Path) -> None:
    tokens, (_, encoder), theirs = texts(), built(folder), library(folder)
    encoder(tokens).last[tokens.valid].square().sum().backward()
    wanted = theirs(input_ids=tokens.ids, attention_mask=tokens.valid.long()).last_hidden_state
    wanted[tokens.valid].square().sum().backward()
    for name, weight in encoder.backbone.named_parameters():
        torch.testing.assert_close(weight.grad, theirs.get_parameter(name).grad, atol=1e-4, rtol=1e-4)


def test_names_and_shapes_are_the_library_s_without_the_pooler(folder: Path) -> None:
    ours = {name: weight.shape for name, weight in random_bert(BertConfig(**FAMILIES["bert"])).state_dict().items()}
    theirs = {name: weight.shape for name, weight in library(folder).state_dict().items()}
    assert ours == {name: shape for name, shape in theirs.items() if not name.startswith("pooler.")}


def test_random_weights_are_drawn_as_the_library_draws_them() -> None:
    from transformers import AutoConfig, AutoModel

    sizes = {"vocab_size": 500, "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1, "pad_token_id": 3}
    theirs = AutoModel.from_config(AutoConfig.for_model("bert", **sizes))
    for name, weight in random_bert(BertConfig(**sizes)).named_parameters():
        wanted = theirs.get_parameter(name)
        torch.testing.assert_close((weight.mean(), weight.std()), (wanted.mean(), wanted.std()), atol=0.01, rtol=0.1)
        assert not name.endswith("word_embeddings.weight") or not weight[3].any()


@torch.no_grad()
def test_weights_with_a_prefix_old_names_or_in_half_precision_are_read(folder: Path, tmp_path: Path) -> None:
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}

    def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
        named = {f"bert.{name}": weight for name, weight in state.items() if not name.startswith("pooler.")}
        for new, own in old.items():
            named = {name.replace(new, own): weight for name, weight in named.items()}
        return {**named, "cls.predictions.bias": torch.zeros(VOCABULARY)}

    tokens = texts()
    torch.testing.assert_close(
        last(changed(folder, tmp_path / "head", renamed), tokens), last(folder, tokens), atol=0, rtol=0
    )
    half = changed(folder, tmp_path / "half", lambda state: {name: w.half() for name, w in state.items()})
    assert {weight.dtype for weight in built(half)[1].parameters()} == {torch.float32}
    torch.testing.assert_close(
        last(half, tokens), library(half)(tokens.ids, tokens.valid.long())[0][tokens.valid], **Close
    )


@torch.no_grad()
def test_weights_in_several_files_are_read(folder: Path, tmp_path: Path) -> None:
    whole = tmp_path / "parts"
    library(folder).save_pretrained(whole, max_shard_size="4KB")
    assert not (whole / WEIGHTS).exists()
    torch.testing.assert_close(last(whole, texts()), last(folder, texts()), atol=0, rtol=0)


def test_a_weight_that_is_missing_or_of_another_shape_is_named(folder: Path, tmp_path: Path) -> None:
    name = "encoder.layer.1.output.dense.weight"
    less = changed(folder, tmp_path / "less", lambda state: {n: w for n, w in state.items() if n != name})
    with pytest.raises(DataError, match=rf"checkpoint '.*less' cannot be loaded: weight {name} is missing"):
        built(less)
    other = changed(folder, tmp_path / "other", lambda state: state, intermediate_size=20)
    with pytest.raises(
        DataError, match=r"intermediate\.dense\.weight has shape \(24, 16\); config\.json requires \(20, 16\)"
    ):
        built(other)
    with pytest.raises(DataError, match="hidden_size 16 is not a multiple of num_attention_heads 3"):
        built(changed(folder, tmp_path / "heads", lambda state: state, num_attention_heads=3))


@pytest.mark.parametrize("setting", [{"hidden_act": "silu"}, {"is_decoder": True}])
def test_what_is_another_bert_is_left_to_the_library(setting: dict[str, Any], tmp_path: Path) -> None:
    _, encoder = built(checkpoint("bert", tmp_path, {**FAMILIES["bert"], **setting}))
    assert type(encoder.backbone).__name__ == "BertModel"


@torch.no_grad()
def test_a_saved_encoder_s_settings_are_read_by_the_library_too(folder: Path) -> None:
    from transformers import AutoConfig, AutoModel

    _, encoder = built(folder)
    encoder.drop(0)
    theirs = AutoModel.from_config(AutoConfig.for_model(**encoder.settings.backbone)).eval()
    theirs.load_state_dict(encoder.backbone.state_dict(), strict=False)
    tokens = texts()
    wanted = theirs(tokens.ids, tokens.valid.long())[0][tokens.valid]
    torch.testing.assert_close(encoder(tokens).last[tokens.valid], wanted, **Close)


def logits_of(head: torch.nn.Linear, first: Tensor) -> np.ndarray:
    """Return W s + b, computed in NumPy, for the first-token states `first` (B, D)."""
    weight, bias = head.weight.detach().double().numpy(), head.bias.detach().double().numpy()
    return first.double().numpy() @ weight.T + bias


@torch.no_grad()
def test_lowered_weights_give_the_library_s_answers(tmp_path: Path) -> None:
    """Layers use packed weights and one product for queries, keys and values. A bfloat16 sum has an error of 2⁻⁹."""
    if not has_fast_bf16("cpu"):
        pytest.skip("requires a CPU with fast bfloat16")
    sizes = {**FAMILIES["bert"], "hidden_size": 96, "intermediate_size": 128, "initializer_range": 0.15}
    folder, tokens = checkpoint("bert", tmp_path, sizes), texts()
    model, encoder = built(folder)
    model.head.out.weight.normal_(generator=torch.Generator().manual_seed(0))
    states = library(folder)(tokens.ids, tokens.valid.long()).last_hidden_state
    wanted = logits_of(model.head.out, states[:, 0])
    prepare_for_inference(model)
    packed = {name.rpartition(".")[2] for name, layer in encoder.named_modules() if "forward" in vars(layer)}
    assert packed == {"joined", "dense"}
    with torch.autocast("cpu", torch.bfloat16):
        got = model(tokens).logits
    assert np.ptp(wanted) > 10
    np.testing.assert_allclose(got.double().numpy(), wanted, atol=6 * 2**-8 * np.ptp(wanted))


def between(head: torch.nn.Linear, states: Tensor) -> None:
    """Set `head` so that the texts of the first-token `states` (2, D) get the logits (4, -4) and (-4, 4)."""
    apart = states[0] - states[1]
    weight = 8 * apart / apart.square().sum()  # the logits of the two texts differ by 8
    bias = -weight @ states.mean(0)  # 0 at their midpoint
    head.weight.copy_(torch.stack([weight, -weight]))
    head.bias.copy_(torch.stack([bias, -bias]))


def test_a_saved_model_answers_without_the_library(folder: Path, tmp_path: Path) -> None:
    from epigram.text.tokens.tokenizers import SPECIALS, word_tokenizer

    word_tokenizer([*SPECIALS, *(f"w{i}" for i in range(len(SPECIALS), VOCABULARY))]).save(
        str(tmp_path / "tokenizer.json")
    )
    frame = TextTemplate(
        language="en", max_length=32, prefix_ids=[2], suffix_ids=[3], pad_id=PAD, unk_id=1, mask_id=MASK,
        vocabulary=VOCABULARY,
    )  # fmt: skip
    model, _ = built(folder, head_to_head="residual")  # the gate is neutral: states equal those of transformers
    ids = torch.tensor([[2, 7, 8, 3], [2, 30, 9, 3]])
    with torch.no_grad():
        between(model.head.out, library(folder)(ids, torch.ones_like(ids)).last_hidden_state[:, 0])
    save(
        tmp_path / "model", model, recipe=recipe_of(), frame=frame, labels=["a", "b"],
        tokenizer=tmp_path / "tokenizer.json", facts={},
    )  # fmt: skip
    assert isinstance(load(tmp_path / "model").model.encoder.backbone, Bert)
    code = (
        "import sys; from pathlib import Path; from epigram.inference.predictors.predictor import Predictor;"
        f"found = Predictor(Path({str(tmp_path / 'model')!r})).predict(['w7 w8', 'w30 w9']);"
        "print(*(f'{each.label} {each.probabilities[chr(97)]:.3f}' for each in found));"
        "sys.exit(any(name in sys.modules for name in ('transformers', 'torch._dynamo', 'polars')))"
    )
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    first, of_a, second, of_a_again = answer.stdout.split()
    assert (first, second) == ("a", "b")
    wanted = 1 / (1 + np.exp([-8.0, 8.0]))  # of logits that differ by 8
    np.testing.assert_allclose([float(of_a), float(of_a_again)], wanted, atol=2e-3)


def test_a_checkpoint_is_read_without_the_library(folder: Path) -> None:
    code = (
        "import sys; from epigram.nn.encoders.pretrained import PretrainedConfig;"
        "from epigram.nn.layers.types import DataSpec;"
        f"data = DataSpec(vocabulary={VOCABULARY}, classes=2, max_length=32, checkpoint={str(folder)!r});"
        "PretrainedConfig().build(data);"
        "sys.exit(any(name in sys.modules for name in ('transformers', 'torch._dynamo')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
