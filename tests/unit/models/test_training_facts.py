"""What training records in a manifest is read back; a missing or wrong entry is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from epigram.core.errors import DataError, InputMissingError
from epigram.core.files import write_json
from epigram.models.manifest import TrainingFacts, write

FACTS = TrainingFacts(
    dataset="toy", data="ab", seed=3, dev_accuracy=1.0, epoch=2, depth_full=0, parameters_full=7,
    training={"threads": 2, "precision": "fp32"}, provenance={"data": "ab"}, hardware={"device": "cpu"},
    layer_scores=[0.5, 1.0], checkpoint="",
)  # fmt: skip


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, vars(FACTS))
    assert TrainingFacts.read(tmp_path) == FACTS


@pytest.mark.parametrize(("key", "wrong"), [("seed", "3"), ("training", []), ("depth_full", 1.5)])
def test_a_missing_or_wrong_entry_is_named(tmp_path: Path, key: str, wrong: object) -> None:
    with pytest.raises(InputMissingError, match=r"manifest\.json is missing"):
        TrainingFacts.read(tmp_path)
    left = {name: value for name, value in vars(FACTS).items() if name != key}
    for content in (left, {**left, key: wrong}, []):
        write_json(tmp_path / "manifest.json", content)
        name = "dataset" if content == [] else key
        with pytest.raises(DataError, match=rf"manifest\.json has no valid {name}; train the model again"):
            TrainingFacts.read(tmp_path)
