"""Build and check a release: python -m tests.release. It uploads nothing, and prints the commands that do.

The tree is clean, the version is the first section of CHANGELOG.md and has no tag yet, the environment has the locked
build packages, and the wheel is built from the unpacked sdist. Both are built from the commit, not from the tree. The
metadata is complete, and the wheel runs in an environment of its own, which takes only its dependencies from this one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.metadata import Metadata

from tests.lock import pins_of

ROOT = Path(__file__).parents[1]
BUILD = "from setuptools import build_meta; import sys; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def main(root: Path = ROOT) -> int:
    """Write dist/ and print the next commands; return 1 if something is missing, after naming all of it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if problems := [*source_problems(root, project["version"]), *build_problems()]:
        return refuse(problems)
    with TemporaryDirectory() as place:
        sdist, wheel = build(root, Path(place))
        if problems := [*metadata_problems(wheel, project), *start_problems(wheel, Path(place), project)]:
            return refuse(problems)
        shutil.rmtree(root / "dist", ignore_errors=True)
        (root / "dist").mkdir()
        for path in (sdist, wheel):
            shutil.copy(path, root / "dist")
    print(f"dist/ has {sdist.name} and {wheel.name}. Nothing was uploaded. To publish them:")
    print(f"git tag v{project['version']} && git push origin v{project['version']}")
    print(f"pipx run twine upload dist/{sdist.name} dist/{wheel.name}")
    return 0


def refuse(problems: list[str]) -> int:
    for problem in problems:
        print(f"release: {problem}", file=sys.stderr)
    return 1


def source_problems(root: Path, version: str) -> list[str]:
    """Return what is wrong with the tree, the changelog and the tag."""
    found = []
    if git(root, "status", "--porcelain"):
        found.append("the tree has changes that are not committed; commit them")
    section = re.search(r"^## (.*)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    first = section[1] if section else "no section"
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", first):
        found.append(f"CHANGELOG.md begins with '{first}'; expected '{version} (YYYY-MM-DD)', as in pyproject.toml")
    if git(root, "tag", "--list", f"v{version}"):
        found.append(f"the tag v{version} exists; raise the version in pyproject.toml")
    return found


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout


def build_problems() -> list[str]:
    """Return the packages that build, and that are not installed in the locked version."""
    found = {pin: version_of(pin.partition("==")[0]) for pin in pins_of("requirements-build.lock")}
    return [f"{pin} is locked, but {is_} is installed" for pin, is_ in found.items() if pin.partition("==")[2] != is_]


def version_of(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "no version"


def build(root: Path, place: Path) -> tuple[Path, Path]:
    """Build the sdist from the files of the commit, and the wheel from the sdist; return both."""
    subprocess.run(["git", "-C", root, "archive", "--output", place / "commit.tar", "HEAD"], check=True)
    sdist = built("build_sdist", place / "commit.tar", place / "sdist")
    return sdist, built("build_wheel", sdist, place / "wheel")


def built(hook: str, archive: Path, out: Path) -> Path:
    """Unpack an archive, run a hook of setuptools on it, and return the file that the hook writes."""
    source = out / "source"
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")
    folder = source if (source / "pyproject.toml").exists() else next(source.iterdir())
    command = [sys.executable, "-c", BUILD, hook, str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"release: {hook} failed\n{done.stderr}")
    return next(path for path in out.iterdir() if path.is_file())


def metadata_problems(wheel: Path, project: dict[str, object]) -> list[str]:
    """Return what the metadata of a wheel lacks; an invalid field raises packaging's own error."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        raw = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA")))
    found = Metadata.from_email(raw, validate=True)
    present = {
        "a summary": found.summary,
        "README.md as its description": found.description and found.description_content_type == "text/markdown",
        "classifiers": found.classifiers,
        "keywords": found.keywords,
        "a licence expression": found.license_expression,
        "the Python versions": found.requires_python,
        "all extras": set(found.provides_extra or []) == set(project["optional-dependencies"]),  # type: ignore[call-overload]
        "LICENSE and NOTICE": {"LICENSE", "NOTICE"} <= {Path(name).name for name in names if "/licenses/" in name},
    }
    if not found.project_urls:
        print("release: note: [project.urls] is empty: the index will not lead to the sources")
    return [f"{wheel.name} lacks {name}" for name, is_there in present.items() if not is_there]


def start_problems(wheel: Path, place: Path, project: dict[str, object]) -> list[str]:
    """Install the wheel without a network in a new environment, and return what `--version` prints if it is wrong."""
    folder = place / "venv"
    venv.create(folder, with_pip=False)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    Path(packages, "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--no-index", "--ignore-installed", wheel], check=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    program = folder / "bin" / str(project["name"])
    done = subprocess.run([program, "--version"], cwd=place, env=clean, capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout.split()[-1:] == [project["version"]]:
        return []
    return [f"{wheel.name}: `--version` printed {(done.stdout + done.stderr).strip()!r}"]


if __name__ == "__main__":
    sys.exit(main())
