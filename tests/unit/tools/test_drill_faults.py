"""Tests that a fault of the drill counts as observed only with evidence that it hit."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.drill import damage, disks, inbox, kills, limits, names, promotion, races, sources  # noqa: F401  registers the faults
from tests.drill.damage import newest, spoil, was_read
from tests.drill.evidence import answered, is_running, is_stopped
from tests.drill.faults import FAULTS, Injection
from tests.drill.place import Ended
from tests.support.drill_samples import ENDED, ScriptedBench, Scripts, eventually
from tests.support.drill_shop_samples import STOPS, ScriptedShop

AT_WORK = "echo ready; exec sleep 30"
EPOCH = "echo 'x epoch 1/3 '; "
HANDLES = "trap 'exit CODE' INT TERM; echo 'ready, epoch 1/3 '; while :; do sleep 0.01; done"
DIES_OF_THE_SECOND = HANDLES.replace("exit CODE", "trap - INT TERM")
IGNORES = "trap '' INT TERM; echo 'ready, epoch 1/3 '; sleep 0.2"  # continues to its end
SHORT = "echo ready; sleep 0.3"
FULL = "echo 'error: No space left on device: data/raw'; exit 74"
READ_ONLY = "echo 'error: Read-only file system: data/raw'; exit 74"
OTHER = "echo 'error: internal error'; exit 70"
BUSY = "echo 'ERROR: Unable to acquire lock'; exit 255"
NO_MEMORY = "sleep 0.1; echo 'error: out of memory; free memory and rerun'; exit 75"
STATE = ".epigram/state/train/x/f/seed-0-steps/step-00000001"
CHECKPOINT = f"mkdir -p {STATE}; echo '{{}}' > {STATE}/state.json; {EPOCH}{AT_WORK}"
ASKS = f"""exec {shlex.quote(sys.executable)} -c "
import os, time, urllib.request
urllib.request.urlopen(os.environ['EPIGRAM_MIRROR'])
print('ready', flush=True)
time.sleep(SECONDS)"
"""


def with_child(name: str, then: str, seconds: float = 30) -> str:
    """Return a script that starts a process called `name`, waits for its end and runs `then`."""
    return f"(exec -a '{name}' sleep {seconds}) & wait $!; {then}"


STAGE, SERVER = "epigram.stages.x", "epigram.runner.service.server_app"
KILLED = "echo 'x, exited with -9'; exit 255"
RETRIED = "echo 'x Retrying 1.0'"

INBOX = "data/local/incoming"
VERIFIES = STOPS.replace("rename a b", "read a")


def named(end: str, make: str = "") -> str:
    """Return the script of a run named after second `end`; the script `make`, if given, creates the run's folder."""
    name = f"shop-20260101-0000{end}"
    return f"{STOPS}{make.replace('NAME', name)}echo report: runs/{name}/report.html"


MAKE = """cp -r runs/r1 runs/NAME; echo '{"name": "NAME"}' > runs/NAME/summary.json; """

HIT: list[tuple[str, Scripts]] = [
    ("kill -9 of a stage alone", {"stage": AT_WORK}),
    ("kill -9 of a stage under dvc", {"dvc": with_child(STAGE, KILLED)}),
    ("kill -9 of a stage under the flow", {"flow": with_child(STAGE, RETRIED)}),
    ("kill -9 of dvc", {"dvc": AT_WORK}),
    ("kill -9 of dvc, run again at once", {"dvc": [AT_WORK, ENDED]}),
    ("kill -9 of dvc under the flow", {"flow": with_child(f"{STAGE} runner/dvc/repro.py", RETRIED)}),
    ("kill -9 of the flow", {"flow": AT_WORK}),
    ("kill -9 of the Prefect server", {"flow": with_child(SERVER, "sleep 0.2")}),
    ("SIGTERM to a stage", {"stage": AT_WORK}),
    ("SIGTERM to a stage", {"stage": HANDLES.replace("CODE", "75")}),
    ("SIGTERM in training", {"stage": HANDLES.replace("CODE", "75")}),
    ("Ctrl-C in training", {"stage": HANDLES.replace("CODE", "130")}),
    ("kill -9 in training", {"stage": EPOCH + AT_WORK}),
    ("Ctrl-C in a terminal under dvc", {"dvc": HANDLES.replace("exit CODE", "echo error: interrupted; exit 255")}),
    ("SIGTERM to dvc", {"dvc": AT_WORK}),
    ("SIGTERM or Ctrl-C to the flow", {"flow": AT_WORK}),
    ("two signals to a stage", {"stage": DIES_OF_THE_SECOND}),
    ("a damaged output", {}),
    ("a damaged input of a stage", {"stage": f"cat data/*/* data/*/*/*; {OTHER}"}),
    ("a damaged file of DVC's cache", {}),
    ("a damaged state of training", {"stage": CHECKPOINT}),
    ("a file of DVC's that is lost", {}),
    ("times of files that jump", {"dvc": ENDED}),
    ("disk full under a stage", {"stage": FULL}),
    ("disk full under dvc", {"dvc": "echo 'ERROR: unexpected error - database or disk is full'; exit 255"}),
    ("disk full under the flow", {"flow": FULL}),
    ("a read-only folder under a stage", {"stage": READ_ONLY}),
    ("a read-only folder under dvc or the flow", {"dvc": READ_ONLY, "flow": READ_ONLY}),
    ("out of memory in a stage", {"stage": NO_MEMORY}),
    ("a loss that is NaN or infinite", {"stage": "echo 'error: loss is NaN at step 3, on rows 1, 2'; exit 64"}),
    ("dvc twice at once", {"dvc": SHORT}),
    ("dvc twice at once", {"dvc": [ENDED, BUSY]}),
    ("the flow twice at once", {"flow": SHORT}),
    ("dvc beside the flow", {"flow": SHORT, "dvc": SHORT}),
    ("two runs with overrides at once", {"flow": SHORT}),
    ("a stage twice at once", {"stage": SHORT}),
    ("a source that misbehaves", {"stage": ASKS.replace("SECONDS", "0")}),
    ("kill -9 in a download", {"stage": [ASKS.replace("SECONDS", "30"), ENDED]}),
    ("a file renamed onto a waiting file of the inbox", {"stepped": STOPS}),
    ("rows appended to a file of the inbox", {"stepped": STOPS}),
    ("rows appended to a file of the inbox", {"stepped": f"cd {INBOX}; mkdir working; mv *.csv working; {STOPS}"}),
    ("rows appended to a file of the inbox", {"stepped": f"cd {INBOX}; mkdir taken; mv *.csv taken; {VERIFIES}"}),
    ("kill -9 between two steps of taking rows in", {"stepped": STOPS}),
    ("two runs in one second", {"stepped": [named("01"), named("01-2")]}),
    ("two runs in one second", {"stepped": [named("01"), named("01")]}),
    ("two runs in one second", {"stepped": [named(each, MAKE) for each in ("01", "02", "03", "03-2")]}),  # last try
    ("a run named as the champion's", {"pipeline": "echo 'error: runs/r1 runs/r2: in use'; exit 64"}),
    ("a run named as the champion's", {"pipeline": "echo 'report: runs/r1/report.html runs/r2/report.html'"}),
    ("a run that fails, named as the champion's", {"pipeline": "echo 'error: runs/r1 runs/r2: in use'; exit 64"}),
    ("a run that fails, named as the champion's", {"pipeline": "rm -r runs/r?/model; exit 66"}),
    ("kill -9 between two steps of a promotion", {"stepped": STOPS}),
    ("kill -9 between two steps of a rollback", {"stepped": STOPS}),
    ("disk full under a promotion", {"stepped": STOPS + FULL}),
]

ALL = ("dvc", "flow", "stage", "stepped", "pipeline")
ON_FILES = {
    "a damaged output",
    "a damaged file of DVC's cache",
    "a file of DVC's that is lost",
    "times of files that jump",
}
MISSED: list[tuple[str, Scripts]] = [
    *((name, dict.fromkeys(ALL, ENDED)) for name in FAULTS if name not in ON_FILES),
    *((name, dict.fromkeys(ALL, OTHER)) for name in FAULTS if "disk full" in name or "read-only" in name),
    *((name, {"stage": IGNORES}) for name in ("SIGTERM to a stage", "SIGTERM in training", "two signals to a stage")),
    ("kill -9 of a stage under dvc", {"dvc": with_child(STAGE, f"sleep 0.2; {KILLED}", 0.01)}),  # killed otherwise
    ("kill -9 of a stage under dvc", {"dvc": with_child(STAGE, "exit 0")}),  # it had finished its work
    ("kill -9 of the Prefect server", {"flow": with_child(SERVER, "sleep 0.1", 0.01)}),
    ("Ctrl-C in a terminal under dvc", {"dvc": HANDLES.replace("CODE", "255")}),  # any failure of DVC has this code
    ("kill -9 in training", {"stage": AT_WORK}),  # no epoch has ended
    ("SIGTERM in training", {"stage": AT_WORK}),
    ("two signals to a stage", {"stage": EPOCH + AT_WORK}),  # the first signal ends it
    ("out of memory in a stage", {"stage": NO_MEMORY.replace("out of memory", "x is busy")}),
    ("a loss that is NaN or infinite", {"stage": "echo 'error: no such parameter'; exit 64"}),
    ("dvc twice at once", {"dvc": [ENDED, SHORT]}),  # one after the other
    ("a stage twice at once", {"stage": [ENDED, SHORT]}),
    ("a source that misbehaves", {"stage": OTHER}),
    ("kill -9 in a download", {"stage": [AT_WORK.replace("30", "0.3"), ENDED]}),  # no request was sent
    (
        "a file renamed onto a waiting file of the inbox",
        {"stepped": f"cd {INBOX}; mkdir taken; mv *.csv taken; {STOPS}"},
    ),
    ("rows appended to a file of the inbox", {"stepped": f"cd {INBOX}; mkdir taken; mv *.csv taken; {STOPS}"}),
    ("two runs in one second", {"stepped": [named("01"), named("02")]}),
    ("two runs in one second", {"stepped": [named("01"), f"{STOPS}{OTHER}"]}),
    ("a run named as the champion's", {"pipeline": "echo 'error: no such data set'; exit 64"}),
    ("disk full under a promotion", {"stepped": STOPS}),  # there was enough space
    ("disk full under a promotion", {"stepped": OTHER}),  # it had already failed
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inject faults at once, and leave the memory of scripted commands unlimited."""
    for module in (damage, kills, races, sources):
        monkeypatch.setattr(module, "moment", lambda *_: 0.02)
    monkeypatch.setattr(limits, "_limit", lambda *_: True)
    monkeypatch.setattr(kills, "FIRST_EPOCH", 1.0)
    monkeypatch.setattr(sources, "PATIENCE", 0.02)
    monkeypatch.setattr(names, "until_next_second", lambda: None)


def injected(folder: Path, name: str, scripts: Scripts) -> Injection:
    fault = FAULTS[name]
    bench = (ScriptedShop if fault.shop else ScriptedBench)(folder, scripts)
    try:
        return fault.inject(bench, random.Random(3))
    finally:
        bench.orphans()


@pytest.mark.parametrize(("name", "scripts"), HIT)
def test_a_fault_that_hits_is_observed(tmp_path: Path, name: str, scripts: Scripts) -> None:
    assert injected(tmp_path, name, scripts).observed


@pytest.mark.parametrize(("name", "scripts"), MISSED)
def test_a_fault_that_misses_is_not_observed(tmp_path: Path, name: str, scripts: Scripts) -> None:
    assert not injected(tmp_path, name, scripts).observed


def test_every_fault_is_seen_to_hit() -> None:
    assert {name for name, _ in HIT} == FAULTS.keys() - {"a clock that goes back"}


def test_a_file_that_cannot_be_damaged_is_not_observed(tmp_path: Path) -> None:
    bench = ScriptedBench(tmp_path, {})
    for path in bench.cache.rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    assert not FAULTS["a damaged file of DVC's cache"].inject(bench, random.Random(3)).observed


def test_times_that_did_not_change_are_not_observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random.Random, "uniform", lambda *_: 0.0)
    assert not injected(tmp_path, "times of files that jump", {"dvc": ENDED}).observed


def test_a_signal_counts_if_it_was_sent_to_a_live_command_that_ended_by_it() -> None:
    assert answered(True, Ended(75, ""), {0, 75})
    assert not answered(False, Ended(75, ""), {0, 75})  # it had already failed with the same exit code
    assert not answered(True, Ended(0, ""), {0, 75})
    assert not answered(True, Ended(1, ""), {0, 75})


@pytest.mark.parametrize("seed", range(4))
def test_a_spoiled_file_differs_and_shows_whether_it_was_read(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abcdef")
    assert spoil(path, random.Random(seed))[1]
    assert not was_read(path)
    assert path.read_bytes() != b"abcdef"
    assert was_read(path)


def test_of_several_checkpoints_the_newest_is_damaged(tmp_path: Path) -> None:
    names = ("a/step-1/s", "a/step-2/s", "a/.step-3.x/s", "b/step-1/s", "b/seed-0/s", "b/seed-0.json", "b.lock")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [str(path.relative_to(tmp_path)) for path in newest(tmp_path)]
    assert found == ["a/step-2/s", "b/seed-0/s", "b/seed-0.json", "b/step-1/s"]


def test_a_clock_is_behind_if_it_shows_the_day_that_was_asked_for() -> None:
    assert limits.is_behind(f"{time.time() - 5 * 86400}\n", 5)
    assert not limits.is_behind(str(time.time()), 5)
    assert not limits.is_behind("no such library", 5)


def test_a_process_is_stopped_until_it_goes_on() -> None:
    child = subprocess.Popen(["sleep", "30"])
    assert not is_stopped(child.pid)
    for number, state in ((signal.SIGSTOP, True), (signal.SIGCONT, False)):
        child.send_signal(number)
        assert eventually(lambda: is_stopped(child.pid) is state)  # noqa: B023  called at once
    child.kill()
    child.wait()
    assert not is_stopped(child.pid)


def test_a_process_that_was_not_reaped_yet_has_ended() -> None:
    child = subprocess.Popen(["sleep", "30"])
    assert is_running(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    assert kills.has_ended(child.pid)  # a zombie
    child.wait()
    assert not is_running(child.pid)
