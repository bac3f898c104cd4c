"""A grid of settings; each combination is a separate run."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from epigram.core.errors import ParameterError
from epigram.runner.prefect.sweep import Result, best_per_dataset, make_trials, sort_results
from epigram.runner.scheduling.gpus import VISIBLE
from epigram.runner.workspace.request import Request
from tests.pipeline.test_flow_results import comparison
from tests.support.bad_input import epigram
from tests.support.processes import gone, until
from tests.support.toy import Toy


def test_every_combination_is_a_run(tmp_path: Path) -> None:
    base = Request(root=tmp_path, dataset="mr", changes={"seeds": [1]})
    found = make_trials(base, {"dataset": ["ced", "mr"], "train.epochs": [1, 2, 3]}, "s")
    assert [trial.request.name for trial in found] == ["s-1", "s-2", "s-3", "s-4", "s-5", "s-6"]
    assert [trial.request.dataset for trial in found] == ["ced"] * 3 + ["mr"] * 3
    assert found[4].request.changes == {"seeds": [1], "train.epochs": 2}
    assert found[4].values == {"dataset": "mr", "train.epochs": 2}
    assert len({trial.request.key for trial in found}) == 6
    with pytest.raises(ParameterError, match="1,331 runs"):
        make_trials(base, {name: list(range(11)) for name in "abc"}, "s")


def test_the_best_is_best_on_dev_of_its_data_set() -> None:
    def result(run: str, dataset: str, dev: float, test: float) -> Result:
        return Result(run=run, values={}, dataset=dataset, dev=dev, test=(test, test, test))

    failed = Result(run="d", values={}, code=65)
    results = [failed, result("a", "mr", 0.7, 0.9), result("b", "mr", 0.8, 0.6), result("c", "ced", 0.5, 0.5)]
    assert [each.run for each in sort_results(results)] == ["c", "b", "a", "d"]
    assert [each.run for each in best_per_dataset(results)] == ["c", "b"]


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ("train.epochs", "KEY=V1,V2"),
        ("train.epochs=", "KEY=V1,V2"),
        ("dataset=toy,nowhere", "dataset is 'nowhere'"),
        ("compare.alpha=0.05,7", "compare.alpha is 7"),
        ("train.epochs=1,[", "contains an invalid YAML value"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(toy: Toy, over: str, said: str) -> None:
    epigram(toy.root, "sweep", "--over", over).refused(64, said)
    assert toy.journal() == [] and not (toy.root / "runs").exists()


@pytest.mark.extended
def test_a_run_that_fails_ends_no_other(toy: Toy) -> None:
    toy.tell({"fit@mlp": {"codes": [65] * 9, "outcome": {"summary": "no good", "details": []}}})
    command = toy.command("--over", "dataset=toy,other", "--name", "s", name="sweep")
    _, errors = command.communicate(timeout=300)
    assert command.returncode == 65, errors
    for run in ("s-1", "s-2"):
        assert f"error: {run}: fit@mlp failed (exit 65): no good" in errors
        stages = json.loads((toy.root / "runs" / run / "summary.json").read_text())["stages"]
        assert stages["fit@bert"]["state"] in {"Completed", "Restored"}


@pytest.mark.extended
def test_ctrl_c_ends_every_run(toy: Toy) -> None:
    toy.tell({"gather": {"sleep": 600, "child": True}})
    command = toy.command("--over", "dataset=toy,other", "--max-parallel", "1", name="sweep")
    until((toy.told / "child").exists)
    family = psutil.Process(command.pid).children(recursive=True)
    command.send_signal(signal.SIGINT)
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 130
    assert "Traceback" not in errors
    until(lambda: all(map(gone, family)), 30)
    assert toy.journal() == ["gather"]  # the second run did not start


@pytest.mark.extended
def test_trials_in_parallel_have_a_gpu_each(toy: Toy) -> None:
    """Each trial is a process of its own, which would take the first GPU."""
    program = toy.told / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'GPU 0: H100'\necho 'GPU 1: H100'\n")
    program.chmod(0o755)
    toy.tell({"fit@mlp": {"show": [VISIBLE], "sleep": 2}})
    env = toy.env | {"PATH": f"{program.parent}:{toy.env['PATH']}", VISIBLE: "5,7,9"}
    command = toy.command(
        *("--systems", "mlp", "--over", "seeds=[0],[1]", "--max-parallel", "2"), name="sweep", env=env
    )
    _, errors = command.communicate(timeout=300)
    shown = [event for name, event, *_ in toy.events() if event.startswith(VISIBLE)]
    assert sorted(shown) == [f"{VISIBLE}=5", f"{VISIBLE}=7"], errors


@pytest.mark.extended
def test_a_sweep_names_the_best_of_each_data_set(toy: Toy) -> None:
    compared = {"summary.json": json.dumps(comparison()), "report.html": "a page", "chosen/config.json": "{}"}
    toy.tell({"judge": {"files": compared}})
    options = ("--systems", "mlp", "--over", "dataset=toy,other", "--over", "seeds=[0],[1]", "--name", "s")
    command = toy.command(*options, name="sweep")
    output, errors = command.communicate(timeout=300)
    assert command.returncode == 0, errors
    for dataset in ("toy", "other"):
        assert output.count(f", {dataset}: mlp: accuracy ") == 1
