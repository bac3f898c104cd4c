"""Local server with the chat completions of OpenAI, whose answers and troubles a test sets."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, str]], str]  # the numbered texts of a request → the content of the answer


class ChatServer(ThreadingHTTPServer):
    """Server that answers with `answer`; each request consumes one of the HTTP statuses `troubles` first."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.troubles: list[int] = []
        self.requests: list[dict[str, Any]] = []  # the path, the key and the body of each request
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def texts(self) -> list[str]:
        """All texts of the requests that were answered."""
        return [text for each in self.requests if each["status"] == 200 for text in each["texts"].values()]


class Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = json.loads(body["messages"][-1]["content"])
        with self.server.lock:
            status = self.server.troubles.pop(0) if self.server.troubles else 200
            about = {"path": self.path, "key": self.headers.get("Authorization"), "status": status}
            self.server.requests.append({**about, "body": body, **content})
        choice = {"message": {"content": self.server.answer(content["texts"])}} if status == 200 else {}
        reply = json.dumps({"choices": [choice]} if choice else {"error": {"message": "too long"}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def chat_server(answer: Answer) -> Iterator[ChatServer]:
    """Start the server on a free port."""
    with ChatServer(answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
