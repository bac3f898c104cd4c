"""Chinese titles for the benchmarks, through the pipeline's own stages.

THUCNews where PITHY_MIRROR is set, the pocket corpus otherwise; repeated with a short suffix where more are needed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import ROOT, process

if TYPE_CHECKING:
    import polars as pl

SOURCE = "thucnews_116k" if os.environ.get("PITHY_MIRROR") else "pocket_zh"

SOURCE_YAML = """
name: titles
about: titles for the benchmarks
language: zh
task: single
licence: that of the texts
files: [{path: titles.tsv, local: titles.tsv}]
read: {reader: csv, separator: "\\t", quote: null, text: text, label: label}
"""
SPLITS_YAML = "splits: {train: [train], dev: [dev], test: [test]}\n"

ARGUMENTS = {
    "download": ("data/sources/titles.yaml", "data/raw"),
    "validate": ("data/raw", "data/validated"),
    "pos_table": ("data/validated", "data/pos"),
    "augment": ("data/validated", "data/augmented"),
    "encode": ("token", "data/validated", "data/augmented", "data/pos", "data/encoded/token"),
    "pretrain": ("token", "data/encoded/token", "data/pretrained/token"),
}


def titles(scratch: Path) -> pl.DataFrame:
    """Columns text, label and split (null in the pocket corpus) of the source."""
    from pithy.corpus.readers import read_corpus
    from pithy.corpus.source import read_source

    raw = scratch / "titles"
    if not raw.exists():
        process(["-m", "pithy.stages.download", f"data/sources/{SOURCE}.yaml", str(raw)], ROOT)
    return read_corpus(read_source(raw / "source.json"), raw).select("text", "label", "split")


def repeated(frame: pl.DataFrame, rows: int) -> pl.DataFrame:
    """`rows` different texts: those of `frame`, then again with #1, #2, … behind them."""
    import polars as pl

    copies = pl.DataFrame({"copy": [""] + [f"#{i}" for i in range(1, -(-rows // frame.height))]})
    many = copies.join(frame, how="cross", maintain_order="left_right").head(rows)
    return many.with_columns(text=pl.col("text") + pl.col("copy")).drop("copy")


def lay_out(folder: Path, frame: pl.DataFrame) -> None:
    """A folder in which the pipeline's stages run on `frame`: text, label and, where it has them, splits."""
    (folder / "data/sources").mkdir(parents=True)
    frame.write_csv(folder / "titles.tsv", separator="\t", quote_style="never")
    split = "split" in frame.columns
    source = SOURCE_YAML.replace("label: label", "label: label, split: split") + SPLITS_YAML if split else SOURCE_YAML
    (folder / "data/sources/titles.yaml").write_text(source, encoding="utf-8")
    shutil.copyfile(ROOT / "params.yaml", folder / "params.yaml")


def stage(folder: Path, name: str) -> dict[str, float]:
    """Run one stage up to `pretrain` in a laid-out folder; what it took."""
    return process(["-m", f"pithy.stages.{name}", *ARGUMENTS[name]], folder)


def encoded(scratch: Path, train: int, dev: int) -> Path:
    """The token view of `train` training titles and `dev` development titles, made once a run of the benchmarks."""
    import polars as pl

    folder = scratch / f"encoded-{train}-{dev}"
    view = folder / "data/encoded/token"
    if not view.exists():
        frame = titles(scratch)
        seen = pl.col("split").fill_null("train") == "train"
        rest = frame.filter(~seen) if SOURCE == "thucnews_116k" else frame
        parts = [repeated(frame.filter(seen).sample(fraction=1.0, shuffle=True, seed=0), train), rest.head(dev)]
        parts.append(rest.tail(100))
        names = ("train", "dev", "test")
        split = [part.with_columns(split=pl.lit(name)) for name, part in zip(names, parts, strict=True)]
        lay_out(folder, pl.concat(split))
        for name in ARGUMENTS:
            stage(folder, name)
    return view
