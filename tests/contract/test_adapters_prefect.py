"""Contract with Prefect: the installed version has the undocumented parts that the adapter uses."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import prefect
import pytest
from prefect import context, flow_engine
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import MissingResult
from prefect.settings import get_current_settings

from epigram.core.errors import SourceUnavailableError
from epigram.runner.service import prefect_adapter

NEEDS = f"prefect {prefect.__version__} has no {{}}: epigram needs it for {{}}"


@pytest.fixture(scope="module")
def server() -> Any:
    """Return Prefect's module of this name, whose import takes seconds in every process of a parallel run."""
    from prefect.server.api import server

    return server


def test_prefect_has_the_parts_of_the_server(server: Any) -> None:
    assert hasattr(server, "create_app"), NEEDS.format("server.api.server.create_app", "its server")
    for name in ("ephemeral", "final"):
        known = inspect.signature(server.create_app).parameters
        assert name in known, NEEDS.format(f"parameter {name} of create_app", "the server of a run")


def test_prefect_can_read_its_settings_again() -> None:
    found = hasattr(context, "refresh_global_settings_context")
    assert found, NEEDS.format("context.refresh_global_settings_context", "the server of a run")


def test_prefect_sends_the_heartbeat_event() -> None:
    source = inspect.getsource(flow_engine)
    assert prefect_adapter.HEARTBEAT_EVENT in source, NEEDS.format("heartbeat event of this name", "lost runs")


def test_prefect_reports_an_unreachable_api_by_this_text() -> None:
    source = inspect.getsource(PrefectClient.raise_for_api_version_mismatch)
    assert prefect_adapter.UNREACHABLE in source, NEEDS.format("error with this text", "a server that is gone")


@pytest.mark.parametrize("embedded", [True, False])
def test_the_arguments_of_the_server(embedded: bool, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(server, "create_app", asked.update)
    prefect_adapter.server_app(embedded=embedded)
    assert asked == {"ephemeral": embedded, "final": True}


def caused(error: Exception, cause: Exception) -> Exception:
    """Return `error` as it is when it is raised from `cause`."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "unreachable"),
    [
        (httpx.ConnectError("refused"), True),
        (MissingResult("no result"), True),
        (caused(RuntimeError("another text"), httpx.ConnectError("refused")), True),
        (RuntimeError("Failed to reach API at http://127.0.0.1:9"), True),
        (RuntimeError("another text"), False),
        (caused(SourceUnavailableError("a download failed"), httpx.ConnectError("refused")), False),
    ],
)
def test_which_errors_mean_that_the_server_is_gone(error: Exception, unreachable: bool) -> None:
    assert prefect_adapter.is_unreachable(error) == unreachable


def values_of(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the value of each setting in a table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from values_of(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


PREFECT_TOML = Path(__file__).parents[2] / "prefect.toml"


@pytest.mark.parametrize(("name", "value"), [*values_of(tomllib.loads(PREFECT_TOML.read_text(encoding="utf-8")))])
def test_prefect_knows_each_setting_of_prefect_toml_and_has_its_value(name: str, value: Any) -> None:
    """Prefect ignores unknown names silently."""
    found: Any = get_current_settings()
    for part in name.split("."):
        assert part in type(found).model_fields, NEEDS.format(f"setting {name}", "prefect.toml")
        found = getattr(found, part)
    assert found == value
