"""The champion is a branch and tags with all that it was trained from; promotion leaves the user's files unchanged."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.runner.prefect import publish
from epigram.runner.prefect.execution import execute
from epigram.runner.retraining import challenge, champion, champion_tree
from epigram.runner.retraining.champion import Champion, Hashes
from epigram.runner.service import server
from epigram.runner.workspace.git import FIXED_AUTHOR, git
from epigram.runner.workspace.request import Request
from tests.support.steps import ENTRY, disturbed
from tests.support.toy import Toy, copied


def model_files(number: int) -> dict[str, str]:
    """Return the files of a model folder that the last stage writes."""
    weights = f"weights {number}"
    manifest = {"sha256": {"model.safetensors": sha256(weights.encode()).hexdigest()}}
    return {"chosen/model.safetensors": weights, "chosen/manifest.json": json.dumps(manifest)}


def made(toy: Toy, number: int) -> Champion:
    """Run the pipeline, save the model, and return its record as champion."""
    toy.tell({"judge": {"files": model_files(number)}})
    text = (toy.root / "params.yaml").read_text()
    (toy.root / "params.yaml").write_text(text.replace("alpha: 0.05", f"alpha: 0.0{number}"))
    toy.shell("dvc", "repro", "--quiet")
    (toy.root / "params.yaml").write_text(text)
    chosen, run = toy.root / "out" / "judge" / "chosen", f"toy-{number}"
    shutil.copytree(chosen, toy.root / "runs" / run / "model")
    return Champion(
        run=run,
        dataset="toy",
        system="mlp",
        seed=0,
        score={"name": "accuracy", "value": 0.5, "low": 0.4, "high": 0.6},
        rows=10,
        verdict=f"better: {number}",
        hashes=Hashes(
            data=champion_tree.output_hash(toy.root, "out/gather"),
            code="unknown",
            params="0",
            model=champion.model_hash(chosen),
        ),
        model="out/judge/chosen",
    )


def promoted(toy: Toy, number: int) -> Champion:
    return champion.promote(toy.root, toy.root, made(toy, number), f'{{"known": {number}}}\n')


@pytest.fixture(scope="session")
def thrice(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository that has had three champions."""
    toy = copied(pristine, tmp_path_factory.mktemp("thrice"), pytest.MonkeyPatch())
    for number in (1, 2, 3):
        promoted(toy, number)
    return toy.root


@pytest.fixture
def reign(thrice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    shutil.copytree(thrice, tmp_path / "repo", symlinks=True)
    return Toy(tmp_path / "repo", tmp_path)


def weights(toy: Toy) -> str:
    return (toy.root / "runs" / "champion" / "model" / "model.safetensors").read_text()


def test_there_is_none_at_first(toy: Toy) -> None:
    assert champion.current(toy.root) is None and champion.history(toy.root) == []
    with pytest.raises(InputMissingError, match="cannot roll back: there is no champion yet"):
        champion.rollback(toy.root)


def test_the_newest_is_in_use_and_git_holds_all_of_them(reign: Toy) -> None:
    now = champion.current(reign.root)
    assert now is not None and (now.number, now.previous, now.restores) == (3, 2, None)
    assert [each.verdict for each in champion.history(reign.root)] == ["better: 3", "better: 2", "better: 1"]
    assert weights(reign) == "weights 3"
    assert reign.shell("git", "tag", "--list").split() == ["champion@v1.0.0", "champion@v2.0.0", "champion@v3.0.0"]
    assert "better: 3" in reign.shell("git", "log", "-1", "--format=%B", "champion")


def test_a_commit_holds_the_tree_that_made_the_model_and_nothing_else_of_the_users(toy: Toy) -> None:
    (toy.root / "step.py").write_text((toy.root / "step.py").read_text() + "# edited\n")
    (toy.root / "passwords.txt").write_text("a secret that git has not seen")
    (toy.root / "data" / "sources" / "new.yaml").write_text("name: new\n")
    index = (toy.root / ".git" / "index").read_bytes()
    before = [toy.shell("git", *what) for what in (("log", "--oneline"), ("branch", "--show-current"))]
    made_by = toy.shell("git", "rev-parse", "HEAD").strip()
    promoted(toy, 1)
    files = toy.shell("git", "ls-tree", "-r", "--name-only", "champion").split()
    assert {"champion.json", "reference.json", "dvc.lock", "dvc.yaml", "params.yaml", "step.py"} <= set(files)
    assert "data/sources/new.yaml" in files and "passwords.txt" not in files
    assert "# edited" in toy.shell("git", "show", "champion:step.py")
    assert made_by in toy.shell("git", "log", "--format=%H", "champion")
    assert [toy.shell("git", *what) for what in (("log", "--oneline"), ("branch", "--show-current"))] == before
    assert (toy.root / ".git" / "index").read_bytes() == index


def test_going_back_twice_and_forward_again(reign: Toy) -> None:
    assert champion.rollback(reign.root).restores == 2
    assert weights(reign) == "weights 2"
    assert champion.rollback(reign.root).restores == 1
    assert weights(reign) == "weights 1"
    with pytest.raises(InputMissingError, match="cannot roll back: champion 5 is the first"):
        champion.rollback(reign.root)
    hashes = {each.number: each.hashes.model for each in champion.history(reign.root)}
    assert [champion.rolled_back(reign.root, hashes[number]) for number in (1, 2, 3)] == [None, 4, 3]
    assert (promoted(reign, 4).number, weights(reign)) == (6, "weights 4")
    assert champion.rollback(reign.root).restores == 1


def test_a_deleted_model_comes_back_from_the_cache(reign: Toy) -> None:
    shutil.rmtree(reign.root / "runs")
    champion.rollback(reign.root)
    assert weights(reign) == "weights 2"
    assert (reign.root / "runs" / "champion" / "reference.json").read_text() == '{"known": 2}\n'


def test_a_damaged_model_is_put_right(reign: Toy) -> None:
    now = champion.current(reign.root)
    assert now is not None
    (reign.root / "runs" / "toy-3" / "model" / "model.safetensors").write_text("scribble")
    champion.restore(reign.root, now)
    assert weights(reign) == "weights 3"


def test_a_model_that_is_nowhere_any_more_cannot_be_gone_back_to(reign: Toy) -> None:
    shutil.rmtree(reign.root / "runs" / "toy-2")
    shutil.rmtree(reign.root / ".dvc" / "cache")
    with pytest.raises(
        InputMissingError, match="toy-2/model is incomplete or changed, and DVC's cache does not contain it"
    ):
        champion.rollback(reign.root)
    now = champion.current(reign.root)
    assert now is not None and now.number == 3 and weights(reign) == "weights 3"


@pytest.mark.parametrize("cut", ["update-ref", "link"])
def test_a_crash_while_promoting_leaves_a_champion(reign: Toy, cut: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = made(reign, 4)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(champion, *(("git", dies_at_branch) if cut == "update-ref" else ("restore", dies)))
        champion.promote(reign.root, reign.root, entry, "{}\n")
    now = champion.current(reign.root)
    assert now is not None and now.number == (3 if cut == "update-ref" else 4)
    champion.restore(reign.root, now)
    assert weights(reign) == f"weights {now.number}"
    again = champion.promote(reign.root, reign.root, replace(entry, verdict="again"), "{}\n")
    assert again.number == now.number + 1 and champion.history(reign.root)[0].verdict == "again"


def dies(*_: Any) -> None:
    raise KeyboardInterrupt


def dies_at_branch(folder: Path, *arguments: str, **options: Any) -> str:
    if arguments[0] == "update-ref":
        raise KeyboardInterrupt
    return git(folder, *arguments, **options)


def test_a_branch_of_the_users_own_is_left_alone(toy: Toy) -> None:
    toy.shell("git", "branch", "champion")
    with pytest.raises(
        ParameterError,
        match=r"git has no champion\.json at champion; retraining reserves the branch 'champion' and the tags",
    ):
        champion.current(toy.root)


def test_a_branch_that_is_checked_out_is_not_moved(reign: Toy) -> None:
    reign.shell("git", "worktree", "add", "--quiet", str(reign.told / "elsewhere"), "champion")
    with pytest.raises(ParameterError, match="'champion' is checked out"):
        champion.rollback(reign.root)


def test_an_output_that_the_run_does_not_have_is_said(reign: Toy) -> None:
    with pytest.raises(DataError, match="has no output out/nothing"):
        champion_tree.output_hash(reign.root, "out/nothing")


def test_another_model_in_the_folder_of_a_run_is_not_taken_for_the_champion(reign: Toy) -> None:
    now, runs = champion.current(reign.root), reign.root / "runs"
    assert now is not None
    shutil.rmtree(runs / "toy-3" / "model")
    shutil.copytree(runs / "toy-2" / "model", runs / "toy-3" / "model")
    champion.restore(reign.root, now)
    assert weights(reign) == "weights 3"


def whole(toy: Toy) -> int:
    """Check the digests of the model in use and return its number."""
    model = toy.root / "runs" / "champion" / "model"
    digests = json.loads((model / "manifest.json").read_text())["sha256"]
    assert digests == {"model.safetensors": sha256((model / "model.safetensors").read_bytes()).hexdigest()}
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
    publish.set_link(reign.root / "runs" / "champion", "toy-2")
    monkeypatch.setattr(challenge, "_find_output", lambda stages, name: reign.root / name)
    monkeypatch.setattr(challenge, "_predict", lambda *_: None)
    monkeypatch.setattr(challenge, "read_corpus", lambda _: None)
    monkeypatch.setattr(challenge, "_new_entry", lambda *_: now)
    found = challenge.challenge(reign.root, reign.root, None, None, None)  # type: ignore[arg-type]
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

    def full(root: Path, *arguments: str, **options: Any) -> str:
        if arguments[0] == "commit-tree":
            raise OSError(28, "No space left on device")
        return git(root, *arguments, **options)

    monkeypatch.setattr(champion, "git", full)
    with pytest.raises(OSError, match="No space"):
        champion.rollback(reign.root)
    assert weights(reign) == "weights 3"


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
    monkeypatch.setattr("epigram.runner.workspace.git.MAX_FILE_BYTES", 1 << 20)
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
