"""The commands as a user starts them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from epigram.runner.scheduling.gpus import VISIBLE
from tests.support.bad_input import epigram
from tests.support.processes import command_line, gone, until
from tests.support.toy import Toy


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--systems", "transfomer"], "did you mean 'transformer'?"),
        (["--dataset", "nowhere"], "dataset is 'nowhere'"),
        (["--set", "prune.treshold=0.5"], "prune.treshold is not a setting"),
        (["--set", "prune"], "KEY=VALUE"),
        (["--seeds", "0,one"], "invalid --seeds 'one'"),
        (["--name", "../elsewhere"], "--name is '../elsewhere'"),
        (["--name", "champion"], "--name 'champion' is reserved: epigram uses runs/champion"),
        (["--set", "systems=textcnn"], "systems is 'textcnn'"),
        (["--max-parallel", "0"], "--max-parallel"),
        (["--sets", "a=1"], "--sets"),
    ],
)
def test_what_cannot_run_ends_with_64_and_leaves_nothing(toy: Toy, arguments: list[str], said: str) -> None:
    epigram(toy.root, "run", *arguments).refused(64, said)
    assert not (toy.root / "runs").exists()
    assert not (toy.root / ".epigram" / "workspaces").exists()


def test_a_failure_ends_with_the_stage_s_code_and_a_clear_line(done: Toy) -> None:
    told = {"summary": "2 rows break a rule", "details": ["row 3 is empty", "row 7 is empty"]}
    done.change("fit@mlp")
    done.tell({"fit@mlp": {"codes": [65], "say": ["reading"], "outcome": told}})
    command = done.command()
    output, errors = command.communicate(timeout=120)
    assert command.returncode == 65
    assert output == ""
    assert "error: fit@mlp failed (exit 65): 2 rows break a rule\nrow 3 is empty\nrow 7 is empty\n" in errors
    assert errors.count("break a rule") == 1
    assert "cut@wordpiece Cached" in errors
    assert "judge NotReady" in errors


def machine(toy: Toy, folder: Path, gpus: int) -> dict[str, str]:
    """Return the environment of a machine with so many `gpus`, of which the driver's program tells."""
    program = folder / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n" + "".join(f"echo 'GPU {number}: faked'\n" for number in range(gpus)))
    program.chmod(0o755)
    env = {name: value for name, value in toy.env.items() if name != VISIBLE}
    return env | {"PATH": f"{program.parent}{os.pathsep}{env['PATH']}"}


@pytest.mark.extended
def test_stages_that_need_the_only_gpu_run_one_after_the_other(toy: Toy, tmp_path: Path) -> None:
    toy.tell({name: {"show": [VISIBLE], "sleep": 1} for name in ("gather", "fit@mlp", "fit@bert")})
    command = toy.command("--max-parallel", "4", env=machine(toy, tmp_path, 1))
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 0, errors
    shown = {name: event for name, event, *_ in toy.events() if event.startswith(VISIBLE)}
    assert shown == {"gather": f"{VISIBLE}=", "fit@mlp": f"{VISIBLE}=0", "fit@bert": f"{VISIBLE}=0"}
    fits = [event for name, event, *_ in toy.events() if name.startswith("fit") and event in {"begin", "end"}]
    assert fits == ["begin", "end", "begin", "end"]


@pytest.mark.extended
def test_a_training_on_folds_of_the_data_of_this_run_has_one_gpu(toy: Toy, tmp_path: Path) -> None:
    pipeline, params = toy.root / "dvc.yaml", toy.root / "params.yaml"
    stages = pipeline.read_text().replace("out/gather", "data/validated").replace("gather", "validate")
    pipeline.write_text(stages.replace("gpus: one", "gpus: processes"))
    params.write_text(params.read_text().replace("mlp: {view: token}", "mlp: {view: token, train: {processes: auto}}"))
    corpus = {"name": "toy", "labels": ["a", "b"], "rows": {"train": 9}, "notes": [], "folds": 5}
    toy.tell({"validate": {"files": {"corpus.json": json.dumps(corpus)}}, "fit@mlp": {"show": [VISIBLE]}})
    command = toy.command("--systems", "mlp", env=machine(toy, tmp_path, 2))
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 0, errors
    assert [event for _, event, *_ in toy.events() if event.startswith(VISIBLE)] == [f"{VISIBLE}=0"]


KILLS = [pytest.param(number, marks=pytest.mark.extended) for number in (signal.SIGTERM, signal.SIGKILL)]


@pytest.mark.parametrize("number", [signal.SIGINT, *KILLS])
def test_nothing_outlives_the_command(toy: Toy, number: signal.Signals) -> None:
    toy.tell({"gather": {"sleep": 600, "child": True}})
    command = toy.command("--dataset", "other")  # its check imports Polars, which replaces the handler of Ctrl-C
    until((toy.told / "child").exists)
    family = psutil.Process(command.pid).children(recursive=True)
    assert len(family) > 4  # the server, DVC, the stage and its child, and their parent processes
    command.send_signal(number)
    _, errors = command.communicate(timeout=120)
    assert command.returncode == {signal.SIGINT: 130, signal.SIGTERM: 75}.get(number, -number)
    assert "Traceback" not in errors
    until(lambda: all(map(gone, family)), 30)


@pytest.mark.extended
def test_a_run_ends_at_once_when_its_server_is_killed(toy: Toy) -> None:
    toy.tell({"gather": {"sleep": 600, "child": True}})
    command = toy.command()
    until((toy.told / "child").exists)
    family = psutil.Process(command.pid).children(recursive=True)
    server = next(
        each for each in family if "epigram.runner.service.server_app" in " ".join(command_line(each).split()[:6])
    )
    server.kill()
    _, errors = command.communicate(timeout=20)
    assert command.returncode == 75
    assert errors.splitlines()[-1].startswith("error: the Prefect server at http://127.0.0.1:")
    assert errors.splitlines()[-1].endswith("stopped responding; rerun the command, finished stages are not repeated")
    until(lambda: all(map(gone, family)), 30)
