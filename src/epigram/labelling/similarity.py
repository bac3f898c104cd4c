"""Labels by a pretrained encoder: the label whose name and description are most similar to the text (zero-shot)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epigram.checkpoints.folders import encoder_command, installed_encoder
from epigram.core.errors import InputMissingError
from epigram.inference.tables import BATCH_TEXTS, progress
from epigram.labelling.label_list import Answer, Labels
from epigram.models.batches import TextBatches
from epigram.models.devices import default_device
from epigram.models.predict import Predicted
from epigram.models.vectors import text_vectors
from epigram.nn.layers.types import DataSpec
from epigram.recipes.registry import RECIPES
from epigram.text.dataset.language import Language
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.prompts.prompts import name_words
from epigram.text.settings import EncodeSettings, ViewSettings
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import special_ids, vocabulary_of
from epigram.text.tokens.vocabulary import build_view_tokenizer

SHARPNESS = 15.0  # factor of the cosines before their softmax (docs/zero_labels.md)
Encode = Callable[[Sequence[str]], NDArray[np.float32]]


def find_encoder(language: Language) -> str:
    """Return the best installed encoder for the language. Raises InputMissingError if there is none."""
    if (checkpoint := installed_encoder(language)) is None:
        raise InputMissingError(
            f"no encoder for texts in the language {language} is installed; run {encoder_command(language)}, "
            "or let a language model label the texts (--endpoint)"
        )
    return checkpoint


def label_by_similarity(texts: Sequence[str], labels: Labels, checkpoint: str, language: Language) -> dict[str, Answer]:
    """Return the most similar label of each text; its confidence is a softmax of the cosines times SHARPNESS."""
    encode_texts = load_encoder(checkpoint, language)
    names = encode_texts([f"{name_words(name) or name}: {about}".removesuffix(": ") for name, about in labels.items()])
    found, known = dict[str, Answer](), list(labels)
    with progress(len(texts), prints=False) as advance:
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = texts[start : start + BATCH_TEXTS]
            logits = SHARPNESS * encode_texts(batch) @ names.T
            probabilities = Predicted(logits.astype(np.float32), None).probabilities
            for text, row in zip(batch, probabilities, strict=True):
                found[text] = known[int(row.argmax())], float(row.max())
            advance(len(batch))
    return found


def load_encoder(checkpoint: str, language: Language) -> Encode:
    """Return a function from N texts to vectors of length 1 (N, D): the means of the states of the last layer."""
    corpus = ValidatedCorpus(
        name="texts", language=language, task="single", labels=[], token_labels=[], tokens_only=False
    )
    view = build_view_tokenizer(ViewSettings(tokenizer="wordpiece", checkpoint=checkpoint), EncodeSettings(), corpus)
    ids, length = special_ids(view.tokenizer), view.max_length + len(view.prefix_ids) + len(view.suffix_ids)
    data = DataSpec(
        vocabulary=len(vocabulary_of(view.tokenizer)),
        classes=1,
        max_length=length,
        unk_id=ids.unk,
        checkpoint=checkpoint,
    )
    recipe = RECIPES["embedding_linear"].starting_from(checkpoint)
    device = default_device()
    model: Any = recipe.build(data).to(device)
    encoder = TextEncoder(view.tokenizer)

    def encode_texts(texts: Sequence[str]) -> NDArray[np.float32]:
        batches = TextBatches(
            encoder.encode(texts, view.max_length).ids,
            prefix=view.prefix_ids,
            suffix=view.suffix_ids,
            max_length=length,
            pad_id=ids.pad,
            unk_id=ids.unk,
            device=device,
        )
        return text_vectors(model, batches)

    return encode_texts
