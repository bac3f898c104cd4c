"""The ledger of a growing data set: another file is refused, every state can be rebuilt, and rows can be withdrawn."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from epigram.cli.runs import retrain
from epigram.core.errors import DataError, EpigramError, InputMissingError, ParameterError, TryAgainError
from epigram.core.files import sha256, write_text
from epigram.data.sources.source import load_source
from epigram.process.signals import Terminated
from epigram.runner.champions import champion
from epigram.runner.retraining import ledger
from epigram.runner.retraining.withdrawal import learned_models, withdraw
from tests.support.shop import PARAMS, reviews
from tests.support.shop_repository import Shop, small_shop
from tests.support.steps import disturbed

BASE = 40  # rows
REBUILD = "to restore it with all rows: epigram retrain --rebuild$"


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository whose data set has two batches, a.csv and b.csv."""
    shop = small_shop(tmp_path_factory.mktemp("taken") / "repo", BASE)
    shop.take()
    for number, name in enumerate(("a.csv", "b.csv"), 1):
        shop.arrive(name, reviews(20 * number, "slang", seed=number))
        assert shop.take().rows == 20 * number
    return shop.root


@pytest.fixture
def shop(taken: Path, tmp_path: Path) -> Shop:
    shutil.copytree(taken, tmp_path / "repo")
    return Shop(tmp_path / "repo")


@pytest.fixture
def file(shop: Shop) -> Path:
    """Return the file of the data set."""
    return shop.root / "data" / "local" / "shop_live.parquet"


def cache(shop: Shop) -> list[str]:
    """Return the names of the stored files."""
    return sorted(path.name for path in (shop.root / ".dvc" / "cache" / "epigram").rglob("*") if path.is_file())


def test_each_batch_is_recorded_and_nothing_else_of_the_repository_changes(shop: Shop) -> None:
    found = ledger.read(shop.root, "shop_live")
    assert found is not None
    assert [entry.kind for entry in found.entries] == ["start", "batches", "batches"]
    assert [entry.before for entry in found.entries] == [None, *(entry.after for entry in found.entries[:-1])]
    assert found.after == sha256(shop.root / "data" / "local" / "shop_live.parquet")
    arrived = {name: sha256(shop.incoming / "taken" / name) for name in ("a.csv", "b.csv")}
    assert [(batch.name, batch.sha256, batch.rows, batch.known) for batch in found.batches] == [
        ("a.csv", arrived["a.csv"], 20, 0),
        ("b.csv", arrived["b.csv"], 40, 0),
    ]
    assert shop.git("for-each-ref", "--format=%(refname)") == "refs/epigram/inbox/shop_live"
    assert shop.git("rev-list", "--count", ledger.ref("shop_live")) == "3"
    kept = {f"{found.base.base}.parquet"}.union(*(batch.kept for batch in found.batches))
    assert cache(shop) == sorted(kept)


@pytest.mark.parametrize("batches", [0, 1])
def test_an_older_file_is_refused_and_all_rows_are_rebuilt(shop: Shop, file: Path, batches: int) -> None:
    """`dvc get … --rev champion` restores such a file after a rollback or a refused challenger."""
    whole = shop.rows
    shop.rows.filter(pl.col("batch") <= batches).write_parquet(file)
    older = file.read_bytes()
    shop.arrive("c.csv", reviews(10, "slang", seed=3))
    with pytest.raises(DataError, match=f"^{file} is older than the last retraining, edited or damaged; {REBUILD}"):
        shop.take()
    assert file.read_bytes() == older and (shop.incoming / "c.csv").exists()
    assert shop.live.rebuild() == "restored shop_live: 40 rows of shop and 60 that arrived since"
    assert shop.rows.equals(whole)
    assert shop.take().rows == 10
    assert shop.rows[: whole.height].equals(whole)


def test_no_flipped_bit_is_accepted(shop: Shop, file: Path) -> None:
    live, whole, chance = shop.live, file.read_bytes(), random.Random(0)
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=REBUILD):
            live.check()
    file.write_bytes(whole)
    live.check()


@pytest.mark.parametrize("lost", ["rows", "description", "half", "both", "half and content of description"])
def test_lost_files_are_named_or_written_again(shop: Shop, file: Path, lost: str) -> None:
    whole, description = shop.rows, shop.root / "data" / "sources" / "shop_live.yaml"
    text = description.read_text()
    if lost in {"description", "both"}:
        description.unlink()
    if lost.startswith("half"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    if lost in {"rows", "both"}:
        file.unlink()
    if lost.endswith("content of description"):
        description.write_text("")
    if lost != "description":
        with pytest.raises(EpigramError, match=REBUILD):
            shop.take()
        shop.live.rebuild()
    assert shop.take().rows == 0
    assert (shop.rows.equals(whole), description.read_text()) == (True, text)


def test_no_collection_of_dvc_deletes_what_a_rebuild_needs(shop: Shop, file: Path) -> None:
    from dvc.repo import Repo

    whole = shop.rows
    shop.git("add", "params.yaml")
    shop.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "shop")
    unused = shop.root / ".dvc" / "cache" / "files" / "md5" / "ab" / ("c" * 30)
    legacy = shop.root / ".dvc" / "cache" / "ab" / ("c" * 30)
    for variant in ("workspace", "all_tags", "all_branches", "all_commits", "all_experiments"):
        for each in (unused, legacy):
            each.parent.mkdir(parents=True, exist_ok=True)
            each.touch()
        with Repo(str(shop.root)) as repo:
            repo.gc(**{variant: True}, force=True)
        assert not unused.exists() and not legacy.exists(), variant
    shutil.rmtree(shop.incoming)
    file.unlink()
    shop.live.rebuild()
    assert shop.rows.equals(whole)


def test_without_the_cache_the_archived_files_and_the_base_are_enough(shop: Shop, file: Path) -> None:
    whole = shop.rows
    shutil.rmtree(shop.root / ".dvc" / "cache")
    file.unlink()
    (shop.root / "data" / "sources" / "shop_live.yaml").unlink()
    (shop.incoming / "taken" / "b.csv").rename(shop.incoming / "taken" / "renamed.csv")
    shop.live.rebuild()
    assert shop.rows.equals(whole)
    file.unlink()
    shutil.rmtree(shop.root / ".dvc" / "cache")
    (shop.incoming / "taken" / "a.csv").write_text("review,stars\nother,bad\n")
    with pytest.raises(
        InputMissingError, match=r"lacks .*, the rows of a\.csv; copy it there, or .* --forget"
    ) as fault:
        shop.live.rebuild()
    assert not file.exists()
    assert withdraw(shop.live, str(fault.value).split()[-1]).rows == 20
    assert shop.rows.equals(whole.filter(pl.col("batch") != 1))


def test_corrected_labels_of_the_base_reach_the_data_set(shop: Shop) -> None:
    before, local = shop.rows, shop.root / "data" / "local" / "shop.csv"
    local.write_text(local.read_text().replace(",good", ",fine"))
    source = shop.root / "data" / "sources" / "shop.yaml"
    source.write_text(source.read_text().replace("[bad, good]", "[bad, fine]"))
    message = r"^shop is not the data set with which shop_live began; .* since: epigram retrain --rebuild$"
    with pytest.raises(DataError, match=message):
        shop.take()
    shop.live.rebuild()
    after = shop.rows
    corrected = pl.col("label").replace("good", "fine")
    assert after[:BASE].equals(before[:BASE].with_columns(corrected)) and after[BASE:].equals(before[BASE:])
    shop.arrive("c.csv", reviews(10, "slang", seed=3).with_columns(pl.col("stars").replace("good", "fine")))
    assert shop.take().rows == 10  # the description has the labels of the base and of all batches
    assert "labels:\n- bad\n- fine\n- good\n" in (shop.root / "data" / "sources" / "shop_live.yaml").read_text()
    whole = shop.rows
    shop.live.rebuild()
    assert shop.rows.equals(whole)
    for name in ("a.csv", "b.csv"):  # no row has the label good any more
        withdraw(shop.live, name)
    source.write_text(source.read_text().replace("[bad, fine]", "[bad, great]"))
    local.write_text(local.read_text().replace(",fine", ",great"))
    shop.live.rebuild()
    assert "labels:\n- bad\n- great\n- fine\nkeep" in (shop.root / "data" / "sources" / "shop_live.yaml").read_text()


def test_a_label_appears_by_the_description_and_vanishes_with_its_rows(shop: Shop) -> None:
    description = shop.root / "data" / "sources" / "shop_live.yaml"
    shop.arrive("c.csv", reviews(10, "slang", seed=3).with_columns(stars=pl.lit("odd")))
    advice = r'stars="odd" unknown label(.|\n)*list it under `labels` in data/sources/shop_live.yaml$'
    with pytest.raises(DataError, match=advice.replace("stars", "label")):
        shop.take()
    description.write_text(description.read_text().replace("- good\n", "- good\n- odd\n"))
    assert shop.take().rows == 10 and (shop.rows["label"] == "odd").sum() == 10
    withdraw(shop.live, "c.csv")
    assert "labels:\n- bad\n- good\nkeep" in description.read_text()
    shop.arrive("d.csv", reviews(4, "slang", seed=4))
    assert shop.take().rows == 4


def test_the_name_of_a_new_label_stays_in_the_description(shop: Shop) -> None:
    source, description = (shop.root / "data" / "sources" / f"{name}.yaml" for name in ("shop", "shop_live"))
    source.write_text(source.read_text() + "label_names: {bad: schlecht, good: gut}\n")
    text = description.read_text().replace("- good\n", "- good\n- odd\n")
    description.write_text(text + "label_names: {bad: schlecht, good: gut, odd: seltsam}\n")
    shop.arrive("c.csv", reviews(10, "slang", seed=3).with_columns(stars=pl.lit("odd")))
    assert shop.take().rows == 10
    shop.live.rebuild()
    assert load_source("shop_live", description.parent).label_names == {
        "bad": "schlecht",
        "good": "gut",
        "odd": "seltsam",
    }


def test_rows_follow_their_group_through_arrivals_and_a_rebuild(tmp_path: Path) -> None:
    shop = small_shop(tmp_path / "repo", 60)
    source, local = shop.root / "data" / "sources" / "shop.yaml", shop.root / "data" / "local" / "shop.csv"
    source.write_text(source.read_text().replace("label: stars}", "label: stars, group: who}"))
    writers = pl.Series("who", [f"w{row // 2 % 12}" for row in range(60)])
    pl.read_csv(local).with_columns(writers).write_csv(local)
    shop.take()
    shop.arrive(
        "a.csv", reviews(40, "slang", seed=1).with_columns(who=pl.Series([f"w{row % 20}" for row in range(40)]))
    )
    assert shop.take().rows == 40
    whole = shop.rows
    splits = whole.group_by("group").agg(pl.col("split").unique())["split"].list
    assert splits.len().to_list() == [1] * 20 and set(whole["split"]) == {"train", "dev", "test"}
    (shop.root / "data" / "local" / "shop_live.parquet").unlink()
    shop.live.rebuild()
    assert shop.rows.equals(whole)
    assert load_source("shop_live", source.parent).read["group"] == "group"


def test_a_row_keeps_its_split_whatever_the_settings_are_now(shop: Shop, file: Path) -> None:
    whole = shop.rows
    write_text(shop.root / "params.yaml", f"{PARAMS}validate: {{dev: 0.5}}\n")
    file.unlink()
    shop.live.rebuild()
    assert shop.rows.equals(whole) and (whole["split"] == "dev").sum() < 20


def test_damaged_files_of_the_store_are_not_used(shop: Shop, file: Path) -> None:
    whole = shop.rows
    for stored in (shop.root / ".dvc" / "cache" / "epigram").rglob("*.parquet"):
        frame = pl.read_parquet(stored)
        frame.with_columns(text=pl.lit("damaged")).write_parquet(stored)
    file.unlink()
    shop.live.rebuild()
    assert shop.rows.equals(whole)


def test_a_row_that_leaves_the_base_comes_from_the_batch_that_also_has_it(shop: Shop) -> None:
    local = shop.root / "data" / "local" / "shop.csv"
    rows = pl.read_csv(local)
    shop.arrive("again.csv", rows.tail(2))
    assert (shop.take().known, shop.rows.height) == (2, 100)
    rows.head(BASE - 2).write_csv(local)
    shop.live.rebuild()
    assert shop.rows.height == 100
    assert shop.rows.filter(pl.col("batch") == 3)["text"].to_list() == rows["review"].to_list()[-2:]


def test_a_data_set_of_an_older_version_gets_a_ledger_and_loses_no_row(shop: Shop, file: Path) -> None:
    shop.git("update-ref", "-d", ledger.ref("shop_live"))
    whole = shop.rows
    shop.arrive("c.csv", reviews(10, "slang", seed=3))
    assert str(shop.take()).splitlines()[0] == "the ledger of shop_live begins with its 100 rows"
    grown = shop.rows
    assert grown[:100].equals(whole) and grown[100:]["batch"].unique().to_list() == [3]
    file.unlink()
    shop.live.rebuild()
    assert shop.rows.equals(grown)
    with pytest.raises(
        ParameterError, match="it was accepted before the ledger began, so its rows are part of the base"
    ):
        withdraw(shop.live, "a.csv")
    local = shop.root / "data" / "local" / "shop.csv"
    local.write_text(local.read_text().replace("lovely", "lovely lovely"))
    shop.live.rebuild()  # the rows of the first two batches are not in shop.csv
    assert shop.rows[BASE:].equals(grown[BASE:]) and not shop.rows[:BASE].equals(grown[:BASE])


def test_files_of_unknown_origin_are_neither_used_nor_replaced(shop: Shop, file: Path) -> None:
    shop.git("update-ref", "-d", ledger.ref("shop_live"))
    description, rows = shop.root / "data" / "sources" / "shop_live.yaml", file.read_bytes()
    text = description.read_text()
    description.unlink()
    with pytest.raises(DataError, match=r"has neither a ledger nor shop_live\.yaml; move it away"):
        shop.take()
    assert file.read_bytes() == rows
    file.unlink()
    description.write_text(text)
    with pytest.raises(InputMissingError, match=r"is missing, but .* move all files of taken back to the inbox"):
        shop.take()
    description.unlink()
    assert (shop.take().rows, shop.rows.height) == (0, BASE)


def test_the_rows_of_a_small_base_are_split_although_a_run_on_it_has_folds(shop: Shop) -> None:
    base = shop.rows.filter(batch=0)
    assert dict(base["split"].value_counts().iter_rows()) == {"train": 32, "dev": 4, "test": 4}


def test_a_retraining_says_where_the_development_texts_come_from(tmp_path: Path) -> None:
    """A tenth of 40 rows, and of the 15 new rows of each label, rounded: two of each."""
    shop = small_shop(tmp_path / "repo", BASE)
    shop.arrive("a.csv", reviews(30, "slang", seed=1))
    begin, added = str(shop.take()).splitlines()
    assert begin == (
        "shop_live begins with the 40 rows of shop: 32 for training, 4 held out as development texts (no "
        "cross-validation), 4 for test"
    )
    assert added == (
        "added 30 new rows to shop_live, 4 of them to the development split; 8 of its 70 texts are held out as "
        "development texts"
    )


def test_a_withdrawal_removes_exactly_the_rows_of_the_file(shop: Shop) -> None:
    whole, before = shop.rows, cache(shop)
    result = withdraw(shop.live, "a.csv")
    assert (result.rows, result.kept, result.file) == (20, 0, "a.csv")
    assert shop.rows.equals(whole.filter(pl.col("batch") != 1))
    assert result.copies == (f"{shop.incoming}/taken/a.csv; delete it",)
    assert len(cache(shop)) == len(before) - 2 == 3 and not texts_in_cache(shop) & {*whole.filter(batch=1)["text"]}
    shop.live.rebuild()
    assert shop.rows.height == 80
    shop.arrive("again.csv", pl.read_csv(shop.incoming / "taken" / "a.csv"))
    assert shop.take().rows == 20 and shop.rows["batch"].max() == 3
    withdraw(shop.live, "again.csv")
    shop.arrive("again.csv", reviews(10, "slang", seed=3))
    assert shop.take().rows == 10 and shop.rows["batch"].max() == 4  # no number is used twice


def test_a_withdrawal_that_is_killed_at_any_step_can_be_repeated(shop: Shop, tmp_path: Path) -> None:
    whole, seen = shop.rows, set()
    for copy in map(Shop, disturbed("forget", shop.root, tmp_path / "copies")):
        withdrawn = [batch.name for batch in copy.live.record.batches] == ["b.csv"]
        seen.add(withdrawn)
        if not withdrawn:
            withdraw(copy.live, "a.csv")
        assert copy.take().rows == 0
        assert copy.rows.equals(whole.filter(pl.col("batch") != 1)) and len(cache(copy)) == 3
    assert seen == {False, True}


def texts_in_cache(shop: Shop) -> set[str]:
    """Return all texts in parquet files of the store."""
    files = (shop.root / ".dvc" / "cache" / "epigram").rglob("*.parquet")
    return {text for file in files for text in pl.read_parquet(file)["text"]}


def test_a_text_that_another_file_also_has_stays_with_its_split(shop: Shop) -> None:
    first = pl.read_csv(shop.incoming / "taken" / "a.csv")
    shop.arrive("c.csv", pl.concat([first.head(20), reviews(4, "slang", seed=3)]))
    assert (shop.take().known, shop.rows.height) == (20, 104)
    splits = dict(shop.rows.select("text", "split").rows())
    result = withdraw(shop.live, "a.csv")
    assert (result.rows, result.kept) == (0, 20)
    assert dict(shop.rows.select("text", "split").rows()) == splits
    assert shop.rows.filter(pl.col("text").is_in(first["review"].implode()))["batch"].unique().to_list() == [3]


def test_stored_rows_that_another_file_also_has_are_not_deleted(shop: Shop) -> None:
    content = (shop.incoming / "taken" / "a.csv").read_text(encoding="utf-8")
    (shop.incoming / "c.csv").write_text(f"{content}\n", encoding="utf-8")
    assert shop.take().known == 20
    first, _, last = shop.live.record.batches
    assert (first.name, last.name, first.stored) == ("a.csv", "c.csv", last.stored) and first.sha256 != last.sha256
    withdraw(shop.live, "a.csv")
    assert set(last.kept) <= {*cache(shop)} and first.kept[0] not in cache(shop)


def test_two_files_of_one_name_are_told_apart_by_their_hash(shop: Shop) -> None:
    shop.arrive("a.csv", reviews(10, "slang", seed=3))
    shop.take()
    with pytest.raises(ParameterError, match="several files have this name; give the SHA-256") as fault:
        withdraw(shop.live, "a.csv")
    second = sha256(shop.incoming / "taken" / "a-2.csv")
    assert re.search(rf"^{second}: 10 rows, 2", str(fault.value), re.MULTILINE)
    assert withdraw(shop.live, second[:8]).rows == 10
    assert withdraw(shop.live, str(shop.incoming / "taken" / "b.csv")).rows == 40
    with pytest.raises(ParameterError, match=r"no accepted file has this name or SHA-256; did you mean 'a\.csv'"):
        withdraw(shop.live, "aa.csv")


def test_the_models_that_learned_from_withdrawn_rows_are_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"before": 1_000, "after": 3_000, "other": 3_000, "crowned": 3_000, "after-failed": 3_000}
    for name, time in times.items():
        summary = shop.root / "runs" / name / "summary.json"
        summary.parent.mkdir(parents=True)
        summary.write_text(json.dumps({"dataset": "other" if name == "other" else "shop_live"}))
        os.utime(summary, (time, time))
        if name != "after-failed":
            (summary.parent / "model").mkdir()
    (shop.root / "runs" / "latest").symlink_to("after")
    crowns = [
        ("1970-01-01T00:16:40+00:00", None),
        ("1970-01-01T00:50:00+00:00", None),
        ("1980-01-01T00:00:00+00:00", 1),
    ]
    entries = [
        SimpleNamespace(
            number=number, run="crowned" if number == 2 else "old", dataset="shop_live", since=since, restores=to
        )
        for number, (since, to) in enumerate(crowns, 1)
    ]
    monkeypatch.setattr(champion, "history", lambda _: entries[::-1])
    found = learned_models(shop.root, "shop_live", "1970-01-01T00:33:20+00:00")  # 2,000 seconds
    assert found == ("champion 2 (runs/crowned)", "runs/after")


def test_of_several_processes_one_adds_its_entry_and_the_others_change_nothing(shop: Shop) -> None:
    found = shop.live.record
    entry = found.entries[-1]

    def add(number: int) -> bool:
        try:
            ledger.append(shop.root, "shop_live", found, replace(entry, time=str(number)))
        except TryAgainError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(add, range(8)))
    assert sum(won) == 1
    now = shop.live.record
    assert [each.time for each in now.entries[3:]] == [str(won.index(True))] and now.entries[:3] == found.entries


def test_the_rows_of_the_slower_process_wait_for_the_next_retraining(
    shop: Shop, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.arrive("c.csv", reviews(10, "slang", seed=3))
    append, before = ledger.append, file.read_bytes()

    def late(root: Path, name: str, found: Any, entry: Any) -> Any:
        append(root, name, found, replace(entry, batches=[]))  # another process is faster
        return append(root, name, found, entry)

    with monkeypatch.context() as patch, pytest.raises(TryAgainError, match="another process has changed the rows"):
        patch.setattr(ledger, "append", late)
        shop.take()
    assert file.read_bytes() == before and [path.name for path in file.parent.glob(".shop_live*")] == []
    assert (shop.incoming / "c.csv").exists()


@pytest.mark.parametrize("fault", [Terminated(), OSError(errno.ENOSPC, "No space left on device")])
def test_a_command_that_ends_after_its_entry_is_finished_by_the_next_one(
    shop: Shop, fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM and a full disk, unlike SIGKILL, let the process remove its temporary files."""
    shop.arrive("c.csv", reviews(10, "slang", seed=3))
    append = ledger.append

    def stopped(*arguments: Any) -> Any:
        append(*arguments)
        raise fault

    for command in (shop.take, lambda: withdraw(shop.live, "a.csv")):
        with monkeypatch.context() as patch, pytest.raises(type(fault)):
            patch.setattr(ledger, "append", stopped)
            command()
        assert shop.take().rows == 0
    assert shop.rows["batch"].value_counts().sort("batch").rows() == [(0, BASE), (2, 40), (3, 10)]
    assert not [path for path in (shop.root / ".epigram").iterdir() if path.name.endswith(".parquet")]


def test_a_withdrawal_that_ended_early_deletes_its_files_when_it_is_repeated(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = {name for batch in shop.live.record.batches for name in batch.kept if batch.name == "a.csv"}
    append = ledger.append

    def stopped(*arguments: Any) -> Any:
        append(*arguments)
        raise Terminated

    with monkeypatch.context() as patch, pytest.raises(Terminated):
        patch.setattr(ledger, "append", stopped)
        withdraw(shop.live, "a.csv")
    assert stored <= set(cache(shop))
    with pytest.raises(ParameterError, match="no accepted file has this name"):
        withdraw(shop.live, "a.csv")
    assert stored.isdisjoint(cache(shop)) and shop.rows.height == 80


def test_two_worktrees_share_the_ledger_and_all_rows(shop: Shop, file: Path) -> None:
    shop.git("add", "params.yaml", "data/sources")
    shop.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "shop")
    other = Shop(shop.root.parent / "other")
    shop.git("worktree", "add", "--quiet", "--detach", str(other.root))
    for name in (".dvc", "data/local"):
        (other.root / name).mkdir()
    shutil.copy(file.with_name("shop.csv"), other.root / "data" / "local")
    with pytest.raises(InputMissingError, match=REBUILD):
        other.take()
    other.live.rebuild()
    assert other.rows.equals(shop.rows)
    other.arrive("c.csv", reviews(10, "slang", seed=3))
    assert other.take().rows == 10
    grown = other.rows
    with pytest.raises(DataError, match=REBUILD):
        shop.take()
    shop.git("worktree", "remove", "--force", str(other.root))
    shop.live.rebuild()
    assert shop.rows.equals(grown)


def test_rows_of_the_database_are_stored_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from epigram.runner.retraining import ingest

    def query(root: Path, settings: Any, target: Path) -> list[Path]:
        reviews(rows, "slang", seed=5).write_parquet(target)
        return [target]

    monkeypatch.setattr(ingest, "query_database", query)
    rows = 10
    assert shop.take().rows == 10
    stored = cache(shop)
    assert shop.take().known == 10 and cache(shop) == stored
    rows = 14
    assert (shop.take().rows, len(cache(shop))) == (4, len(stored) + 1)
    whole = shop.rows
    shop.live.rebuild()
    assert shop.rows.equals(whole)
    result = withdraw(shop.live, "database-3.parquet")
    assert result.rows == 10 and "the database; delete the rows there" in result.copies[0]


@pytest.mark.parametrize("text", ["[]", "{", '[{"kind": "start"}]', '[{"kind": "start", "after": "../x", "time": ""}]'])
def test_a_ledger_that_is_no_ledger_is_said(shop: Shop, text: str) -> None:
    blob = shop.git("hash-object", "-w", "--stdin", text=text)
    tree = shop.git("mktree", text=f"100644 blob {blob}\tledger.json\n")
    commit = shop.git("-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", tree, "-m", "x")
    shop.git("update-ref", ledger.ref("shop_live"), commit)
    with pytest.raises(EpigramError, match=r"^ledger\.json at refs/epigram/inbox/shop_live"):
        shop.take()


def test_the_command_and_the_flow_rebuild_and_withdraw(
    shop: Shop, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows.retrain import retrain as flow

    monkeypatch.chdir(shop.root)
    monkeypatch.setattr(retrain, "find_flow", lambda *_: None)
    whole = shop.rows
    file.unlink()
    retrain.main(rebuild=True)
    assert shop.rows.equals(whole)
    retrain.main(forget="a.csv")
    out = capsys.readouterr().out
    assert out.startswith(
        "restored shop_live: 40 rows of shop and 60 that arrived since\nwithdrew 20 rows of a.csv from"
    )
    assert "\nno model learned from them\nstill has them: " in out
    file.unlink()
    assert flow.fn(shop.root, rebuild=True).message == "restored shop_live: 40 rows of shop and 40 that arrived since"
    state: Any = flow.fn(shop.root, forget="b.csv")
    assert state.data.rows == 40
    for given in ({"rebuild": True, "forget": "a.csv"}, {"rollback": True, "rebuild": True}):
        with pytest.raises(ParameterError, match="cannot be combined; use one of them"):
            retrain.main(**given)
