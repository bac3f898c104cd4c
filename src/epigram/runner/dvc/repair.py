"""Repair of damaged files of DVC: python -m epigram.runner.dvc.repair, or make repair.

DVC writes dvc.lock and its table of locks in place, so a full disk truncates them. DVC also trusts the files in its
cache. A run through the flow repairs the first two at its start, and verifies everything that it takes from the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from epigram.core.config_types import is_inner_path
from epigram.process.display import echo
from epigram.runner.dvc import adapter

CACHE_NAME = re.compile(r"[0-9a-f]{32}(\.dir)?")  # the name of a cache file, including its folder
DAMAGED_LOCK_FILE = Path(".epigram/dvc.lock.damaged")


def repair_records(root: Path) -> list[str]:
    """Move an unreadable dvc.lock aside, delete an unreadable table of locks, and return a message for each repair.

    Nothing has to be computed again: DVC finds the finished stages in its run cache.
    """
    return [line for line in (_repair_lock_table(root), _repair_lock_file(root)) if line]


def remove_damaged_outputs(root: Path, stages: Iterable[str]) -> list[str]:
    """Delete damaged cache files of the stages' outputs, and these outputs, so that the stages run again.

    A cache file is damaged if its MD5 differs from its name. Returns the paths of the affected outputs.
    """
    cache, entries, affected = adapter.cache_folder(root), adapter.locked_stages(root), []
    for stage in stages:
        for out in entries.get(stage, {}).get("outs", []):
            path = str(out["path"])
            if _remove_damaged(_cache_files(cache, str(out.get("md5", "")))):
                affected.append(path)
                if not is_inner_path(path) or not (root / path).parent.resolve().is_relative_to(root.resolve()):
                    continue  # not in the repository, or in a folder that a link points to
                if (root / path).is_dir() and not (root / path).is_symlink():
                    shutil.rmtree(root / path)
                else:
                    (root / path).unlink(missing_ok=True)
    return affected


def main() -> None:
    """Repair the repository in the current folder and print what was done."""
    root = Path.cwd()
    messages = repair_records(root)
    messages += [
        f"{out}: removed the damaged cache files and the output"
        for out in remove_damaged_outputs(root, adapter.locked_stages(root))
    ]
    cache = adapter.cache_folder(root).glob("??/*")
    removed = _remove_damaged(path for path in cache if CACHE_NAME.fullmatch(f"{path.parent.name}{path.name}"))
    messages += [f"{path.parent.name}{path.name}: removed this damaged file from DVC's cache" for path in removed]
    echo("\n".join([*messages, "run dvc repro to recreate what was removed" if messages else "nothing is damaged"]))


def _repair_lock_table(root: Path) -> str:
    """Delete DVC's table of locks if it is unreadable. DVC's lock is held, so no other process changes the table."""
    from dvc.lock import LockError

    path = root / ".dvc" / "tmp" / "rwlock"
    if not path.exists() or _is_json(path):
        return ""
    with contextlib.suppress(LockError), adapter.open_repo(root) as repo, repo.lock:
        if not _is_json(path):  # checked again under DVC's lock, without which no process changes the table
            path.unlink()
            return "removed .dvc/tmp/rwlock, which was unreadable"
    return ""


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True


def _repair_lock_file(root: Path) -> str:
    from dvc.lock import LockError

    path = root / "dvc.lock"
    if not path.exists() or adapter.is_valid_lock_file(path):
        return ""
    with contextlib.suppress(LockError), adapter.open_repo(root) as repo, repo.lock:
        if not adapter.is_valid_lock_file(path):  # checked again under DVC's lock
            (root / DAMAGED_LOCK_FILE).parent.mkdir(exist_ok=True)
            shutil.move(path, root / DAMAGED_LOCK_FILE)
            return f"moved dvc.lock, which was unreadable, to {DAMAGED_LOCK_FILE}; DVC rewrites it from its run cache"
    return ""


def _cache_files(cache: Path, name: str) -> Iterator[Path]:
    """Yield a cache file and the files that it lists; skip invalid names: dvc.lock is untrusted."""
    if not CACHE_NAME.fullmatch(name):
        return
    path = cache / name[:2] / name[2:]
    yield path
    if name.endswith(".dir") and path.exists():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # the listing is damaged
            for each in json.loads(path.read_bytes()):
                if CACHE_NAME.fullmatch(each["md5"]):
                    yield cache / each["md5"][:2] / each["md5"][2:]


def _remove_damaged(files: Iterable[Path]) -> list[Path]:
    """Delete the files of the cache whose MD5 differs from their name, and return them."""
    damaged = []
    for path in [each for each in files if each.exists()]:  # all of them before the first one is deleted
        with path.open("rb") as file:
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if md5 != f"{path.parent.name}{path.stem}":
            path.unlink(missing_ok=True)
            damaged.append(path)
    return damaged


if __name__ == "__main__":
    main()
