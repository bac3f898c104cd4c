"""Encoding of a view: the texts become flat arrays of token ids."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from epigram.core.files import atomic_folder
from epigram.data.sources.hub_models import download_checkpoint
from epigram.process.display import echo
from epigram.text.dataset.encoded_dataset import fold_folder
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.local_files import local_file
from epigram.text.pos.pos_table import load, words_of
from epigram.text.prompts.prompts import read_prompt
from epigram.text.settings import EncodeSettings, ViewSettings
from epigram.text.student_texts import StudentTexts, WithTexts, read_texts
from epigram.text.tokens.pretrained_tokenizers import read_checkpoint
from epigram.text.tokens.vocabulary import build_view_tokenizer
from epigram.text.unlabelled import write_keys
from epigram.text.vectors.vectors import read_vectors, vectors_file
from epigram.text.write_dataset import ViewSummary, entries_of, write_view


def encode_view(
    name: str,
    view: ViewSettings,
    settings: EncodeSettings,
    validated: Path,
    augmented: Path,
    pos: Path,
    out: Path,
) -> None:
    """Encode the corpus, and each fold with its own vocabulary, for one view and write `out` atomically."""
    if view.checkpoint is not None:
        download_checkpoint(view.checkpoint)
    file = None if view.vectors is None else vectors_file(view.vectors, name)
    table, prompt = load(pos), read_prompt(augmented) if view.prompt else None
    checkpoint = None if view.checkpoint is None else read_checkpoint(view.checkpoint)  # all folds share it
    corpus, shared = ValidatedCorpus.read(validated), None
    words = words_of(table, corpus.language, pieces=view.checkpoint is not None or view.tokenizer == "wordpiece")
    if checkpoint is not None:  # the folds have the same vocabulary, which may be large
        whole = build_view_tokenizer(view, settings, corpus, prompt, checkpoint)
        shared = entries_of(whole, table, corpus.language, words)
    texts = None if view.texts is None else read_texts(local_file(view.texts, f"views.{name}.texts"), corpus)

    def write(part: ValidatedCorpus, folder: Path, texts: StudentTexts | None = None) -> ViewSummary:
        counted = part if texts is None else WithTexts.of(part, texts)
        tokenizer = build_view_tokenizer(view, settings, counted, prompt, checkpoint)
        entries = shared or entries_of(tokenizer, table, part.language, words)
        vectors = None if file is None else read_vectors(file, entries.vocabulary)
        if view.pretrain is not None and view.pretrain.texts is not None:
            write_keys(folder, chain(part.texts("dev"), corpus.texts("test")))
        return write_view(folder, name, view, part, tokenizer, entries, vectors, texts)

    with atomic_folder(out) as folder:
        summary = write(corpus, folder, texts)
        for number in range(corpus.folds):
            fold_folder(folder, number).mkdir(parents=True)
            write(corpus.fold(number), fold_folder(folder, number))
    _print_summary(name, summary, texts)


def _print_summary(name: str, summary: ViewSummary, texts: StudentTexts | None) -> None:
    for split, counts in summary.counts.items():
        unknown = f"{100 * counts.unknown_share:.2f}% unknown"
        echo(f"{name} {split}: {counts.tokens:,} tokens, {unknown}, {counts.truncated:,} texts truncated")
    if texts is not None:
        left_out = f"{texts.held_out:,} of dev or test and {texts.known:,} of train are left out"
        echo(f"{name}: {texts.frame.height:,} texts without labels in {texts.file}; {left_out}")
    if (found := summary.vectors) is not None:
        entries = f"{found['found']:,} of {found['of']:,} entries"
        tokens = f"{found['tokens']:.2%} of the training tokens"
        echo(f"{name}: {found['file']} has vectors for {entries}, {tokens}")
