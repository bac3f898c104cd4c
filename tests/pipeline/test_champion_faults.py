"""Promotions and rollbacks that are killed or refused, damaged champions, and files of the user in their place."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epigram.cli.runs import retrain
from epigram.core.errors import DataError, ParameterError
from epigram.process.signals import Terminated
from epigram.runner.champions import champion
from epigram.runner.git import FIXED_AUTHOR, git
from epigram.runner.prefect.execution import execute
from epigram.runner.retraining import challenge, ledger
from epigram.runner.service import server
from epigram.runner.workspace import run_folders
from epigram.runner.workspace.request import Request
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from tests.support.champions import made, promoted, weights
from tests.support.steps import ENTRY, disturbed
from tests.support.toy import Toy


def whole(toy: Toy) -> int:
    """Check the digests of the model in use and return its number."""
    model = toy.root / "runs" / "champion" / "model"
    digests = json.loads((model / "manifest.json").read_text())["sha256"]
    files = ("model.safetensors", "config.json")
    assert digests == {name: sha256((model / name).read_bytes()).hexdigest() for name in files}
    return int(weights(toy).removeprefix("weights "))


def consistent(toy: Toy, number: int, verdicts: list[str]) -> None:
    """Check that branch, tags, link and runs/ agree on `number` champions and that no temporary files remain."""
    assert [each.verdict for each in champion.history(toy.root)] == verdicts
    tags = toy.shell("git", "tag", "--list", "--sort=version:refname").split()
    assert tags == [f"champion@v{each}.0.0" for each in range(1, number + 1)]
    assert [path.name for path in (toy.root / "runs").rglob(".*")] == []


def test_a_promotion_that_is_killed_at_any_step_leaves_a_champion_and_can_be_made_again(
    reign: Toy, tmp_path: Path
) -> None:
    entry = made(reign, 4)
    (reign.root / ENTRY).parent.mkdir(exist_ok=True)
    (reign.root / ENTRY).write_text(json.dumps(asdict(entry)))
    before, after = (["better: 4"] * several + ["better: 3", "better: 2", "better: 1"] for several in (0, 1))
    seen = set()
    for root in disturbed("promote", reign.root, tmp_path / "copies"):
        toy = Toy(root, tmp_path)
        now = champion.current(root)
        assert now is not None and whole(toy) in {3, now.number}
        seen.add((now.number, whole(toy)))
        assert len(toy.shell("git", "tag", "--list").split()) == now.number
        if now.number == 3:
            assert [each.verdict for each in champion.history(root)] == before
            now = champion.promote(root, root, entry, '{"known": 4}\n')
        champion.restore(root, now)
        assert whole(toy) == 4
        consistent(toy, 4, after)
    assert seen == {(3, 3), (4, 3)}


def test_a_rollback_that_is_killed_at_any_step_leaves_a_champion_and_can_be_made_again(
    reign: Toy, tmp_path: Path
) -> None:
    shutil.rmtree(reign.root / "runs" / "toy-2")
    after, seen = ["better: 2", "better: 3", "better: 2", "better: 1"], set()
    for root in disturbed("rollback", reign.root, tmp_path / "copies"):
        toy = Toy(root, tmp_path)
        now = champion.current(root)
        assert now is not None
        seen.add((now.number, whole(toy)))
        if now.number == 3:
            now = champion.rollback(root)
        assert (now.number, now.restores, whole(toy)) == (4, 2, 2)
        consistent(toy, 4, after)
    assert seen == {(3, 3), (3, 2)}


FORGED = [
    ("run", "../../precious", "letters, digits"),
    ("run", "/precious", "letters, digits"),
    ("run", ".hidden", "letters, digits"),
    ("run", "champion", "except the reserved names champion"),
    ("dataset", "../toy", "letters, digits"),
    ("system", "../mlp", "letters, digits"),
    ("model", "../precious", "a path below the repository"),
    ("model", "/precious", "a path below the repository"),
    ("score", {"name": "accuracy"}, "value is missing"),
    ("number", -1, "is -1"),
]


@pytest.mark.parametrize(("key", "value", "said"), FORGED)
def test_a_champion_whose_names_are_paths_is_refused_and_nothing_is_written(
    reign: Toy, key: str, value: Any, said: str
) -> None:
    precious = reign.root.parent / "precious" / "model"
    precious.mkdir(parents=True)
    (precious / "diary.txt").write_text("dear")
    (reign.root / "runs" / "champion").unlink()
    forge(reign, json.dumps(json.loads(reign.shell("git", "show", "champion:champion.json")) | {key: value}))
    with pytest.raises(ParameterError, match=rf"champion\.json at champion: {key}.*{said}"):
        champion.current(reign.root)
    with pytest.raises(ParameterError):
        champion.rollback(reign.root)
    assert [path.name for path in precious.parent.rglob("*")] == ["model", "diary.txt"]
    assert sorted(path.name for path in (reign.root / "runs").iterdir()) == ["toy-1", "toy-2", "toy-3"]


def forge(toy: Toy, content: str) -> None:
    """Write another champion.json to the branch and its newest tag."""
    blob = git(toy.root, "hash-object", "-w", "--stdin", text=content)
    entries = git(toy.root, "ls-tree", "champion").splitlines()
    others = [entry for entry in entries if not entry.endswith(champion.ENTRY)]
    tree = git(toy.root, "mktree", text="\n".join([*others, f"100644 blob {blob}\t{champion.ENTRY}"]))
    commit = git(toy.root, "commit-tree", tree, "-m", "forged", "-p", "champion", env=FIXED_AUTHOR)
    for ref in (champion.BRANCH, champion.tag(3)):
        git(toy.root, "update-ref", ref, commit)


def test_a_champion_forges_no_line_of_the_list(
    reign: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = json.loads(reign.shell("git", "show", "champion:champion.json"))
    forge(reign, json.dumps(values | {"since": "today\nerror: x", "verdict": "better\nerror: y"}))
    monkeypatch.chdir(reign.root)
    monkeypatch.setattr(retrain, "find_flow", lambda *_: None)
    retrain.main(show=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("since today\\nerror: x") and lines[1] == "  better\\nerror: y"


@pytest.mark.parametrize("content", ["{", "[]", '{"number": 1}'])
def test_a_champion_that_cannot_be_read_is_said(reign: Toy, content: str) -> None:
    forge(reign, content)
    with pytest.raises((DataError, ParameterError), match=r"champion\.json at champion"):
        champion.current(reign.root)


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("name", ["toy-3", "toy-1"])
def test_no_run_takes_the_name_of_a_champions_run(reign: Toy, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.pipeline import pipeline

    before = {path: path.read_bytes() for path in (reign.root / "runs").rglob("*") if path.is_file()}
    reign.tell({"judge": {"codes": [65]}})
    request = Request(root=reign.root, name=name)
    monkeypatch.setattr(server, "start", lambda: pytest.fail("the name was not checked first"))
    with pytest.raises(ParameterError, match=f"--name '{name}': .*champion.* refers to the run"):
        execute(request, lambda: pipeline)
    with pytest.raises(ParameterError, match=f"--name '{name}'"):
        pipeline(request, retry_delays=(), return_state=True)
    assert {path: path.read_bytes() for path in (reign.root / "runs").rglob("*") if path.is_file()} == before


def test_a_retraining_that_brings_nothing_new_repairs_the_link_of_a_killed_promotion(
    reign: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = champion.current(reign.root)
    assert now is not None
    run_folders.set_link(reign.root / "runs" / "champion", "toy-2")
    monkeypatch.setattr(challenge, "_find_output", lambda stages, name: reign.root / name)
    monkeypatch.setattr(challenge, "_predict_challenger", lambda *_: None)
    corpus = SimpleNamespace(task="single", labels=["a", "b"], tokens_only=False)
    monkeypatch.setattr(ValidatedCorpus, "read", lambda _: corpus)
    monkeypatch.setattr(challenge, "_new_entry", lambda *_: now)
    settings = SimpleNamespace(metric="auto")
    found = challenge.challenge(reign.root, reign.root, None, None, settings)  # type: ignore[arg-type]
    assert found.decision.reason.startswith("the model is the same as the champion")
    assert weights(reign) == "weights 3"


def test_what_a_killed_promotion_left_is_removed_by_the_next_one(reign: Toy) -> None:
    left, used = (reign.root / "runs" / f"toy-{number}" / f".{champion.REFERENCE}.0a1b2c3d" for number in (1, 2))
    left.touch()
    with used.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another process writes the file
        promoted(reign, 4)
        assert (left.exists(), used.exists()) == (False, True)


def test_a_tag_that_was_fetched_without_its_branch_is_not_replaced(reign: Toy) -> None:
    there = reign.shell("git", "rev-parse", "champion@v3.0.0")
    reign.shell("git", "update-ref", champion.BRANCH, "champion@v2.0.0^{commit}")
    entry = made(reign, 4)
    said = r"^the tag 'champion@v3\.0\.0' already exists, but the branch 'champion' ends with champion 2; fetch"
    with pytest.raises(ParameterError, match=said):
        champion.promote(reign.root, reign.root, entry, "{}\n")
    with pytest.raises(ParameterError, match=said):
        champion.rollback(reign.root)
    assert reign.shell("git", "rev-parse", "champion@v3.0.0") == there
    assert weights(reign) == "weights 3"


def test_a_rollback_that_is_refused_or_fails_leaves_the_link(reign: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    reign.shell("git", "worktree", "add", "--quiet", str(reign.root.parent / "beside"), "champion")
    with pytest.raises(ParameterError, match="is checked out"):
        champion.rollback(reign.root)
    assert weights(reign) == "weights 3"
    reign.shell("git", "worktree", "remove", "--force", str(reign.root.parent / "beside"))

    for fault, said in ((OSError(28, "No space left on device"), "No space"), (Terminated("stopped"), "stopped")):

        def failing(root: Path, *arguments: str, fault: BaseException = fault, **options: Any) -> str:
            if arguments[0] == "commit-tree":
                raise fault
            return git(root, *arguments, **options)

        with monkeypatch.context() as patch, pytest.raises(type(fault), match=said):
            patch.setattr(champion, "git", failing)
            champion.rollback(reign.root)
        assert weights(reign) == "weights 3"


def test_a_rollback_that_ends_after_its_commit_is_complete(reign: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(root: Path, *arguments: str, **options: Any) -> str:
        done = git(root, *arguments, **options)
        if arguments[0] == "update-ref":
            raise Terminated
        return done

    monkeypatch.setattr(champion, "git", stopped)
    with pytest.raises(Terminated):
        champion.rollback(reign.root)
    now = champion.current(reign.root)
    assert now is not None and (now.number, weights(reign)) == (4, "weights 2")


def test_a_drift_check_beside_a_promotion_leaves_the_new_champion_in_use(reign: Toy) -> None:
    seen = champion.current(reign.root)
    promoted(reign, 4)
    assert seen is not None and seen.number == 3
    assert champion.restore(reign.root, seen).name == "toy-3"  # a check keeps the champion with which it started
    assert weights(reign) == "weights 4"


def test_a_symbolic_reference_moves_no_branch_of_the_users(reign: Toy) -> None:
    reign.shell("git", "branch", "mine", "champion")
    reign.shell("git", "symbolic-ref", champion.BRANCH, "refs/heads/mine")
    before = reign.shell("git", "rev-parse", "mine")
    assert champion.rollback(reign.root).number == 4
    assert reign.shell("git", "rev-parse", "mine") == before
    assert reign.shell("git", "rev-parse", "champion^") == before


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_the_user_has_in_the_place_of_the_link_stays_and_nothing_is_promoted(reign: Toy, kind: str) -> None:
    link = reign.root / "runs" / "champion"
    link.unlink()
    own = link if kind == "file" else link / "notes"
    own.parent.mkdir(exist_ok=True)
    own.write_text("mine")
    with pytest.raises(ParameterError, match=r"runs/champion is not a symbolic link"):
        champion.rollback(reign.root)
    assert own.read_text() == "mine"
    now = champion.current(reign.root)
    assert now is not None and now.number == 3


def test_hidden_files_of_the_user_beside_the_link_stay(reign: Toy) -> None:
    runs = reign.root / "runs"
    (runs / ".champion.old").write_text("mine")
    (runs / ".champion.bak").mkdir()
    (runs / ".champion.999999999999").symlink_to("toy-1")  # left by a process that has ended
    champion.rollback(reign.root)
    assert (runs / ".champion.old").read_text() == "mine" and (runs / ".champion.bak").is_dir()
    assert not (runs / ".champion.999999999999").is_symlink()


@pytest.mark.parametrize("content", ["[]", "{}", '{"sha256": ["model.safetensors"]}'])
def test_a_model_whose_manifest_lists_nothing_is_not_whole(reign: Toy, content: str) -> None:
    manifest = reign.root / "runs" / "toy-3" / "model" / "manifest.json"
    manifest.write_text(content)
    now = champion.current(reign.root)
    assert now is not None
    forged = replace(now, hashes=replace(now.hashes, model=sha256(content.encode()).hexdigest()))
    with pytest.raises(DataError, match="is incomplete or changed, and DVC's cache contains another model"):
        champion.restore(reign.root, forged)


def test_a_file_of_a_commit_that_is_too_large_or_not_utf8_is_refused(
    reign: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epigram.runner.git.MAX_FILE_BYTES", 1 << 20)
    forge(reign, " " * (1 << 20) + "{}")
    said = r"^champion\.json at champion is not UTF-8 or is larger than 1 MiB; reset"
    with pytest.raises(DataError, match=said):
        champion.current(reign.root)
    forge(reign, '{"verdict": "\udcff"}')  # the byte 255
    with pytest.raises(DataError, match=said):
        champion.current(reign.root)


def test_names_of_new_files_may_be_any_bytes(reign: Toy) -> None:
    name = os.fsdecode(b"caf\xe9.yaml")
    (reign.root / "data" / "sources" / name).write_text("name: x\n")
    promoted(reign, 4)
    listed = git(reign.root, "ls-tree", "-r", "--name-only", "-z", "champion", "data/sources").split("\0")
    assert f"data/sources/{name}" in listed


def test_a_tag_with_the_name_of_a_ref_is_not_taken_for_the_ref(reign: Toy) -> None:
    commit = reign.shell("git", "rev-parse", champion.BRANCH).strip()
    for ref in (champion.BRANCH, ledger.ref("toy_live"), champion.tag(4)):
        reign.shell("git", "update-ref", f"refs/tags/{ref}", commit)
    assert champion.rollback(reign.root).number == 4  # its tag does not exist yet
    assert ledger.read(reign.root, "toy_live") is None
    reign.shell("git", "update-ref", "-d", champion.BRANCH)
    assert champion.current(reign.root) is None


def verb(command: list[str]) -> str:
    """Return the word of a git command that says what it does."""
    words = command[1:]
    while words[0] in {"-C", "-c"}:
        words = words[2:]
    return words[0]


def test_a_champion_is_flushed_to_the_disk(reign: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = made(reign, 4)
    commands, run = list[list[str]](), subprocess.run

    def note(command: list[str], **options: Any) -> Any:
        commands.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", note)
    (reign.root / "data" / "sources" / "new.yaml").write_text("name: new\n")
    champion.promote(reign.root, reign.root, entry, "{}\n")
    champion.rollback(reign.root)
    expected = {"add", "hash-object", "write-tree", "commit-tree", "mktag", "update-ref"}
    writing = [command for command in commands if command[0] == "git" and verb(command) in expected]
    assert set(map(verb, writing)) == expected
    assert [command for command in writing if "core.fsync=all" not in command] == []
