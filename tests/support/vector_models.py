"""A small saved classifier whose encoder has the word vectors that a test gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from epigram.models.recipe import Recipe
from epigram.models.serialization import save
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import DataSpec
from epigram.text.tokens.tokenizers import SPECIALS, word_tokenizer

LABELS = ["food", "room", "staff"]


def word_vectors(folder: Path, vectors: Mapping[str, Sequence[float]]) -> Path:
    """Save a classifier of three labels on the mean of the `vectors` of a text's words; return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = word_tokenizer([*SPECIALS, *vectors])
    tokenizer.save(str(folder / "tokenizer.json"))
    size, width = tokenizer.get_vocab_size(), len(next(iter(vectors.values())))
    encoder = {"kind": "static_embedding", "width": width}
    recipe = Recipe(name="vectors", about="", paper="", view="", encoder=encoder, head={"kind": "linear"})
    frame = TextTemplate(
        language="en", max_length=8, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=None, vocabulary=size
    )
    torch.manual_seed(0)
    model = recipe.build(DataSpec(vocabulary=size, classes=len(LABELS), max_length=8))
    with torch.no_grad():
        model.encoder.table.weight[len(SPECIALS) :] = torch.tensor(list(vectors.values()))
    save(
        folder / "model", model, recipe=recipe, frame=frame, labels=LABELS, tokenizer=folder / "tokenizer.json",
        facts={"seed": 0},
    )  # fmt: skip
    return folder / "model"
