"""DMSP, Table 4: its parameter and FLOP counts, reproduced with the modules of this library.

Width 64, 100 tokens, 64 texts per batch; a perceptron is 64→512→64 or 64→1024→64, a classifier 64→128→4; norms have no
weights and token vectors are not counted. One row of the table (DMSP 5→5, 0.22 M) matches no number of layers.
"""

from __future__ import annotations

import pytest
from torch import nn

from epigram.models.classifier import count_parameters
from epigram.nn.heads.layer_ensemble import BaseClassifier
from epigram.nn.layers.attention import DotProductAttention
from epigram.nn.layers.semantic_perceptron import SemanticPerceptron

WIDTH, CLASSES, TOKENS = 64, 4, 64 * 100


def perceptrons(count: int, hidden: int) -> list[nn.Module]:
    return [SemanticPerceptron(width=WIDTH, hidden=hidden, dropout=0.0, order="random") for _ in range(count)]


def classifiers(count: int) -> list[nn.Module]:
    return [BaseClassifier(width=WIDTH, hidden=128, classes=CLASSES) for _ in range(count)]


def extractors(count: int) -> list[nn.Module]:
    """Return WFE: semantic perceptrons with their base classifiers."""
    return [*perceptrons(count, 512), *classifiers(count)]


ROWS: dict[str, tuple[list[nn.Module], int, float, float]] = {
    "Transformer 1": (
        [DotProductAttention(width=WIDTH, heads=1, dropout=0.0), *perceptrons(1, 1024), *classifiers(1)],
        157_636, 0.16, 1.00,
    ),
    "MLP 1 (So.4) and 2 (20ngp.4)": ([*perceptrons(1, 1024), *classifiers(2)], 149_832, 0.15, 0.94),
    "MLP 3 (AGN.4)": ([*perceptrons(1, 1024), *classifiers(1)], 140_996, 0.14, 0.89),
    "MLP 4 (Ama.4)": ([*perceptrons(2, 1024), *classifiers(1)], 273_156, 0.27, 1.73),
    "SMSP 8": ([*extractors(4), *classifiers(1)], 308_628, 0.31, 1.94),
    "SMSP 10": ([*extractors(5), *classifiers(1)], 383_576, 0.38, 2.41),
    "SMSP 12": ([*extractors(6), *classifiers(1)], 458_524, 0.46, 2.88),
    "SMSP-E, DC, DMSP of depth 3": (extractors(3), 224_844, 0.22, 1.42),
    "DC, DMSP of depth 4": (extractors(4), 299_792, 0.30, 1.89),
    "SMSP-E of depth 5": (extractors(5), 374_740, 0.37, 2.36),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_table4_printed_parameters_and_flops(row: str) -> None:
    parts, count, millions, billions = ROWS[row]
    together = nn.ModuleList(parts)
    assert count_parameters(together) == count and round(count / 1e6, 2) == millions
    matrices = sum(weight.numel() for weight in together.parameters() if weight.dim() == 2)
    once_a_text = sum(part.out.weight.numel() for part in parts if isinstance(part, BaseClassifier))
    assert round((matrices - once_a_text) * TOKENS / 1e9, 2) == billions


def test_eq2_eq4_a_weighted_feature_extractor_has_74_948_parameters() -> None:
    assert count_parameters(nn.ModuleList(perceptrons(1, 512))) == 66_112
    assert count_parameters(nn.ModuleList(classifiers(1))) == 8_836
    assert count_parameters(nn.ModuleList(extractors(1))) == 74_948
