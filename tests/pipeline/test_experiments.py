"""Runs are experiments of DVC: its own commands show their parameters, scores and curves."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from epigram.runner.project.template import contents
from epigram.runner.runs import experiments
from epigram.runner.workspace.settings import load
from epigram.runner.workspace.workspace import Workspace
from tests.support.flows import flow
from tests.support.toy import Toy

AS_USER = ("git", "-c", "user.name=t", "-c", "user.email=t@t")
CURVE = [{"system": "mlp", "epoch": epoch, "dev": epoch / 4, "loss": 1 / epoch} for epoch in (1, 2)]


@pytest.fixture
def plotted(done: Toy) -> Toy:
    """Return a repository whose last stage writes a score and a curve; dvc.lock is not committed."""
    pipeline = yaml.safe_load((done.root / "dvc.yaml").read_text())
    pipeline |= {
        "metrics": ["out/judge/metrics.json"],
        "plots": [{"out/judge/curves.json": {"x": "epoch", "y": "dev"}}],
    }
    (done.root / "dvc.yaml").write_text(yaml.safe_dump(pipeline))
    done.shell(*AS_USER, "commit", "--quiet", "--all", "--message", "plots")
    done.tell({"judge": {"files": {"metrics.json": '{"score": 0.75}', "curves.json": json.dumps(CURVE)}}})
    return done


def shown(toy: Toy) -> dict[str, dict[str, Any]]:
    """Return what `dvc exp show` shows of each experiment of the current commit, by name."""
    _, head = json.loads(toy.shell("dvc", "exp", "show", "--json"))
    return {each["name"]: each["revs"][0]["data"] for each in head["experiments"] or ()}


def save(toy: Toy, name: str, *, text: str = "") -> None:
    """Save the repository, with `text` in a file, as the experiment of a run."""
    before = (toy.root / "step.py").read_text()
    (toy.root / "step.py").write_text(before + text)
    experiments.save(name, Workspace(toy.root, toy.root, "unknown"))
    (toy.root / "step.py").write_text(before)


def names(toy: Toy) -> set[str]:
    return set(toy.shell("dvc", "exp", "list", "--all-commits", "--name-only").split())


@pytest.mark.usefixtures("prefect_server")
def test_runs_in_the_tree_and_in_a_workspace_are_experiments(plotted: Toy) -> None:
    plotted.change("judge")
    (plotted.root / "passwords.txt").write_text("a secret that git has not seen")
    asked = [("status", "--porcelain"), ("rev-parse", "HEAD"), ("branch",), ("stash", "list")]
    before = [plotted.shell("git", *what) for what in asked]
    flow(plotted, name="here")
    flow(plotted, name="there", changes={"compare.alpha": 0.02})
    assert [plotted.shell("git", *what) for what in asked] == before
    found = shown(plotted)
    alphas = {name: each["params"]["params.yaml"]["data"]["compare"]["alpha"] for name, each in found.items()}
    assert alphas == {"here": 0.01, "there": 0.02}
    assert [each["metrics"]["out/judge/metrics.json"]["data"] for each in found.values()] == [{"score": 0.75}] * 2
    (plot,) = json.loads(plotted.shell("dvc", "plots", "diff", "here", "there", "--json"))["data"].popitem()[1]
    assert plot["revisions"] == ["here", "there"] and '"epoch": 2' in json.dumps(plot["content"])
    files = [plotted.shell("git", "ls-tree", "-r", "--name-only", each["rev"]).split() for each in found.values()]
    assert all("dvc.lock" in each and "passwords.txt" not in each for each in files)


@pytest.mark.usefixtures("prefect_server")
def test_a_failed_run_is_no_experiment(toy: Toy) -> None:
    toy.tell({"judge": {"codes": [65]}})
    assert flow(toy).code == 65 and names(toy) == set()


def test_the_newest_are_kept_and_the_users_own_stay(done: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "KEPT", 2)
    done.commit()
    own = done.shell(*AS_USER, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "run own").strip()
    head = done.shell("git", "rev-parse", "HEAD").strip()
    done.shell("git", "update-ref", f"refs/exps/{head[:2]}/{head[2:]}/own", own)
    for number in range(2):
        monkeypatch.setitem(experiments.AUTHOR, "GIT_COMMITTER_DATE", f"@{number} +0000")
        save(done, f"run-{number}", text=f"# {number}\n")
    done.shell("dvc", "exp", "rename", "run-0", "renamed")
    done.shell(*AS_USER, "commit", "--quiet", "--allow-empty", "--message", "another baseline")
    for number in range(2, 5):
        monkeypatch.setitem(experiments.AUTHOR, "GIT_COMMITTER_DATE", f"@{number} +0000")
        save(done, f"run-{number}", text=f"# {number}\n")
    assert names(done) == {"own", "renamed", "run-3", "run-4"}


def test_a_name_is_the_newest_run_of_it_but_an_experiment_of_the_user_stays(
    done: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("# 1\n", "# 2\n"):
        save(done, "mine", text=text)
    assert len(shown(done)) == 1
    done.shell(*AS_USER, "commit", "--quiet", "--allow-empty", "--message", "another baseline")
    save(done, "mine")
    assert shown(done).keys() == names(done) == {"mine"}
    head, refs = done.shell("git", "rev-parse", "HEAD").strip(), done.shell("git", "for-each-ref", "refs/exps")
    done.shell("git", "update-ref", f"refs/exps/{head[:2]}/{head[2:]}/users", "HEAD")
    save(done, "users", text="# 3\n")
    assert "warning: run users is not saved as an experiment of DVC: git update-ref failed" in capsys.readouterr().err
    users = f"{head} commit\trefs/exps/{head[:2]}/{head[2:]}/users\n"
    assert sorted(done.shell("git", "for-each-ref", "refs/exps").splitlines()) == sorted((refs + users).splitlines())


def test_a_run_that_changes_nothing_adds_no_experiment(done: Toy) -> None:
    assert done.command("--name", "first").wait() == 0  # every stage is up to date: no server is started
    assert done.command("--name", "second").wait() == 0
    assert names(done) == {"first"}
    done.commit()
    save(done, "third")
    assert names(done) == {"first"}


@pytest.mark.parametrize("command", ["git update-ref -d HEAD", "mv .git .no-git"])
def test_without_a_commit_there_are_no_experiments(done: Toy, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    done.shell(*command.split())
    save(done, "first")
    assert capsys.readouterr().err == "" and not list(done.root.glob(".*git/refs/exps"))


def test_dvc_exp_run_changes_a_setting_of_a_new_project(toy: Toy) -> None:
    """The params.yaml of a project names train.epochs: DVC changes only keys that the file has."""
    stage = {"cmd": "cp params.yaml out.txt", "params": ["train"], "outs": ["out.txt"]}
    (toy.root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"train": stage}}))
    (toy.root / "params.yaml").write_bytes(contents()["params.yaml"])
    toy.commit()
    before = load(toy.root / "params.yaml")
    assert before.train == {}
    toy.shell("dvc", "exp", "run", "--name", "longer", "--set-param", "train.epochs=3")
    assert load(toy.root / "out.txt") == load(toy.root / "params.yaml") == replace(before, train={"epochs": 3})
    assert shown(toy)["longer"]["params"]["params.yaml"]["data"]["train"] == {"epochs": 3}
