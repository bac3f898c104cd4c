"""Properties for arbitrary rows: splits share no text and keep their labels; equal texts have equal keys."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from epigram.core.errors import DataError, EpigramError
from epigram.data.sources import archives
from epigram.data.sources.source import File, Source
from epigram.data.validation import splits
from epigram.data.validation.row_index import NO_SPLIT, TRAIN, LabelCodes, split_codes, split_names
from epigram.data.validation.settings import ValidateSettings
from epigram.data.validation.validate import validate
from epigram.text.dataset.text_matching import LOOSE, exact_text, loose_text
from tests.support.budget import cases, texts

ROWS = st.lists(st.tuples(texts, st.sampled_from("xyz")), min_size=1, max_size=40)
NAMES = st.lists(
    st.sampled_from(["a", "..", ".", "/", "//", "b.txt", "\\", "C:", "\n", "文", " ", "\0", "~", "a" * 300]),
    min_size=1,
    max_size=5,
)


def key(text: str) -> str:
    return str(pl.DataFrame({"text": [text]}).select(loose_text()).item())


@cases(600)
@given(texts | st.text(max_size=8))
def test_one_text_in_two_widths_has_one_key(text: str) -> None:
    forms = [text, normalize("NFKC", text), f" {text}\n", normalize("NFKC", f"{text}!") + "，"]
    frame = pl.DataFrame({"text": forms})
    first, folded, spaced, marked = frame.select(loose_text()).to_series()
    assert first == spaced
    exact = frame.select(exact_text()).to_series()
    assert first in {folded, exact[0]}
    assert marked in {folded, exact[3]}


@cases(550)
@given(ROWS, st.floats(0.05, 0.4), st.floats(0.05, 0.4), st.integers(0, 99))
def test_a_cut_shares_no_text_and_loses_no_label(
    rows: list[tuple[str, str]], dev: float, test: float, seed: int
) -> None:
    frame = pl.DataFrame(rows, schema={"text": pl.String, "label": pl.String}, orient="row")
    frame = frame.with_columns(
        loose_text().alias(LOOSE), split=pl.lit("train"), row=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    labels = LabelCodes(frame.height)
    labels.add(0, frame["label"])
    repeated = frame.filter(pl.col(LOOSE).is_duplicated()).select("row", LOOSE)
    start = split_codes(frame["split"])
    try:
        found, notes = splits.create_splits(start, labels, repeated, dev=dev, test=test, seed=seed)
    except DataError as error:
        assert "no class has 3 different texts" in str(error) or "cannot create a" in str(error)
        return
    again, _ = splits.create_splits(start, labels, repeated, dev=dev, test=test, seed=seed)
    assert (found == again).all()
    assert len(notes) == 2
    done = frame.with_columns(split_names(found))
    assert done.group_by(LOOSE).agg(pl.col("split").n_unique())["split"].max() == 1
    assert set(done.filter(pl.col("split") == "train")["label"]) == set(frame["label"])
    sizes = dict(done.group_by("split").len().iter_rows())
    assert sizes["dev"] + sizes["test"] <= max(2 * 3, (dev + test) * len(rows) + 2 * 3)
    least = len(set(frame["label"]))
    kept = splits.limit_train(found, labels, least, seed)
    assert (kept == TRAIN).sum() == least
    assert ((kept == found) | (kept == NO_SPLIT)).all()


@cases(120)
@given(
    ROWS,
    st.lists(st.sampled_from(["train", "dev", "test", None]), min_size=40, max_size=40),
    st.sampled_from(["report", "drop", "fail"]),
)
def test_a_corpus_is_refused_or_its_splits_hold(
    rows: list[tuple[str, str]], split: list[str | None], action: Any
) -> None:
    frame = pl.DataFrame(rows, schema={"text": pl.String, "label": pl.String}, orient="row")
    frame = frame.with_columns(
        split=pl.Series(split[: len(rows)], dtype=pl.String), file=pl.lit("x"), line=pl.int_range(1, pl.len() + 1)
    )
    source = Source(name="toy", about="", language="zh", task="single", licence="", files=[File(path="x", local="x")])
    settings = ValidateSettings(on_leak=action, on_empty="drop", on_conflict=action, on_duplicate=action)
    try:
        result = validate(frame.lazy(), source, settings)
    except EpigramError as error:
        assert str(error).partition("\n")[0].isprintable()
        return
    parts = {name: part.collect() for name, part in result.parts.items()}
    every = pl.concat([part.select("row", "text", "label", split=pl.lit(name)) for name, part in parts.items()])
    assert every["row"].is_unique().all()
    told = frame.with_row_index("row").select(pl.col("row").cast(pl.Int64), "text", "label")
    assert every.select("row", "text", "label").join(told, on=["row", "text", "label"], how="anti").is_empty()
    assert set(every.filter(pl.col("split") != "train")["label"]) <= set(parts["train"]["label"])
    if action == "drop":
        held = every.filter(pl.col("split") != "train").select(loose_text()).to_series()
        assert not every.filter(pl.col("split") == "train").select(loose_text()).to_series().is_in(held.implode()).any()


@cases(600)
@given(
    NAMES.map("".join),
    st.sampled_from([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.BLKTYPE]),
)
def test_a_member_stays_in_its_folder_or_is_refused_by_name(tmp_path: Path, name: str, kind: bytes) -> None:
    path, target = tmp_path / "x.tar", tmp_path / "out.tar"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        item = tarfile.TarInfo(name)
        item.type, item.linkname = kind, "/etc/passwd"
        archive.addfile(item)
    path.write_bytes(packed.getvalue())
    try:
        found = [member.path for member in archives.iter_members(path)]
        archives.repack(path, target, ["*"])
    except DataError as error:
        assert str(error).startswith("x.tar ")
        assert "\n" not in str(error)
    else:
        assert kind == tarfile.REGTYPE
        for inner in found:
            assert (tmp_path / inner).resolve().is_relative_to(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} <= {"x.tar", "out.tar"}


@cases(600)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=2) | st.none(), min_size=1, max_size=20))
def test_the_rows_of_each_label_are_counted(rows: list[list[str] | None]) -> None:
    labels = LabelCodes(len(rows))
    labels.add(0, pl.Series(rows, dtype=pl.List(pl.String)))
    found = labels.counts(np.ones(len(rows), bool))
    assert found == {name: count for name in "abc" if (count := sum(name in (row or []) for row in rows))}
