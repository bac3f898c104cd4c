"""Addresses of this machine bypass the proxy of the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parents[2]
ASK = "import sys; from epigram.runner.service import server; print(server.is_healthy(sys.argv[1]))"
SHOW = "import os, epigram.runner; print(os.environ['NO_PROXY'], os.environ['no_proxy'])"


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/api/health" else 404)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def python(code: str, *arguments: str, **variables: str) -> str:
    known = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**known, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_server_on_this_machine_is_asked_without_the_proxy(variable: str) -> None:
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert python(ASK, url, **{variable: "http://127.0.0.1:9"}) == "True"  # nothing listens on port 9
        server.shutdown()


def test_hosts_that_the_user_lists_stay_listed() -> None:
    ours = "127.0.0.1,localhost,::1"
    assert python(SHOW, NO_PROXY="intranet, localhost") == " ".join(["intranet,localhost,127.0.0.1,::1"] * 2)
    assert python(SHOW, no_proxy="lower", NO_PROXY="upper") == " ".join([f"lower,{ours}"] * 2)
    assert python(SHOW) == f"{ours} {ours}"
