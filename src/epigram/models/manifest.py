"""manifest.json of a model folder: facts about the model, the SHA-256 of its other files, and its provenance.

The folder has exactly the listed files. The signature file is the only one that is not listed, because it also covers
the manifest. The manifest of an ensemble lists the manifests of its members, the folders in `members`, instead of their
files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from epigram.core.config_types import has_type, shown
from epigram.core.errors import DataError, InputMissingError, ParameterError, TryAgainError
from epigram.core.files import read_json, sha256, write_json

PROVENANCE, WEIGHTS = "provenance", "model.safetensors"
HIERARCHY = "hierarchy"  # separator of levels in the labels, a fact of a chosen model
PACKAGE = Path(__file__).parents[1]
TEMPLATE = "template/"  # files of a new project, which only an installed package contains


def parameters_hash(**values: Any) -> str:
    """Return the SHA-256 of `values` as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def code_hash() -> str:
    """Return the SHA-256 of a list of the package's Python files, sorted by path, with the path and SHA-256 of each."""
    files = sorted((path.relative_to(PACKAGE).as_posix(), path) for path in PACKAGE.rglob("*.py"))
    files = [(name, path) for name, path in files if not name.startswith(TEMPLATE)]
    lines = "".join(f"{name} {sha256(path)}\n" for name, path in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def of_saved(folder: Path, facts: dict[str, Any]) -> dict[str, str]:
    """Return the provenance of a model that is being saved in `folder`; `facts` may contain data and parameters."""
    return {**facts.get(PROVENANCE, {}), "code": code_hash(), "weights": sha256(folder / WEIGHTS)}


def read_provenance(folder: Path) -> dict[str, str]:
    """Return the provenance in the manifest of a verified `folder`; empty for a model of an older version.

    Raises DataError if it is malformed, or if it and the manifest disagree on the checksum of the weights.
    """
    content = read_json(folder / MANIFEST)
    provenance = content.get(PROVENANCE, {})
    if not has_type(provenance, dict[str, str]):
        raise DataError(f"{folder}/{MANIFEST}: {PROVENANCE} is not a mapping of checksums; restore the model's folder")
    if provenance and content["sha256"].get(WEIGHTS, provenance.get("weights")) != provenance.get("weights"):
        raise DataError(f"{folder}/{MANIFEST} has two different checksums of the weights; restore the model's folder")
    return dict(provenance)


MANIFEST, CARD, SIGNATURE, MEMBERS = "manifest.json", "README.md", "model.sig", "members"
NEIGHBORS = TRAINING_TEXTS, TRAINING_VECTORS = "training_texts.jsonl", "training_vectors.safetensors"
FILES = {  # the files of any kind of model: see serialization and ensemble
    *("config.json", "labels.json", CARD, "tokenizer.json", "history.json", "ngrams.json"),
    *(WEIGHTS, "model.onnx", "model.xml", "model.bin", "out_of_fold.safetensors", *NEIGHBORS),
}


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """Facts about a model's training in its manifest; depth and parameter count are from before pruning."""

    dataset: str
    data: str  # SHA-256 of the encoded view
    seed: int
    dev_accuracy: float
    epoch: int
    depth_full: int
    parameters_full: int
    training: dict[str, Any]  # fields of the training settings
    provenance: dict[str, str]  # checksums
    hardware: dict[str, str]  # device, precision, PyTorch
    layer_scores: list[float]  # out-of-fold score of each layer, if train has folds
    checkpoint: str  # pretrained encoder that the training started from; empty without one

    @property
    def by_gradient(self) -> bool:
        """Whether the model was trained by gradient descent."""
        return self.epoch > 0

    @property
    def taught(self) -> bool:
        """Whether the model learned the probabilities of a teacher."""
        return "teacher" in self.provenance

    @classmethod
    def read(cls, folder: Path) -> TrainingFacts:
        """Read the manifest of a trained or pruned model. Raises InputMissingError, or DataError that names the key."""
        content, hints = read_json(folder / MANIFEST), get_type_hints(cls)
        values = content if isinstance(content, dict) else {}
        for name, hint in hints.items():
            if not has_type(values.get(name), hint):
                raise DataError(f"{folder / MANIFEST} has no valid {name}; train the model again (dvc repro)")
        return cls(**{name: values[name] for name in hints})


def write(folder: Path, facts: dict[str, Any]) -> None:
    """Write the manifest of a complete `folder`: `facts` and the checksums of all its files."""
    names = sorted(_entries(folder))
    write_json(folder / MANIFEST, {**facts, "sha256": {name: sha256(folder / name) for name in names}})


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the facts of the manifest, without the checksums."""
    return {name: value for name, value in read_json(folder / MANIFEST).items() if name != "sha256"}


def read_hierarchy(folder: Path) -> str:
    """Return the separator of levels in the labels of a model; empty if its labels have no levels."""
    found = read_facts(folder).get(HIERARCHY, "")
    if not isinstance(found, str):
        raise DataError(f"{folder}/{MANIFEST}: {HIERARCHY} is no text; restore the model's folder")
    return found


def verify(folder: Path) -> set[str]:
    """Check `folder`, and the members of an ensemble, against its manifest, and return the names of the listed files.

    The folder must contain these files unchanged, and no others: an unlisted file has no checksum, and a library could
    read it on its own. Files with training texts may be missing: whoever publishes a model may delete them. Raises
    InputMissingError for another missing file, DataError for a changed or unlisted one.
    """
    listed = verify_files(folder)
    for member in _members(folder):
        _require_known(member, verify_files(member))
    return listed


def check_new_folder(folder: Path, out: Path) -> None:
    """Raise ParameterError if `out`, to which the model in `folder` is exported, exists or is inside `folder`."""
    if os.path.lexists(out):
        raise ParameterError(f"{out} already exists; choose another folder, or delete it")
    if out.resolve().is_relative_to(folder.resolve()):
        raise ParameterError(f"{out} is inside the model's folder, which allows no other files; choose another folder")


def member_manifest(name: str) -> str:
    """Return the name under which an ensemble's manifest lists the manifest of a member."""
    return f"{MEMBERS}/{name}/{MANIFEST}"


def _members(folder: Path) -> list[Path]:
    return sorted((folder / MEMBERS).iterdir()) if (folder / MEMBERS).is_dir() else []


def _entries(folder: Path) -> set[str]:
    """Return the names of what a manifest in `folder` lists: its files, and the manifests of its members.

    Anything else, such as a folder or a link to one, is included by its name, which no manifest lists.
    """
    entries = {path.name for path in folder.iterdir()} - {MANIFEST, SIGNATURE}
    if not _is_folder(folder / MEMBERS) or not (members := _members(folder)):
        return entries
    nested = {path: _is_folder(path) and (path / MANIFEST).is_file() for path in members}
    names = {member_manifest(path.name) if found else f"{MEMBERS}/{path.name}" for path, found in nested.items()}
    return entries - {MEMBERS} | names


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _check_signature(folder: Path) -> None:
    """Raise DataError if the file of the signature does not have the form of one; its key is not needed for that."""
    path = folder / SIGNATURE
    if not os.path.lexists(path):
        return
    signature = read_json(path) if path.is_file() and not path.is_symlink() else None
    if not isinstance(signature, dict) or not has_type(signature.get("dsseEnvelope"), dict[str, Any]):
        raise DataError(f"{path} is not a signature; remove it, or sign the model again with `epigram sign`")


def verify_files(folder: Path) -> set[str]:
    """Check the files of `folder` against its manifest, and return the names of the listed files."""
    if not folder.is_dir():
        raise InputMissingError(
            f"{folder} does not exist; expected the folder of a model, for example runs/latest/model"
        )
    for name in ("config.json", MANIFEST):
        if not (folder / name).is_file():
            raise InputMissingError(f"{folder} is not a saved model or is incomplete: {name} is missing")
    digests = _read_checksums(folder)
    for name, digest in digests.items():
        if not (folder / name).is_file():
            raise InputMissingError(f"{folder}/{name} is missing; restore the model's folder")
        if sha256(folder / name) != digest:
            raise DataError(f"{folder}/{name} was changed after the model was saved; restore the model's folder")
    _check_signature(folder)
    return set(digests)


@contextmanager
def require_unchanged(folder: Path) -> Iterator[None]:
    """Raise TryAgainError if a file of `folder`, or the folder that a link points to, changes during the block.

    After such a change, the files that were read may differ from the files that were checked. For example, a promotion
    may have moved the link to another model.
    """
    before = stamps(folder)
    try:
        yield
    finally:
        if stamps(folder) != before:
            raise TryAgainError(f"{folder} changed while it was read; try again")


def stamps(folder: Path) -> list[tuple[str, int, int, int]]:
    """Return name, inode, size and modification time of the folder and its files, as far as they exist."""
    found = []
    for path in (folder, *(sorted(folder.iterdir()) if folder.is_dir() else ())):
        with suppress(OSError):
            stat = path.stat()
            found.append((path.name, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return found


def _read_checksums(folder: Path) -> dict[str, str]:
    """Return the checksums by file name; each name is an entry of the folder."""
    manifest = read_json(folder / MANIFEST)
    digests = manifest.get("sha256") if isinstance(manifest, dict) else None
    if not isinstance(digests, dict) or not has_type(digests, dict[str, str]):
        raise DataError(f"{folder}/{MANIFEST} has no checksums; restore the model's folder")
    found = _entries(folder)
    digests = {name: digest for name, digest in digests.items() if name in found or name not in NEIGHBORS}
    if unlisted := sorted(found - digests.keys()):
        name = shown(unlisted[0])
        raise DataError(f"{folder}/{name} is not listed in {MANIFEST}; remove it, or train the model again")
    for name in digests:
        if name not in found and Path(name).name != name and not name.startswith(f"{MEMBERS}/"):
            raise DataError(
                f"{folder}/{MANIFEST} lists {shown(name)}, which is not a file name; restore the model's folder"
            )
        if name not in found:  # not is_file(), which fails for a name that is too long
            raise InputMissingError(f"{folder}/{shown(name)} is missing; restore the model's folder")
    _require_known(folder, {name for name in digests if not name.startswith(f"{MEMBERS}/")})
    return dict(digests)


def _require_known(folder: Path, names: set[str]) -> None:
    """Raise DataError for a listed file that no model has."""
    if unknown := sorted(names - FILES):
        raise DataError(f"{folder}/{MANIFEST} does not list the files of a model: {shown(unknown[0])}; remove the file")
