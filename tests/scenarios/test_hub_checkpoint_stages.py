"""A checkpoint of the hub in the stages: encode downloads it, the others need no network, and a change is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from epigram.core.files import read_json
from epigram.inference.predictors.predictor import Predictor
from epigram.models.serialization import load
from epigram.text.dataset.encoded_dataset import View
from epigram.training.distributed.resources import available_cores
from tests.support.bad_input import Ended, Workshop
from tests.support.certain import FILLERS, LABELS, WORD, run, run_to_augment, run_to_train, train, without_spans
from tests.support.hub_server import CHECKPOINT, REVISION, HubServer, environment, hub
from tests.support.tiny_bert import write_bert

ENCODE = ("encode", "token", "data/validated", "data/augmented", "data/pos")
SNAPSHOT = Path(".epigram/hub/tiny/bert") / REVISION
VIEWS: dict[str, Any] = {"token": {"tokenizer": "wordpiece", "checkpoint": CHECKPOINT}}
SYSTEMS: dict[str, Any] = {
    "bert": {"view": "token", "train": {"epochs": 1}},
    "embedding_linear": {"view": "token"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    with hub() as running:
        words = (*WORD.values(), *FILLERS)
        running.add(write_bert(tmp_path_factory.mktemp("hub") / "model", words))
        running.files |= {"modeling_bert.py": b"evil", "pytorch_model.bin": b"evil"}
        yield running


def run_stage(shop: Workshop, server: HubServer, *words: str) -> Ended:
    """Run a stage in a process of its own, because the library reads HF_ENDPOINT when it is imported."""
    done = subprocess.run(
        [sys.executable, "-m", f"epigram.stages.{words[0]}", *words[1:]], cwd=shop.root, text=True, check=False,
        capture_output=True, env=environment(server, shop.root.parent / "home"),
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, server: HubServer) -> Workshop:
    """Run the stages to encode with the server, and pretrain and train after it has gone."""
    shop = Workshop(tmp_path_factory.mktemp("stages") / "project")
    shop.params(systems=SYSTEMS, views=VIEWS)
    without_spans(shop)
    run_to_augment(shop)
    ended = run_stage(shop, server, *ENCODE, "data/encoded/token")
    assert (ended.code, ended.err) == (0, "")
    assert server.fetched == {"config.json", "model.safetensors", "vocab.txt"}
    server.asked.clear()
    server.status = 500  # from here on
    for stage in (("pretrain", "token"), *(("train", name) for name in SYSTEMS)):
        folders = ["data/encoded/token", *(["data/pretrained/token"] if stage[0] == "train" else [])]
        out = "data/pretrained/token" if stage[0] == "pretrain" else f"data/models/{stage[1]}"
        ended = run_stage(shop, server, *stage, *folders, out)
        assert ended.code == 0, ended.err
    return shop


def test_systems_are_trained_on_the_weights_without_the_hub(shop: Workshop, server: HubServer) -> None:
    folders = {name: shop.root / f"data/models/{name}/seed-0" for name in SYSTEMS}
    found = Predictor(folders["embedding_linear"]).predict([f"today {WORD[label]} again" for label in LABELS])
    assert [each.labels for each in found] == [[label] for label in LABELS]
    downloaded = load_file(shop.root / SNAPSHOT / "model.safetensors")
    frozen, tuned = (load(folders[name]).model.encoder.backbone.state_dict() for name in ("embedding_linear", "bert"))
    assert downloaded.keys() == frozen.keys() == tuned.keys()
    for name, weight in downloaded.items():
        torch.testing.assert_close(frozen[name], weight, atol=0, rtol=0)
        assert tuned[name].shape == weight.shape
    assert server.asked == []


def test_the_view_is_that_of_a_folder_with_the_same_files(shop: Workshop, server: HubServer) -> None:
    copy = shop.root / "data/local/copy"
    copy.mkdir()
    for name in ("config.json", "model.safetensors", "vocab.txt"):
        (copy / name).write_bytes(server.files[name])
    shop.params(systems=SYSTEMS, views={"token": {"tokenizer": "wordpiece", "checkpoint": "data/local/copy"}})
    run(shop, (*ENCODE, "data/encoded/copy"))
    shop.params(systems=SYSTEMS, views=VIEWS)
    ours, other = (read_json(shop.root / f"data/encoded/{name}/view.json") for name in ("token", "copy"))
    assert ours.pop("checkpoint") == CHECKPOINT
    assert other.pop("checkpoint") == "data/local/copy"
    assert ours == other and len(ours["weights"]) == 64


def test_the_digest_of_the_files_is_in_the_provenance_of_the_model(shop: Workshop) -> None:
    folder = shop.root / "data/encoded/token"
    before = View.load(folder).fingerprint
    manifest = read_json(shop.root / "data/models/bert/seed-0/manifest.json")
    assert manifest["provenance"]["data"] == before
    content = (folder / "view.json").read_bytes()
    weights = read_json(folder / "view.json")["weights"].encode()
    (folder / "view.json").write_bytes(content.replace(weights, weights[::-1]))
    try:
        assert View.load(folder).fingerprint != before
    finally:
        (folder / "view.json").write_bytes(content)


def test_encode_again_gives_the_same_view_without_the_hub(shop: Workshop, server: HubServer) -> None:
    assert run_stage(shop, server, *ENCODE, "data/encoded/again").code == 0
    first, again = (shop.root / f"data/encoded/{name}" for name in ("token", "again"))
    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in again.iterdir()
    }
    assert server.asked == []


@pytest.mark.parametrize("file", ["model.safetensors", "vocab.txt"])
def test_a_file_that_was_changed_is_refused_by_encode_and_train(shop: Workshop, file: str) -> None:
    path = shop.root / SNAPSHOT / file
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    said = f"checkpoint '{CHECKPOINT}': {SNAPSHOT / file} was changed after the download; delete {SNAPSHOT} and run"
    try:
        for words in (ENCODE, ("train", "bert", "data/encoded/token", "data/pretrained/token")):
            shop.stage(*words, shop.out).refused(65, said)
            assert shop.left() == []
    finally:
        path.write_bytes(content)


def test_a_model_needs_the_download_in_its_project(shop: Workshop, server: HubServer) -> None:
    """As in a clone in which DVC has restored the encoded texts."""
    folder = shop.root / SNAPSHOT
    folder.rename(folder.with_name("away"))
    try:
        ended = shop.stage("train", "bert", "data/encoded/token", "data/pretrained/token", shop.out)
        ended.refused(
            66, f"checkpoint '{CHECKPOINT}' is not in .epigram/hub; the stage encode downloads it: run dvc repro"
        )
        ended = run_stage(shop, server, *ENCODE, str(shop.out))
        ended.refused(69, f"checkpoint '{CHECKPOINT}' cannot be downloaded (HTTP status 500)")
        assert (shop.left(), [path.name for path in folder.parent.iterdir()]) == ([], ["away"])
    finally:
        folder.with_name("away").rename(folder)


def test_a_model_with_a_prompt_predicts_the_same_without_its_checkpoint(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    checkpoint = write_bert(shop.root / "data/local/bert", (*WORD.values(), *FILLERS))
    view = {"tokenizer": "wordpiece", "prompt": True, "checkpoint": "data/local/bert"}
    shop.params(systems={"bert_pta": {"view": "token", "train": {"epochs": 1}}}, views={"token": view})
    without_spans(shop)
    run_to_train(shop)
    train(shop, "bert_pta")
    folder, texts = shop.root / "data/models/bert_pta/seed-0", ["some goal today", "a bad book, and a long one"]
    assert read_json(folder / "manifest.json")["training"]["threads"] == available_cores()
    before = Predictor(folder).probabilities(texts)
    checkpoint.rename(checkpoint.with_name("gone"))
    np.testing.assert_array_equal(Predictor(folder).probabilities(texts), before)
