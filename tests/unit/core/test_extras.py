"""A missing package is named with the command that installs it from where epigram itself was installed."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from epigram.core import extras
from epigram.core.extras import MissingPackageError, install_command, require


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
