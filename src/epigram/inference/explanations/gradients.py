"""Integrated gradients of the token vectors (Sundararajan et al., Axiomatic Attribution for Deep Networks, 2017).

Shapes: L tokens, E width of a token vector, C classes, S steps on the path.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from epigram.core.arrays import Integers
from epigram.inference.explanations.ngram_weights import hashed_scores
from epigram.inference.explanations.token_scores import ReadText, WordScores
from epigram.inference.explanations.words import Scores
from epigram.inference.predictors.predictor import Predictor
from epigram.models.classifier import NeuralClassifier
from epigram.nn.encoders.char_bilstm import CharBiLstmEncoder
from epigram.nn.encoders.fast_text import FastTextEncoder
from epigram.nn.encoders.sentence_encoder import SentenceEncoder
from epigram.nn.heads.linear import LinearHead
from epigram.nn.heads.linear_ngrams import LinearNgramsHead
from epigram.nn.layers.types import Tokens

STEPS = 32
BEYOND_VECTORS = FastTextEncoder, CharBiLstmEncoder  # read n-grams or characters that no token vector has


class Inputs(NamedTuple):
    """Token vectors (…, L, E), and the contributions of n-grams to the logits (…, L, C) if the head counts n-grams."""

    vectors: Tensor
    ngrams: Tensor


def has_gradients(model: Any) -> bool:
    """Return whether the logits of `model` have gradients with respect to all that it reads of a text."""
    return (
        isinstance(model, NeuralClassifier)
        and not isinstance(model.encoder, BEYOND_VECTORS)
        and not (model.multi and model.head.config.searches)
    )


def integrate(predictor: Predictor, text: str, words: Integers, label: int) -> WordScores:
    """Return the parts of the `words` (W, 2) of `text` in the log-odds of `label`, and its log-odds without them."""
    read = ReadText.of(predictor, text)
    scores, base = path_scores(predictor.saved.model, read, label)
    return read.by_word(scores, words, base)


def path_scores(model: NeuralClassifier, read: ReadText, label: int) -> tuple[Scores, float]:
    """Return the parts of the tokens in the log-odds of `label` (L,), and the log-odds at the start of the path.

    The path leads from the vector of the unknown token to the vector of each of the text's own tokens, and from no
    n-gram to all n-grams.
    """
    with torch.inference_mode(False), torch.enable_grad():
        text, table = read.tokens(), vector_table(model.encoder)
        tokens = model.head.prepare(read.tokens(STEPS), model.encoder)
        vectors = table(tokens.ids[0]) if tokens.vectors is None else tokens.vectors[0]
        goal = Inputs(vectors.detach(), _ngrams(model, text))
        start = Inputs(goal.vectors.clone(), torch.zeros_like(goal.ngrams))
        start.vectors[read.own] = table(torch.tensor(read.batches.unk_id)).detach()
        nodes, weights = np.polynomial.legendre.leggauss(STEPS)
        share = torch.tensor((nodes + 1) / 2, dtype=torch.float32)[:, None, None]
        points = [(a + share * (b - a)).requires_grad_() for a, b in zip(start, goal, strict=True)]
        found = _log_odds(model, tokens, Inputs(*points), label)
        slopes = torch.autograd.grad(found.sum(), points, materialize_grads=True)
    weight, scores = torch.tensor(weights / 2)[:, None, None], np.zeros(text.ids.shape[1])
    for a, b, slope in zip(start, goal, slopes, strict=True):
        scores += ((b - a) * (slope.double() * weight).sum(0)).sum(-1).numpy()
    with torch.inference_mode():
        once = Inputs(*(each.unsqueeze(0) for each in start))
        base = _log_odds(model, model.head.prepare(text, model.encoder), once, label).item()
    return scores, base


def vector_table(encoder: Any) -> Any:
    """Return the module that looks up the token vectors (…, E) of ids."""
    return encoder.table if isinstance(encoder, SentenceEncoder) else encoder.token_table


def _ngrams(model: NeuralClassifier, tokens: Tokens) -> Tensor:
    """Return the contributions of the n-grams of each token to the logits, (L, C); none is (L, 0)."""
    if not isinstance(model.head, LinearNgramsHead):
        return torch.zeros(tokens.ids.shape[1], 0)
    return torch.from_numpy(hashed_scores(model.head, tokens)).float()


def _log_odds(model: NeuralClassifier, tokens: Tokens, inputs: Inputs, label: int) -> Tensor:
    """Return the log-odds of `label` of each of the B `inputs`, (B,)."""
    encoded = replace(model.encoder(replace(tokens, vectors=inputs.vectors)), read=tokens)
    if isinstance(model.head, LinearNgramsHead):
        logits = LinearHead.forward(model.head, encoded).logits + inputs.ngrams.sum(1)
    else:
        logits = model.head(encoded).logits
    logits = logits.float() / model.temperature
    if model.multi:
        return logits[:, label]
    others = torch.cat([logits[:, :label], logits[:, label + 1 :]], 1)
    return logits[:, label] - others.logsumexp(1)
