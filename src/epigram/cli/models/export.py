"""epigram export: a model as ONNX, for OpenVINO, or as a Python package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from epigram.core.errors import ParameterError
from epigram.process.display import echo


def main(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, for example runs/latest/model.")],
    out: Annotated[Path, typer.Argument(help="Folder to create; epigram predict also accepts an exported model.")],
    to: Annotated[
        Literal["onnx", "openvino", "package"],
        typer.Option(help="package: source of a Python package with the name of the folder."),
    ] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="Use 8-bit weights if they are faster on this machine.")] = False,
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Version of the package. Default: 0.1.0.")
    ] = None,
) -> None:
    """Export a model to ONNX or OpenVINO, which run without epigram, or as a Python package that pip installs.

    Example: epigram export runs/latest/model exported
    """
    if int8 and to != "onnx":
        more = "; export with --int8 first, then the exported folder as a package" if to == "package" else ""
        raise ParameterError(f"--int8 needs --to onnx{more}")
    if to == "package":
        _write_package(model, out, version or "0.1.0")
        return
    if version is not None:
        raise ParameterError("--version needs --to package")
    from epigram.inference.onnx.export import export as write

    write(model, out, to=to, int8=int8)
    size = sum(file.stat().st_size for file in out.rglob("*")) / 1e6
    echo(f"{out}: exported ({size:.1f} MB); to predict, run: epigram predict {out} TEXT")


def _write_package(model: Path, out: Path, version: str) -> None:
    from epigram.inference.python_package import write_package

    name, module = write_package(model, out, version=version)
    echo(f"{out}: source of the package {name}; to install it, run: pip install {out}")
    echo(f"then, in Python: import {module}; {module}.load()")
