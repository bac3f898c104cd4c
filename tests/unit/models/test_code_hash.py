"""Tests of the hashes in a manifest: data, code, parameters and weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import epigram
from epigram.models import manifest
from tests.support.provenance import TEXTS, trained, view_of


def listed(folder: Path, pattern: str = "*") -> str:
    """Return the SHA-256 of a file list: one line of path and SHA-256 per file below the folder, sorted by path."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob(pattern) if path.is_file())
    lines = [f"{name} {hashlib.sha256((folder / name).read_bytes()).hexdigest()}\n" for name in names]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def test_a_manifest_names_data_code_parameters_and_weights(tmp_path: Path, pos: Path) -> None:
    view = view_of(tmp_path / "view", pos, TEXTS)
    first = trained(view, tmp_path / "first")["provenance"]
    assert set(first) == {"data", "rows", "code", "parameters", "weights"}
    assert first["data"] == listed(view.folder)
    assert first["code"] == listed(Path(epigram.__file__).parent, "*.py")
    assert first["weights"] == hashlib.sha256((tmp_path / "first/model.safetensors").read_bytes()).hexdigest()
    assert trained(view, tmp_path / "again")["provenance"] == first
    changes = {
        "seed": trained(view, tmp_path / "seed", seed=1),
        "epochs": trained(view, tmp_path / "epochs", epochs=2),
    }
    for name, changed in changes.items():
        assert {key for key in first if changed["provenance"][key] != first[key]} == {"parameters", "weights"}, name
    other = view_of(tmp_path / "other", pos, [*TEXTS[:-1], ("good plot", "pos")])
    found = trained(other, tmp_path / "data")["provenance"]
    assert {key for key in first if found[key] != first[key]} == {"data", "rows", "weights"}


def test_the_code_s_hash_is_of_its_paths_and_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "PACKAGE", tmp_path)
    (tmp_path / "sub").mkdir()
    found = set()
    for name, text in (("a.py", "x = 1\n"), ("a.py", "x = 2\n"), ("b.py", "x = 2\n"), ("sub/a.py", "x = 2\n")):
        (tmp_path / name).write_text(text)
        found.add(manifest.code_hash())
        assert manifest.code_hash() == listed(tmp_path, "*.py")
    (tmp_path / "notes.txt").write_text("not code")
    assert manifest.code_hash() in found
    assert len(found) == 4
