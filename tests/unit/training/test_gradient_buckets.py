"""Gradients that two processes sum in buckets equal those that they sum one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from epigram.training import gradient_buckets
from epigram.training.gradient_buckets import grouped
from tests.support import summed
from tests.unit.training.test_parallel import launched

LAYERS = {f"layers.{number}.{part}" for number in range(5) for part in ("weight", "bias")} | {"table.weight"}


@pytest.fixture(scope="module")
def gradients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gradients")
    done = launched(2, str(Path(summed.__file__)), str(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("case", ["all", "micro-batches", "reversed", "one rank", "dropped", "error"])
def test_buckets_have_the_sum_of_both_processes(case: str, gradients: Path) -> None:
    first, second = (load_file(gradients / f"{case}.{rank}") for rank in range(2))
    names = LAYERS - ({"layers.4.weight", "layers.4.bias"} if case == "dropped" else set())
    assert first.keys() == second.keys() == {f"{way} {name}" for way in ("buckets", "plain") for name in names}
    for name in names:
        found, expected = first[f"buckets {name}"], first[f"plain {name}"]
        assert expected.abs().max() > 0
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
        assert found.equal(second[f"buckets {name}"]), "the processes have the same bits"


def test_a_group_ends_when_it_is_large_enough_or_the_data_type_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_buckets, "BUCKET_BYTES", 40)
    single = [nn.Parameter(torch.zeros(size)) for size in (4, 6, 11, 2, 1)]
    double = [nn.Parameter(torch.zeros(1, dtype=torch.float64))]
    sizes = [[p.numel() for p in group] for group in grouped([*single, *double])]
    assert sizes == [[4, 6], [11], [2, 1], [1]]
