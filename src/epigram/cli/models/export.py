"""epigram export: a model as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epigram.process.display import echo


def main(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, for example runs/latest/model.")],
    out: Annotated[Path, typer.Argument(help="Folder to create; epigram predict also accepts it.")],
    int8: Annotated[bool, typer.Option("--int8", help="Use 8-bit weights if they are faster on this machine.")] = False,
) -> None:
    """Export a model to ONNX, which runs faster and without epigram.

    Example: epigram export runs/latest/model exported
    """
    from epigram.inference.onnx.export import export as write

    write(model, out, int8=int8)
    size = sum(file.stat().st_size for file in out.rglob("*")) / 1e6
    echo(f"{out}: exported ({size:.1f} MB); to predict, run: epigram predict {out} TEXT")
