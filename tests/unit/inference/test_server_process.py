"""Tests of `epigram serve` as a process: exchange of a model under load, and stop with requests in progress."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

pytest.importorskip("prometheus_client", reason="requires the extra serve")

from tests.support.linear_models import TRAIN, svm
from tests.support.model_server import ModelServer, model_server
from tests.support.processes import until
from tests.support.saved_systems import saved

LOAD = 4  # clients that send requests all the time
TEXT = {"text": "nice soup"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folders of a linear model and a network, each called model."""
    linear, network = tmp_path_factory.mktemp("linear"), tmp_path_factory.mktemp("network")
    return svm(linear, "en", TRAIN["en"]), saved("textcnn", network)


class Load:
    """Clients that send one request after the other, and the labels and failures that they have got."""

    def __init__(self, url: str) -> None:
        self.labels: list[str] = []
        self.failures: list[object] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(url,)) for _ in range(LOAD)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _send(self, url: str) -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not self._ended.is_set():
                try:
                    answer = client.post("/v1/predict", json=TEXT)
                    self.labels.append(answer.json()["predictions"][0]["label"])
                except Exception as error:
                    self.failures.append(error)


def test_a_promotion_and_a_broken_model_drop_no_request(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """The link moves as at a promotion, first to another model, then to an incomplete copy, then back."""
    linear, network = folders
    broken = Path(shutil.copytree(linear, tmp_path / "broken"))
    (broken / "tokenizer.json").unlink()
    champion = tmp_path / "model"

    def move(target: Path) -> None:
        (tmp_path / "new").symlink_to(target)
        (tmp_path / "new").rename(champion)

    move(linear)
    with model_server(champion) as server:
        load = Load(server.url)
        try:
            until(lambda: len(load.labels) > 20)
            for target, labels in ((network, set("abc")), (broken, set("abc")), (linear, {"food"})):
                move(target)
                until(lambda labels=labels: load.labels[-1] in labels)
                time.sleep(2.5 if target == broken else 0)  # longer than the server needs to see it
                sent = len(load.labels)
                until(lambda sent=sent: len(load.labels) > sent + 20)
                assert load.labels[-1] in labels
        finally:
            load.stop()
        metrics = httpx.get(f"{server.url}/metrics").text
        server.process.terminate()
        out, errors = server.process.communicate(timeout=60)
    assert load.failures == []
    assert 'epigram_reloads_total{model="model",result="loaded"} 2.0' in metrics
    assert 'epigram_reloads_total{model="model",result="failed"} 1.0' in metrics
    first, damaged, last = out.splitlines()
    assert first == last == f"model: loaded again from {champion}" and "tokenizer.json is missing" in damaged
    assert (server.process.returncode, errors) == (0, "loading model\n")


def half_sent(server: ModelServer) -> tuple[socket.socket, bytes]:
    """Return a connection with the first half of a request, and the second half."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    body = b'{"text": "nice soup"}'
    head = f"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    connection.sendall(head.encode() + b"\r\n" + body[:9])
    return connection, body[9:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_answers_the_requests_in_progress(number: int, folders: tuple[Path, Path]) -> None:
    with model_server(folders[0]) as server, httpx.Client(base_url=server.url) as idle:
        assert idle.get("/readyz").status_code == 200  # its connection stays open
        connection, rest = half_sent(server)
        time.sleep(0.5)
        os.kill(server.process.pid, number)
        until(lambda: refused(server.port))
        connection.sendall(rest)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
        assert answer.startswith(b"HTTP/1.1 200") and b'"label":"food"' in answer
        assert server.process.wait(60) == 0
        assert server.process.communicate()[1] == f"loading {folders[0].name}\n"


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing"], 66, "missing does not exist"),
        (["MODEL", "--port", "PORT"], 64, "cannot listen on 127.0.0.1, port"),
        (["MODEL", "--min-confidence", "2"], 64, "the minimum confidence is 2.0"),
    ],
)
def test_a_server_that_cannot_start_says_why(
    arguments: list[str], code: int, message: str, folders: tuple[Path, Path]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {"MODEL": str(folders[0]), "PORT": str(taken.getsockname()[1])}
        command = [sys.executable, "-m", "epigram.cli", "serve", *(values.get(each, each) for each in arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    loading, error = done.stderr.splitlines()
    assert done.returncode == code and loading.startswith("loading ") and error.startswith(f"error: {message}")
