"""Ingestion of files with new rows: after an interruption at any step, no row is lost or added twice."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epigram.cli.runs.retrain import report
from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.files import write_text
from epigram.data import incoming_rows
from epigram.runner.retraining import drift, inbox
from epigram.runner.retraining.ingest import Ingestion
from epigram.runner.retraining.retraining import Retraining
from epigram.runner.retraining.withdrawal import withdraw
from epigram.runner.workspace.settings import load
from tests.support.shop import PARAMS, reviews
from tests.support.shop_repository import Shop, small_shop
from tests.support.steps import APPENDED, disturbed

BASE = 40  # rows


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Return a growing data set with two new files."""
    shop = small_shop(tmp_path / "repo", BASE)
    shop.take()
    shop.arrive("a.csv", reviews(4, "slang", seed=1))
    shop.arrive("b.csv", reviews(6, "slang", seed=2))
    return shop


def texts(file: Path) -> list[str]:
    return pl.read_csv(file)["review"].to_list()


def new_texts(shop: Shop) -> list[str]:
    return sorted(shop.rows[BASE:]["text"])


def archived(shop: Shop) -> dict[str, list[str]]:
    """Return the texts of each archived file."""
    return {file.name: texts(file) for file in sorted((shop.incoming / "taken").iterdir())}


def joined(batches: dict[str, list[str]]) -> list[str]:
    return sorted(text for batch in batches.values() for text in batch)


def waiting(shop: Shop) -> list[str]:
    return sorted(file.name for file in shop.incoming.iterdir())


def test_a_kill_at_any_step_loses_no_row_and_takes_none_twice(shop: Shop, tmp_path: Path) -> None:
    arrived = {name: texts(shop.incoming / name) for name in ("a.csv", "b.csv")}
    copies = [Shop(root) for root in disturbed("take", shop.root, tmp_path / "copies")]
    left = {tuple(waiting(copy)) for copy in copies}
    assert {("a.csv", "b.csv"), ("working",), ("taken", "working")} <= left, left
    for copy in copies:
        copy.take()
        assert new_texts(copy) == joined(arrived)
        assert (archived(copy), waiting(copy)) == (arrived, ["taken"])
        rows = copy.rows
        copy.live.rebuild()
        assert copy.rows.equals(rows)


def test_what_is_written_at_any_step_is_read_before_it_is_archived(shop: Shop, tmp_path: Path) -> None:
    second = reviews(2, "slang", seed=3)
    second.write_csv(shop.incoming / ".b.csv")
    copies = [Shop(root) for root in disturbed("take", shop.root, tmp_path / "copies", "arrive")]
    for number, copy in enumerate(copies[:-1]):
        copy.take()
        found = new_texts(copy)
        assert found == joined(archived(copy)) and waiting(copy) == ["taken"]
        assert set(second["review"]) <= set(found)
        # The first steps create working/ and move a.csv and b.csv there. Until then the new batch is a second b.csv.
        assert (APPENDED.partition(",")[0] in found) is (number > 2)
    # The last step removes working/. The file is archived and is not read again.
    assert APPENDED in (copies[-1].incoming / "taken" / "b.csv").read_text()


@pytest.mark.parametrize(
    ("name", "content"),
    [("new.csv", b"review,stars\n"), ("new.csv", b"review,stars\n\n\n"), ("new.jsonl", b""), ("new.parquet", None)],
)
def test_a_file_without_rows_is_left_and_others_are_taken(shop: Shop, name: str, content: bytes | None) -> None:
    file = shop.incoming / name
    if content is None:
        pl.DataFrame(schema={"review": pl.String, "stars": pl.String}).write_parquet(file)
    else:
        file.write_bytes(content)
    ingestion = shop.take()
    assert (ingestion.rows, ingestion.files) == (10, ("a.csv", "b.csv"))
    assert ingestion.skipped == (f"{file} has no rows; add rows or remove the file",)
    assert waiting(shop) == [name, "taken"]
    assert shop.take().skipped == ingestion.skipped


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [("new.csv", "review\nfine\n", "review"), ("new.jsonl", '{"review": "fine", "id": 1}\n', "id, review")],
)
def test_a_file_without_labels_is_left_and_others_are_taken(shop: Shop, name: str, content: str, columns: str) -> None:
    """Such a file is allowed in the inbox, because its texts count for drift."""
    (shop.incoming / name).write_text(content)
    ingestion = shop.take()
    assert (ingestion.rows, ingestion.files, waiting(shop)) == (10, ("a.csv", "b.csv"), [name, "taken"])
    assert ingestion.skipped == (
        f"{shop.incoming / name} has no column 'stars'; its columns: {columns}; its texts only count for drift; if "
        "people have checked its labels, name their column stars",
    )


def test_a_file_with_another_kind_of_label_ends_with_65_and_hides_no_other_fault(shop: Shop) -> None:
    (shop.incoming / "c.jsonl").write_text('{"review": "fine", "stars": ["good", "bad"]}\n')
    (shop.incoming / "d.csv").write_text("review,stars\nfine,good,more\n")
    with pytest.raises(DataError) as error:
        shop.take()
    for part in ("c.jsonl does not fit the data set", "d.csv line 2 has 3 values for 2 columns"):
        assert f"{shop.incoming}/{part}" in str(error.value)
    assert (shop.rows.height, waiting(shop)) == (BASE, ["a.csv", "b.csv", "c.jsonl", "d.csv"])


def test_any_name_is_a_name_and_no_pattern(shop: Shop) -> None:
    names = ["[a].csv", "a*.jsonl", "[b]*?.parquet", "ä (1).csv"]
    for number, name in enumerate(names):
        rows, file = reviews(2, "slang", seed=10 + number), shop.incoming / name
        {".csv": rows.write_csv, ".jsonl": rows.write_ndjson, ".parquet": rows.write_parquet}[file.suffix](file)
    ingestion = shop.take()
    assert (ingestion.rows, ingestion.skipped) == (18, ())
    assert sorted(ingestion.files) == sorted(["a.csv", "b.csv", *names])


def test_a_link_is_not_read_and_others_are_taken(shop: Shop, tmp_path: Path) -> None:
    reviews(2, "slang", seed=5).write_csv(tmp_path / "private.csv")
    (shop.incoming / "c.csv").symlink_to(tmp_path / "private.csv")
    (shop.incoming / "d.csv").symlink_to("nowhere.csv")
    ingestion = shop.take()
    assert (ingestion.rows, ingestion.files) == (10, ("a.csv", "b.csv"))
    links = [shop.incoming / name for name in ("c.csv", "d.csv")]
    assert ingestion.skipped == tuple(f"{link} is a link; replace it with the file itself" for link in links)
    assert set(texts(tmp_path / "private.csv")).isdisjoint(new_texts(shop))
    assert waiting(shop) == ["c.csv", "d.csv", "taken"]


def test_entries_that_are_never_read_are_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.chdir(shop.incoming)
        socket.socket(socket.AF_UNIX).bind("g.csv")  # the path of a socket is short
    os.mkfifo(shop.incoming / "e.csv")
    (shop.incoming / "f").mkdir()
    for name in (".h.csv", ".i.csv", ".gitkeep", ".j.csv.part"):
        (shop.incoming / name).touch()
        os.utime(shop.incoming / name, (0, 0))
    os.utime(shop.incoming / ".i.csv")  # it is being written
    (shop.incoming / "k.csv\nerror: x.foo").touch()
    ingestion = shop.take()
    assert (ingestion.rows, ingestion.files) == (10, ("a.csv", "b.csv"))
    said = {
        ".h.csv": "is hidden and has not changed for an hour; rename it if it is complete, or remove it",
        "e.csv": "is not a file; remove it",
        "f": "is a folder; move its files out of it, or remove it",
        "g.csv": "is not a file; remove it",
        "k.csv\\nerror: x.foo": "has a line end in its name; rename it",
    }
    assert ingestion.skipped == tuple(f"{shop.incoming / name} {reason}" for name, reason in said.items())


def test_files_whose_names_are_no_utf8_are_taken_and_can_be_withdrawn(shop: Shop) -> None:
    """Archives of Chinese Windows contain such names."""
    name = os.fsdecode("评论.csv".encode("gbk"))
    (shop.incoming / "a.csv").rename(shop.incoming / name)
    assert shop.take().rows == 10
    assert sorted(file.name for file in (shop.incoming / "taken").iterdir()) == ["b.csv", name]
    assert withdraw(shop.live, name).rows == 4
    assert shop.rows.height == BASE + 6


def test_an_inbox_that_is_a_link_to_a_folder_is_used(shop: Shop, tmp_path: Path) -> None:
    shop.incoming.rename(tmp_path / "elsewhere")
    shop.incoming.symlink_to(tmp_path / "elsewhere")
    assert (shop.take().rows, waiting(shop)) == (10, ["taken"])
    (shop.root / "data" / "local" / "other").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ParameterError, match=r"add the line /data/local/other to \.dvcignore"):
        inbox.inbox_folder(shop.root, "data/local/other")
    (tmp_path / "elsewhere").rename(tmp_path / "gone")
    with pytest.raises(InputMissingError, match=f"incoming is a link to {tmp_path}/elsewhere, which is not a folder"):
        shop.take()
    shop.incoming.unlink()
    shop.incoming.symlink_to(shop.root / "data" / "sources")
    with pytest.raises(ParameterError, match="expected a folder below data/local or outside"):
        shop.take()


@pytest.mark.parametrize("name", ["working", "taken"])
def test_a_folder_that_is_a_link_is_refused(shop: Shop, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (shop.incoming / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=f"{name} is a link; remove it"):
        shop.take()
    assert waiting(shop) == ["a.csv", "b.csv", name] and not any((tmp_path / "elsewhere").iterdir())
    assert shop.rows.height == BASE


def test_a_limit_of_the_training_rows_loses_no_row_of_the_base(tmp_path: Path) -> None:
    shop = small_shop(tmp_path / "repo", BASE)
    write_text(shop.root / "params.yaml", f"{PARAMS}validate: {{max_train_rows: 4}}\n")
    shop.take()
    assert shop.rows.filter(pl.col("batch") == 0).height == BASE


def test_a_new_class_needs_enough_rows_before_any_row_is_added(shop: Shop) -> None:
    """The stage `validate` needs two training rows of each class; with one, it would fail in every retraining."""
    description = shop.root / "data" / "sources" / "shop_live.yaml"
    write_text(description, description.read_text().replace("- good", "- good\n- odd"))
    (shop.incoming / "c.csv").write_text("review,stars\nno idea,odd\n")
    message = r"shop_live with the new rows has 1 violation in the corpus: 1 × too few.*\n.*odd: 1 of 2 rows"
    with pytest.raises(DataError, match=message):
        shop.take()
    assert (shop.rows.height, waiting(shop)) == (BASE, ["a.csv", "b.csv", "c.csv"])
    (shop.incoming / "d.csv").write_text("review,stars\nwho knows,odd\n")
    assert (shop.take().rows, waiting(shop)) == (12, ["taken"])


def test_a_file_that_changes_while_it_is_read_is_left_and_nothing_of_it_is_taken(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(file: Path, source: Any) -> pl.DataFrame:
        found = read_file(file, source)
        if file.name == "b.csv":
            file.write_text(file.read_text() + APPENDED)
        return found

    read_file = incoming_rows.read_file
    with monkeypatch.context() as patch:
        patch.setattr(incoming_rows, "read_file", read)
        ingestion = shop.take()
    assert (ingestion.rows, ingestion.files) == (4, ("a.csv",))
    assert ingestion.skipped == (
        f"{shop.incoming}/b.csv changed while it was read; the next retraining reads it again",
    )
    assert (shop.take().rows, waiting(shop)) == (7, ["taken"])


def test_a_bad_file_goes_back_beside_a_new_one_of_its_name(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> pl.DataFrame:
        (shop.incoming / "b.csv").write_text("new")
        raise DataError(f"{shop.incoming}/working/b.csv line 2: it is bad")

    before = (shop.incoming / "b.csv").read_text()
    with monkeypatch.context() as patch, pytest.raises(DataError, match=f"{shop.incoming}/b.csv line 2: it is bad"):
        patch.setattr(incoming_rows, "read_file", read)
        shop.take()
    assert waiting(shop) == ["a.csv", "b-2.csv", "b.csv"]
    assert [(shop.incoming / name).read_text() for name in ("b.csv", "b-2.csv")] == ["new", before]


def test_drift_sees_what_a_killed_retraining_has_left(shop: Shop) -> None:
    (shop.incoming / "working").mkdir()
    shutil.move(shop.incoming / "a.csv", shop.incoming / "working")
    assert [file.name for file in inbox.waiting_files(shop.incoming)] == ["a.csv", "b.csv"]


def test_drift_skips_a_file_that_a_retraining_moves_after_the_listing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, listed = load(shop.root / "params.yaml"), inbox.waiting_files(shop.incoming)
    read_file = incoming_rows.read_file

    def read(file: Path, source: Any) -> pl.DataFrame:
        (shop.incoming / "b.csv").unlink(missing_ok=True)
        return read_file(file, source)

    monkeypatch.setattr(inbox, "waiting_files", lambda _: [shop.incoming / "moved.csv", *listed])
    os.utime(shop.incoming / "a.csv", (1_000, 1_000))
    assert drift._newest_first(shop.root, settings.retrain) == [shop.incoming / "b.csv", shop.incoming / "a.csv"]
    monkeypatch.setattr(incoming_rows, "read_file", read)
    assert drift.new_texts(shop.root, "shop_live", settings, None).texts == texts(shop.incoming / "a.csv")


def test_a_retraining_with_files_left_ends_with_65_after_its_work(capsys: pytest.CaptureFixture[str]) -> None:
    ingestion = Ingestion(dataset="shop_live", rows=3, skipped=("x.csv has no rows; add rows or remove the file",))
    result = Retraining(promoted=True, reason="better", run="r", ingestion=ingestion, champion="champion 2")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"^x\.csv has no rows; add rows or remove the file$"):
        report(result)
    out = capsys.readouterr().out
    assert "promoted: better" in out and "champion 2" in out


def test_rows_that_are_skipped_because_their_text_is_known_are_named(shop: Shop) -> None:
    shop.take()
    known = shop.rows["text"].to_list()[:4]
    (shop.incoming / "again.csv").write_text(
        "review,stars\na fresh one,good\n" + "".join(f'"{text}",good\n' for text in known)
    )
    ingestion = shop.take()
    assert (ingestion.rows, ingestion.known) == (1, 4)
    assert str(ingestion).endswith(
        "; skipped 4 with a text that is already in it (again.csv:3, again.csv:4, again.csv:5, …)"
    )
