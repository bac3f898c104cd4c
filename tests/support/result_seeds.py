"""Small valid files that stages pass on: evaluations, prunings, summaries, pretrained encoders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.model_seeds import WORDS
from tests.support.mutations import blind, in_json
from tests.support.seeds import Format, in_header


def of_results(folder: Path) -> list[Format]:
    from epigram.evaluation.comparison.comparison import compare
    from epigram.evaluation.records.pruning_record import Point, PruningRecord, SeedPruning
    from epigram.evaluation.records.results import read_evaluation, write_evaluation
    from epigram.evaluation.records.summary import Corpus, read_summary, write_summary
    from tests.support.evaluation_samples import system

    sound = system("sound", [{1}], [{2}], rows=12, labelled=True, words_wrong=[{3}])
    corpus = Corpus(name="toy", language="zh", task="single", labels=["neg", "pos"], rows={}, notes=[])
    here = folder / "evaluated"
    write_evaluation(here, system("toy", [{1}], [{2, 4}], rows=12, labelled=True, words_wrong=[{5}]))
    write_summary(folder / "summary" / "summary.json", compare(corpus, [sound], 0.05))

    point = Point(depth=1, classifier_score=0.5, parameters=10, flops=10)
    pruning = SeedPruning(seed=0, layered=True, reason="cut", accepted=True, depth_full=2, depth=1, tradeoff=[point])
    PruningRecord(seeds=[pruning]).write(folder / "pruned")

    both = (in_json, blind)

    def compared(at: Path) -> None:
        compare(corpus, [sound, read_evaluation(at)], 0.05)

    return [
        Format("metrics.json", here, "metrics.json", compared, both),
        Format("predictions.safetensors", here, "predictions.safetensors", compared, (in_header, blind)),
        Format("summary.json", folder / "summary", "summary.json", lambda at: read_summary(at / "summary.json"), both),
        Format("pruning.json", folder / "pruned", "pruning.json", PruningRecord.read, both),
    ]


def of_pretrained(folder: Path) -> list[Format]:
    from epigram.nn.encoders.pretrained import PretrainedConfig
    from epigram.nn.layers.types import DataSpec
    from epigram.nn.pretrained.warm_start import find_pretrained, write
    from epigram.recipes.registry import RECIPES
    from epigram.text.tokens.tokenizers import character_tokenizer

    folder.mkdir(exist_ok=True)
    tokenizer, here = folder / "vocabulary.json", folder / "pretrained"
    character_tokenizer(WORDS).save(str(tokenizer))
    context = DataSpec(vocabulary=len(WORDS), classes=2, max_length=12)
    here.mkdir()
    encoder = PretrainedConfig(small={"width": 8, "depth": 1, "heads": 2, "hidden": 8}).build(context)
    write(here, encoder, tokenizer, {"steps": 1})

    def started(at: Path) -> None:
        if there := find_pretrained(at, tokenizer):
            RECIPES["bert"].build(replace(context, pretrained=there), "toy")

    kinds = {
        "about.json": (in_json, blind),
        "config.json": (in_json, blind),
        "model.safetensors": (in_header, blind),
    }
    return [Format(f"pretrained {name}", here, name, started, how) for name, how in kinds.items()]
