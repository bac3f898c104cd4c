"""Small linear SVMs in the format that training saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from epigram.models import ensemble
from epigram.models.batches import TextBatches
from epigram.models.manifest import PROVENANCE
from epigram.models.recipe import Recipe
from epigram.models.serialization import save
from epigram.models.text_template import TextTemplate, character_count
from epigram.nn.layers.types import DataSpec
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.token_characters import CharacterEncoder
from epigram.text.tokens.tokenizers import SPECIALS, character_tokenizer, word_tokenizer
from epigram.training.fitters.linear_svm import fit

LABELS = ["food", "room", "staff"]
WEIGHTS, TEMPERATURE = {"first": 0.25, "second": 0.75}, 0.5  # of the ensemble
TRAIN = {
    "zh": [("饭好吃", "food"), ("菜好吃", "food"), ("房大", "room"), ("床大房大", "room"), ("人好", "staff")] * 3,
    "en": [("nice soup", "food"), ("soup soup", "food"), ("large room", "room"), ("nice clerk", "staff")] * 3,
}
SEVERAL = {
    "zh": [("饭好吃", "food"), ("房大", "room"), ("饭好吃房大", "food, room"), ("表", ""), ("人好", "staff")] * 3,
    "en": [("soup", "food"), ("room", "room"), ("soup room", "food, room"), ("here", ""), ("clerk", "staff")] * 3,
}


def svm(
    folder: Path,
    language: str,
    rows: list[tuple[str, str]],
    *,
    multi: bool = False,
    alphabet: str = "",
    max_length: int = 8,
    prices: ensemble.Prices | None = None,
    **settings: Any,
) -> Path:
    """Fit a linear SVM with these `settings` on `rows` and save it as training does; `alphabet` is that of the view."""
    texts = [text for text, _ in rows]
    words = set("".join(texts)) if language == "zh" else set(" ".join(texts).split())
    tokenizer = (character_tokenizer if language == "zh" else word_tokenizer)([*SPECIALS, *sorted(words)])
    tokenizer.save(str(folder / "tokenizer.json"))
    recipe = Recipe(name="svm", about="", paper="", view="", model={"kind": "linear_svm", **settings})
    frame = TextTemplate(
        language=language, max_length=max_length, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=None,
        vocabulary=tokenizer.get_vocab_size(), characters=alphabet,
    )  # fmt: skip
    encoded = TextEncoder(tokenizer).encode_with_positions(texts, max_length)
    characters = CharacterEncoder(alphabet).encode(texts, encoded) if alphabet else None
    given = [[int(label in said.split(", ")) for label in LABELS] for _, said in rows]
    labels = np.array(given) if multi else np.argmax(given, 1)
    batches = TextBatches.from_template(frame, encoded.ids, labels=labels, characters=characters)
    context = DataSpec(
        vocabulary=frame.vocabulary, classes=3, max_length=max_length, multi=multi, characters=character_count(alphabet)
    )
    model: Any = recipe.build(context)
    fit(model, batches, batches, seed=0)
    save(
        folder / "model", model, recipe=recipe, frame=frame, labels=LABELS, tokenizer=folder / "tokenizer.json",
        facts={"seed": 0}, thresholds=[0.5] * 3 if multi else None, prices=prices,
    )  # fmt: skip
    return folder / "model"


def ensemble_of_svms(folder: Path, *, multi: bool = False, prices: ensemble.Prices | None = None) -> Path:
    """Save an ensemble of two SVMs, which read 8 and 6 tokens and have different training rows; return its folder."""
    rows = SEVERAL["en"] if multi else TRAIN["en"]
    members = {}
    for name, part, length in (("first", rows, 8), ("second", rows[1:7], 6)):
        (folder / name).mkdir(parents=True)
        members[name] = svm(folder / name, "en", part, multi=multi, max_length=length)
    whole = ensemble.SavedEnsemble(
        folder=folder / "ensemble",
        labels=LABELS,
        multi=multi,
        weights=WEIGHTS,
        temperature=TEMPERATURE,
        thresholds=[0.3, 0.4, 0.5] if multi else [0.5] * 3,
        prices=prices,
    )
    ensemble.save(whole, ensemble.copy_members(members), {PROVENANCE: {"data": "d" * 64}})
    return whole.folder
