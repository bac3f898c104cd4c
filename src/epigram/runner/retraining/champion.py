"""The champion: the model in use, as a branch and tags in git, and as the link runs/champion to its run's folder.

Each commit of the branch `champion` contains the whole tree that produced the model, with its params.yaml and dvc.lock,
and champion.json, which describes the model. A clone that can reach DVC's cache can therefore restore any champion.
Creating these commits does not change the user's index, branch or files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from typing_extensions import TypedDict

from epigram.core.config_types import Count, InnerPath, Name, Positive, parsed_json, typed
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.files import atomic_folder, clear_left, read_json, sha256, write_text
from epigram.runner.prefect.publish import point, refuse_other
from epigram.runner.workspace import workspace
from epigram.runner.workspace.git import AUTHOR, git, head, text_of
from epigram.runner.workspace.run_names import RunName

BRANCH = "refs/heads/champion"
RECORD, REFERENCE = "champion.json", "reference.json"
OWN = {name: value for name, value in AUTHOR.items() if not name.endswith("_DATE")}


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
    score: Score  # on `rows` development texts
    rows: int
    verdict: str = ""
    hashes: Hashes
    model: InnerPath  # path among DVC's outputs

    def __str__(self) -> str:
        back = f", which is {self.restores} again" if self.restores else ""
        value, low, high = (100 * each for each in (self.score["value"], self.score["low"], self.score["high"]))
        score = f"{self.score['name']} {value:.1f} [{low:.1f}, {high:.1f}] on {self.rows:,} development texts"
        return f"champion {self.number}{back}: {self.system} on {self.dataset}, {score}, since {self.since}"


def tag(number: int) -> str:
    """Return the git tag of a champion, in the version format that `dvc artifacts` reads."""
    return f"refs/tags/champion@v{number}.0.0"


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Hold the champion's lock. Raises TryAgainError if another process holds it."""
    with workspace.held(root / ".epigram" / "champion.lock", root / "runs" / "champion"):
        yield


def current(root: Path) -> Champion | None:
    """Return the champion, or None if there is none yet."""
    return _record(root, BRANCH) if _commit(root, BRANCH) else None


def history(root: Path) -> list[Champion]:
    """Return all champions, newest first."""
    now = current(root)
    found = [] if now is None else [_record(root, tag(number)) for number in range(now.number, 0, -1)]
    return [each for each in found if each is not None]


def taken_back(root: Path, model: str) -> int | None:
    """Return the number of the champion with the model hash `model` that a rollback has replaced, or None."""
    reigns = history(root)
    put_away = [before for after, before in pairwise(reigns) if after.restores]
    return next((each.number for each in put_away if each.hashes.model == model), None)


def refuse(root: Path) -> None:
    """Raise ParameterError if no new champion can be recorded.

    This is the case if runs/champion is no link, the branch is checked out, or the next tag already exists.
    """
    now = current(root)
    last = now.number if now else 0
    refuse_other(root / "runs" / "champion")
    _refuse_checked_out(root)
    if _commit(root, tag(last + 1)):
        name = tag(last + 1).removeprefix("refs/tags/")
        raise ParameterError(
            f"the tag '{name}' is there already, and the branch 'champion' ends with champion {last}: "
            "fetch the branch too (git fetch origin champion:champion), or delete the tag"
        )


def promote(root: Path, place: Path, champion: Champion, reference: str) -> Champion:
    """Make `champion` the model in use and return its entry.

    `place` is the tree that produced the model; the folder of its run exists already. `reference` is the content of
    reference.json.
    """
    refuse(root)
    before = current(root)
    champion = replace(
        champion,
        number=before.number + 1 if before else 1,
        previous=before.number if before else None,
        since=_now(),
    )
    clear_left((root / "runs").glob(f"*/.{REFERENCE}.*"))  # of killed processes; later promotions use other folders
    write_text(root / "runs" / champion.run / REFERENCE, reference)
    with _index() as env:
        start = head(root)
        git(place, "read-tree", start or "--empty", env=env)
        git(place, "add", "--update", "--", ".", ":(exclude)data/local", env=env)
        if new := _untracked(place, env):
            git(place, "add", "--", *new, env=env)
        _put(place, {RECORD: _json(champion), REFERENCE: reference}, env)
        _enter(root, champion, git(place, "write-tree", env=env), start)
    restore(root, champion)
    return champion


def rollback(root: Path) -> Champion:
    """Restore the previous champion and return its new entry. Raises InputMissingError if there is none."""
    refuse(root)
    now = current(root)
    if now is None or now.previous is None:
        what = "there is no champion yet" if now is None else f"champion {now.number} is the first"
        raise InputMissingError(f"{what}: nothing to go back to")
    old = _record(root, tag(now.previous))
    back = replace(old, number=now.number + 1, restores=old.restores or old.number, since=_now())
    with _index() as env:
        git(root, "read-tree", tag(old.number), env=env)
        _put(root, {RECORD: _json(back)}, env)
        tree = git(root, "write-tree", env=env)
    folder = restore(root, back, tag(old.number))  # before the entry: a model that cannot be restored is no champion
    try:
        _enter(root, back, tree, _commit(root, tag(old.number)))
    except Exception:
        point(folder.parent / "champion", now.run)
        raise
    if (folder.parent / "champion").readlink().name != back.run:  # a concurrent drift check has reset the link
        point(folder.parent / "champion", back.run)
    return back


def restore(root: Path, champion: Champion, commit: str | None = None) -> Path:
    """Restore the champion's folder and the link runs/champion, and return the folder.

    A missing model is copied from DVC's cache. Raises InputMissingError if the cache does not contain it, DataError if
    the cached model is another one.
    """
    folder = root / "runs" / champion.run
    commit = commit or tag(champion.number)
    if not _is_whole(folder / "model", champion.hashes.model):
        _bring_back(root, champion, commit, folder / "model")
    if not (folder / REFERENCE).exists():
        write_text(folder / REFERENCE, text_of(root, commit, REFERENCE) + "\n")
    point(folder.parent / "champion", champion.run)
    now = current(root)
    if now is not None and now.number > champion.number:  # another process has promoted it meanwhile
        point(folder.parent / "champion", now.run)
    return folder


def model_hash(model: Path) -> str:
    """Return the SHA-256 of the model's manifest, which contains the hashes of its files."""
    return sha256(model / "manifest.json")


def output_hash(place: Path, path: str) -> str:
    """Return DVC's hash of the output `path` in the dvc.lock of `place`. Raises DataError if there is none."""
    outs = (out for stage in _lock(place).values() for out in stage.get("outs", []))
    found = next((out["md5"] for out in outs if out["path"] == path), None)
    if found is None:
        raise DataError(f"{place / 'dvc.lock'} knows no output {path}: run the pipeline again")
    return str(found)


def _enter(root: Path, champion: Champion, tree: str, made_from: str | None) -> None:
    """Commit `tree`, then create the champion's tag and move the branch to the commit in one atomic step."""
    before = _commit(root, BRANCH)
    parents = [word for parent in dict.fromkeys((before, made_from)) if parent for word in ("-p", parent)]
    commit = git(root, "commit-tree", tree, *parents, "-m", f"{champion}\n\n{champion.verdict}", env=OWN)
    label = _tag_object(root, champion, commit)
    moved = f"update {BRANCH} {commit} {before or '0' * len(commit)}\n"
    moves = f"create {tag(champion.number)} {label}\noption no-deref\n{moved}"  # it may be a symbolic ref
    git(root, "update-ref", "--stdin", text=moves)


def _tag_object(root: Path, champion: Champion, commit: str) -> str:
    """Create an annotated tag object of `commit`, without a ref, and return its hash."""
    name = tag(champion.number).removeprefix("refs/tags/")
    by = git(root, "var", "GIT_COMMITTER_IDENT", env=OWN)
    return git(root, "mktag", text=f"object {commit}\ntype commit\ntag {name}\ntagger {by}\n\n{champion}\n", env=OWN)


def _refuse_checked_out(root: Path) -> None:
    """Raise ParameterError if the branch is checked out: moving it would make all files look edited."""
    if f"branch {BRANCH}" in git(root, "worktree", "list", "--porcelain").splitlines():
        raise ParameterError("the branch 'champion' is checked out, and it is moved here: switch to another branch")


def _untracked(place: Path, env: Mapping[str, str]) -> list[str]:
    """Return the files that the stages read and git does not track, without outputs and ignored files."""
    stages = _lock(place)
    outs = {out["path"] for stage in stages.values() for out in stage.get("outs", [])}
    read = {dep["path"] for stage in stages.values() for dep in stage.get("deps", [])} - outs
    named = [path for path in sorted(read) if (place / path).exists() and not (place / path).is_symlink()]
    wanted = ["dvc.lock", "dvc.yaml", "params.yaml", "data/sources", *named]
    said = git(place, "ls-files", "--others", "--exclude-standard", "-z", "--", *wanted, env=env)
    return [name for name in said.split("\0") if name]


def _put(place: Path, files: Mapping[str, str], env: Mapping[str, str]) -> None:
    """Add files to the index that are not in the tree."""
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
            blob = git(place, "hash-object", "-w", "--no-filters", str(Path(folder) / name))
            git(place, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", env=env)


def _bring_back(root: Path, champion: Champion, commit: str, model: Path) -> None:
    from dvc.api import DVCFileSystem

    with atomic_folder(model) as temporary:
        try:
            stored = DVCFileSystem(str(root), rev=_commit(root, commit))
            for file in stored.find(champion.model):
                stored.get_file(file, str(temporary / PurePosixPath(file).name))
        except Exception as error:  # DVC and its remotes raise exceptions of many classes
            reason = " ".join(str(error).split())[:200]
            raise InputMissingError(f"{model} is not whole, and DVC's cache does not have it: {reason}") from None
        if not _is_whole(temporary, champion.hashes.model):
            raise DataError(f"{model} is not whole, and DVC's cache has another model: run dvc pull")


def _is_whole(model: Path, expected: str) -> bool:
    """Return whether the folder contains the complete, unchanged model."""
    manifest = model / "manifest.json"
    if not manifest.is_file() or sha256(manifest) != expected:
        return False
    values = read_json(manifest)
    digests = values.get("sha256") if isinstance(values, dict) else None
    if not isinstance(digests, dict):
        return False
    return all((model / name).is_file() and sha256(model / name) == digest for name, digest in digests.items())


def _record(root: Path, commit: str) -> Champion:
    """Read champion.json at `commit`. The content is untrusted: anyone who can push the branch may have written it."""
    name = commit.removeprefix("refs/").partition("/")[2]
    try:
        values = parsed_json(text_of(root, commit, RECORD))
    except InputMissingError:
        raise ParameterError(
            f"git has no {RECORD} at {name}: the branch 'champion' and the tags 'champion@…' are kept for retraining; "
            "fetch them, or rename yours"
        ) from None
    except ValueError:
        raise DataError(f"{RECORD} at {name} is not valid JSON: reset the branch to the last good champion") from None
    return typed(Champion, values, file=f"{RECORD} at {name}")


def _commit(root: Path, name: str) -> str | None:
    try:
        return git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except InputMissingError:
        return None


def _lock(place: Path) -> dict[str, Any]:
    from dvc.utils.serialize import load_yaml

    return dict(load_yaml(place / "dvc.lock").get("stages", {}))


@contextmanager
def _index() -> Iterator[dict[str, str]]:
    with TemporaryDirectory() as folder:
        yield {"GIT_INDEX_FILE": str(Path(folder) / "index")}


def _json(champion: Champion) -> str:
    return json.dumps(asdict(champion), ensure_ascii=False, indent=2) + "\n"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
