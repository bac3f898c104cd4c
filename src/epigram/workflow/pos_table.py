"""Table of the parts of speech and the weight of every character and frequent word."""

from __future__ import annotations

from pathlib import Path

from epigram.core.files import atomic_folder
from epigram.process.display import echo
from epigram.text.dataset.validated_corpus import SPLITS, ValidatedCorpus
from epigram.text.pos.pos_table import add_entries, build, coverage, save
from epigram.text.pos.pos_versions import add_version, read_version
from epigram.text.pos.taggers import count_tags, tagger_for
from epigram.text.settings import NO_TAGGER, PosTableSettings

TEXTS, CHARACTERS = 20_000, 300_000  # maximum size of the sample of a split


def write_pos_table(settings: PosTableSettings, validated: Path, versions: Path, out: Path) -> None:
    """Build the table of both languages, add words of the corpus, and write `out` with its coverage, atomically.

    The table starts with the words of the latest version in `versions`. A tagger, if there is one, adds the new words
    of a sample of the training texts; tagging a large corpus would take hours.
    """
    corpus = ValidatedCorpus.read(validated)
    samples = {split: corpus.sample(split, TEXTS, CHARACTERS) for split in SPLITS}
    base = add_version(build(settings), read_version(versions))
    tagger = tagger_for(corpus.language, base)
    table = add_entries(base, count_tags(tagger.tag(samples["train"])), corpus.language)
    covered = {split: coverage(texts, table, corpus.language) for split, texts in samples.items()}
    seen = 0 if settings.tagger == NO_TAGGER else len(samples["train"])
    about = {
        "corpus": corpus.name,
        "language": corpus.language,
        "tagger": {"name": tagger.name, "texts": seen, "of": corpus.count("train")},
        "coverage": covered,
    }
    with atomic_folder(out) as folder:
        save(table, folder, about)
    name = next(name for name in ("dev", "test", "train") if covered[name]["texts"])  # folds may replace dev and test
    held_out = covered[name]
    echo(f"version {table.version}: {table.frame.height:,} rows;", end=" ")
    echo(f"{tagger.name} tagged {seen:,} training texts;" if seen else "no training text is tagged;", end=" ")
    shares = {key: f"{100 * held_out[key]:.1f}%" for key in ("covered", "notional")}
    echo(f"{shares['covered']} of the {name} tokens are covered, {shares['notional']} are notional")
