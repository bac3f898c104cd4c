"""Prediction with a saved model: texts in, labels and probabilities out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from epigram.core.arrays import Ragged
from epigram.core.errors import DataError, ParameterError
from epigram.inference.predictors.base_predictor import BasePredictor, TextPrediction, Word, list_texts, words_of
from epigram.inference.predictors.runtimes import GraphModel, NgramModel, open_graph
from epigram.models.batches import TextBatches
from epigram.models.classifier import NeuralClassifier
from epigram.models.devices import AUTO, find_device
from epigram.models.manifest import read_hierarchy, require_unchanged, stamps
from epigram.models.precision import Precision, prepare_for_inference
from epigram.models.predict import Predicted, predict
from epigram.models.serialization import Saved, load
from epigram.models.vectors import text_vectors
from epigram.text.dataset.pos_words import PosWords, WordWeights
from epigram.text.tokens.alignment import PositionedTokens
from epigram.text.tokens.characters import leading_whitespace, strip
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.token_characters import CharacterEncoder
from epigram.text.tokens.tokenizers import load as load_tokenizer
from epigram.text.tokens.tokenizers import vocabulary_of


class Predictor(BasePredictor):
    """Predictor that loads a model folder (saved or exported) once and then predicts any number of texts.

    `precision` is for matrix products; `auto` is bfloat16 where the hardware is fast in it. A text whose highest
    probability is below `min_confidence` gets no label. `device` is `auto` or a name such as cuda:1; `auto` uses a GPU
    for networks only. Raises ParameterError for a device that does not exist or that cannot run the model.
    """

    def __init__(
        self, folder: Path, *, precision: Precision = "auto", min_confidence: float = 0.0, device: str = AUTO
    ) -> None:
        with require_unchanged(folder):
            self.saved: Saved = load(folder, open_graph)
            tokenizer, self.stamps = load_tokenizer(folder / "tokenizer.json"), stamps(folder)
            hierarchy = read_hierarchy(folder)
        saved = self.saved
        multi: bool = saved.model.multi
        rule: dict[str, Any] = {"multi": multi, "min_confidence": min_confidence, "prices": saved.prices}
        super().__init__(folder, saved.labels, saved.thresholds, hierarchy=hierarchy, **rule)
        self.precision, self.device = precision, _device_of(saved, device)
        if not isinstance(saved.model, GraphModel):
            saved.model.to(self.device)
            if precision == "auto":
                prepare_for_inference(saved.model)
        frame = self.saved.frame
        self.encoder = TextEncoder(tokenizer, frame.join)
        self.language, self.text_columns, self.join = frame.language, frame.text_columns, frame.join
        self.room, self.default_word_label = frame.room, next(iter(frame.token_labels), "")
        characters = frame.characters
        self.vocabulary = vocabulary = vocabulary_of(tokenizer)
        counted = saved.model.counted.vocabulary if isinstance(saved.model, NgramModel) else frame.vocabulary
        if not len(vocabulary) == frame.vocabulary == counted:
            raise DataError(f"{folder}/tokenizer.json does not have the model's vocabulary; restore the folder")
        self.character_encoder = CharacterEncoder(characters) if characters else None
        self.word_weights: WordWeights | None = None
        if frame.pos_words is not None:
            self.word_weights = WordWeights(PosWords.parse(frame.pos_words, f"{folder}/config.json"), vocabulary)

    @cached_property
    def exact(self) -> Predictor:
        """A predictor of the same model in float32 on the CPU: this one, or the model loaded again."""
        same = self.precision == "fp32" and self.device.type == "cpu"
        if same or not isinstance(self.saved.model, NeuralClassifier):
            return self
        return Predictor(self.folder, precision="fp32", device="cpu")

    def embed(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return the vectors (N, D) of `texts` in the encoder; see `BasePredictor.embed`."""
        model = self.saved.model
        if not isinstance(model, NeuralClassifier):
            kind = "is exported" if isinstance(model, GraphModel) else "has no encoder"
            raise ParameterError(f"{self.folder} {kind}, so its texts have no vectors; use a model with an encoder")
        return text_vectors(model, self.batches(list_texts(texts, self.join)), self.precision)

    def batches(self, texts: Sequence[str]) -> TextBatches:
        """Return `texts` in the model's input format."""
        return self._encode([strip(text) for text in texts])[0]

    def _probabilities(self, texts: list[str]) -> NDArray[np.float32]:
        return self.run(texts)[0].probabilities

    def _predict(self, texts: list[str]) -> list[TextPrediction]:
        predicted, tokens, truncated = self.run_with_positions(texts)
        words: list[list[Word]] = [[] for _ in texts]
        if tokens is not None:
            words = words_of(texts, tokens, predicted, self.saved.frame.token_labels)
        return list(map(self._prediction, predicted.probabilities, words, truncated))

    def run_with_positions(self, texts: Sequence[str]) -> tuple[Predicted, PositionedTokens | None, list[bool]]:
        """Return the predictions for one or more `texts`, their tokens, and which of them are truncated.

        The tokens, with their positions in the texts as given, are None if the model labels no words; a text may have
        one more than the model reads.
        """
        stripped = [strip(text) for text in texts]
        batches, tokens, truncated = self._encode(stripped)
        predicted = self._run_model(batches)
        if predicted.tokens is None:
            return predicted, None, truncated
        tokens = self.encoder.encode_with_positions(stripped, self.room + 1) if tokens is None else tokens
        return predicted, shift_spans(tokens, texts), truncated

    def run(self, texts: Sequence[str]) -> tuple[Predicted, list[bool]]:
        """Return the predictions for one or more `texts`, and which of them are truncated."""
        batches, _, truncated = self._encode([strip(text) for text in texts])
        return self._run_model(batches), truncated

    def _run_model(self, batches: TextBatches) -> Predicted:
        """Run the model. Raises DataError for NaN and for another number of classes than labels in the output."""
        predicted, saved = predict(self.saved.model, batches, precision=self.precision), self.saved
        outputs = [predicted.probabilities, *([] if predicted.tokens is None else [predicted.tokens])]
        if not all(np.isfinite(each).all() for each in outputs):
            raise DataError(f"{saved.folder} predicts NaN; restore the folder, or train the model again")
        for output, labels in ((predicted.logits, saved.labels), (predicted.tokens, saved.frame.token_labels)):
            if output is not None and output.shape[1] != len(labels):
                raise DataError(
                    f"{saved.folder} has {len(labels)} labels, but its model outputs {output.shape[1]} classes; "
                    "restore the folder"
                )
        return predicted

    def _encode(self, texts: Sequence[str]) -> tuple[TextBatches, PositionedTokens | None, list[bool]]:
        """Return stripped `texts` as batches, token positions if characters are needed, and which are truncated."""
        # one token more than the model reads is encoded: it shows whether a text is truncated
        if self.character_encoder is None:
            encoded = self.encoder.encode(texts, self.room + 1)
            return self._batches(encoded.ids), None, self._truncated(encoded.ids)
        tokens = self.encoder.encode_with_positions(texts, self.room + 1)
        characters = self.character_encoder.encode(texts, tokens)
        return self._batches(tokens.ids, characters), tokens, self._truncated(tokens.ids)

    def _batches(self, ids: Ragged[np.int32], characters: Ragged[np.int32] | None = None) -> TextBatches:
        weight = None if self.word_weights is None else self.word_weights.find(ids, self.room)
        return TextBatches.from_template(
            self.saved.frame, ids, characters=characters, word_weight=weight, device=self.device
        )

    def _truncated(self, ids: Ragged[np.int32]) -> list[bool]:
        truncated: list[bool] = (ids.lengths > self.room).tolist()
        return truncated


def _device_of(saved: Saved, name: str) -> torch.device:
    """Return the device with a name for a model; `auto` is the CPU for everything but networks of PyTorch."""
    if name == AUTO and not isinstance(saved.model, NeuralClassifier):
        return torch.device("cpu")
    device = find_device(name)
    if isinstance(saved.model, GraphModel) and device.type != "cpu":
        raise ParameterError(f"device is {name!r}, but {saved.folder} is exported for the CPU; use auto (--device)")
    return device


def shift_spans(tokens: PositionedTokens, texts: Sequence[str]) -> PositionedTokens:
    """Return `tokens` of stripped texts with positions in the original `texts`, which may begin with whitespace."""
    shift = tokens.ids.spread(np.array([leading_whitespace(text) for text in texts]))
    return tokens._replace(spans=tokens.spans + shift[:, None])
