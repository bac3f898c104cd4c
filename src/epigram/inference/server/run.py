"""Start of the server, and its end on SIGTERM or Ctrl-C after all requests are answered."""

from __future__ import annotations

import gc
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import torch
import uvicorn

from epigram.core.errors import ParameterError
from epigram.inference.server.app import create_app
from epigram.inference.server.served_model import ServedModel
from epigram.inference.server.settings import ServerSettings
from epigram.process.display import echo

STOP_SECONDS = 30  # a request in progress may take as long


def serve(folders: Mapping[str, Path], settings: ServerSettings, *, min_confidence: float) -> None:
    """Serve the models in `folders` until a signal; returns after the requests in progress are answered.

    Raises the errors of `open_predictor`, and ParameterError for a port that is in use.
    """
    torch.set_num_threads(settings.threads // settings.workers)
    models = [ServedModel(name, folder, settings, min_confidence) for name, folder in folders.items()]
    config = uvicorn.Config(
        create_app(models, settings), log_level="warning", access_log=False, server_header=False, ws="none",
        timeout_graceful_shutdown=STOP_SECONDS,
    )  # fmt: skip
    with _listen(settings.host, settings.port) as listening:
        gc.freeze()  # the models live as long as the process, so that no collection has to visit them
        echo(f"serving {', '.join(folders)} at {_address(listening, settings.host)}", flush=True)
        with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after the last answer
            uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ParameterError(f"cannot listen on {host}, port {port} ({error.strerror}); set --host or --port") from None


def _address(listening: socket.socket, host: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"
