"""The champion: the model in use, as a branch and tags in git, and as the link runs/champion to its run's folder.

Each commit of the branch `champion` contains the whole tree that produced the model, with its params.yaml and dvc.lock,
and champion.json, which describes the model. A clone that can reach DVC's cache can therefore restore any champion.
Creating these commits does not change the user's index, branch or files. The history is read from the branch; the tags
are for other tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path, PurePosixPath

from typing_extensions import TypedDict

from epigram.core.config_types import Count, InnerPath, Name, Positive, parse_json, shown, validate_as
from epigram.core.errors import DataError, InputMissingError, ParameterError, TryAgainError
from epigram.core.files import atomic_folder, is_inside, remove_leftovers, sha256, write_text
from epigram.evaluation.comparison.formats import score_with_interval
from epigram.models import manifest
from epigram.monitoring import REFERENCE
from epigram.process.display import one_line
from epigram.runner.champions.champion_refs import (
    add_to_index,
    check_not_checked_out,
    index_run,
    resolve,
    shared_folder,
)
from epigram.runner.git import FIXED_AUTHOR, commit_of, git, read_file_at, temporary_index
from epigram.runner.workspace.run_folders import RunName, check_is_link, set_link
from epigram.runner.workspace.workspace import lock_folder

BRANCH = "refs/heads/champion"
ENTRY = "champion.json"
AUTHOR = {name: value for name, value in FIXED_AUTHOR.items() if not name.endswith("_DATE")}


@dataclass(frozen=True, kw_only=True)
class Hashes:
    """Hashes of a champion: DVC's hash of the data, the commit of the code, SHA-256 of params.yaml and of the manifest.

    `provenance` contains the SHA-256 of data, code, parameters and weights from the model's manifest.
    """

    data: str
    code: str
    params: str
    model: str
    provenance: dict[str, str] = field(default_factory=dict)


class Score(TypedDict):
    """Score on the development texts, with its confidence interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Champion:
    """One entry of the branch.

    `previous` is the number of the champion that a rollback restores. `restores` is the number of the champion that
    this entry restores, or None if it is no rollback.
    """

    number: Count = 0
    previous: Positive | None = None
    restores: Positive | None = None
    since: str = ""
    run: RunName
    dataset: Name
    system: Name
    seed: int
    score: Score  # score on `rows` development texts
    rows: int
    verdict: str = ""
    hashes: Hashes
    model: InnerPath  # path among DVC's outputs

    def __str__(self) -> str:
        rollback = f", a rollback to champion {self.restores}" if self.restores else ""
        name = self.score["name"]
        value = score_with_interval(name, self.score["value"], self.score["low"], self.score["high"])
        score = f"{name} {value} on {self.rows:,} development texts"
        return one_line(
            f"champion {self.number}{rollback}: {self.system} on {self.dataset}, {score}, since {self.since}"
        )


def tag(number: int) -> str:
    """Return the git tag of a champion, in the form of GTO's registry, which `dvc artifacts` reads."""
    return f"refs/tags/champion@v{number}.0.0"


@contextmanager
def lock(root: Path) -> Iterator[None]:
    """Hold the champion's lock, one for all worktrees. Raises TryAgainError if another process holds it."""
    with lock_folder(shared_folder(root) / "champion.lock", root / "runs" / "champion"):
        yield


def is_locked(root: Path) -> bool:
    """Return whether another process holds the champion's lock, as a running retraining does."""
    try:
        with lock(root):
            return False
    except TryAgainError:
        return True


def current(root: Path) -> Champion | None:
    """Return the champion, or None if there is none yet."""
    return _read_entry(root, BRANCH) if resolve(root, BRANCH) else None


def history(root: Path) -> list[Champion]:
    """Return all champions, newest first."""
    return [each for _, each in _commits(root)]


def _commits(root: Path) -> list[tuple[str, Champion]]:
    """Return the commit and the entry of each champion, newest first, from the branch."""
    latest = current(root)
    if latest is None:
        return []
    # each commit of the branch that has another entry than the one before
    arguments = ("--first-parent", f"--max-count={latest.number}", BRANCH, "--", f":/{ENTRY}")
    commits = git(root, "rev-list", *arguments).split()
    return [(commit, _read_entry(root, commit)) for commit in commits]


def _commit(root: Path, number: int) -> str:
    """Return the commit of a champion. Raises InputMissingError if the branch does not have it."""
    for commit, each in _commits(root):
        if each.number == number:
            return commit
    raise InputMissingError(f"the branch 'champion' has no champion {number}; fetch its whole history")


def rolled_back(root: Path, model: str) -> int | None:
    """Return the number of the champion that has the model hash `model` and was replaced by a rollback, or None."""
    entries = history(root)
    replaced = [before for after, before in pairwise(entries) if after.restores]
    return next((each.number for each in replaced if each.hashes.model == model), None)


def check_can_promote(root: Path) -> None:
    """Raise ParameterError if no new champion can be recorded.

    This is the case if runs/champion is no link, the branch is checked out, or the next tag already exists.
    """
    latest = current(root)
    last = latest.number if latest else 0
    check_is_link(root / "runs" / "champion")
    check_not_checked_out(root, BRANCH)
    if resolve(root, tag(last + 1)):
        name = tag(last + 1).removeprefix("refs/tags/")
        raise ParameterError(
            f"the tag '{name}' already exists, but the branch 'champion' ends with champion {last}; "
            "fetch the branch too (git fetch origin champion:champion), or delete the tag"
        )


def promote(root: Path, workspace: Path, champion: Champion, reference: str) -> Champion:
    """Make `champion` the model in use and return its entry.

    `workspace` is the tree that produced the model; the folder of its run exists already. `reference` is the content of
    reference.json.
    """
    check_can_promote(root)
    before = current(root)
    previous = before.number if before else None
    champion = replace(champion, number=(previous or 0) + 1, previous=previous, since=now())
    # Leftovers of killed processes; later promotions use other folders.
    remove_leftovers((root / "runs").glob(f"*/.{REFERENCE}.*"))
    write_text(root / "runs" / champion.run / REFERENCE, reference)
    with temporary_index() as env:
        start = commit_of(root)
        index_run(workspace, start, env)
        add_to_index(workspace, {ENTRY: _json(champion), REFERENCE: reference}, env)
        _commit_entry(root, champion, git(workspace, "write-tree", env=env, durable=True), start)
    restore(root, champion)
    return champion


def rollback(root: Path) -> Champion:
    """Restore the previous champion and return its new entry.

    Raises InputMissingError if there is no previous champion.
    """
    check_can_promote(root)
    latest = current(root)
    if latest is None or latest.previous is None:
        reason = "there is no champion yet" if latest is None else f"champion {latest.number} is the first"
        raise InputMissingError(f"cannot roll back: {reason}")
    commit = _commit(root, latest.previous)
    old = _read_entry(root, commit)
    restored = replace(old, number=latest.number + 1, restores=old.restores or old.number, since=now())
    with temporary_index() as env:
        git(root, "read-tree", commit, env=env)
        add_to_index(root, {ENTRY: _json(restored)}, env)
        tree = git(root, "write-tree", env=env, durable=True)
    # Before the entry: a model that cannot be restored is no champion.
    folder = restore(root, restored, commit)
    try:
        _commit_entry(root, restored, tree, commit)
    finally:  # the branch decides, also after a failure and beside a drift check that has reset the link
        run = (current(root) or latest).run
        if (folder.parent / "champion").readlink().name != run:
            set_link(folder.parent / "champion", run)
    return restored


def restore(root: Path, champion: Champion, commit: str | None = None) -> Path:
    """Restore the champion's folder and the link runs/champion, and return the folder.

    A missing model is copied from DVC's cache. Raises InputMissingError if the cache does not contain it, DataError if
    the cached model is another one.
    """
    folder = root / "runs" / champion.run
    if not _is_intact(folder / "model", champion.hashes.model):
        _restore_model(root, champion, commit or _commit(root, champion.number), folder / "model")
    if not (folder / REFERENCE).exists():
        write_text(folder / REFERENCE, _reference(root, commit or _commit(root, champion.number)))
    set_link(folder.parent / "champion", champion.run)
    latest = current(root)
    if latest is not None and latest.number > champion.number:  # another process has promoted it meanwhile
        set_link(folder.parent / "champion", latest.run)
    return folder


def check_reference(root: Path, champion: Champion) -> None:
    """Raise DataError if the reference.json of the champion's folder differs from reference.json in git."""
    file = root / "runs" / champion.run / REFERENCE
    if file.read_bytes() != _reference(root, _commit(root, champion.number)).encode():
        raise DataError(f"{file} is not that of champion {champion.number} in git; delete the file and rerun the check")


def _reference(root: Path, commit: str) -> str:
    return read_file_at(root, commit, REFERENCE) + "\n"


def model_hash(model: Path) -> str:
    """Return the SHA-256 of the model's manifest, which contains the hashes of its files."""
    return sha256(model / manifest.MANIFEST)


def _commit_entry(root: Path, champion: Champion, tree: str, source_commit: str | None) -> None:
    """Commit `tree`, then create the champion's tag and move the branch to the commit in one atomic step."""
    before = resolve(root, BRANCH)
    parents = [word for parent in dict.fromkeys((before, source_commit)) if parent for word in ("-p", parent)]
    message = f"{champion}\n\n{champion.verdict}"
    commit = git(root, "commit-tree", tree, *parents, "-m", message, env=AUTHOR, durable=True)
    name, tagger = tag(champion.number).removeprefix("refs/tags/"), git(root, "var", "GIT_COMMITTER_IDENT", env=AUTHOR)
    content = f"object {commit}\ntype commit\ntag {name}\ntagger {tagger}\n\n{champion}\n"
    tag_object = git(root, "mktag", text=content, env=AUTHOR, durable=True)  # an annotated tag, without a ref yet
    branch_update = f"update {BRANCH} {commit} {before or '0' * len(commit)}\n"
    commands = f"create {tag(champion.number)} {tag_object}\noption no-deref\n{branch_update}"  # it may be symbolic
    git(root, "update-ref", "--stdin", text=commands, durable=True)


def _restore_model(root: Path, champion: Champion, commit: str, model: Path) -> None:
    from dvc.api import DVCFileSystem

    with atomic_folder(model) as temporary:
        try:
            filesystem = DVCFileSystem(str(root), rev=commit)
            for file in filesystem.find(champion.model):
                target = temporary / PurePosixPath(file).relative_to(champion.model)
                if not is_inside(target, temporary):
                    raise ValueError(f"{shown(file)} is outside of the model's folder")
                target.parent.mkdir(parents=True, exist_ok=True)
                filesystem.get_file(file, str(target))
        except Exception as error:  # DVC and its remotes raise exceptions of many classes
            reason = " ".join(str(error).split())[:200]
            raise InputMissingError(
                f"{model} is incomplete or changed, and DVC's cache does not contain it; run dvc pull: {reason}"
            ) from None
        if not _is_intact(temporary, champion.hashes.model):
            raise DataError(f"{model} is incomplete or changed, and DVC's cache contains another model; run dvc pull")


def _is_intact(model: Path, expected: str) -> bool:
    """Return whether the folder contains the complete, unchanged model."""
    if not (model / manifest.MANIFEST).is_file() or model_hash(model) != expected:
        return False
    try:
        manifest.verify(model)
    except (DataError, InputMissingError):
        return False
    return True


def _read_entry(root: Path, commit: str) -> Champion:
    """Read champion.json at `commit`. The content is untrusted: anyone who can push the branch may have written it."""
    name = commit.removeprefix("refs/heads/")
    try:
        values = parse_json(read_file_at(root, commit, ENTRY))
    except InputMissingError:
        raise ParameterError(
            f"git has no {ENTRY} at {name}; retraining reserves the branch 'champion' and the tags 'champion@…': "
            "fetch them, or rename your own"
        ) from None
    except ValueError:
        raise DataError(f"{ENTRY} at {name} is not valid JSON; reset the branch to the last valid champion") from None
    return validate_as(Champion, values, file=f"{ENTRY} at {name}")


def _json(champion: Champion) -> str:
    return json.dumps(asdict(champion), ensure_ascii=False, indent=2) + "\n"


def now() -> str:
    """Return the time in UTC, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")
