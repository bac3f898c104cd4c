"""The Prefect server that a run talks to: one that is already there, or a child that ends with this process.

Nothing here imports Prefect first, so that the server starts while Prefect is being imported.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pithy.errors import ParameterError, TryAgainError
from pithy.values import is_web_address
from tasks import leash, served

ADDRESS = "PREFECT_API_URL"
EMBEDDED = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
# What a run holds, such as the one place of its deployment, outlives a server that is started again.
LEASES = {"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem"}
DATABASE = "PREFECT_API_DATABASE_CONNECTION_URL"


def home() -> Path:
    """Where the server keeps its database and its log."""
    return Path(os.environ["PREFECT_HOME"])


@dataclass
class Server:
    """A server at `url`; `child` is its process where it is ours."""

    url: str
    child: subprocess.Popen[str] | None = None

    def wait(self) -> None:
        """Return when the server answers. Raises TryAgainError where it does not start."""
        limit = float(os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"])
        end = time.monotonic() + limit
        while self.child and not healthy(self.url):
            if self.child.poll() is not None:
                raise TryAgainError(f"the Prefect server stopped while starting: see {home() / 'server.log'}")
            if time.monotonic() > end:
                raise TryAgainError(f"the Prefect server did not start in {limit:g} s: see {home() / 'server.log'}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End the server, if it is ours, and wait until it is gone."""
        if self.child:
            leash.let_go(self.child)
            self.child.wait()


def start() -> Server:
    """The server for one run: the one that PREFECT_API_URL names, the one that is served here, or an embedded one.

    Raises ParameterError where PREFECT_API_URL is no address.

    An embedded server lives as long as this process; Prefect's own way of starting one leaves it behind on a kill.
    """
    if named := os.environ.get(ADDRESS):
        if not is_web_address(named):
            raise ParameterError(f"{ADDRESS} is no address: http://HOST:PORT/api is allowed; or unset it")
        return Server(named.removesuffix("/api"))
    found = served.holder()
    if found and healthy(found.url):
        server = Server(found.url)
    else:
        port = free_port()
        server = Server(local(port), _launch(port, EMBEDDED))
    _tell(server.url)
    return server


def start_dashboard(port: int, database: str) -> subprocess.Popen[str]:
    """A full server with its dashboard, on this machine only; `database` is an address, empty for SQLite."""
    if not _is_free(port):
        raise TryAgainError(f"port {port} is taken: choose another with --port, or 0 for any")
    url = local(port)
    seen = os.environ.get("PREFECT_UI_API_URL", f"{url}/api")  # by browsers: behind a proxy it has another name
    own = {"PREFECT_UI_API_URL": seen, "PREFECT__SERVER_FINAL": "1"}
    _tell(url)
    return _launch(port, own | LEASES | ({DATABASE: database} if database else {}))


def _tell(url: str) -> None:
    """Let Prefect use the server at `url`.

    Where it is imported already it has read its settings, and would start a server of its own beside this one, which
    answers to every web page and outlives the run.
    """
    os.environ[ADDRESS] = f"{url}/api"
    if "prefect.context" in sys.modules:
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()


def local(port: int) -> str:
    """The address of a server on this machine."""
    return f"http://127.0.0.1:{port}"


def healthy(url: str) -> bool:
    """Whether a Prefect server answers at `url`."""
    import httpx  # the server starts before it is loaded

    try:
        return httpx.get(f"{url}/api/health", timeout=5.0).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _launch(port: int, extra: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "uvicorn", "--factory", "tasks.prefect_app:create_app"]
    command += ["--app-dir", str(Path(__file__).resolve().parents[1])]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"]
    command += ["--timeout-graceful-shutdown", "2"]  # open event streams would keep it for ever
    own = {"PREFECT_SERVER_CORS_ALLOWED_ORIGINS": local(port)}  # Prefect's own value allows every site
    home().mkdir(parents=True, exist_ok=True)
    with (home() / "server.log").open("a") as log:
        return leash.start(command, env={**os.environ, **own, **extra}, stdout=log, stderr=log)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
