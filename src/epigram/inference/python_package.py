"""A model as a Python package: a folder that pip builds and installs, with the model's files as package data.

pyproject.toml  README.md (the model card)  src/MODULE/__init__.py  src/MODULE/model/ (a copy of the model)
"""

from __future__ import annotations

import keyword
import shutil
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from epigram.core.config_types import shown
from epigram.core.errors import ParameterError
from epigram.core.files import atomic_folder, write_text
from epigram.models import manifest
from epigram.models.serialization import GRAPH, NETWORK

PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = "A text classifier, trained with epigram"
readme = "README.md"
dependencies = ["{requirement}"]

[tool.setuptools]
packages = ["{module}"]
package-dir = {{"" = "src"}}
package-data = {{"{module}" = ["model/**/*"]}}
"""
EXTRAS = {GRAPH: "[onnx]", NETWORK: "[openvino]"}  # extra by graph file
MODULE = '''"""A text classifier, trained with epigram."""

from __future__ import annotations

from pathlib import Path

import epigram


def load(device: str = "auto") -> epigram.BasePredictor:
    """Load the model; each file must have the checksum in the model's manifest."""
    return epigram.load(Path(__file__).parent / "model", device=device)
'''


def write_package(folder: Path, out: Path, *, version: str) -> tuple[str, str]:
    """Write the source of a Python package with the model in `folder` to the new folder `out`.

    The package is named like `out`. Returns the names of the package and of its module. The model's files are copied
    and checked; nothing of the model is loaded. Raises ParameterError for an invalid name or version, and if `out`
    exists or is inside `folder`; InputMissingError or DataError for a model that is incomplete or was changed.
    """
    name, module = _names(out.resolve().name)
    try:
        release = Version(version)
    except InvalidVersion:
        raise ParameterError(f"--version {shown(repr(version))}: expected a version, for example 1.0.0") from None
    manifest.check_new_folder(folder, out)
    with atomic_folder(out) as new:
        package = new / "src" / module
        shutil.copytree(folder, package / "model")
        manifest.verify(package / "model")
        extra = next((extra for name, extra in EXTRAS.items() if any(package.rglob(name))), "")
        requirement = f"epigram{extra}>=" + Version(installed_version("epigram")).public
        shutil.copyfile(folder / manifest.CARD, new / manifest.CARD)
        write_text(package / "__init__.py", MODULE)
        write_text(
            new / "pyproject.toml", PROJECT.format(name=name, module=module, version=release, requirement=requirement)
        )
    return name, module


def _names(given: str) -> tuple[str, str]:
    """Return the normalized name of a package and its module. Raises ParameterError for one that cannot be imported."""
    try:
        name = str(canonicalize_name(given, validate=True))
    except InvalidName:
        name = ""
    module = name.replace("-", "_")
    if not module.isidentifier() or keyword.iskeyword(module):
        raise ParameterError(
            f"{shown(repr(given))} is not the name of a package that can be imported; choose another folder: a letter, "
            "then ASCII letters, digits and hyphens, for example hotel-reviews"
        )
    if module in sys.stdlib_module_names or module == "epigram":
        raise ParameterError(f"a package {name} would hide the module {module}; choose another folder")
    return name, module
