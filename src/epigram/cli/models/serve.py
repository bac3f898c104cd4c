"""epigram serve: HTTP server of saved models."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from epigram.core.config_types import check_name, is_name
from epigram.core.errors import ParameterError
from epigram.core.machine import count_processors
from epigram.inference.server.settings import ServerSettings
from epigram.process.display import echo

LIMITS = ServerSettings()
LOCAL = ("127.0.0.1", "::1", "localhost")


def main(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Folders of saved models. A model has the name of its folder; to choose another: NAME=FOLDER."
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; by default, only this machine reaches it.")
    ] = LIMITS.host,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 for any free port.")] = LIMITS.port,
    threads: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Threads that predict. Default: all processors.")
    ] = None,
    min_confidence: Annotated[
        float, typer.Option(metavar="P", help="Probability below which a text gets no label, from 0 to 1.")
    ] = 0.0,
    max_texts: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum texts of a request.")] = LIMITS.max_texts,
    max_characters: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum characters of a text.")
    ] = LIMITS.max_characters,
    max_bytes: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum bytes of a request.")] = LIMITS.max_bytes,
    max_waiting: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests that may wait for a model; further ones get 503.")
    ] = LIMITS.max_waiting,
) -> None:
    """Serve models over HTTP until Ctrl-C: predictions as JSON, metrics, and a page to try texts.

    If the environment variable EPIGRAM_TOKEN is set, each request needs it (Authorization: Bearer TOKEN). A model is
    loaded again when its folder changes.

    Example: epigram serve runs/champion/model --port 8000
    """
    from epigram.core.extras import require

    require("epigram serve", "serve", "fastapi", "uvicorn", "prometheus_client")
    folders = _named(models)
    echo(f"loading {', '.join(folders)}", file=sys.stderr, flush=True)  # the import below takes seconds, too
    from epigram.inference.server.run import serve

    token = os.environ.get("EPIGRAM_TOKEN", "")
    if not token and host not in LOCAL:
        echo(f"note: everybody who reaches {host} may predict; to require a token, set EPIGRAM_TOKEN", file=sys.stderr)
    settings = ServerSettings(
        host=host, port=port, token=token, max_texts=max_texts, max_characters=max_characters, max_bytes=max_bytes,
        max_waiting=max_waiting, threads=threads or count_processors(),
    )  # fmt: skip
    serve(folders, settings, min_confidence=min_confidence)


def _named(models: list[str]) -> dict[str, Path]:
    """Return the folders by the names of their models. Raises ParameterError for a name that is used twice."""
    folders: dict[str, Path] = {}
    for model in models:
        before, sign, after = model.partition("=")
        given = bool(sign) and is_name(before)
        name, folder = (before, Path(after)) if given else (Path(model).absolute().name, Path(model))
        check_name("the name of a model", name)
        if name in folders:
            raise ParameterError(f"two models are called {name!r}; choose names: first={folders[name]} second={folder}")
        folders[name] = folder
    return folders
