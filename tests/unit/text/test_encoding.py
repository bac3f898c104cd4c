from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from epigram.core.errors import DataError, InputMissingError, ParameterError
from epigram.core.files import sha256
from epigram.text.dataset import validated_corpus as rows_module
from epigram.text.dataset.encoded_dataset import View
from epigram.text.settings import EncodeSettings, ViewSettings
from epigram.text.tokens.encoding import TextEncoder
from epigram.text.tokens.tokenizers import SPECIALS, load, vocabulary_of
from epigram.workflow.encode import encode_view
from tests.support.text_samples import EN, ZH


def texts_of(view: View, split: str) -> list[str]:
    part, vocabulary = view.split(split), vocabulary_of(load(view.tokenizer_json))
    return ["".join(vocabulary[i] for i in ids) for ids in part.ids]


def test_every_row_comes_back(encoded: Any) -> None:
    view = encoded(ZH)
    assert texts_of(view, "train") == [text for text, _ in ZH["train"]]
    train, dev, test = (view.split(name) for name in ("train", "dev", "test"))
    assert [len(part) for part in (train, dev, test)] == [3, 2, 2]
    assert train.labels.tolist() == [1, 0, 1]
    assert [part.rows.tolist() for part in (train, dev, test)] == [[0, 1, 2], [3, 4], [5, 6]]
    assert train.in_train is None
    assert test.in_train is not None
    assert not test.in_train.any()
    assert texts_of(view, "test") == ["[UNK]", "凉了"]
    assert view.unknown["train"] == 0
    assert view.unknown["test"] == pytest.approx(1 / 3)
    assert (view.pad_id, view.unk_id, view.cls_id, view.sep_id, view.mask_id) == (0, 1, 2, 3, 4)
    assert (view.prefix_ids, view.suffix_ids) == ([], [])


def test_weights_stand_beside_the_vocabulary(encoded: Any) -> None:
    view = encoded(ZH)
    weights = dict(zip(vocabulary_of(load(view.tokenizer_json)), view.pos_weight().tolist(), strict=True))
    assert {weights[name] for name in SPECIALS} == {1.0}
    assert (weights["了"], weights["吗"], weights["的"], weights["菜"], weights["，"]) == (0.5, 0.5, 0.5, 1.0, 0.5)


def test_a_leaked_row_is_marked(encoded: Any) -> None:
    leaky = {**ZH, "test": [ZH["train"][0], ("别的", "neg")]}
    in_train = encoded(leaky).split("test").in_train
    assert in_train.tolist() == [True, False]


def test_several_labels_a_row(encoded: Any) -> None:
    rows = {"train": [("好", ["pos"]), ("差", ["neg", "pos"])], "dev": [("好", [])], "test": [("差", ["neg"])]}
    view = encoded(rows, task="multi")
    assert view.split("train").labels.tolist() == [[0, 1], [1, 1]]
    assert view.split("dev").labels.tolist() == [[0, 0]]
    assert view.split("train").labels.dtype == np.uint8


@pytest.mark.parametrize("template", ["plain", "complex", "auto"])
@pytest.mark.parametrize("tokenizer", ["token", "wordpiece"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_prompted_view_has_two_masks_in_front(encoded: Any, language: str, tokenizer: str, template: str) -> None:
    settings = ViewSettings(tokenizer=tokenizer, prompt=True)  # type: ignore[arg-type]
    rows = {**(ZH if language == "zh" else EN)}
    rows["dev"] = [*rows["dev"], ("[MASK][MASK]好", "pos")]
    view = encoded(rows, language, settings, template, max_length=2)
    assert view.prefix_ids.count(view.mask_id) == 2
    hidden = {("zh", "auto"): 9, ("en", "auto"): 12}
    assert view.prefix_ids.count(view.unk_id) == hidden.get((language, template), 0), "only auto hides words"
    for split in ("train", "dev", "test"):
        assert view.mask_id not in view.split(split).ids.values
    framed = tokenizer == "wordpiece"
    assert (view.prefix_ids[0] == view.cls_id, view.suffix_ids) == (framed, [view.sep_id] if framed else [])


def test_long_texts_are_cut_and_counted(encoded: Any) -> None:
    rows = {**ZH, "dev": [("长" * 100_000, "neg"), ("短", "pos"), ("刚好三个"[:3], "pos")]}
    for view in (encoded(rows, max_length=3), encoded(rows, view=ViewSettings(tokenizer="wordpiece"), max_length=3)):
        assert view.split("dev").ids.lengths.tolist() == [3, 1, 3]
        assert view.truncated == {"train": 3, "dev": 1, "test": 0}


def test_a_text_without_tokens_becomes_one_unknown_token(encoded: Any) -> None:
    rows = {**EN, "dev": [("\u3000 \t", "neg"), ("good", "pos")]}
    view = encoded(rows, "en")
    first, second = view.split("dev").ids
    assert first.tolist() == [view.unk_id]
    assert len(second) == 1 and second[0] != view.unk_id


def test_an_empty_split_is_read_as_no_rows(encoded: Any) -> None:
    view = encoded({**ZH, "test": []})
    assert len(view.split("test")) == len(view.split("test").ids) == 0


def test_batches_leave_no_trace_and_a_second_run_gives_the_same_bytes(
    encoded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for view in (ViewSettings(), ViewSettings(tokenizer="wordpiece", prompt=True)):
        whole = encoded(ZH, view=view, max_length=2)  # texts are truncated
        assert whole.truncated["train"] > 1
        digests = {path.name: sha256(path) for path in whole.folder.iterdir()}
        fingerprint = whole.fingerprint
        with monkeypatch.context() as patch:
            patch.setattr(rows_module.ValidatedCorpus.batches, "__kwdefaults__", {"size": 1})
            again = encoded(ZH, view=view, max_length=2)
        assert {path.name: sha256(path) for path in again.folder.iterdir()} == digests
        assert again.fingerprint == fingerprint


def test_inference_encodes_as_the_stage_does(encoded: Any) -> None:
    for language, rows in (("zh", ZH), ("en", EN)):
        for tokenizer in ("token", "wordpiece"):
            view = encoded(rows, language, ViewSettings(tokenizer=tokenizer), max_length=4)  # type: ignore[arg-type]
            encoder, part = TextEncoder(load(view.tokenizer_json)), view.split("dev")
            ids = encoder.encode([text for text, _ in rows["dev"]], view.max_length).ids
            assert np.array_equal(ids.values, part.ids.values)
            assert np.array_equal(ids.offsets, part.ids.offsets)
            assert (ids.values.dtype, ids.offsets.dtype) == (np.int32, np.int64)


def test_no_texts_and_broken_texts(encoded: Any) -> None:
    view = encoded(ZH)
    ids = TextEncoder(load(view.tokenizer_json)).encode([], 5).ids
    assert (ids.values.tolist(), ids.offsets.tolist()) == ([], [0])
    english = encoded(EN, "en")
    for path in (view.tokenizer_json, english.tokenizer_json):
        with pytest.raises(DataError, match="not valid Unicode"):
            TextEncoder(load(path)).encode(["\ud800"], 5)


def test_a_checkpoint_keeps_its_tokenizer_and_its_length(encoded: Any, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join([*SPECIALS, "好", "吃"]), encoding="utf-8")
    (folder / "config.json").write_text('{"max_position_embeddings": 24}')
    view = encoded(ZH, view=ViewSettings(checkpoint=str(folder), prompt=True))
    assert (view.vocabulary, view.checkpoint, view.tokenizer) == (7, str(folder), "wordpiece")
    assert view.pos_words is not None and view.pos_words["pieces"] is True, "its tokens may be parts of words"
    assert view.max_length == 24 - len(view.prefix_ids) - len(view.suffix_ids)
    short = encoded(ZH, view=ViewSettings(checkpoint=str(folder)), max_length=3)
    assert short.max_length == 3
    assert short.split("train").ids.lengths.tolist() == [3, 3, 3]
    (folder / "config.json").write_text('{"max_position_embeddings": 12}')
    with pytest.raises(ParameterError, match="fills all 12 positions"):
        encoded(ZH, view=ViewSettings(checkpoint=str(folder), prompt=True))
    (folder / "vocab.txt").unlink()
    Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1}, unk_token="<unk>")).save(str(folder / "tokenizer.json"))
    with pytest.raises(ParameterError, match="has a mask"):
        encoded(ZH, view=ViewSettings(checkpoint=str(folder), prompt=True))


def test_other_weights_of_a_checkpoint_make_another_view(encoded: Any, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join([*SPECIALS, "好", "吃"]), encoding="utf-8")

    def fingerprint(file: str, content: str) -> str:
        (folder / file).write_text(content)
        return str(encoded(ZH, view=ViewSettings(checkpoint=str(folder))).fingerprint)

    first = fingerprint("model-00001-of-00002.safetensors", "weights")
    assert fingerprint("README.md", "about them") == first
    assert fingerprint("model-00001-of-00002.safetensors", "other weights") != first
    assert fingerprint("model-00001-of-00002.safetensors", "weights") == first
    assert fingerprint("config.json", '{"hidden_act": "relu"}') != first


def test_a_label_that_the_corpus_does_not_list_leaves_nothing_behind(encoded: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'maybe' is not in corpus"):
        encoded({**ZH, "dev": [("好", "maybe")]})
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_missing_inputs_are_named(encoded: Any, pos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputMissingError, match=r"view\.json"):
        View.load(tmp_path)
    view = encoded(ZH)
    (view.folder / "dev.ids.npy").unlink()
    with pytest.raises(InputMissingError, match=r"dev\.ids\.npy"):
        view.split("dev")
    path = view.folder / "train.offsets.npy"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"train\.offsets\.npy"):
        view.split("train")
    np.save(view.folder / "test.rows.npy", np.zeros(9, np.int64))
    with pytest.raises(DataError, match="run dvc repro"):
        view.split("test")
    (view.folder / "view.json").write_text(json.dumps({"view": "v"}))
    with pytest.raises(DataError, match="not an encoded view"):
        View.load(view.folder)
    (tmp_path / "validated" / "dev.parquet").unlink()
    folders = (tmp_path / "validated", tmp_path / "augmented", pos, tmp_path / "other")
    with pytest.raises(InputMissingError, match=r"dev\.parquet"):
        encode_view("v", ViewSettings(), EncodeSettings(), *folders)
    assert not (tmp_path / "other").exists()


def test_reading_a_view_needs_only_numpy() -> None:
    script = "import sys, epigram.text.dataset.encoded_dataset; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"polars", "tokenizers", "jieba", "pydantic", "torch"} & set(done.stdout.split())
