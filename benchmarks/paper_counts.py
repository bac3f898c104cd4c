"""Count what the papers print about their data sets: EPIGRAM_MIRROR=FOLDER python -m benchmarks.paper_counts.

The counts are written to benchmarks/results/papers/counts.json; `python -m benchmarks.papers` puts them on the pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from benchmarks.corpora import download
from benchmarks.timing import ROOT
from epigram.core.files import write_json
from epigram.data.corpus import read_corpus
from epigram.data.sources.source import Source, read_source

COUNTS = ROOT / "benchmarks/results/papers/counts.json"
SPLITS = ("train", "dev", "test")
LANGUAGES = {"zh": "Chinese", "en": "English"}
SPECIAL = 2  # entries of a vocabulary beside the words of the texts, for unknown words and padding
LINE_END = 3  # characters of a line `text TAB label` beside its text
# clean_str of Kim (2014), github.com/yoonkim/CNN_sentence: patterns and replacements, one after the other
CLEAN_STR = [
    (r"[^A-Za-z0-9(),!?'`]", " "),
    *((suffix, f" {suffix}") for suffix in ("'s", "'ve", "n't", "'re", "'d", "'ll")),
    (r"([,!()?])", " $1 "),
]
TRANSFORMER_F = {"THUCNews": "thucnews_116k", "CED": "ced", "MR": "mr"}
HEAD_TO_HEAD = {"ChnSentiCorp": "chnsenticorp", "COLD": "cold", "SST-2": "sst2"}
CATEGORIES = {  # labels of the sources in the order of the printed categories
    "Ama.4": ("dmsp_amazon", ["baby", "beauty", "home", "sports"]),
    "AGN.4": ("dmsp_agnews", ["World", "Sports", "Business", "Sci/Tech"]),
    "So.4": ("dmsp_sogou", ["tech", "world", "society", "finance"]),
    "20ngp.4": ("dmsp_newsgroups", ["atheism", "christian", "graphics", "med"]),
}


@dataclass
class Counts:
    """Counts of a printed table as (data set, method, quantity, value), and notes on how they are counted."""

    notes: list[str]
    counts: list[tuple[str, str, str, Any]] = field(default_factory=list)

    def add(self, dataset: str, values: dict[str, Any], method: str = "-") -> None:
        """Add the values of a data set by their quantity."""
        self.counts += [(dataset, method, quantity, value) for quantity, value in values.items()]


def corpus(folder: Path, name: str) -> tuple[Source, pl.DataFrame]:
    """Return a source of the repository and its rows; `folder` keeps its files."""
    if not (folder / name).exists():
        download(name, folder / name)
    source = read_source(folder / name / "source.json")
    return source, read_corpus(source, folder / name)


def transformer_f(folder: Path) -> Counts:
    """Count the data sets of Transformer-F's Table 1."""
    counts, others = Counts([]), []
    for dataset, name in TRANSFORMER_F.items():
        source, rows = corpus(folder, name)
        text = rows["text"]
        words = text.str.extract_all(r"\S+").explode()
        average, vocabulary = characters_of(text) + LINE_END, different_characters(text) + SPECIAL
        if source.language == "en":
            raw = b"".join((folder / name / file.path).read_bytes() for file in source.files)
            average, vocabulary = len(raw.decode("cp1252")) / rows.height, cleaned_words(raw) + SPECIAL
        others.append(
            f"{dataset}: {characters_of(text):.1f} characters and {words.len() / rows.height:.1f} words between spaces "
            f"a text; {different_characters(text):,} different characters and {words.n_unique():,} different words"
        )
        counts.add(
            dataset,
            {
                "language": LANGUAGES[source.language],
                "classes": rows["label"].n_unique(),
                "source": f"data/sources/{name}.yaml",
                "number_of_data": rows.height,
                "average_words": round(average, 1),
                "vocabulary": vocabulary,
            },
        )
    counts.notes = [
        "average_words: characters of a line of the file, with its line end. The lines of THUCNews, and of CED in the "
        "same form, are the text, a tab and one digit as the label. This is the only one of the counts that we tried "
        "which gives the printed numbers.",
        "vocabulary: for THUCNews and CED different characters, for MR different words of the function clean_str of "
        "Kim (2014), where the file is read as UTF-8 without its invalid bytes; and two more entries, as for unknown "
        "words and padding. This gives the printed numbers of CED and MR.",
        "THUCNews: the titles of its training file that public copies have, and all dev and test titles.",
        f"Other counts: {'. '.join(others)}.",
    ]
    return counts


def characters_of(text: pl.Series) -> float:
    """Return the mean number of characters of a text."""
    return int(text.str.len_chars().sum()) / len(text)


def different_characters(text: pl.Series) -> int:
    """Return the number of different characters of all texts."""
    return text.str.split("").explode().n_unique()


def cleaned_words(raw: bytes) -> int:
    """Return the number of different words that clean_str leaves of the lines of a file."""
    text = pl.Series(raw.decode("utf-8", errors="ignore").splitlines())
    for pattern, replacement in CLEAN_STR:
        text = text.str.replace_all(pattern, replacement)
    return text.str.to_lowercase().str.extract_all(r"\S+").explode().drop_nulls().n_unique()


def head_to_head(folder: Path) -> Counts:
    """Count the rows of the data sets of Table 1 of head-to-head attention."""
    counts = Counts(["train_size, dev_size, test_size: rows of the files."])
    for dataset, name in HEAD_TO_HEAD.items():
        _, rows = corpus(folder, name)
        counts.add(dataset, {f"{split}_size": rows.filter(split=split).height for split in SPLITS})
    return counts


def dmsp(folder: Path) -> Counts:
    """Count the texts of the categories of DMSP's Table 2."""
    counts = Counts(
        [
            "category: the label of the source, and its texts in train and test together; the paper draws 1,000 texts "
            "of each category, or all if there are fewer.",
            "Ama.4: home has reviews of kitchen and housewares, sports of sports and outdoors.",
            "So.4: society is in place of 国内.",
        ]
    )
    for dataset, (name, labels) in CATEGORIES.items():
        _, rows = corpus(folder, name)
        for number, label in enumerate(labels):
            counts.add(dataset, {f"category_{number}": f"{label}, {rows.filter(label=label).height:,} texts"})
    return counts


def mhal(folder: Path) -> Iterator[Counts]:
    """Count the labels of SST for MHAL's Tables 4 and 5."""
    _, rows = corpus(folder, "sst")
    tokens = rows.select("split", label="token_labels").explode("label")
    statistics = Counts(
        [
            "All quantities are of the three splits together; the entropies have the base 2.",
            "The printed counts of Table 5 give the entropies 1.5099 and 0.9618 (full, of sentences and of words), "
            "0.9992 and 0.9564 (without O), so the paper truncates them. Train alone gives 1.5105 for "
            "full_entropy_sent.",
        ]
    )
    for unit, labels in (("sent", rows), ("tok", tokens)):
        column = labels["label"]
        values = {
            "n_labels": column.n_unique(),
            "prop_O": round((column == "O").sum() / len(column), 3),
            "full_entropy": entropy(column),
            "nonO_entropy": entropy(column.filter(column != "O")),
        }
        statistics.add("SST", {f"{quantity}_{unit}": value for quantity, value in values.items()})
    yield statistics
    sizes = Counts(
        [
            "In the source `sst`, a phrase of at most three words with a sentiment labels its words, unless a smaller "
            "phrase in it has the same label; where phrases of both labels overlap, P counts. "
            "The paper does not state its rule."
        ]
    )
    for label in ("O", "N", "P", "Total"):
        for unit, labels in (("sentences", rows), ("tokens", tokens)):
            mine = labels if label == "Total" else labels.filter(label=label)
            values = {f"{unit}_{split}": mine.filter(split=split).height for split in SPLITS}
            sizes.add("SST", values, f"label={label}")
    yield sizes


def entropy(labels: pl.Series) -> float:
    """Return the entropy of the label distribution in bits."""
    return round(float(labels.value_counts()["count"].entropy(base=2)), 3)  # type: ignore[arg-type]


def main() -> None:
    """Count everything and write the file."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        labels, sizes = mhal(folder)
        tables = {
            "TF_T1_data_statistic": transformer_f(folder),
            "HTH_T1_dataset_statistics": head_to_head(folder),
            "DMSP_T2_categories": dmsp(folder),
            "MHAL_T4_label_statistics": labels,
            "MHAL_T5_corpus_statistics": sizes,
        }
    write_json(COUNTS, {name: vars(counts) for name, counts in tables.items()})


if __name__ == "__main__":
    main()
