"""Small valid files of model parts: tokenizers, vectors, encoded views, part-of-speech tables, saved models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.mutations import blind, in_json
from tests.support.seeds import Format, in_array, in_header, in_npz

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "好", "差", "店", "a", "##b"]


def of_tokenizers(folder: Path) -> list[Format]:
    from epigram.text.tokens.encoding import TextEncoder
    from epigram.text.tokens.pretrained_tokenizers import read_checkpoint
    from epigram.text.tokens.tokenizers import character_tokenizer, load, word_tokenizer, wordpiece_tokenizer

    def encode(at: Path) -> None:
        encoder = TextEncoder(load(at / "tokenizer.json"))
        texts = ["这店好ab", "", "[MASK] 差"]
        fast, slow = encoder.encode(texts, 8).ids, encoder.encode_with_positions(texts, 8).ids
        assert (fast.values.tolist(), fast.offsets.tolist()) == (slow.values.tolist(), slow.offsets.tolist())

    formats = []
    for make in (character_tokenizer, word_tokenizer, wordpiece_tokenizer):
        here = folder / make.__name__
        here.mkdir()
        make(WORDS).save(str(here / "tokenizer.json"))
        formats.append(Format(f"tokenizer.json {make.__name__}", here, "tokenizer.json", encode, (blind, in_json)))
    here = folder / "checkpoint"
    here.mkdir()
    (here / "vocab.txt").write_text("\n".join(WORDS))
    (here / "tokenizer_config.json").write_text('{"do_lower_case": false, "model_max_length": 512}')
    (here / "config.json").write_text('{"max_position_embeddings": 512, "model_type": "bert"}')

    def checkpoint(at: Path) -> None:
        assert read_checkpoint(str(at)).tokenizer.encode("好").ids

    mutations = {"vocab.txt": (blind,), "tokenizer_config.json": (blind, in_json), "config.json": (blind, in_json)}
    return formats + [Format(f"checkpoint {name}", here, name, checkpoint, how) for name, how in mutations.items()]


def of_vectors(folder: Path) -> list[Format]:
    from epigram.text.vectors.vectors import coverage, read_vectors

    here = folder / "vectors"
    here.mkdir()
    table = np.linspace(-1, 1, 3 * len(WORDS), dtype=np.float32).reshape(-1, 3)
    lines = [" ".join([word, *map(str, row)]) for word, row in zip(WORDS, table.tolist(), strict=True)]
    (here / "x.vec").write_text("\n".join([f"{len(WORDS)} 3", *lines]))
    (here / "x.txt").write_text("\n".join(lines))
    np.savez(here / "x.npz", vectors=table, words=np.array(WORDS))
    (here / "beside").mkdir()
    np.savez(here / "beside" / "x.npz", table)
    (here / "beside" / "x.json").write_text(json.dumps(WORDS))

    def read(name: str) -> Any:
        def vectors(at: Path) -> None:
            assert coverage(read_vectors(at / name, WORDS), np.arange(len(WORDS)))["width"] >= 1

        return vectors

    kinds = {"x.vec": (blind,), "x.txt": (blind,), "x.npz": (blind, in_npz)}
    beside = Format("words beside vectors", here / "beside", "x.json", read("x.npz"), (blind, in_json))
    return [
        *(Format(name.replace("x.", "vectors ."), here, name, read(name), how) for name, how in kinds.items()),
        beside,
    ]


def table_and_view(folder: Path) -> tuple[Path, Path]:
    """Write a part-of-speech table, and a view with characters and token labels that was encoded with it."""
    from epigram.text.pos.pos_table import PosTable, build, save
    from epigram.text.settings import PosTableSettings, ViewSettings
    from tests.support.text_samples import encoded_in

    pos, here = folder / "pos", folder / "encoded"
    pos.mkdir()
    table = build(PosTableSettings())
    save(PosTable(table.frame.head(50), table.settings), pos, {})
    rows = [("好 店", "pos", ["好", "店"], ["O", "X"]), ("差 店", "neg", ["差", "店"], ["O", "O"])]
    splits = dict.fromkeys(("train", "dev", "test"), rows)
    encoded_in(here, pos, splits, "en", ViewSettings(characters=True, prompt=True), token_labels=("O", "X"))
    return pos, here


def of_stages(folder: Path) -> list[Format]:
    from epigram.inference.predictors.dataset_batches import batches_of, data_spec_of, template_of
    from epigram.text.dataset.encoded_dataset import View
    from epigram.text.dataset.validated_corpus import SPLITS, ValidatedCorpus
    from epigram.text.pos import pos_table
    from epigram.text.prompts.prompts import read_prompt

    pos, encoded = table_and_view(folder)

    def view(at: Path) -> None:
        read = View.load(at)
        data_spec_of(read, 30)
        frame = template_of(read, 30)
        for split in SPLITS:
            batches_of(read, split, frame).gather(np.arange(2))

    def table(at: Path) -> None:
        weights = pos_table.weights_for(WORDS, pos_table.load(at), "zh")
        assert ((weights >= 0) & (weights <= 1)).all()

    def corpus(at: Path) -> None:
        read = ValidatedCorpus.read(at)
        for split in SPLITS:
            for batch in read.batches(split, "row", "text", "label", "tokens", "token_labels"):
                read.label_ids(batch["label"], read.labels)
        assert len(read.sample("train", 1, 10)) <= 1

    arrays = ["ids", "offsets", "labels", "rows", "token_labels", "words", "spelling", "characters"]
    return [
        Format("pos about.json", pos, "about.json", table, (blind, in_json)),
        Format("pos table.parquet", pos, "table.parquet", table),
        Format("corpus.json", encoded / "validated", "corpus.json", corpus, (blind, in_json)),
        Format("validated parquet", encoded / "validated", "train.parquet", corpus),
        Format("prompt.json", encoded / "augmented", "prompt.json", read_prompt, (in_json, blind)),
        Format("view.json", encoded / "out", "view.json", view, (blind, in_json)),
        *(Format(f"view {name}.npy", encoded / "out", f"train.{name}.npy", view, (in_array, blind)) for name in arrays),
        Format("view pos_weight.npy", encoded / "out", "pos_weight.npy", view, (in_array, blind)),
    ]


def saved_model(folder: Path, history: list[dict[str, Any]] | None = None) -> None:
    """Save a model with three kinds of weights and word labels as training does."""
    import torch

    from epigram.models.recipe import Recipe
    from epigram.models.serialization import save
    from epigram.models.text_template import TextTemplate
    from epigram.nn.layers.types import DataSpec
    from epigram.text.tokens.tokenizers import character_tokenizer

    tokenizer = folder.parent / "model-tokenizer.json"
    character_tokenizer(WORDS).save(str(tokenizer))
    recipe = Recipe(
        name="cnn",
        about="",
        paper="",
        view="",
        encoder={"kind": "convolution", "filters": 4, "embedding": 4, "sizes": [2]},
    )
    frame = TextTemplate(
        language="zh", max_length=12, prefix_ids=[], suffix_ids=[], pad_id=0, unk_id=1, mask_id=4, vocabulary=len(WORDS)
    )
    context = DataSpec(vocabulary=len(WORDS), classes=2, max_length=12, pos_weight=torch.ones(len(WORDS)))
    model = recipe.build(context)
    save(
        folder, model, recipe=recipe, frame=frame, labels=["bad", "good"], tokenizer=tokenizer, facts={"seed": 0},
        history=history,
    )  # fmt: skip


def sealed(folder: Path) -> None:
    """Write the checksums of the current files, as an attacker who prepares a folder would."""
    from epigram.core.files import sha256

    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"] = {name: sha256(folder / name) for name in manifest["sha256"]}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def change_ngrams(folder: Path, *, more: bool) -> None:
    """Give an exported linear model one pair of tokens more in its list of n-grams, or one less, with its checksum."""
    stored = json.loads((folder / "ngrams.json").read_text())
    pairs = stored["ngrams"]["2"]
    absent = next([0, b] for b in range(stored["vocabulary"]) if [0, b] not in pairs)
    stored["ngrams"]["2"] = sorted([*pairs, absent]) if more else pairs[:-1]
    (folder / "ngrams.json").write_text(json.dumps(stored))
    sealed(folder)


def answer(folder: Path) -> None:
    """Let the model of `folder` predict."""
    from epigram.inference.predictors.predictor import Predictor

    full, empty, long = Predictor(folder).predict(["这店好", "", "差" * 40])
    assert full.label in full.probabilities and long.label in long.probabilities and not empty.labels


def of_models(folder: Path) -> list[Format]:
    here = folder / "model"
    saved_model(here)
    kinds = {
        "config.json": (in_json, blind),
        "labels.json": (in_json, blind),
        "tokenizer.json": (in_json, blind),
        "model.safetensors": (in_header, blind),
    }
    return [
        *(Format(f"model {name}", here, name, answer, how, sealed) for name, how in kinds.items()),
        *(Format(f"model {name}, old checksum", here, name, answer, how) for name, how in kinds.items()),
        Format("model manifest.json", here, "manifest.json", answer, (in_json, blind)),
    ]


def of_graphs(folder: Path) -> list[Format]:
    """Return the formats of an ONNX graph; exports differ in bytes, so a case number does not reproduce a case."""
    from epigram.inference.onnx.export import export

    here = folder / "graph"
    saved_model(folder / "graphed")
    export(folder / "graphed", here)
    return [
        Format("model.onnx", here, "model.onnx", answer, (blind,), sealed),
        Format("model.onnx, old checksum", here, "model.onnx", answer),
    ]
