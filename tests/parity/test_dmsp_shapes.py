"""DMSP, Table 4: its parameter and FLOP counts, of systems that docs/systems.md builds from the registry by settings.

Width 64, 100 tokens, 64 texts per batch; a perceptron is 64→512→64 or 64→1024→64, a classifier 64→128→4; token vectors
are not counted. One row of the table (DMSP 5→5, 0.22 M) matches no number of layers. In units of 8,192 weights, a
classifier's layer on tokens has 1, a perceptron 8 or 16, and an attention 2.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import nn

from benchmarks.papers import published
from epigram.models.classifier import count_parameters
from epigram.models.complexity import batch_macs
from epigram.models.settings import System
from epigram.models.text_template import TextTemplate
from epigram.nn.heads.layer_ensemble import LayerEnsembleHead
from epigram.nn.layers.types import DataSpec, Encoded, Tokens
from epigram.recipes.registry import recipe_of
from epigram.runner.tables.definition import read_table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/systems.md").read_text(encoding="utf-8")
BLOCK = next(block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "table4_" in block)
SYSTEMS: dict[str, Any] = yaml.safe_load(BLOCK)["systems"]
LENGTH, VOCABULARY, CLASSES = 100, 50, 4
SPEC = DataSpec(vocabulary=VOCABULARY, classes=CLASSES, max_length=LENGTH)
TEMPLATE = TextTemplate(
    language="en", max_length=LENGTH, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=None,
    vocabulary=VOCABULARY,
)  # fmt: skip
PERCEPTRON, WIDE = 66_112, 132_160  # 2·64·512 + 512 + 64 and 2·64·1024 + 1024 + 64
CLASSIFIER, ATTENTION = 8_836, 16_640  # 64·128 + 128 + 128·4 + 4 and 4·(64·64 + 64)
NORMS = 256  # gains and biases of two layer norms, which the paper's figure is too coarse to show

# name: parameters, units of weights on tokens, classifiers, printed parameters (M) and FLOPs (G)
ROWS: dict[str, tuple[int, int, int, float, float]] = {
    "table4_transformer_1": (ATTENTION + WIDE + CLASSIFIER + NORMS, 19, 1, 0.16, 1.00),
    "table4_mlp_1": (WIDE + 2 * CLASSIFIER, 18, 2, 0.15, 0.94),
    "table4_mlp_3": (WIDE + CLASSIFIER, 17, 1, 0.14, 0.89),
    "table4_mlp_4": (2 * WIDE + CLASSIFIER, 33, 1, 0.27, 1.73),
    "table4_smsp_8": (308_628, 37, 5, 0.31, 1.94),
    "table4_smsp_10": (383_576, 46, 6, 0.38, 2.41),
    "table4_smsp_12": (458_524, 55, 7, 0.46, 2.88),
    "table4_smsp_e_3": (224_844, 27, 3, 0.22, 1.42),
    "table4_dmsp_4": (299_792, 36, 4, 0.30, 1.89),
    "table4_smsp_e_5": (374_740, 45, 5, 0.37, 2.36),
}


def built(name: str, **system: Any) -> Any:
    return recipe_of(name, System(**SYSTEMS[name] | system)).build(SPEC).eval()


def test_the_page_has_the_systems_of_the_table() -> None:
    assert list(SYSTEMS) == list(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_table4_printed_parameters_and_flops(name: str) -> None:
    count, units, classifiers, millions, billions = ROWS[name]
    model = built(name)
    assert count_parameters(model, embeddings=False) == count == count_parameters(model) - VOCABULARY * 64
    assert round(count / 1e6, 2) == millions
    texts = classifiers * 128 * CLASSES * 64  # one product a text in every classifier
    found = batch_macs(model, LENGTH, TEMPLATE)
    assert found == units * 8_192 * 6_400 + texts
    assert round(found / 1e9, 2) == billions


TABLE = read_table(ROOT, "dmsp_3_4")
FIXED = [name for name, row in TABLE.rows.items() if not row.own and row.system["recipe"] != "tfidf_svm"]


@pytest.mark.parametrize("name", FIXED)
def test_a_row_of_fixed_depth_has_the_printed_costs(name: str) -> None:
    row = TABLE.rows[name]
    model = recipe_of(name, System(**row.system)).build(SPEC).eval()
    costs = {"param_M": count_parameters(model, embeddings=False) / 1e6}
    costs["FLOPs_G"] = batch_macs(model, LENGTH, TEMPLATE) / 1e9
    for dataset in row.only or TABLE.datasets:
        for metric, value in costs.items():
            printed = published()["DMSP_T4_complexity_and_accuracy", dataset, row.printed or name, metric]
            assert f"{value:.2f}" == printed, metric


@pytest.mark.parametrize(
    ("name", "dataset", "method"),
    [("mlp", "Ama.4", "MLP"), ("smsp", "Ama.4", "SMSP"), ("smsp_e", "AGN.4", "SMSP-E")],
)
def test_a_preset_of_fixed_depth_has_the_printed_costs(name: str, dataset: str, method: str) -> None:
    model = recipe_of(name, System(view="token", recipe=name, preset="paper")).build(SPEC).eval()
    costs = {"param_M": count_parameters(model, embeddings=False) / 1e6}
    costs["FLOPs_G"] = batch_macs(model, LENGTH, TEMPLATE) / 1e9
    printed = {metric: published()["DMSP_T4_complexity_and_accuracy", dataset, method, metric] for metric in costs}
    assert {metric: f"{value:.2f}" for metric, value in costs.items()} == printed


def test_texts_of_any_length_fill_the_batch() -> None:
    """6,400 tokens in texts of 10 tokens are 640 texts, which differ only in the products per text."""
    model = built("table4_mlp_3")
    assert batch_macs(model, 10, TEMPLATE) - batch_macs(model, LENGTH, TEMPLATE) == 128 * CLASSES * (640 - 64)


def test_eq2_eq4_a_weighted_feature_extractor_has_74_948_parameters() -> None:
    assert PERCEPTRON + CLASSIFIER == 74_948 == (299_792 - 224_844)


def deep(depth: int) -> tuple[LayerEnsembleHead, Encoded]:
    """Return a head with a classifier on the embeddings and on each layer, and random states of two texts."""
    torch.manual_seed(0)
    model = built("table4_smsp_8", encoder={"depth": depth})
    ids = torch.tensor([[5, 6, 7], [8, 9, 0]])
    valid = ids != 0
    states = tuple(torch.randn(2, 3, 64) for _ in range(depth + 1))
    return model.head.eval(), Encoded(states, Tokens(ids, valid))


def test_deep_supervision_trains_every_classifier_and_predicts_by_the_last() -> None:
    head, encoded = deep(2)
    labels = torch.tensor([1, 3])
    alone = torch.stack(
        [h(x, encoded.tokens.valid) for h, x in zip(head.classifiers, encoded.states, strict=True)]
    )  # (3, B, C)
    found = head(encoded, labels)
    torch.testing.assert_close(found.parts, alone)
    torch.testing.assert_close(found.logits, alone[-1].log_softmax(-1))
    losses = [nn.functional.cross_entropy(part, labels) for part in alone]
    torch.testing.assert_close(found.loss, losses[0] + losses[1] + losses[2])


@pytest.mark.parametrize(("layer", "kept"), [(0, [0, 2]), (1, [0, 1]), (-1, [0, 1])])
def test_a_dropped_layer_takes_its_classifier_and_the_last_one_predicts(layer: int, kept: list[int]) -> None:
    head, encoded = deep(2)
    before = list(head.classifiers)
    head.drop(layer)
    assert list(head.classifiers) == [before[n] for n in kept]
    states = Encoded(tuple(encoded.states[n] for n in kept), encoded.tokens)
    expected = before[kept[-1]](states.last, encoded.tokens.valid).log_softmax(-1)
    torch.testing.assert_close(head(states).logits, expected)
