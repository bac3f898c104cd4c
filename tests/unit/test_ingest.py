"""Which files are new rows, where they go, and which labels they may have."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from pithy.errors import ParameterError
from pithy.settings import RetrainSettings
from tasks import drift, inbox, ingest

SOURCE = """\
name: {name}
about: a few texts
language: en
task: single
licence: none
files: [{{path: x.csv, local: data/local/x.csv}}]
read: {{reader: csv, text: {text}}}
labels: [{labels}]
"""


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    """The folder where new rows arrive, in the repository `tmp_path`."""
    folder = tmp_path / RetrainSettings().incoming
    folder.mkdir(parents=True)
    return folder


def test_a_hidden_file_has_not_arrived(incoming: Path) -> None:
    for name in ("b.csv", ".c.csv", "a.txt", "d/e.csv"):
        (incoming / name).parent.mkdir(exist_ok=True)
        (incoming / name).touch()
    assert [file.name for file in inbox.arrived(incoming)] == ["a.txt", "b.csv"]
    with inbox.opened(incoming) as files:
        assert [file.name for file in files] == ["b.csv"]


def test_an_archived_file_is_not_overwritten_by_one_of_the_same_name(incoming: Path) -> None:
    for text in ("first", "second", "third"):
        (incoming / "a.csv").write_text(text)
        assert inbox.archive(incoming, incoming / "a.csv", sha256(text.encode()).hexdigest())
    (incoming / "a.csv").write_text("fourth")
    assert not inbox.archive(incoming, incoming / "a.csv", sha256(b"third").hexdigest())
    taken = {file.name: file.read_text() for file in (incoming / "taken").iterdir()}
    assert taken == {"a.csv": "first", "a-2.csv": "second", "a-3.csv": "third"}


def test_new_rows_have_the_columns_of_the_base_and_the_labels_of_the_growing_data_set(tmp_path: Path) -> None:
    sources = tmp_path / "data" / "sources"
    sources.mkdir(parents=True)
    (sources / "shop.yaml").write_text(SOURCE.format(name="shop", text="review", labels="bad, good"))
    (sources / "shop_live.yaml").write_text(SOURCE.format(name="shop_live", text="text", labels="bad, good, odd"))
    source = ingest.stream(tmp_path, "shop_live")
    assert (source.labels, source.read["text"]) == (["bad", "good", "odd"], "review")


@pytest.mark.parametrize("name", ["../../precious", "/precious", ".hidden", "a b", ""])
def test_a_data_set_that_grows_out_of_a_path_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match=r"dataset was .*: letters, digits"):
        ingest.grown_name(name)


def test_drift_is_measured_on_the_newest_file_first(tmp_path: Path, incoming: Path) -> None:
    for age, name in enumerate(("b.txt", "c.txt", "a.txt")):
        (incoming / name).touch()
        os.utime(incoming / name, (1_000 - age, 1_000 - age))
    files = drift._newest_first(tmp_path, RetrainSettings(), tmp_path)
    assert [file.name for file in files] == ["b.txt", "c.txt", "a.txt"]
