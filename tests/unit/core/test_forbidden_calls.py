"""No code loads a pickle or starts a shell; templates are complete; a missing package is named."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from jinja2 import UndefinedError

from epigram.core import extras
from epigram.core.extras import MissingPackageError, install_command, require
from epigram.core.templates import environment
from tests.support.code_files import CODE

TEXT_CALLS = {"open", "read_text", "write_text", "fdopen", "NamedTemporaryFile", "TemporaryFile", "TextIOWrapper"}
STARTS = {"run", "Popen", "check_output", "check_call", "call"}


def without_encoding(code: str) -> list[str]:
    """Return the calls of a module whose text would have the encoding of the user's locale."""
    return [
        f"{node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and _reads_by_locale(node)
    ]


def _reads_by_locale(node: ast.Call) -> bool:
    module, _, last = ast.unparse(node.func).rpartition(".")
    given = {word.arg: ast.unparse(word.value) for word in node.keywords}
    if "encoding" in given:
        return False
    if last in STARTS:
        return given.get("text") == "True" or given.get("universal_newlines") == "True"
    values = " ".join([*map(ast.unparse, node.args), *given.values()])
    if last in {"NamedTemporaryFile", "TemporaryFile"}:
        return TEXT_MODE.search(values) is not None
    if (last == "open" and module in {"os", "gzip", "tarfile"}) or (last in {"read_text", "write_text"} and not module):
        return False  # other functions of these names
    return last in TEXT_CALLS and BINARY_MODE.search(values) is None and "utf" not in values


BINARY_MODE, TEXT_MODE = re.compile(r"'[rwax+]*b[+]?'"), re.compile(r"'[rwax][+]?'")
OTHER_FILES = {  # calls of other classes: a member of an archive, a file of an installed package
    "archives.py: packed.open",
    "extras.py: distribution('epigram').read_text",
}


def test_every_text_file_and_process_has_an_encoding() -> None:
    found = {
        f"{path.name}: {call.partition(': ')[2]}"
        for path in CODE
        for call in without_encoding(path.read_text(encoding="utf-8"))
    }
    assert found == OTHER_FILES


@pytest.mark.parametrize(
    "code",
    [
        "Path(name).read_text()",
        "path.write_text(text)",
        "open(name)",
        "path.open('w')",
        "path.open('a+')",
        "subprocess.run(command, text=True)",
        "NamedTemporaryFile('w')",
        "os.fdopen(1, 'w')",
    ],
)
def test_a_call_without_an_encoding_is_found(code: str) -> None:
    assert without_encoding(code)
    assert not without_encoding(code.replace("()", "(0)")[:-1] + ", encoding='utf-8')")


UNSAFE = [
    "import pickle",
    "from joblib import dump",
    "import torch; torch.load(path)",
    "import torch; torch.save(state, path)",
    "import numpy as np; np.load(path)",
    "import yaml; yaml.load(text, Loader=yaml.Loader)",
    "eval(text)",
    "import subprocess; subprocess.run(command, shell=True)",
]


@pytest.mark.parametrize("code", UNSAFE)
def test_ruff_refuses_code_that_loads_a_pickle_or_starts_a_shell(code: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise"]
    command += ["--stdin-filename", "src/epigram/x.py", "-"]
    done = subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True, check=False)
    assert re.search(r" (TID251|S\d{3}) ", done.stdout)


ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "epigram"


@pytest.mark.parametrize("package", ["epigram.report", "epigram.data.validation"])
def test_values_are_escaped_and_an_undefined_name_is_an_error(package: str) -> None:
    env = environment(package)
    assert env.from_string("{{ text }}").render(text="<b>'x' & \"y\"") == "&lt;b&gt;&#39;x&#39; &amp; &#34;y&#34;"
    with pytest.raises(UndefinedError):
        env.from_string("{{ absent }}").render()


def test_the_package_contains_every_template() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["epigram"]
    packaged = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    templates = set(PACKAGE.rglob("*.j2"))
    assert len(templates) > 5
    assert templates <= packaged


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "'/my env/python' -m pip install 'epigram[onnx]'"),
        (
            {"url": "file:///srv/%C3%A9pi%20gram/epigram", "dir_info": {"editable": True}},
            "'/my env/python' -m pip install -c '/srv/épi gram/epigram/requirements.lock' "
            "-e '/srv/épi gram/epigram[onnx]'",
        ),
        (
            {"url": "file:///dist/epigram-1.0-py3-none-any.whl", "archive_info": {}},
            "'/my env/python' -m pip install '/dist/epigram-1.0-py3-none-any.whl[onnx]'",
        ),
    ],
)
def test_the_command_installs_from_the_same_place(
    origin: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(extras, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    monkeypatch.setattr("sys.executable", "/my env/python")
    assert install_command("onnx") == command


def test_a_missing_package_is_named_with_the_command() -> None:
    require("epigram run", "pipeline", "json")
    with pytest.raises(MissingPackageError) as caught:
        require("epigram run", "pipeline", "json", "no_such_package", "nor_this")
    expected = "epigram run needs no_such_package, nor_this, which are not installed; run: "
    assert str(caught.value) == expected + install_command("pipeline")
