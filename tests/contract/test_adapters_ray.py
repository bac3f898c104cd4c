"""Contract with Ray: the installed version has the part that `run_stages` uses."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("prefect_ray", reason="requires the extra ray")

import ray
from prefect_ray.context import RemoteOptionsContext
from prefect_ray.task_runners import PrefectRayFuture

from epigram.runner.prefect.ray_cluster import _ray_options, first_finished, gpus_per_node, reserve_gpus


def test_a_future_has_the_reference_of_ray() -> None:
    message = f"prefect-ray {version('prefect-ray')} has no PrefectRayFuture.wrapped_future: epigram waits for it"
    assert hasattr(PrefectRayFuture, "wrapped_future"), message


def test_the_future_that_ray_reports_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = SimpleNamespace(wrapped_future="a"), SimpleNamespace(wrapped_future="b")
    monkeypatch.setattr(ray, "wait", lambda references: (references[1:], references[:1]))
    assert first_finished([first, second]) is second


@pytest.mark.parametrize(("count", "sharing", "reserved"), [(1, 1, 1), (0, 1, 0), (2, 1, 2), (1, 4, 0.25), (2, 4, 2)])
def test_a_stage_reserves_its_gpus(count: int, sharing: int, reserved: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPIGRAM_STAGES_PER_GPU", str(sharing))
    with reserve_gpus(count):
        assert RemoteOptionsContext.get().current_remote_options == {"num_gpus": reserved}
    assert RemoteOptionsContext.get().current_remote_options == {}


def test_the_gpus_of_the_largest_node_that_is_alive_count(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        {"Alive": True, "Resources": {"GPU": 2.0, "CPU": 1.0}},
        {"Alive": True, "Resources": {"CPU": 8.0}},
        {"Alive": False, "Resources": {"GPU": 8.0}},
    ]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    assert gpus_per_node() == 2
    monkeypatch.setattr(ray, "nodes", lambda: nodes[1:])
    assert gpus_per_node() == 0


def test_a_worker_gets_the_settings_of_prefect_toml() -> None:
    variables = _ray_options("auto", Path("repository"), 2)["runtime_env"]["env_vars"]
    assert variables["PREFECT_CLIENT_MAX_RETRIES"] == "2"
