"""Upload of a model to a local server that speaks the hub's protocol, and its download, in processes of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import epigram
from epigram.core.errors import DataError
from epigram.core.files import sha256
from epigram.inference.explanations.neighbors import write_neighbors
from epigram.inference.hub import _listed as listed
from tests.support.bad_input import Ended
from tests.support.hub_server import REPOSITORY, REVISION, HubServer, environment, hub
from tests.support.linear_models import TRAIN, ensemble_of_svms, svm

ADDRESS = f"hub:{REPOSITORY}"
TEXTS = ["nice soup", "large room", ""]
PREDICT = """
import sys, json, epigram
from epigram.process.exits import handle_errors
@handle_errors
def main():
    print(json.dumps(epigram.load(sys.argv[1]).probabilities(json.loads(sys.argv[2])).tolist()))
main()
"""


@pytest.fixture
def server() -> Iterator[HubServer]:
    with hub() as running:
        yield running


def single(folder: Path) -> Path:
    folder.mkdir()
    return svm(folder, "en", TRAIN["en"])


def ended(server: HubServer, home: Path, *command: str) -> Ended:
    own = environment(server, home, XDG_CACHE_HOME=str(home / "cache"), HF_TOKEN="hf_test")
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, env=own)
    return Ended(done.returncode, done.stdout, done.stderr)


def push(server: HubServer, home: Path, model: Path, *options: str) -> Ended:
    return ended(server, home, "-m", "epigram.cli", "push", REPOSITORY, "--model", str(model), *options)


def load(server: HubServer, home: Path, address: str = ADDRESS) -> Ended:
    return ended(server, home, "-c", PREDICT, address, json.dumps(TEXTS))


@pytest.mark.parametrize("kind", ["ensemble", "single"])
def test_a_model_that_was_pushed_predicts_the_same_elsewhere(server: HubServer, tmp_path: Path, kind: str) -> None:
    model = ensemble_of_svms(tmp_path / "own") if kind == "ensemble" else single(tmp_path / "own")
    server.files["old.bin"] = b"of an earlier model"
    pushed = push(server, tmp_path, model, "--private")
    assert (pushed.code, pushed.out) == (0, f"{ADDRESS}@{REVISION}\n"), pushed.err
    assert set(server.files) == {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()}
    assert server.created[0]["visibility"] == "private"
    server.files |= {"evil.py": b"print()", "pytorch_model.bin": b"evil"}
    server.asked.clear()
    found = load(server, tmp_path)
    expected = epigram.load(model).probabilities(TEXTS)
    np.testing.assert_allclose(json.loads(found.out), expected, atol=1e-6)
    assert not server.fetched & {"evil.py", "pytorch_model.bin"}
    assert "Bearer hf_test" in server.tokens
    server.asked.clear()
    assert load(server, tmp_path, f"{ADDRESS}@{REVISION}").out == found.out
    assert not server.fetched  # from the cache


def test_training_texts_are_only_uploaded_on_request(server: HubServer, tmp_path: Path) -> None:
    """Without the option nothing is sent; without the files, the model has no similar texts, here and elsewhere."""
    model = ensemble_of_svms(tmp_path / "own")
    write_neighbors(model, ["nice soup", "large room"], [["food"], ["room"]])
    [texts] = model.rglob("training_texts.jsonl")
    push(server, tmp_path, model).refused(64, f"training texts, in {texts};", "add --training-texts", "or delete these")
    assert not server.asked
    assert push(server, tmp_path, model, "--training-texts").code == 0
    uploaded = texts.relative_to(model).as_posix()
    assert server.files[uploaded] == texts.read_bytes()
    assert load(server, tmp_path).code == 0
    texts.unlink()
    assert epigram.load(model).explain(["nice soup"])[0].similar == []
    assert push(server, tmp_path, model).code == 0
    assert uploaded not in server.files
    assert load(server, tmp_path / "other").code == 0


def test_a_repository_cannot_choose_what_is_fetched_or_written(server: HubServer, tmp_path: Path) -> None:
    model = single(tmp_path / "own")
    for path in model.iterdir():
        server.files[path.name] = path.read_bytes()
    content = json.loads(server.files["manifest.json"])
    name = "../evil.py"
    server.files["manifest.json"] = json.dumps({**content, "sha256": {**content["sha256"], name: "0"}}).encode()
    server.files[name] = b"print()"
    load(server, tmp_path).refused(65, f"lists {name!r}, which no model has")
    assert name not in server.fetched
    assert not list(tmp_path.rglob("evil.py"))
    server.files["manifest.json"] = json.dumps(content).encode()
    server.files["labels.json"] = b'["other", "labels"]'
    load(server, tmp_path).refused(65, "labels.json was changed after the model was saved")


@pytest.mark.parametrize(
    ("member", "name", "allowed"),
    [
        ("", "labels.json", True),
        ("", "members/a/manifest.json", True),
        ("members/a/", "labels.json", True),
        ("", "evil.py", False),
        ("", "../labels.json", False),
        ("", "members/../evil.py", False),
        ("", "members/../manifest.json", False),
        ("", "members/a/b/manifest.json", False),
        ("members/a/", "members/b/manifest.json", False),  # an ensemble has no ensembles
    ],
)
def test_a_manifest_lists_files_of_a_model_only(member: str, name: str, allowed: bool, tmp_path: Path) -> None:
    (tmp_path / member).mkdir(parents=True, exist_ok=True)
    (tmp_path / member / "manifest.json").write_text(json.dumps({"sha256": {name: "0"}}))
    if allowed:
        assert listed(tmp_path, member) == [f"{member}{name}"]
    else:
        with pytest.raises(DataError, match="which no model has"):
            listed(tmp_path, member)


@pytest.mark.parametrize(
    ("address", "code", "message"),
    [
        ("hub:reviews", 64, "model 'hub:reviews': expected hub:ORG/NAME or hub:ORG/NAME@REVISION"),
        ("hub:nobody/nothing", 66, "model 'hub:nobody/nothing': the hub has no such repository"),
        (ADDRESS, 65, "the repository has no manifest.json, so it is no model of epigram"),
    ],
)
def test_what_is_no_model(server: HubServer, tmp_path: Path, address: str, code: int, message: str) -> None:
    server.files["config.json"] = b"{}"
    load(server, tmp_path, address).refused(code, message)


def test_a_changed_model_is_not_pushed(server: HubServer, tmp_path: Path) -> None:
    model = Path(shutil.copytree(single(tmp_path / "own"), tmp_path / "changed"))
    before = sha256(model / "labels.json")
    (model / "labels.json").write_text('["x", "y"]', encoding="utf-8")
    assert sha256(model / "labels.json") != before
    push(server, tmp_path, model).refused(65, "labels.json was changed after the model was saved")
    assert not server.asked
    server.status = 500
    push(server, tmp_path, single(tmp_path / "other")).refused(69, f"repository '{REPOSITORY}' cannot be")
