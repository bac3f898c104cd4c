"""Retraining: new rows are added, a better model is promoted, a worse one is rejected with a reason."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from epigram.core.errors import DataError, InputMissingError, ParameterError, TryAgainError
from epigram.core.files import write_text
from epigram.runner.champions import champion
from epigram.runner.dvc import graph
from epigram.runner.retraining import drift, live_data
from epigram.runner.workspace.settings import DriftSettings, load
from tests.support.bad_input import epigram
from tests.support.prefect_home import add_database
from tests.support.shop import PARAMS, SOURCE, reviews
from tests.support.shop_repository import Shop, copied
from tests.support.toy import command_env

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="session")
def crowned(bare: Path, prefect_server: None) -> Path:
    """Return a repository after the first retraining, which had no new rows."""
    shop = copied(bare, bare.parent / "crowned")
    result = shop.retrain()
    assert result.promoted and result.reason == "first champion" and result.champion.number == 1
    return shop.root


@pytest.fixture
def fresh(bare: Path, tmp_path: Path) -> Shop:
    return copied(bare, tmp_path / "repo")


@pytest.fixture
def shop(crowned: Path, tmp_path: Path) -> Shop:
    return copied(crowned, tmp_path / "repo")


def empty(shop: Shop) -> Path:
    """Put a file without rows into the inbox."""
    shop.incoming.mkdir(exist_ok=True)
    file = shop.incoming / "empty.csv"
    file.write_text("review,stars\n")
    return file


def test_a_better_model_is_promoted_and_can_be_taken_back(shop: Shop) -> None:
    """A file is skipped: the state is Failed after all work, so that a notice is sent."""
    from flows.retrain import retrain

    skipped = empty(shop)
    shop.arrive("monday.csv", reviews(300, "slang", seed=1))
    before = shop.git("status", "--porcelain"), shop.git("rev-parse", "HEAD"), shop.git("branch", "--show-current")
    state: Any = retrain(shop.root, return_state=True)
    result = state.result(raise_on_failure=False)
    assert result.promoted and result.reason.startswith("better: tfidf_svm"), result.reason
    assert (result.ingestion.rows, result.ingestion.files) == (300, ("monday.csv",))
    assert champion.current(shop.root) == result.champion and result.champion.number == 2
    assert state.is_failed() and state.message.startswith("promoted: better: tfidf_svm")
    assert state.message.endswith(f"\nskipped: {skipped} has no rows; add rows or remove the file")
    skipped.unlink()
    assert (shop.git("status", "--porcelain"), shop.git("rev-parse", "HEAD"), shop.git("branch", "--show-current")) == (
        before
    )
    assert (shop.root / "runs" / "champion" / "model" / "model.safetensors").exists()
    assert (shop.root / "runs" / "champion").readlink() == Path(result.run)
    told = json.loads(shop.git("show", "champion:champion.json"))
    assert told["number"] == 2 and told["hashes"]["data"] and told["dataset"] == "shop_live"
    assert "shop_live" in shop.git("show", "champion@v2.0.0:params.yaml") and shop.git(
        "show", "champion@v2.0.0:dvc.lock"
    )
    assert shop.git("show", "champion@v2.0.0:data/sources/shop_live.yaml")

    shutil.rmtree(shop.root / "runs" / champion.history(shop.root)[1].run)
    back = champion.rollback(shop.root)
    assert (back.number, back.restores) == (3, 1)
    manifest = shop.root / "runs" / "champion" / "model" / "manifest.json"
    assert champion.model_hash(manifest.parent) == back.hashes.model != result.champion.hashes.model
    fetched = shop.root / "fetched"
    shop.shell("dvc", "artifacts", "get", ".", "champion", "-o", str(fetched))
    assert champion.model_hash(fetched) == back.hashes.model
    rows, older = shop.rows, shop.root / "data" / "local" / "shop_live.parquet"
    shop.shell("dvc", "get", ".", "data/raw/shop_live.parquet", "--rev", "champion", "--force", "-o", str(older))
    assert shop.rows.height == 160
    with pytest.raises(DataError, match=r"is older than the last retraining, .* epigram retrain --rebuild$"):
        shop.retrain()
    shop.live.rebuild()
    assert shop.rows.equals(rows)
    assert shop.retrain().reason.startswith("the model is the same as champion 2, which was rolled back")
    with pytest.raises(InputMissingError, match="cannot roll back"):
        champion.rollback(shop.root)


def test_a_model_that_learnt_from_noise_is_refused(shop: Shop) -> None:
    noise = reviews(200, "plain", seed=2)
    shop.arrive("noise.csv", noise.with_columns(stars=noise["stars"].shuffle(seed=3)))
    result = shop.retrain()
    assert not result.promoted and result.champion.number == 1
    assert result.reason.startswith(("worse: ", "not significantly better: ")), result.reason
    assert shop.git("tag", "--list", "champion@*") == "champion@v1.0.0"


def test_without_anything_new_the_champion_stays(shop: Shop) -> None:
    result = shop.retrain()
    assert (result.promoted, result.reason) == (False, "the model is the same as the champion")
    shop.arrive("later.csv", reviews(4, "slang", seed=1))  # rows can arrive during a run
    (shop.root / "data" / "local" / "database").mkdir()
    (shop.root / "data" / "local" / "database" / "x.db").touch()
    place = next(path for path in (shop.root / ".epigram" / "workspaces").iterdir() if path.is_dir())
    assert graph.read(place).current == {"everything"}


def test_a_second_retraining_at_the_same_time_is_told_to_wait(fresh: Shop) -> None:
    with champion.lock(fresh.root), pytest.raises(TryAgainError, match=r"in use by another run \(process \d+\)"):
        fresh.retrain()


def test_another_data_set_has_no_place_beside_the_champion(shop: Shop) -> None:
    from flows.retrain import retrain

    with pytest.raises(ParameterError, match="trained on shop_live"):
        retrain(shop.root, "other", return_state=True).result()


def test_new_rows_go_to_train_and_a_share_of_each_class_to_dev(fresh: Shop) -> None:
    first = fresh.take()
    assert (first.rows, fresh.rows.height) == (0, 160)
    base = fresh.rows
    for number in range(10):  # for any batch size
        fresh.arrive(f"{number}.csv", reviews(6, "slang", seed=100 + number))
        fresh.take()
    added = fresh.rows[160:]
    assert fresh.rows[:160].equals(base)
    assert added["split"].to_list().count("dev") == 6 and "test" not in added["split"]
    assert added.filter(pl.col("split") == "dev")["label"].value_counts()["count"].to_list() == [3, 3]
    assert added["batch"].unique().sort().to_list() == list(range(1, 11))


def test_a_text_that_is_there_is_not_taken_again(fresh: Shop) -> None:
    rows = reviews(20, "slang", seed=1)
    fresh.arrive("a.csv", rows)
    assert fresh.take().rows == 20
    again = rows.with_columns(pl.col("review").str.to_uppercase() + " !")
    fresh.arrive("b.csv", pl.concat([again, reviews(2, "slang", seed=9)]))
    arrival = fresh.take()
    assert (arrival.rows, arrival.known) == (2, 20)
    assert fresh.rows.height == 182


def test_files_in_other_formats_are_read_by_the_columns_of_the_data_set(fresh: Shop) -> None:
    fresh.incoming.mkdir()
    reviews(4, "slang", seed=1).write_csv(fresh.incoming / "a.tsv", separator="\t")
    reviews(4, "slang", seed=2).write_ndjson(fresh.incoming / "b.jsonl")
    reviews(4, "slang", seed=3).write_parquet(fresh.incoming / "c.parquet")
    arrival = fresh.take()
    assert arrival.rows == 12 and arrival.files == ("a.tsv", "b.jsonl", "c.parquet")
    assert sorted(path.name for path in (fresh.incoming / "taken").iterdir()) == list(arrival.files)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bad.csv", "review,stars\nfine,wonderful\n", "unknown label"),
        ("bad.csv", "review,stars\n,good\n", "empty text"),
        ("bad.csv", "text,stars\nfine,good\n", "has no column 'review'"),
        ("bad.jsonl", "{broken\n", "is not a JSON object"),
        ("bad.docx", "what", "has an unsupported file type"),
        ("bad.xlsx", "what", "is not an Excel workbook"),
    ],
)
def test_a_bad_file_is_named_and_nothing_changes(fresh: Shop, name: str, text: str, said: str) -> None:
    fresh.take()
    before = fresh.rows
    fresh.arrive("good.csv", reviews(6, "slang", seed=1))
    (fresh.incoming / name).write_text(text)
    with pytest.raises(DataError, match=said) as fault:
        fresh.take()
    assert name in str(fault.value)
    assert fresh.rows.equals(before)
    assert {path.name for path in fresh.incoming.iterdir()} == {name, "good.csv"}


@pytest.mark.parametrize("broken", ["atomic_file", "write_text"])
def test_a_crash_in_the_middle_neither_loses_nor_doubles_a_row(
    fresh: Shop, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh.arrive("a.csv", reviews(8, "slang", seed=1))
    fresh.arrive("b.csv", reviews(8, "slang", seed=2))
    with monkeypatch.context() as patch:
        patch.setattr(live_data, broken, killed)
        with pytest.raises(KeyboardInterrupt):
            fresh.take()
    fresh.take()
    assert fresh.rows.height == 160 + 16 == fresh.rows["text"].n_unique()
    assert sorted(path.name for path in fresh.incoming.iterdir()) == ["taken"]


def killed(*_: Any) -> Any:
    raise KeyboardInterrupt


def insert(shop: Shop, rows: pl.DataFrame) -> None:
    """Insert rows into the database that params.yaml then names."""
    pytest.importorskip("adbc_driver_sqlite", reason="requires the extra sql")
    import sqlite3

    file = shop.root / "data" / "local" / "database" / "x.db"
    file.parent.mkdir(exist_ok=True)
    with sqlite3.connect(file) as base:
        base.execute("create table if not exists said (review text, stars text)")
        base.executemany("insert into said values (?, ?)", rows.rows())
    query = "{url: 'sqlite:///" + str(file) + "', query: 'select review, stars from said'}"
    write_text(shop.root / "params.yaml", PARAMS.replace("{margin", "{database: " + query + ", margin"))


def test_rows_come_from_a_database(fresh: Shop) -> None:
    insert(fresh, reviews(10, "slang", seed=1))
    assert fresh.take().rows == 10
    assert fresh.take().known == 10


def test_rows_of_the_database_that_were_added_are_no_new_texts(fresh: Shop) -> None:
    added, new = reviews(10, "slang", seed=1), reviews(4, "slang", seed=2)
    insert(fresh, added)
    fresh.take()
    insert(fresh, new)
    fresh.arrive("a.csv", added.head(1))  # the text of a file counts, because a retraining moves the file
    found = drift.new_texts(fresh.root, "shop_live", load(fresh.root / "params.yaml"), None)
    assert found.texts == [*added["review"][:1], *new["review"]]
    assert found.labels == [["bad"], ["bad"], ["good"], ["bad"], ["good"]]


def test_texts_like_those_known_are_no_drift(shop: Shop) -> None:
    shop.arrive("same.csv", reviews(150, "plain", seed=50))
    found = shop.drift()
    assert (found.texts, found.labelled, found.drifted) == (150, 150, []), found
    assert found.outcome == "" and (shop.incoming / "same.csv").exists()
    assert len(list((shop.root / "runs" / "drift").glob("*.json"))) == 1


def test_drift_of_labelled_texts_starts_a_retraining(shop: Shop) -> None:
    """The retraining skips a file, so that the state of the check is Failed."""
    from flows.drift import drift_check

    file = empty(shop)
    shop.arrive("slang.csv", reviews(300, "slang", seed=1))
    state: Any = drift_check(shop.root, return_state=True)
    found = state.result(raise_on_failure=False)
    assert "unknown" in found.drifted and found.outcome.startswith("promoted: better"), found
    assert champion.current(shop.root).number == 2  # type: ignore[union-attr]
    assert state.is_failed()
    assert state.message == f"{found}\nskipped: {file} has no rows; add rows or remove the file"


def test_drift_of_texts_without_labels_says_what_is_missing(shop: Shop) -> None:
    shop.incoming.mkdir()
    texts = ["房间小了点，但是前台的姐姐真的太好了", "送餐慢，汤都凉了", "电影不错，还想再看一遍"] * 40
    (shop.incoming / "new.txt").write_text("\n".join(texts))
    found = shop.drift()
    assert {"unknown", "likeness", "length"} <= set(found.drifted) and "put labelled ones into" in found.outcome


def test_drift_of_a_few_texts_is_chance(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "few.txt"
    file.write_text("\n".join(reviews(12, "plain", seed=7)["review"]))
    found = shop.drift(file)
    assert (found.texts, found.drifted) == (12, [])


def test_labels_that_the_champion_does_not_know_leave_a_file_that_any_reader_of_json_takes(
    shop: Shop, tmp_path: Path
) -> None:
    file = tmp_path / "neutral.csv"
    reviews(12, "plain", seed=7).with_columns(stars=pl.lit("neutral")).write_csv(file)
    found = shop.drift(file)
    assert found.measures[-1].name == "label" and not found.measures[-1].drifted
    assert "| label | 0.000 | any |" in drift.markdown_table(found)
    (written,) = (shop.root / "runs" / "drift").glob("*.json")
    kept = json.loads(written.read_text(), parse_constant=pytest.fail)
    assert kept["measures"][-1]["chance"] is None and kept["measures"][0]["chance"] == found.measures[0].chance


def test_of_texts_with_several_labels_the_newest_are_measured_with_all_of_theirs(shop: Shop, tmp_path: Path) -> None:
    said = SOURCE.replace("task: single", "task: multi").replace(
        "reader: csv, text: review, label: stars", "reader: jsonl"
    )
    write_text(shop.root / "data" / "sources" / "many.yaml", said.replace("name: shop", "name: many"))
    rows = [("first", ["bad"]), ("second", ["bad", "good"]), ("third", []), ("fourth", ["good", "bad"])]
    file = tmp_path / "many.jsonl"
    file.write_text("".join(json.dumps({"text": text, "label": labels}) + "\n" for text, labels in rows))
    settings = replace(load(shop.root / "params.yaml"), drift=DriftSettings(window=3))
    new = drift.new_texts(shop.root, "many", settings, file)
    assert new.texts == ["second", "third", "fourth"]
    assert new.labels == [["bad", "good"], ["good", "bad"]]


def test_without_a_champion_there_is_nothing_to_measure_against(fresh: Shop) -> None:
    assert fresh.drift() is None


def test_the_command_shows_the_champion(shop: Shop) -> None:
    shown = epigram(shop.root, "retrain", "--show")
    assert shown.code == 0, shown.err
    assert shown.out.startswith("champion 1: tfidf_svm on shop_live, accuracy")
    refused = epigram(shop.root, "retrain", "--rollback")
    assert (refused.code, refused.err) == (66, "error: cannot roll back: champion 1 is the first\n")


def test_the_command_prints_the_result_before_the_files_that_it_skipped(shop: Shop) -> None:
    file = empty(shop)
    shop.arrive("monday.csv", reviews(4, "slang", seed=1))
    done = subprocess.run(
        ["python", "-m", "epigram.cli", "retrain"],
        cwd=shop.root,
        env=command_env() | {"PREFECT_HOME": str(add_database(shop.root.parent / "prefect"))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 65
    assert done.stderr.endswith(f"error: {file} has no rows; add rows or remove the file\n"), done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["added", "refused:", "champion", "model:"]
