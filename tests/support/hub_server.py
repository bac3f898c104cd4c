"""Local server that speaks the parts of the Hugging Face hub's protocol that up- and downloads of a model use."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

REPOSITORY, REVISION = "tiny/bert", "0123456789abcdef0123456789abcdef01234567"
CHECKPOINT = f"hub:{REPOSITORY}@{REVISION}"
LARGE = (".safetensors", ".bin")  # in LFS, as on the hub


class HubServer(ThreadingHTTPServer):
    """Server of one repository with one commit; `asked` has the method and path of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.sent: dict[str, bytes] = {}  # contents that differ from the published ones
        self.dropped: set[str] = set()  # files of which the next answer ends halfway
        self.commit = REVISION  # in the answer to the request for the commit
        self.token = ""  # required, if not empty
        self.status = 0  # of every answer, if not 0
        self.created: list[Any] = []  # what was asked of new repositories
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()

    def add(self, folder: Path) -> None:
        self.files |= {path.name: path.read_bytes() for path in folder.iterdir()}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def fetched(self) -> set[str]:
        """The names of the files of which anything was requested."""
        return {path.partition(f"/resolve/{REVISION}/")[2] for path in self.asked if "/resolve/" in path}

    def published(self, name: str) -> dict[str, Any]:
        """Return size and checksums of a file."""
        content = self.files[name]
        git = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        large = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return {"size": len(content), "git": git, "lfs": large if name.endswith(LARGE) else None}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class Handler(BaseHTTPRequestHandler):
    server: HubServer

    def do_GET(self) -> None:
        self.answer(body=True)

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_POST(self) -> None:
        server, path = self.server, unquote(urlsplit(self.path).path)
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server.asked.append(f"POST {path}")
        server.tokens.add(self.headers.get("Authorization"))
        if server.status:
            return self.refuse(server.status)
        answers = {
            "/api/repos/create": self.create,
            "/api/validate-yaml": lambda _: {"errors": [], "warnings": []},
            f"/api/models/{REPOSITORY}/preupload/main": self.prepare,
            f"/api/models/{REPOSITORY}/commit/main": self.commit,
        }
        if path not in answers:
            return self.refuse(404, "RepoNotFound")
        return self.send({}, json.dumps(answers[path](content)).encode(), body=True)

    def create(self, content: bytes) -> Any:
        self.server.created.append(json.loads(content))
        return {"url": f"{self.server.address}/{REPOSITORY}", "id": "1", "name": REPOSITORY}

    def prepare(self, content: bytes) -> Any:
        names = [file["path"] for file in json.loads(content)["files"]]
        return {"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]}

    def commit(self, content: bytes) -> Any:
        """Replace and delete files as the lines of a commit say."""
        for line in map(json.loads, content.decode().splitlines()):
            if line["key"] == "file":
                self.server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            if line["key"] == "deletedFile":
                del self.server.files[line["value"]["path"]]
        address = f"{self.server.address}/{REPOSITORY}/commit/{REVISION}"
        return {"success": True, "commitOid": REVISION, "commitUrl": address}

    def answer(self, *, body: bool) -> None:
        server, path = self.server, unquote(urlsplit(self.path).path)
        server.asked.append(f"{self.command} {path}")
        server.tokens.add(self.headers.get("Authorization"))
        if server.status:
            return self.refuse(server.status)
        if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
            return self.refuse(401, "RepoNotFound")
        path += "/revision/main" if path == f"/api/models/{REPOSITORY}" else ""
        api, files = f"/api/models/{REPOSITORY}/", f"/{REPOSITORY}/resolve/"
        if not path.startswith((api, files)):
            return self.refuse(404, "RepoNotFound")
        path = path.replace("/main", f"/{REVISION}", 1)
        kind, _, rest = path.removeprefix(api).removeprefix(files).rpartition(f"{REVISION}")
        if REVISION not in path:
            return self.refuse(404, "RevisionNotFound")
        if path.startswith(api):
            return self.send({}, json.dumps(self.listing(kind.strip("/"))).encode(), body=True)
        return self.send_file(rest.lstrip("/"), body=body)

    def listing(self, kind: str) -> Any:
        server = self.server
        known = {name: server.published(name) for name in server.files}
        if kind == "revision":
            siblings = [
                {"rfilename": name, "size": about["size"], "blobId": about["git"], "lfs": about["lfs"]}
                for name, about in known.items()
            ]
            return {"id": REPOSITORY, "modelId": REPOSITORY, "sha": server.commit, "siblings": siblings, "tags": []}
        return [
            {"type": "file", "path": name, "size": about["size"], "oid": about["git"]}
            | ({"lfs": {**about["lfs"], "oid": about["lfs"]["sha256"]}} if about["lfs"] else {})
            for name, about in known.items()
        ]

    def send_file(self, name: str, *, body: bool) -> None:
        server = self.server
        if name not in server.files:
            return self.refuse(404, "EntryNotFound")
        about = server.published(name)
        headers = {"X-Repo-Commit": REVISION, "ETag": f'"{about["git"]}"'}
        if about["lfs"]:
            headers |= {"X-Linked-ETag": f'"{about["lfs"]["sha256"]}"', "X-Linked-Size": str(about["size"])}
        content = server.sent.get(name, server.files[name])
        headers["Content-Length"] = str(len(content))
        if body and name in server.dropped:
            server.dropped.remove(name)
            content = content[: len(content) // 2]
        return self.send(headers, content, body=body)

    def send(self, headers: dict[str, str], content: bytes, *, body: bool) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def refuse(self, status: int, code: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *values: Any) -> None:
        """Do not log requests."""


@contextmanager
def hub() -> Iterator[HubServer]:
    """Yield a server that runs until the block ends."""
    with HubServer() as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield running
        running.shutdown()


def environment(server: HubServer, home: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a process that uses `server`, with the library's own files below `home`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    return {**own, "HF_ENDPOINT": server.address, "HF_HOME": str(home), **variables}
