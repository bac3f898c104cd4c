"""The service with a temporary PostgreSQL server on its own port and in its own folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import command_line, gone, until
from tests.support.serving import DEPLOYMENTS, Serving, refused, written
from tests.support.toy import Toy

pytestmark = [pytest.mark.slow, pytest.mark.extended]
PASSWORD = "x9s3cret"


def programs() -> Path:
    """Return the folder of PostgreSQL's programs: from the PATH, or Debian's newest version."""
    found = shutil.which("initdb") or max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=None)
    if found is None:
        pytest.skip("requires PostgreSQL: apt-get install postgresql")
    return Path(found).parent


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """Yield the address of a new database cluster, without a database name."""
    where = programs()
    user: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="epigram-postgres-"))  # pytest's own folder is not readable by another user
    try:
        (folder / "password").write_text(PASSWORD)
        if user:
            for path in (folder, folder / "password"):
                shutil.chown(path, "postgres", "postgres")
        make = [where / "initdb", "-D", folder / "data", "--username=me", f"--pwfile={folder / 'password'}"]
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"]
        subprocess.run([*make, *options], cwd=folder, check=True, capture_output=True, **user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = ["listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"]
        start = [where / "postgres", "-D", folder / "data", "-p", str(port)]
        start += [word for setting in settings for word in ("-c", setting)]
        with subprocess.Popen(start, cwd=folder, stderr=subprocess.DEVNULL, **user) as server:
            try:
                address = f"127.0.0.1:{port}"
                until(lambda: asyncio.run(asked(f"{address}/postgres", "select 1")), 60)
                yield address
            finally:
                server.send_signal(signal.SIGINT)
    finally:
        shutil.rmtree(folder)


async def asked(database: str, question: str) -> Any:
    """Return the result of the query, or None if the database does not accept connections."""
    import asyncpg

    try:
        connection = await asyncpg.connect(f"postgresql://me:{PASSWORD}@{database}")
    except (OSError, asyncpg.CannotConnectNowError):
        return None
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


def address(database: str, password: str = PASSWORD) -> str:
    return f"postgresql+asyncpg://me:{password}@{database}"


def test_a_schedule_fires_on_postgresql_and_the_password_stays_secret(done: Toy, postgres: str) -> None:
    (done.root / "prefect.yaml").write_text(DEPLOYMENTS)
    (done.told / "prefect").mkdir(exist_ok=True)  # without the empty database that a new folder gets
    (done.told / "prefect/prefect.db").unlink(missing_ok=True)
    serving = Serving(done, DATABASE=address(f"{postgres}/postgres"))
    try:
        until(lambda: serving.runs(state_type="COMPLETED"))
        assert asyncio.run(
            asked(f"{postgres}/postgres", "select count(*) from flow_run where state_type = 'COMPLETED'")
        )
        assert not list(done.told.rglob("*.db"))
        assert written(done, PASSWORD) == []
        family = serving.family()
        assert not any(PASSWORD in command_line(process) for process in family)
        worker = next(each for each in family if "worker" in command_line(each).split())
        assert not any(PASSWORD in value for value in worker.environ().values())
        assert serving.stop().returncode == 0
        until(lambda: all(map(gone, family)), 5)
    finally:
        serving.kill()


@pytest.mark.parametrize(
    ("database", "password", "said"),
    [
        ("postgres", "wr0ng", 'password authentication failed for user "me"'),
        ("nowhere", PASSWORD, 'database "nowhere" does not exist'),
    ],
)
def test_a_database_that_refuses_is_one_clear_line(
    done: Toy, postgres: str, database: str, password: str, said: str
) -> None:
    (done.root / "prefect.yaml").write_text(DEPLOYMENTS)
    code, errors = refused(done, DATABASE=address(f"{postgres}/{database}", password))
    assert (code, errors) == (
        64,
        f"error: DATABASE (127.0.0.1, {database}): the server rejected the connection: {said}\n",
    )
