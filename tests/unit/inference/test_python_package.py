"""A model as a Python package: pip builds and installs it, and it loads in a fresh process, checked by its manifest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import epigram
from epigram.core.errors import DataError, ParameterError
from epigram.inference.python_package import write_package
from tests.support.linear_models import ensemble_of_svms

PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
PREDICT = "import hotel_reviews; print(hotel_reviews.load().predict(['nice soup']))"


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_package_that_pip_has_installed_predicts_the_same_in_a_fresh_process(tmp_path: Path) -> None:
    model, source, target = ensemble_of_svms(tmp_path), tmp_path / "Hotel_Reviews", tmp_path / "target"
    assert write_package(model, source, version="1.2.0rc1") == ("hotel-reviews", "hotel_reviews")
    wheel = [*PIP, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", tmp_path, source]
    subprocess.run(wheel, check=True, timeout=120)
    built = tmp_path / "hotel_reviews-1.2.0rc1-py3-none-any.whl"
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", target, built], check=True, timeout=120)
    installed = target / "hotel_reviews/model"
    assert files_in(installed) == files_in(model)
    command = [sys.executable, "-c", PREDICT]
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == f"{epigram.load(model).predict(['nice soup'])}\n"
    (installed / "labels.json").write_text('["a", "b", "c"]')
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert "labels.json was changed after the model was saved" in done.stderr


def test_the_source_names_the_version_and_has_the_model_card(model: Path, tmp_path: Path) -> None:
    write_package(model, tmp_path / "hotel", version="2")
    project = tomllib.loads((tmp_path / "hotel/pyproject.toml").read_text("utf-8"))["project"]
    assert (project["name"], project["version"]) == ("hotel", "2")
    (needed,) = map(Requirement, project["dependencies"])
    assert (needed.name, needed.extras) == ("epigram", set())
    assert needed.specifier.contains(epigram.__version__)
    assert (tmp_path / "hotel/README.md").read_text("utf-8") == (model / "README.md").read_text("utf-8")


def test_an_exported_model_needs_the_extra_onnx(model: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("epigram.inference.onnx.export")
    onnx.export(model, tmp_path / "graph")
    write_package(tmp_path / "graph", tmp_path / "hotel", version="2")
    project = tomllib.loads((tmp_path / "hotel/pyproject.toml").read_text("utf-8"))["project"]
    assert [Requirement(each).extras for each in project["dependencies"]] == [{"onnx"}]


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("2024-hotel", "1", "'2024-hotel' is not the name of a package that can be imported"),
        ('hotel"]', "1", "is not the name of a package that can be imported"),
        ("hotel-\u212a", "1", "is not the name of a package that can be imported"),
        ("hotel\n", "1", "is not the name of a package that can be imported"),
        ("class", "1", "'class' is not the name of a package that can be imported"),
        ("json", "1", "a package json would hide the module json"),
        ("Epigram", "1", "a package epigram would hide the module epigram"),
        ("hotel", 'one"', "--version 'one\"': expected a version, for example 1.0.0"),
        ("model/inner", "1", "inner is inside the model's folder"),
        ("model", "1", "model already exists"),
    ],
)
def test_names_that_no_package_can_have_are_refused(
    name: str, version: str, message: str, model: Path, tmp_path: Path
) -> None:
    shutil.copytree(model, tmp_path / "model")
    with pytest.raises(ParameterError, match=message):
        write_package(tmp_path / "model", tmp_path / name, version=version)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_changed_model_gets_no_package(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model/labels.json").write_text("[]")
    with pytest.raises(DataError, match=r"labels\.json was changed"):
        write_package(tmp_path / "model", tmp_path / "hotel", version="1")
    assert not (tmp_path / "hotel").exists()
