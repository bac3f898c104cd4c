"""pruning.json is read as it was written, and integers stay integers."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from epigram.evaluation.records.pruning_record import Point, PruningRecord, SeedPruning

POINT = Point(depth=1, classifier_score=0.5, parameters=7, flops=9)
SEED = SeedPruning(
    seed=3, layered=True, reason="r", accepted=True, threshold=0.7, score="s", depth_full=2, depth=1, tradeoff=[POINT]
)
FLAT = SeedPruning(seed=4, layered=False, reason="no layers")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    PruningRecord(seeds=[SEED, FLAT]).write(tmp_path)
    assert PruningRecord.read(tmp_path) == PruningRecord(seeds=[SEED, FLAT])


def test_a_system_without_the_file_was_not_pruned(tmp_path: Path) -> None:
    assert PruningRecord.read(tmp_path) is None


def test_the_record_of_a_finished_seed_is_restored_exactly() -> None:
    restored = SeedPruning.from_dict(json.loads(json.dumps(asdict(SEED))))
    assert restored == SEED
    assert json.dumps(asdict(restored)) == json.dumps(asdict(SEED))  # 7, not 7.0
