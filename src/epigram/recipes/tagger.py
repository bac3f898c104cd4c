"""Taggers: linear layers on any encoder's states label texts and tokens. They are the reference for MHAL's heads."""

from __future__ import annotations

from epigram.models.recipe import Recipe
from epigram.recipes import bert

RECIPES = [
    Recipe(
        name="bilstm_tagger",
        about="bidirectional LSTM with a linear layer on each token and one on their mean",
        paper="Huang et al. (2015)",
        view="token",
        encoder={"kind": "bilstm", "width": 128},
        head={"kind": "tagger", "dropout": 0.5},
        train={"learning_rate": 2e-3, "batch_size": 32, "epochs": 10, "patience": 3, "stop_on": "mean"},
    ),
    Recipe(
        name="bert_tagger",
        about="pretrained encoder with a linear layer on each token and one on the first token",
        paper="Devlin et al. (2019)",
        view="wordpiece",
        encoder=bert.ENCODER,
        head={"kind": "tagger", "pool": "first", "dropout": 0.1},
        train={**bert.TRAIN, "stop_on": "mean"},
        checkpoint_train=bert.CHECKPOINT_TRAIN,
    ),
]
