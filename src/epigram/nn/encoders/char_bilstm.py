"""Encoder of MHAL (Eq. 1, 2): a BiLSTM over word and character vectors, with optional language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from epigram.core.config_types import Positive, Range
from epigram.core.effects import Unless
from epigram.nn import encoders
from epigram.nn.layers.attention.pos_weighting import PosScaling
from epigram.nn.layers.dropout import Dropout
from epigram.nn.layers.embedding import TokenEmbedding
from epigram.nn.layers.encoder import Encoder, WeightedEncoderSettings
from epigram.nn.layers.initialization import glorot
from epigram.nn.layers.pooling import valid_positions
from epigram.nn.layers.recurrent.bilstm import BiLstm
from epigram.nn.layers.recurrent.char_lstm import CharLstm, Spellings
from epigram.nn.layers.recurrent.language_model import LanguageModel, LanguageModelLoss, MiddleWordModel
from epigram.nn.layers.types import DataSpec, Encoded, Tokens

SPELLED = Unless("data.characters", 0, because="the view has no characters")
WITH_MODEL = Unless("lm_weight", 0.0)


@encoders.register("char_bilstm")
@dataclass(frozen=True, kw_only=True)
class CharBiLstmConfig(WeightedEncoderSettings):
    """Settings of the encoder, with the sizes of the paper's Table 6.

    `width` and `character_width` are the widths of one direction, `spelling` is the width of a token's character
    vector. `lm_weight` is λ_LM, the weight of the word and character language models in the loss; 0 omits the models.
    `lm_spelling` is what the character language model predicts: the next `characters`, or the `words` between two
    character vectors, as the authors' configuration for SST. `lm_loss` is `mean` or `sum`; see `CharBiLstmEncoder`. The
    paper has no equation of this loss.
    """

    embedding: Positive = 300
    width: Positive = 300
    character_embedding: Annotated[Positive, SPELLED] = 100
    character_width: Annotated[Positive, SPELLED] = 100
    spelling: Annotated[Positive, SPELLED] = 50
    dropout: Annotated[float, Range(ge=0.0, lt=1.0)] = 0.5  # rate on the BiLSTM's input and states
    lm_weight: Annotated[float, Range(ge=0.0)] = 0.0
    lm_spelling: Annotated[Literal["characters", "words"], SPELLED, WITH_MODEL] = "characters"
    lm_loss: Annotated[Literal["mean", "sum"], WITH_MODEL] = "mean"
    lm_hidden: Annotated[Positive, WITH_MODEL] = 50
    lm_vocabulary: Annotated[Positive, WITH_MODEL] = 7_500

    def state_width(self, context: DataSpec) -> int:
        """Return the width of both directions."""
        return 2 * self.width

    def language_model(self, width: int, vocabulary: int) -> LanguageModel | None:
        """Return a language model for states of `width` (both directions concatenated); None if `lm_weight` is 0."""
        if self.lm_weight == 0.0:
            return None
        return LanguageModel(
            width=width, hidden=self.lm_hidden, vocabulary=vocabulary, max_vocabulary=self.lm_vocabulary
        )


class CharBiLstmEncoder(Encoder, settings=CharBiLstmConfig):
    """Encoder z_i = BiLSTM([w_i; c_i]) with word vector w_i and character vector c_i; only w_i without characters.

    The first half of a state is the forward direction's. The cost, in training only, is λ_LM times the language
    models' loss: with `lm_loss` `mean` their mean loss per prediction, with `sum` the sum over all predictions of a
    text. With the paper's λ_LM of 0.1, the sum is 98% of the loss, and the text labels are not learned
    (docs/development/log.md).
    """

    def __init__(self, config: CharBiLstmConfig, context: DataSpec) -> None:
        super().__init__()
        self.config, self.width = config, 2 * config.width
        self.embedding = TokenEmbedding(context, width=config.embedding)
        self.speller = self._speller(context.characters) if context.characters else None
        inputs = config.embedding + (config.spelling if self.speller else 0)
        self.scaling = PosScaling(config.pos_weight, context)
        self.dropout = Dropout(config.dropout)
        self.words = BiLstm(inputs=inputs, width=self.width, dropout=config.dropout)
        glorot(self.words)
        self.word_model = config.language_model(self.width, context.vocabulary)
        self.middle_model = self._middle_model(context)
        self.blocks = nn.ModuleList()

    def _speller(self, characters: int) -> CharLstm:
        config = self.config
        return CharLstm(
            characters=characters,
            embedding=config.character_embedding,
            hidden=config.character_width,
            width=config.spelling,
            model=config.language_model(2 * config.character_width, characters)
            if config.lm_spelling == "characters"
            else None,
        )

    def _middle_model(self, context: DataSpec) -> MiddleWordModel | None:
        config = self.config
        if self.speller is None or config.lm_spelling == "characters" or config.lm_weight == 0.0:
            return None
        return MiddleWordModel(
            width=2 * config.character_width,
            hidden=config.lm_hidden,
            vocabulary=context.vocabulary,
            max_vocabulary=config.lm_vocabulary,
        )

    def forward(self, tokens: Tokens) -> Encoded:
        """Return the word and character vectors (B, L, E) and the states of the BiLSTM (B, L, D)."""
        x, cost, spelling_loss = self.embedding(tokens), None, None
        if self.speller is not None:
            characters, spelling_loss = self._read_characters(tokens)
            x = torch.cat([x, characters.to(x.dtype)], -1)
        x = self.scaling(x, tokens)
        states, _ = self.words(self.dropout(x), tokens.valid, tokens.shortest)  # Eq. 1, 2
        if self.training and self.word_model is not None:
            counts = torch.ones_like(tokens.ids[:, 0])
            places = valid_positions(tokens.valid, tokens.count)
            words = self.word_model(states[places], tokens.ids, tokens.valid, counts)
            cost = self.config.lm_weight * self.language_loss(words, spelling_loss, len(tokens.ids))
        return Encoded((x, states), tokens, cost)

    def language_loss(self, words: LanguageModelLoss, spelling: LanguageModelLoss | None, texts: int) -> Tensor:
        """Return the loss of the language models of `words` and of `spelling`, a mean over the number of `texts`."""
        if self.config.lm_loss == "sum":
            return (words.total if spelling is None else words.total + spelling.total) / texts
        return words.mean if spelling is None else (words.mean + spelling.mean) / 2

    def _read_characters(self, tokens: Tokens) -> tuple[Tensor, LanguageModelLoss | None]:
        """Return the character vectors (B, L, `spelling`), zero on padding, and their language model's loss or None.

        Raises ValueError if the batch has no characters.
        """
        if tokens.characters is None or self.speller is None:
            raise ValueError("this encoder needs the characters of the tokens, but the batch has none")
        if torch.compiler.is_exporting():
            vectors = self.speller(tokens.characters.flatten(0, 1)).vectors
            return vectors.unflatten(0, tokens.ids.shape) * tokens.valid.unsqueeze(-1), None
        places = valid_positions(tokens.valid, tokens.count)
        spelled: Spellings = self.speller(tokens.characters[places])
        padded = spelled.vectors.new_zeros(*tokens.ids.shape, spelled.vectors.shape[-1])
        padded[places] = spelled.vectors
        if self.training and self.middle_model is not None:
            return padded, self.middle_model(spelled.last, tokens.ids, tokens.valid)
        return padded, spelled.loss
