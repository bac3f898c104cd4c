"""Tests of README.md: its length, its picture and its example output."""

from __future__ import annotations

import json
import re

import pytest

from tests.docs.readme import EXAMPLE, README, RECORD, REPORT, TRY, hashes

TEXT = README.read_text(encoding="utf-8")


def test_the_pictures_are_of_the_present_templates_and_small() -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    assert {name: recorded[name] for name in hashes()} == hashes(), (
        "the templates have changed: run make run, then python -m tests.docs.readme runs/latest"
    )
    assert max(path.stat().st_size for path in (REPORT, TRY)) < 300_000


def test_the_printed_prediction_is_the_recorded_one() -> None:
    example = EXAMPLE.search(TEXT)
    assert example and example[2] == json.loads(RECORD.read_text(encoding="utf-8"))["prediction"]


def test_the_page_is_short() -> None:
    assert len(TEXT.splitlines()) <= 150 and len(re.findall(r"\S+", TEXT)) <= 1_500


@pytest.mark.parametrize("page", ["README.md", "README.zh.md", "docs/tutorials/served_model.md"])
def test_the_first_commands_install_epigram_and_an_encoder_and_fit(page: str) -> None:
    first = (README.parent / page).read_text(encoding="utf-8").split("```sh\n")[1].splitlines()
    assert [re.sub(r"^\.venv/bin/epigram ", "", line).split()[0:2] for line in first[:3]] == [
        ["make", "install"],
        ["encoders", "install"],
        ["fit", "reviews.csv"],
    ]
