"""Stages on the workers of a Ray cluster."""

from __future__ import annotations

import json
import signal

import psutil
import pytest

from epigram.runner.scheduling.gpus import VISIBLE
from tests.support.bad_input import epigram
from tests.support.processes import command_line, gone, until
from tests.support.toy import Toy

pytest.importorskip("prefect_ray", reason="requires the extra ray")
pytestmark = [pytest.mark.slow, pytest.mark.extended]

AGENTS = {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}
RAY = ("--ray", "local", "--max-parallel", "2")


def test_the_pipeline_runs_on_workers(toy: Toy) -> None:
    told = {"summary": "3 rows break a rule", "details": []}
    toy.tell({"cut@token": {"codes": [69]}, "fit@bert": {"codes": [65], "outcome": told}})
    command = toy.command(*RAY)
    _, errors = command.communicate(timeout=300)
    assert command.returncode == 65
    assert "error: fit@bert failed (exit 65): 3 rows break a rule" in errors
    assert "fit@mlp Completed" in errors and "judge NotReady" in errors
    assert toy.journal().count("cut@token") == 2  # retried where it failed
    began = {name: time for name, event, time, _ in toy.events() if event == "begin"}
    assert began["gather"] < began["cut@wordpiece"] < began["fit@bert"]
    assert set(json.loads(toy.shell("dvc", "status", "--json"))) == {"fit@bert", "judge"}  # the rest is recorded


def test_a_stage_has_a_gpu_of_its_node_for_itself(toy: Toy) -> None:
    """Two stages need a GPU, and one of two nodes has one; Ray knows the GPUs only by their number."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 0})
    try:
        cluster.add_node(num_cpus=2, num_gpus=1)
        cluster.wait_for_nodes()
        toy.tell({name: {"show": [VISIBLE], "sleep": 2} for name in ("gather", "fit@mlp", "fit@bert")})
        command = toy.command("--ray", cluster.address)
        _, errors = command.communicate(timeout=300)
        assert command.returncode == 0, errors
    finally:
        cluster.shutdown()
    shown = {name: event for name, event, *_ in toy.events() if event.startswith(VISIBLE)}
    assert shown == {"gather": f"{VISIBLE}=", "fit@mlp": f"{VISIBLE}=0", "fit@bert": f"{VISIBLE}=0"}
    fits = [event for name, event, *_ in toy.events() if name.startswith("fit") and event in {"begin", "end"}]
    assert fits == ["begin", "end", "begin", "end"]


def test_trials_in_parallel_have_a_gpu_each(toy: Toy) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 2})
    try:
        toy.tell({"fit@mlp": {"show": [VISIBLE], "sleep": 2}})
        options = ("--ray", cluster.address, "--systems", "mlp", "--over", "seeds=[0],[1]")
        _, errors = toy.command(*options, name="sweep").communicate(timeout=300)
    finally:
        cluster.shutdown()
    shown = [event for name, event, *_ in toy.events() if event.startswith(VISIBLE)]
    assert sorted(shown) == [f"{VISIBLE}=0", f"{VISIBLE}=1"], errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_a_flow_that_is_ended(toy: Toy, number: signal.Signals) -> None:
    toy.tell({"gather": {"sleep": 600, "child": True}})
    command = toy.command(*RAY)
    until((toy.told / "child").exists)
    family = psutil.Process(command.pid).children(recursive=True)
    agents = [process for process in family if command_line(process) in AGENTS]
    stage = psutil.Process(int((toy.told / "child").read_text()))
    command.send_signal(number)
    _, errors = command.communicate(timeout=120)
    assert command.returncode == (130 if number == signal.SIGINT else -number)
    assert "Traceback" not in errors
    if number == signal.SIGKILL:  # Ray's own two processes look for their cluster for a minute before they end
        family = [process for process in family if process not in agents]
    until(lambda: all(map(gone, [*family, stage])), 60)


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("127.0.0.1:1", 75, "cannot connect to a Ray cluster at 127.0.0.1:1: "),
        ("nowhere", 64, "invalid --ray 'nowhere': expected local, auto, HOST:PORT or ray://HOST:PORT"),
    ],
)
def test_an_address_without_a_cluster_is_one_line(toy: Toy, address: str, code: int, said: str) -> None:
    ended = epigram(toy.root, "run", "--ray", address)
    ended.refused(code, said)
    assert ended.err.count("\n") == 1
    assert toy.journal() == []


def test_a_machine_without_a_cluster_is_one_line(toy: Toy) -> None:
    command = toy.command("--ray", "auto")
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 75
    assert errors.startswith("error: cannot connect to a Ray cluster at auto: ") and errors.count("\n") == 1
    assert toy.journal() == []
