"""Workshop for tests of user errors: the real stages and the real command on a corpus of 60 rows."""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

STAGES = Path(importlib.import_module("epigram.stages").__file__ or "").parent
THINGS = [
    "饭店",
    "手机",
    "电影",
    "新书",
    "快递",
    "房间",
    "前台",
    "味道",
    "声音",
    "屏幕",
    "结局",
    "包装",
    "早餐",
    "座位",
    "菜单",
]
ROWS = [
    (f"这次的{thing}{words}", label)
    for thing in THINGS
    for words, label in (("很好", "good"), ("真不错", "good"), ("很差", "bad"), ("太糟糕", "bad"))
]

PARAMS: dict[str, Any] = {
    "dataset": "reviews",
    "seeds": [0],
    "views": {"token": {"tokenizer": "token"}, "prompted": {"tokenizer": "token", "prompt": True}},
    "systems": {"mlp": {"view": "token", "train": {"epochs": 2}}, "tfidf_svm": {"view": "token"}},
    "download": {"tries": 1, "timeout": 2},
    "evaluate": {"resamples": 20, "timing_texts": 2},
}


def csv(rows: list[tuple[str, str]], header: str = "text,label") -> str:
    return "\n".join([header, *(f"{text},{label}" for text, label in rows), ""])


@dataclass(frozen=True)
class Ended:
    """Result of a stage or of the command."""

    code: int
    out: str
    err: str

    @property
    def first(self) -> str:
        """Return the first line of the error output."""
        return self.err.partition("\n")[0]

    def refused(self, code: int, *said: str) -> None:
        """Check that the exit code is `code` and that the first line names the error, the place and the fix."""
        assert self.code == code, self.err or self.out
        assert self.first.startswith("error: "), self.err
        missing = [words for words in said if words not in self.first]
        assert not missing, self.first
        assert "Traceback" not in self.err
        assert "internal error" not in self.err


def call(root: Path, main: Any, *argv: str) -> Ended:
    """Run `main` in this process, in the folder `root`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(root),
        mock.patch.object(sys, "argv", list(argv)),
        mock.patch.object(sys, "path", list(sys.path)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())


def epigram(root: Path, *arguments: str) -> Ended:
    """Run the `epigram` command in this process, in the folder `root`."""
    from epigram.cli.app import app

    return call(root, app, "epigram", *arguments)


class Workshop:
    """Folder in which the stages run; `out` does not exist until a stage of the test writes it."""

    def __init__(self, root: Path) -> None:
        self.root, self.out = root, root / "new" / "out"
        for folder in ("data/sources", "data/local", "new"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self.params()

    def params(self, *, without: str = "", **sections: Any) -> None:
        """Write params.yaml with some sections replaced."""
        values = copy.deepcopy(PARAMS) | sections
        values.pop(without, None)
        (self.root / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))

    def source(self, content: bytes | str, *, name: str = "reviews", suffix: str = "csv", **changes: Any) -> str:
        """Write a user's file and its description; returns the description's path."""
        data = content.encode() if isinstance(content, str) else content
        (self.root / f"data/local/{name}.{suffix}").write_bytes(data)
        file = {"path": f"{name}.{suffix}", "local": f"data/local/{name}.{suffix}"}
        told = {"name": name, "about": "a test", "language": "zh", "task": "single", "licence": "none", "files": [file]}
        told["folds"] = 0  # a dev split, unless `changes` has folds
        path = f"data/sources/{name}.yaml"
        (self.root / path).write_text(yaml.safe_dump(told | {"read": {"reader": suffix}} | changes))
        return path

    def stage(self, name: str, *arguments: str | Path) -> Ended:
        """Run a stage in this process as `python -m epigram.stages.NAME` would."""
        main = importlib.import_module(f"epigram.stages.{name}").main
        return call(self.root, main, name, *map(str, arguments))

    def epigram(self, *arguments: str | Path, stdin: bytes = b"") -> Ended:
        """Run the `epigram` command in this process."""
        with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))):
            return epigram(self.root, *map(str, arguments))

    def validated(self, content: bytes | str, **changes: Any) -> Ended:
        """Download and validate a file; validate writes to `out`."""
        self.clear()
        downloaded = self.stage("download", self.source(content, **changes), "new/raw")
        return downloaded if downloaded.code else self.stage("validate", "new/raw", self.out)

    def corpus(self) -> dict[str, Any]:
        """Return the description of the corpus in `out` that validate wrote."""
        return dict(json.loads((self.out / "corpus.json").read_text()))

    def clear(self) -> None:
        """Delete the output of a test."""
        shutil.rmtree(self.root / "new", ignore_errors=True)
        (self.root / "new").mkdir()

    def left(self) -> list[str]:
        """Return the names of all files in the parent folder of `out`, hidden files included."""
        return sorted(path.name for path in self.out.parent.iterdir())


def built(root: Path) -> Workshop:
    """Return a workshop in which every stage has run: data/raw … data/evaluated of two systems, data/ensemble."""
    shop = Workshop(root)
    shop.source(csv(ROWS))
    steps: list[tuple[str, ...]] = [
        ("download", "data/sources/reviews.yaml", "data/raw"),
        ("validate", "data/raw", "data/validated"),
        ("examine", "data/validated", "data/examined"),
        ("pos_table", "data/validated", "data/pos_versions", "data/pos"),
        ("augment", "data/validated", "data/augmented"),
        *(
            ("encode", view, "data/validated", "data/augmented", "data/pos", f"data/encoded/{view}")
            for view in PARAMS["views"]
        ),
        *(("pretrain", view, f"data/encoded/{view}", f"data/pretrained/{view}") for view in PARAMS["views"]),
    ]
    for name in PARAMS["systems"]:
        models, pruned = f"data/models/{name}", f"data/pruned/{name}"
        steps += [
            ("train", name, "data/encoded/token", "data/pretrained/token", models),
            ("prune", name, "data/encoded/token", models, pruned),
            ("evaluate", name, "data/validated", "data/encoded/token", pruned, f"data/evaluated/{name}"),
        ]
    steps.append(("ensemble", "data/validated", "data/evaluated", "data/pruned", "data/ensemble"))
    for step in steps:
        ended = shop.stage(*step)
        assert ended.code == 0, ended.err
    return shop


@contextlib.contextmanager
def changed(path: Path, content: bytes | None) -> Iterator[None]:
    """Replace or delete the file inside the block."""
    before = path.read_bytes()
    try:
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        yield
    finally:
        path.write_bytes(before)


def flipped(data: bytes, place: int) -> bytes:
    """Return `data` with one byte changed."""
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
