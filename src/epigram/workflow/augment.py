"""Prompt that is put around every text in views with `prompt: true`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from epigram.core.files import atomic_folder, write_json, write_text
from epigram.process.display import echo
from epigram.text.dataset.validated_corpus import ValidatedCorpus
from epigram.text.prompts.prompts import TEXT, build_prompt
from epigram.text.settings import AugmentSettings

PREVIEW_TEXTS = 5


def write_prompt(settings: AugmentSettings, validated: Path, out: Path) -> None:
    """Write `out` atomically: prompt.json, and preview.txt, the first training texts with the prompt."""
    corpus = ValidatedCorpus.read(validated)
    prompt = build_prompt(settings.template, corpus.language, corpus.label_names or corpus.labels)
    first = next(iter(corpus.batches("train", "text", size=PREVIEW_TEXTS)))["text"]
    with atomic_folder(out) as folder:
        write_json(folder / "prompt.json", prompt)
        preview = "".join(f"{prompt['prefix']}{text}{prompt['suffix']}\n" for text in islice(first, PREVIEW_TEXTS))
        write_text(folder / "preview.txt", preview)
    echo(f"prompt: {prompt['prefix']}" + (f"{TEXT}{prompt['suffix']}" if prompt["suffix"] else ""))
