"""Prefect server of a run: an existing one, or a child process that ends with this process.

The server is started before this process imports Prefect, so that both load at the same time.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from epigram.core.config_types import is_http_url
from epigram.core.errors import ParameterError, TryAgainError
from epigram.process.exits import exit_now, print_error
from epigram.runner import HOME, PROFILES, child_process
from epigram.runner.service import prefect_adapter, service_lock

FILE, POOL = "prefect.yaml", "epigram"  # the deployments of the service, and their work pool
API_URL = "PREFECT_API_URL"
STARTUP_TIMEOUT = 120.0  # seconds
# Leases of a run, such as the only concurrency slot of its deployment, survive a restart of the server.
LEASES = {"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem"}
DATABASE = "PREFECT_API_DATABASE_CONNECTION_URL"
# A run uses no blocks. A server with dashboard adds their types to the database, which takes half a second.
NO_BLOCKS = {"PREFECT_API_BLOCKS_REGISTER_ON_START": "false"}


def home() -> Path:
    """Return the folder of the server's database and logs."""
    return Path(os.environ[HOME])


@dataclass
class Server:
    """A server at `url`; `child` is its process if this process started it."""

    url: str
    child: subprocess.Popen[str] | None = None
    stopped: bool = False

    def wait(self) -> None:
        """Wait until the server responds. Raises TryAgainError if it does not start."""
        end = time.monotonic() + STARTUP_TIMEOUT
        while self.child and not is_healthy(self.url):
            if self.child.poll() is not None:
                raise TryAgainError(f"the Prefect server stopped during startup; see {home() / 'server.log'}")
            if time.monotonic() > end:
                limit = f"within {STARTUP_TIMEOUT:g} s; see {home() / 'server.log'}"
                raise TryAgainError(f"the Prefect server did not start {limit}")
            time.sleep(0.05)

    def watch(self) -> None:
        """From now on, end this process with TryAgainError's exit code when the server that it has started ends.

        Prefect itself repeats every request for minutes. The stages that are running end with this process.
        """

        def exit_with(child: subprocess.Popen[str]) -> None:
            child.wait()
            if not self.stopped:
                exit_now(print_error(TryAgainError(lost_message(self.url))))

        if self.child:
            threading.Thread(target=exit_with, args=(self.child,), daemon=True).start()

    def stop(self) -> None:
        """Terminate the server if this process started it, and wait until it has ended."""
        self.stopped = True
        if self.child:
            child_process.terminate(self.child)
            self.child.wait()


def lost_message(url: str) -> str:
    """Return the error message about a server that does not respond any more."""
    return f"the Prefect server at {url} stopped responding; rerun the command, finished stages are not repeated"


def start() -> Server:
    """Return the server for one run: one that runs already, or a new embedded one.

    An embedded server lives as long as this process; Prefect's own way of starting one leaves it running after a kill.
    Raises ParameterError if PREFECT_API_URL is not a valid URL.
    """
    server = running()
    if server is None:
        port = free_port()
        server = Server(local_url(port), _launch("create_embedded_app", port, NO_BLOCKS))
    if not configured_url():
        _use_server(server.url)
    return server


def running() -> Server | None:
    """Return the server that the user has configured, or the one served here, or None.

    Raises ParameterError if PREFECT_API_URL is not a valid URL.
    """
    if address := configured_url():
        if not is_http_url(address):
            raise ParameterError(f"{API_URL} is not a valid URL; expected http://HOST:PORT/api, or unset it")
        return Server(address.removesuffix("/api"))
    service = service_lock.holder()
    return Server(service.url) if service and is_healthy(service.url) else None


def configured_url() -> str:
    """Return PREFECT_API_URL of the environment, the settings files or the active profile; empty if there is none.

    An empty variable means a server of our own. Prefect, whose import takes a second in which the server can start, is
    asked only if one of the files may contain a URL.
    """
    if API_URL in os.environ:
        return os.environ[API_URL]
    profiles = Path(os.environ.get(PROFILES, home() / "profiles.toml"))
    files = [profiles, *map(Path, (".env", "prefect.toml", "pyproject.toml"))]
    if not any(file.is_file() and b"url" in file.read_bytes().lower() for file in files):
        return ""
    from prefect.settings import PREFECT_API_URL

    return PREFECT_API_URL.value() or ""


def start_dashboard(port: int, database: str) -> subprocess.Popen[str]:
    """Start a server with dashboard on this machine only; `database` is its address, or empty for SQLite.

    Raises TryAgainError if the port is taken.
    """
    with socket.socket() as probe:
        in_use = probe.connect_ex(("127.0.0.1", port)) == 0
    if in_use:
        raise TryAgainError(f"port {port} is in use; choose another with --port, or --port 0 for any free port")
    url = local_url(port)
    public_url = {"PREFECT_UI_API_URL": os.environ.get("PREFECT_UI_API_URL", f"{url}/api")}  # behind a proxy: its URL
    _use_server(url)
    return _launch("create_app", port, public_url | LEASES | ({DATABASE: database} if database else {}))


def _use_server(url: str) -> None:
    """Make Prefect use the server at `url`."""
    os.environ[API_URL] = f"{url}/api"
    if "prefect.context" in sys.modules:
        prefect_adapter.refresh_settings()


def local_url(port: int) -> str:
    """Return the URL of a server on this machine."""
    return f"http://127.0.0.1:{port}"


def is_healthy(url: str) -> bool:
    """Return whether a Prefect server responds at `url`."""
    import httpx  # imported late, so that the server starts first

    try:
        return httpx.get(f"{url}/api/health", timeout=5.0).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _launch(factory: str, port: int, extra: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "uvicorn", "--factory", f"epigram.runner.service.server_app:{factory}"]
    command += ["--app-dir", str(Path(__file__).resolve().parents[3])]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"]
    command += ["--timeout-graceful-shutdown", "2"]  # otherwise open event streams keep it running
    settings = {"PREFECT_SERVER_CORS_ALLOWED_ORIGINS": local_url(port)}  # Prefect's default allows every site
    home().mkdir(parents=True, exist_ok=True)
    with (home() / "server.log").open("a", encoding="utf-8") as log:
        return child_process.start(command, env={**os.environ, **settings, **extra}, stdout=log, stderr=log)


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
