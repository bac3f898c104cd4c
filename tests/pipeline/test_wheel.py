"""The wheel, installed in an environment of its own: `epigram init` and `epigram run` without the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from epigram.runner.project.template import files_of

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "LICENSE", "NOTICE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")
pytestmark = [pytest.mark.slow, pytest.mark.extended]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, because a build writes into the folder of its sources."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        source = ROOT / name
        (shutil.copytree(source, copy / name, ignore=leave) if source.is_dir() else shutil.copy(source, copy / name))
    for name, path in files_of(ROOT).items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy / name)
    (copy / "build/lib/left_over").mkdir(parents=True)  # of an earlier build
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*command, "--wheel-dir", out, copy], check=True, timeout=120)
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel in a new environment that takes all other packages from this one; return its `epigram`."""
    place = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(place, with_pip=False)
    packages = sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)})
    Path(packages, "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install", "--quiet"]
    install += ["--no-deps", "--no-index", "--ignore-installed", str(wheel)]
    subprocess.run(install, check=True, timeout=120)
    return place / "bin/epigram"


def call(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a user without the repository does: without its paths and without the variables of tests."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("EPIGRAM_", "PREFECT_", "PYTHON"))
    }
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env={**kept, "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_the_wheel_has_one_package_with_the_template_and_nothing_of_an_earlier_build(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"epigram", info}
    template = {name.removeprefix("epigram/template/") for name in names if name.startswith("epigram/template/")}
    assert template == set(files_of(ROOT)) and "flows/pipeline.py" in template
    code = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/epigram").rglob("*.py")}
    assert code == {name for name in names if name.endswith(".py")} - {f"epigram/template/{name}" for name in template}
    assert {"epigram/py.typed", "epigram/report/templates/report.html.j2"} <= set(names)


def test_a_project_of_the_wheel_runs_to_its_report(program: Path, tmp_path: Path) -> None:
    made = call(program, "init", "demo", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    demo = tmp_path / "demo"
    where = call(program.with_name("python"), "-c", "import epigram; print(epigram.__file__)", cwd=demo)
    assert Path(where.stdout.strip()).is_relative_to(program.parents[1])

    done = call(program, "run", "--systems", "tfidf_svm", "--name", "first", cwd=demo)  # in a workspace of its own
    assert done.returncode == 0, done.stderr
    assert "report: runs/first/report.html" in done.stdout and "tfidf_svm" in done.stdout
    assert "<html" in (demo / "runs/first/report.html").read_text("utf-8")
    assert call("git", "status", "--porcelain", cwd=demo).stdout == ""

    again = call(program, "run", "--systems", "tfidf_svm", "--name", "second", cwd=demo)
    assert again.stdout.startswith("0 of "), again.stdout + again.stderr
    predicted = call(program, "predict", "runs/first/model", "房间很大", cwd=demo)
    assert predicted.returncode == 0 and predicted.stdout.endswith("房间很大\n")
    provenance = json.loads((demo / "runs/first/model/manifest.json").read_text())["provenance"]
    check = "from epigram.models.manifest import code_hash; print(code_hash())"
    assert provenance["code"] == subprocess.check_output([sys.executable, "-c", check], text=True).strip()

    record = yaml.safe_load((demo / "epigram.yaml").read_text())
    (demo / "epigram.yaml").write_text(yaml.safe_dump(record | {"version": "0.0.1"}))
    refused = call(program, "run", "--systems", "tfidf_svm", cwd=demo)
    assert refused.returncode == 64 and "run `epigram init --update`" in refused.stderr
    assert call(program, "init", "--update", cwd=demo).returncode == 0
    assert yaml.safe_load((demo / "epigram.yaml").read_text()) == record


def test_a_new_version_runs_all_stages_again(program: Path, tmp_path: Path) -> None:
    assert call(program, "init", "demo", cwd=tmp_path).returncode == 0
    demo = tmp_path / "demo"
    dvc = [program.with_name("python"), "-m", "dvc"]
    (demo / "data/raw").mkdir()
    assert call(*dvc, "commit", "--force", "download", cwd=demo).returncode == 0
    assert "up to date" in call(*dvc, "status", "download", cwd=demo).stdout
    text = (demo / "epigram.yaml").read_text()
    (demo / "epigram.yaml").write_text(text.replace("version: ", "version: 9."))
    assert "modified:           version" in call(*dvc, "status", "download", cwd=demo).stdout
