"""Results of one clone are pulled by another, through a folder or S3, in the working tree or in a workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from epigram.runner.runs.publish import Run
from epigram.runner.workspace import workspace
from epigram.runner.workspace.request import Request
from tests.support.toy import Toy

pytestmark = pytest.mark.extended

SECRET = "not-a-real-secret-0451"
KEYS = {"AWS_ACCESS_KEY_ID": "not-a-real-key", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Yield the address of an S3 server in this process."""
    pytest.importorskip("dvc_s3", reason="requires the extra s3")
    server = pytest.importorskip("moto.server", reason="requires moto[server]")
    thread = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    thread.start()
    try:
        yield "http://{}:{}".format(*thread.get_host_and_port())
    finally:
        thread.stop()


@pytest.fixture
def shared(request: pytest.FixtureRequest, done: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Return a repository with results and an empty remote: its URL is in git, its machine settings are local."""
    if request.param == "folder":
        done.shell("dvc", "remote", "add", "--default", "store", str(tmp_path / "store"))
    else:
        import boto3

        for name, value in KEYS.items():
            monkeypatch.setenv(name, value)
        address = request.getfixturevalue("s3")
        bucket = tmp_path.name.replace("_", "-")
        boto3.client("s3", endpoint_url=address).create_bucket(Bucket=bucket)
        done.shell("dvc", "remote", "add", "--default", "store", f"s3://{bucket}/epigram")
        done.shell("dvc", "remote", "modify", "--local", "store", "endpointurl", address)
    done.commit()
    return done


def colleague(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Return a clone with the machine's settings and an empty cache."""
    root, told = tmp_path / "clone", tmp_path / "clone_told"
    toy.shell("git", "clone", "--quiet", str(toy.root), str(root))
    local = toy.root / ".dvc" / "config.local"
    if local.exists():
        (root / ".dvc" / "config.local").write_text(local.read_text())
    told.mkdir()
    monkeypatch.setenv("TOY", str(told))
    return Toy(root, told)


def flow(toy: Toy) -> Run:
    from flows.pipeline import pipeline

    run = pipeline(Request(root=toy.root), return_state=True).result()
    assert isinstance(run, Run)
    return run


def states(run: Run) -> set[str]:
    return {record.state for record in run.stages.values()}


@pytest.mark.parametrize("shared", ["folder", "s3"], indirect=True)
def test_what_another_has_pushed_is_pulled_and_nothing_runs(
    shared: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: None
) -> None:
    shared.shell("dvc", "push", "--quiet")
    other = colleague(shared, tmp_path, monkeypatch)
    other.shell("dvc", "pull", "--quiet")
    other.shell("dvc", "repro", "--quiet")
    assert other.journal() == []
    run = flow(other)
    assert (states(run), run.executed, other.journal()) == ({"Cached"}, 0, [])
    assert other.shell("git", "status", "--porcelain") == ""
    if "AWS_SECRET_ACCESS_KEY" in os.environ:
        files = [path for root in (shared.root, tmp_path / "clone") for path in root.rglob("*") if path.is_file()]
        assert not [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("shared", ["folder"], indirect=True)
def test_what_another_has_run_once_is_restored(shared: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (shared.root / "params.yaml").read_text()
    shared.change("judge", "fit@mlp")
    shared.shell("dvc", "repro", "--quiet")
    shared.shell("dvc", "push", "--quiet", "--run-cache")
    (shared.root / "params.yaml").write_text(before)
    shared.shell("git", "checkout", "--quiet", "dvc.lock")
    shared.shell("dvc", "push", "--quiet")

    other = colleague(shared, tmp_path, monkeypatch)
    other.shell("dvc", "pull", "--quiet")
    other.change("judge", "fit@mlp")
    said = other.shell("dvc", "repro", "--pull")
    assert said.count("is cached - skipping run, checking out outputs") == 2
    assert other.journal() == []


@pytest.mark.parametrize("shared", ["s3"], indirect=True)
def test_a_workspace_has_the_remote(shared: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = inside(shared)
    mine.shell("dvc", "repro", "--quiet")
    mine.shell("dvc", "push", "--quiet", "--run-cache")

    other = colleague(shared, tmp_path, monkeypatch)
    theirs = inside(other)
    theirs.shell("dvc", "repro", "--quiet", "--pull")
    assert other.journal() == []
    assert (theirs.root / "out/judge/result.txt").read_text() == (mine.root / "out/judge/result.txt").read_text()


def inside(toy: Toy) -> Toy:
    """Return the workspace of a run with other seeds."""
    with workspace.open_workspace(Request(root=toy.root, seeds=(7,))) as place:
        return Toy(place.path, toy.told)
