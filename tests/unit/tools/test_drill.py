"""Tests of the drill's verdicts (losses, repairs and lost progress) and of its report."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tests.drill import place, report, trial
from tests.drill.bench import Bench
from tests.drill.faults import Fault, Injection
from tests.drill.progress import Lost, Reached, measure, reached
from tests.drill.reference import NEURAL
from tests.drill.report import About, table
from tests.drill.results import Result
from tests.drill.trial import Trial
from tests.support.drill_samples import OUTPUTS, ScriptedBench

OK = "true"
LOCK_INVALID = "echo \"'./dvc.lock' is invalid.\"; echo; echo 'While scanning a quoted scalar'; exit 255"
LOCKS_INVALID = "echo \"ERROR: Unable to read RWLock-file '.dvc/tmp/rwlock'. JSON structure is corrupted\"; exit 255"
TRACEBACK = "echo 'Traceback (most recent call last):'; "
DOCUMENT = Path(__file__).resolve().parents[3] / "docs/reliability.md"


def tried(folder: Path, *dvc: str, repair: str = OK, by: str = "dvc") -> Trial:
    """Run a trial whose fault does nothing; `dvc repro` and `make repair` then run the scripts `dvc` and `repair`."""
    scripted = ScriptedBench(folder, {"dvc": list(dvc), "repair": repair, "flow": OK})
    fault = Fault("none", lambda *_: Injection("nothing", observed=True, by=by), 1, mounts=False, missing="")
    return trial.run(scripted, 1, fault, "seed")


@pytest.mark.parametrize("refusal", [LOCK_INVALID, LOCKS_INVALID, "echo 'error: x: run make repair'; exit 255"])
def test_a_refusal_that_names_what_make_repair_repairs_is_no_loss(tmp_path: Path, refusal: str) -> None:
    found = tried(tmp_path, refusal, OK)
    assert (found.losses, found.mended) == ((), True)


@pytest.mark.parametrize(
    ("first", "loss"),
    [
        (TRACEBACK + LOCK_INVALID, "the first run: a traceback"),
        (LOCK_INVALID.replace("255", "1"), "the first run: exit code 1 instead of [255]"),
        ("echo 'ERROR: unexpected error - no such file'; exit 255", "not for what `make repair` repairs"),
        ("exit 255", "not for what `make repair` repairs"),
    ],
)
def test_a_first_run_that_fails_in_any_other_way_is_a_loss(tmp_path: Path, first: str, loss: str) -> None:
    found = tried(tmp_path, first, OK)
    assert len(found.losses) == 1
    assert loss in found.losses[0]
    assert not found.mended


def test_a_first_run_that_hangs_is_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "LIMIT", 0.3)
    found = tried(tmp_path, LOCK_INVALID.replace("exit 255", "exec sleep 30"), OK)
    assert found.losses == ("the first run: the command hung",)
    assert not found.mended


def test_a_process_that_the_first_run_leaves_is_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "GRACE", 0.1)
    found = tried(tmp_path, f"sleep 30 & {LOCK_INVALID}", OK)
    assert found.losses == ("the first run: orphan: sleep 30",)


def test_a_process_that_one_look_misses_is_still_an_orphan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "GRACE", 0.2)
    looks = itertools.chain([[]], itertools.repeat([place.Process(2**22 + 1, "sleep 30")]))
    bench = ScriptedBench(tmp_path, {})
    monkeypatch.setattr(bench, "processes", lambda: next(looks))
    assert [each.command for each in bench.orphans()] == ["sleep 30"]


def test_a_make_repair_that_fails_is_a_loss(tmp_path: Path) -> None:
    found = tried(tmp_path, LOCK_INVALID, OK, repair=f"{TRACEBACK}exit 0")
    assert len(found.losses) == 1
    assert "make repair: a traceback" in found.losses[0]


def test_a_first_run_that_succeeds_needs_no_make_repair(tmp_path: Path) -> None:
    found = tried(tmp_path, OK, repair="exit 1")
    assert (found.losses, found.mended) == ((), False)


def test_a_second_run_that_fails_is_a_loss(tmp_path: Path) -> None:
    found = tried(tmp_path, LOCK_INVALID, "exit 3")
    assert [loss[:27] for loss in found.losses] == ["the next run ended with 3: "]


def test_the_documentation_says_make_repair_for_what_the_drill_accepts() -> None:
    row = next(line for line in DOCUMENT.read_text().splitlines() if "cannot be read" in line)
    assert "`dvc.lock` or `.dvc/tmp/rwlock`" in row
    assert "`make repair`" in row


# Lost progress: training has 60 steps in 4 epochs; the kill is at second 1,100.


def killed(said: str = "", writing: int = 0, finished: bool = False, **checkpoints: float) -> Reached:
    times = {int(name[1:]): at for name, at in checkpoints.items()}
    return Reached(1000.0, 1100.0, said, times, writing, finished)


EPOCH_2 = "x epoch 1/4 [##] loss 1\nx epoch 2/4 [##] loss 1\n"


@pytest.mark.parametrize(
    ("before", "resumed", "steps", "seconds"),
    [
        (killed(EPOCH_2, s34=1097.0, s35=1099.0), 35, 0, 1.0),
        (killed(EPOCH_2, writing=36, s34=1097.0, s35=1099.0), 35, 1, 1.0),
        (killed(EPOCH_2, s30=1097.5), 30, 0, 2.5),
    ],
)
def test_progress_lost_is_what_was_done_less_what_is_resumed(
    before: Reached, resumed: int, steps: int, seconds: float
) -> None:
    assert measure(before, f"x: resuming from step {resumed} of 60") == Lost(steps, seconds)


@pytest.mark.parametrize(
    ("before", "said", "steps"),
    [
        (killed(EPOCH_2, s34=1097.0, s35=1099.0), "x: resuming from step 33 of 60", 2),  # from the checkpoints
        (killed(EPOCH_2, writing=36, s34=1097.0, s35=1099.0), "x: resuming from step 34 of 60", 2),
        (killed(EPOCH_2), "x: resuming from step 25 of 60", 5),  # from the printed epochs: half of 60
        (killed(EPOCH_2, s35=1099.0), "x epoch 1/4", 35),
        (killed(EPOCH_2, s35=1099.0), "x: resuming from step 40 of 60", -5),
    ],
)
def test_more_than_a_step_lost_is_a_loss(before: Reached, said: str, steps: int) -> None:
    found = measure(before, said)
    assert found.steps == steps
    assert len(found.losses) == 1


def test_a_training_that_was_killed_without_any_checkpoint_is_a_loss() -> None:
    found = measure(killed("x epoch 1/4 [#] loss 1\n"), "x epoch 1/4 [#] loss 1\n")
    assert found.losses == ("no checkpoint was used: the next run began anew after step 0",)
    assert found.seconds == 100.0


def test_checkpoints_that_are_further_apart_than_asked_are_a_loss() -> None:
    found = measure(killed(EPOCH_2, s30=1050.0, s35=1099.0), "x: resuming from step 35 of 60")
    assert found.losses == ("checkpoints of steps 30 and 35 are more than 1 step apart",)


def test_a_training_that_had_finished_loses_nothing() -> None:
    assert measure(killed("x epoch 4/4 [#] loss 1\n", finished=True), "") == Lost(0, 0.0)


def test_what_a_killed_training_reached_is_read_from_its_state(tmp_path: Path) -> None:
    steps = tmp_path / "train" / "dmsp" / "f" / "seed-0-steps"
    for name in ("step-00000007", "step-00000008", ".step-00000009.0a1b2c3d"):
        (steps / name).mkdir(parents=True)
        (steps / name / "state.json").touch()
    found = reached(tmp_path, [tmp_path / "model"], 1.0, 2.0, "said")
    assert (sorted(found.checkpoints), found.writing, found.finished) == ([7, 8], 9, False)
    (tmp_path / "model").mkdir()
    assert reached(tmp_path, [tmp_path / "model"], 1.0, 2.0, "").finished
    (steps.parent / "seed-0.json").touch()
    assert reached(tmp_path, [tmp_path / "other"], 1.0, 2.0, "").finished


@pytest.mark.parametrize(("resumed", "losses"), [(8, 0), (3, 1)])
def test_a_trial_of_kill_9_in_training_measures_what_was_lost(tmp_path: Path, resumed: int, losses: int) -> None:
    from tests.drill.kills import training_killed

    folder = f".epigram/state/train/{NEURAL}/f/seed-0-steps"
    state = f"mkdir -p {folder}/step-0000000{{7,8}}; touch {folder}/step-0000000{{7,8}}/state.json"
    stage = f"{state}; echo 'x epoch 1/3 [#] loss 1'; exec sleep 30"
    outputs = "; ".join(f"mkdir -p {path}" for path in OUTPUTS.values())
    written = "; ".join(f"printf %s '{name}' > {path}/result.txt" for name, path in OUTPUTS.items())
    dvc = f"{outputs}; {written}; cp ../../../reference/dvc.lock .; echo 'x: resuming from step {resumed} of 24'"
    scripted = ScriptedBench(tmp_path, {"stage": stage, "dvc": dvc})
    found = trial.run(scripted, 1, Fault("kill -9 in training", training_killed, 1, mounts=False, missing=""), "s")
    assert found.observed
    assert found.lost is not None
    assert found.lost.steps == 8 - resumed
    assert len(found.losses) == losses, found
    assert f"{8 - resumed} steps (" in str(found)


# Report.


def of(fault: str, *, losses: int = 0, observed: bool = True, lost: Lost | None = None, seconds: float = 1.0) -> Trial:
    return Trial(1, fault, "", ("a loss",) * losses, observed, mended=False, seconds=seconds, lost=lost)


def results(trials: list[Trial], seconds: float, *seeds: int) -> list[Result]:
    """Return the results of one part that takes `seconds`, with the seeds in turn."""
    given = seeds or (5,)
    ends = [1000.0 + trials[0].seconds, *(1000.0 + seconds for _ in trials[1:])]
    each = zip(trials, ends, itertools.cycle(given))
    return [Result("c", "plan", "part", seed, end, trial) for trial, end, seed in each]


ABOUT = About(commit="0123456789", date="2026-02-03", cores=2, left_out=("a clock (no package)",))


def test_the_report_counts_only_observed_faults_in_its_claim() -> None:
    trials = [of("a"), of("a", losses=2, seconds=5.0), of("a", observed=False), of("b", observed=False, losses=1)]
    assert table(results(trials, 120.0), ABOUT).splitlines() == [
        "Commit 0123456789 of 2026-02-03, 2 cores, seed 5: 4 faults injected in 2 minutes.",
        "2 of them were observed to hit: **1 losses** among these, 1 among the others.",
        "Left out: a clock (no package).",
        "",
        "| fault | trials | observed | repaired | losses | most progress lost | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| a | 3 | 2 | 0 | 1 |  | 2.3 |",
        "| b | 1 | 0 | 0 | 1 |  | 1.0 |",
    ]


def test_the_report_shows_the_most_progress_that_was_lost() -> None:
    trials = [of("kill", lost=Lost(0, 2.25)), of("kill", lost=Lost(1, 0.5)), of("other")]
    lines = table(results(trials, 60.0, 0, 3), About("c", "d", 2)).splitlines()
    assert lines[0] == "Commit c of d, 2 cores, seeds 0, 3: 3 faults injected in 1 minutes."
    assert lines[1:3] == [
        "3 of them were observed to hit: **0 losses** among these.",
        "kill -9 in training cost at most 1 step, 2.2 s (limit: 1 step).",
    ]
    assert lines[-2:] == ["| kill | 2 | 2 | 0 | 0 | 1 step, 2.2 s | 1.0 |", "| other | 1 | 1 | 0 | 0 |  | 1.0 |"]


def test_the_report_names_the_commit_and_changed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench: Bench = ScriptedBench(tmp_path, {})
    monkeypatch.setattr(report, "DOCUMENT", bench.repo / "reliability.md")
    commit = (bench.repo / ".git/refs/heads").iterdir().__next__().read_text().strip()
    assert report.about([]).commit == commit[:10]
    (bench.repo / "params.yaml").write_text("{}")
    assert report.about([]).commit == f"{commit[:10]}-dirty"


def test_the_report_takes_the_place_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "DOCUMENT", tmp_path / "reliability.md")
    report.DOCUMENT.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write("new\n")
    assert report.DOCUMENT.read_text() == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"


def test_a_trial_whose_fault_did_not_hit_says_so() -> None:
    assert "ok (no hit)" in str(of("a", observed=False))


def test_every_place_states_the_duration_that_the_results_measured() -> None:
    faults, measured = map(int, re.findall(r"(\d+) faults injected in (\d+) minutes", DOCUMENT.read_text())[0])
    root = DOCUMENT.parents[1]
    injected = int(re.findall(r"tests\.drill --faults (\d+)", (root / "Makefile").read_text())[0])
    places = {
        "docs/reliability.md": r"`make drill` takes (\d+) minutes",
        "Makefile": r"drill:.* (\d+) minutes",
    }
    for name, pattern in places.items():
        found = re.search(pattern, (root / name).read_text())
        assert found, name
        assert float(found[1]) == pytest.approx(measured * injected / faults, rel=0.25), name
