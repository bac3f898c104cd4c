"""Download of a checkpoint from a local server that speaks the hub's protocol, in a process of its own."""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epigram.core.errors import EpigramError, SourceUnavailableError
from epigram.data.sources.hub_models import translate_hub_errors
from tests.support.bad_input import Ended
from tests.support.hub_server import CHECKPOINT, REVISION, HubServer, environment, hub
from tests.support.tiny_bert import write_bert

CODE = (
    "import sys; from epigram.process.exits import handle_errors;"
    "from epigram.data.sources.hub_models import download_checkpoint; handle_errors(download_checkpoint)(sys.argv[1])"
)
EVIL_NAMES = """
modeling_evil.py pytorch_model.bin training_args.bin tokenizer.pkl tf_model.h5 model.onnx README.md evil.config.json
model.safetensors.py adapter_model.safetensors model-00001-of-00002.safetensors onnx/model.safetensors sub/config.json
"""
EVIL = dict.fromkeys(EVIL_NAMES.split(), b"evil")
SECRET = "hf_secretsecretsecret"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HubServer]:
    with hub() as running:
        running.add(write_bert(tmp_path / "model", ("good", "bad")))
        (tmp_path / "project").mkdir()
        yield running


def download(server: HubServer, tmp_path: Path, checkpoint: str = CHECKPOINT, **variables: str) -> Ended:
    done = subprocess.run(
        [sys.executable, "-c", CODE, checkpoint], cwd=tmp_path / "project", capture_output=True, text=True, check=False,
        env=environment(server, tmp_path / "home", **variables),
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def left(tmp_path: Path) -> set[str]:
    """Return the names of the files in the project, but for the lock of downloads."""
    files = (path for path in (tmp_path / "project").rglob("*") if path.is_file())
    return {path.name for path in files if path.name != "download.lock"}


def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "project/.epigram/hub/tiny/bert" / REVISION


def test_only_files_of_the_allow_list_are_requested(server: HubServer, tmp_path: Path) -> None:
    more = dict.fromkeys(("tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"), b"{}")
    wanted = {name: server.files[name] for name in ("config.json", "model.safetensors", "vocab.txt")} | more
    server.files |= EVIL | more
    ended = download(server, tmp_path)
    assert (ended.code, ended.err) == (0, "")
    size = sum(map(len, wanted.values())) / 1e6
    assert ended.out == f"downloading {CHECKPOINT}: 6 files, {size:,.1f} MB\n"
    assert server.fetched == wanted.keys()
    folder = snapshot(tmp_path)
    lock = json.loads((folder / "sha256.lock").read_text())
    assert lock == {name: hashlib.sha256(content).hexdigest() for name, content in wanted.items()}
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "sha256.lock"} == wanted


def test_the_second_time_nothing_is_requested(server: HubServer, tmp_path: Path) -> None:
    assert download(server, tmp_path).code == 0
    server.asked.clear()
    assert download(server, tmp_path) == Ended(0, "", "")
    assert download(server, tmp_path, HF_HUB_OFFLINE="1") == Ended(0, "", "")
    assert server.asked == []


def test_two_processes_download_once(server: HubServer, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(lambda _: download(server, tmp_path), range(2)))
    assert [(each.code, each.err) for each in ended] == [(0, "")] * 2
    assert sorted(bool(each.out) for each in ended) == [False, True]
    assert sum(path.endswith("model.safetensors") and path.startswith("GET") for path in server.asked) == 1


def test_shards_come_with_their_index(server: HubServer, tmp_path: Path) -> None:
    content = server.files.pop("model.safetensors")
    parts = {f"model-0000{n}-of-00002.safetensors": content for n in (1, 2)}
    server.files |= {**EVIL, **parts, "model.safetensors.index.json": b"{}"}
    assert download(server, tmp_path).code == 0
    assert server.fetched == {*parts, "model.safetensors.index.json", "config.json", "vocab.txt"}


@pytest.mark.parametrize(
    ("absent", "named"),
    [("model.safetensors", "model.safetensors"), ("config.json", "config.json"),
     ("vocab.txt", "tokenizer.json or vocab.txt")],
)  # fmt: skip
def test_a_repository_that_lacks_a_file_is_refused_before_anything_is_fetched(
    server: HubServer, tmp_path: Path, absent: str, named: str
) -> None:
    server.files |= EVIL
    del server.files[absent]
    download(server, tmp_path).refused(65, f"checkpoint '{CHECKPOINT}': the repository has no {named} in this commit;")
    assert server.fetched == set()
    assert left(tmp_path) == set()


def test_what_the_hub_does_not_have(server: HubServer, tmp_path: Path) -> None:
    other = f"{CHECKPOINT[:-1]}0"
    download(server, tmp_path, other).refused(66, f"checkpoint '{other}': the repository has no such commit")
    other = CHECKPOINT.replace("tiny", "tinny")
    download(server, tmp_path, other).refused(
        66, f"checkpoint '{other}': the hub has no such repository", "HTTP status 404"
    )
    other = CHECKPOINT.replace("bert", "be..rt")
    download(server, tmp_path, other).refused(64, f"checkpoint '{other}': the hub has no repositories of such a name")
    assert left(tmp_path) == set()


def test_another_commit_than_the_pinned_one_is_refused(server: HubServer, tmp_path: Path) -> None:
    server.commit = REVISION[::-1]
    download(server, tmp_path).refused(65, f"the hub has sent another commit ({REVISION[::-1]})")
    assert (server.fetched, left(tmp_path)) == (set(), set())


def test_a_private_repository_needs_the_token_which_is_never_printed(server: HubServer, tmp_path: Path) -> None:
    server.token = SECRET
    said = []
    for token in ("", "hf_wrong"):
        said.append(download(server, tmp_path, HF_TOKEN=token))
        said[-1].refused(66, "or it is private (HTTP status 401)", "set HF_TOKEN to a token with access")
    said.append(download(server, tmp_path, HF_TOKEN=SECRET))
    assert said[-1].code == 0
    assert f"Bearer {SECRET}" in server.tokens
    assert not any(token in ended.out + ended.err for ended in said for token in (SECRET, "hf_wrong"))
    assert not any(SECRET.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_that_fails_is_tried_again_later(server: HubServer, tmp_path: Path, status: int) -> None:
    server.status = status
    download(server, tmp_path).refused(69, f"checkpoint '{CHECKPOINT}' cannot be downloaded (HTTP status {status});")
    server.status = 0
    assert download(server, tmp_path).code == 0


def test_a_hub_out_of_reach(server: HubServer, tmp_path: Path) -> None:
    ended = download(server, tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    ended.refused(69, "cannot be downloaded (ConnectError); check the network and HF_ENDPOINT, then rerun")
    assert ended.err.count("\n") == 1
    download(server, tmp_path, HF_HUB_OFFLINE="1").refused(66, "is not downloaded, and HF_HUB_OFFLINE is set")
    assert (server.asked, left(tmp_path)) == ([], set())


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_download_leaves_nothing(server: HubServer, tmp_path: Path, file: str, damage: str) -> None:
    content = server.files[file]
    server.sent[file] = content[:-1] if damage == "cut" else content[:-1] + bytes([content[-1] ^ 1])
    ended = download(server, tmp_path)
    ended.refused(
        69, "incomplete file" if damage == "cut" and file != "config.json" else f"download of {file} is damaged"
    )
    assert ended.err.count("\n") == 1
    assert left(tmp_path) == set()
    server.sent.clear()
    assert download(server, tmp_path).code == 0


def test_a_lost_connection_is_resumed_silently(server: HubServer, tmp_path: Path) -> None:
    """The library's own message would have the address, which the hub signs."""
    server.dropped.add("model.safetensors")
    ended = download(server, tmp_path)
    assert (ended.code, ended.err, server.dropped) == (0, "", set())


def test_a_disk_that_fills_up_leaves_nothing(server: HubServer, tmp_path: Path) -> None:
    """The limit on the size of a file is the error of a write that no test needs a full disk for."""
    limit = 2_000
    assert len(server.files["model.safetensors"]) > limit
    code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {resource.RLIM_INFINITY})); {CODE}"
    done = subprocess.run(
        [sys.executable, "-c", code, CHECKPOINT], cwd=tmp_path / "project", capture_output=True, text=True, check=False,
        env=environment(server, tmp_path / "home"),
    )  # fmt: skip
    Ended(done.returncode, done.stdout, done.stderr).refused(74, "File too large: ")
    assert (done.stderr.count("\n"), left(tmp_path)) == (1, set())


@pytest.mark.parametrize("error", [RuntimeError("No space left on device (os error 28)"), OSError(28, "No space", "x")])
def test_an_error_of_the_disk_stays_one(error: Exception) -> None:
    with pytest.raises(type(error)) as told, translate_hub_errors(f"checkpoint {CHECKPOINT!r}"):
        raise error
    assert told.value is error and not isinstance(error, EpigramError)


def test_an_answer_that_is_not_of_a_hub() -> None:
    with (
        pytest.raises(SourceUnavailableError, match=r"cannot be downloaded \(KeyError\)"),
        translate_hub_errors(f"checkpoint {CHECKPOINT!r}"),
    ):
        raise KeyError("id")
