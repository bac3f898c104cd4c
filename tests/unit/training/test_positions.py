"""Tests that a text is truncated to the positions of its checkpoint; the RoBERTa family numbers them from 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from epigram.inference.predictors.dataset_batches import batches_of, data_spec_of, template_of
from epigram.models.predict import predict
from epigram.nn.layers.types import Tokens
from epigram.text.settings import ViewSettings
from epigram.text.tokens.pretrained_tokenizers import read_checkpoint
from tests.support.families import SIZES, checkpoint, recipe_of
from tests.support.text_samples import encoded_in

ROWS = SIZES["max_position_embeddings"]  # of every family's position table
LIMITS = {"bert": 64, "electra": 64, "roberta": 62, "xlm-roberta": 62, "camembert": 62, "mpnet": 62, "ibert": 62}
LONG = "a " * 99


def with_tokenizer(folder: Path) -> str:
    """Write a word-level tokenizer without a length limit to `folder`, and return the folder."""
    entries = {entry: n for n, entry in enumerate(["<unk>", "<pad>", "<s>", "</s>", "<mask>", "a"])}
    tokenizer = Tokenizer(models.WordLevel(entries, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)


@pytest.mark.parametrize(("family", "limit"), LIMITS.items())
def test_positions_of_a_checkpoint(family: str, limit: int, tmp_path: Path) -> None:
    assert (ROWS, SIZES["pad_token_id"]) == (64, 1)  # 64 rows: 64 positions, or 62 after the rows 0 and 1
    (tmp_path / "config.json").write_text(json.dumps({**SIZES, "model_type": family}))
    assert read_checkpoint(with_tokenizer(tmp_path)).positions == limit


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_a_long_text_fills_all_positions_and_no_more(family: str, tmp_path: Path, pos: Path) -> None:
    folder = with_tokenizer(checkpoint(family, tmp_path / family, SIZES))
    settings = ViewSettings(tokenizer="wordpiece", checkpoint=folder)
    rows = {split: [(LONG, "pos"), ("a", "neg")] for split in ("train", "dev", "test")}
    view = encoded_in(tmp_path, pos, rows, "en", settings)
    torch.manual_seed(0)
    model = recipe_of().build(data_spec_of(view, 512)).eval()
    dev = batches_of(view, "dev", template_of(view, 512))
    assert dev.lengths.tolist() == [LIMITS[family], 3]
    assert torch.from_numpy(predict(model, dev, precision="fp32").logits).isfinite().all()
    longer = torch.full((1, LIMITS[family] + 1), 5)
    with pytest.raises((IndexError, RuntimeError)):
        model(Tokens(longer, torch.ones_like(longer, dtype=torch.bool)))
