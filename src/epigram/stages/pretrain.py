"""pretrain: train a masked language model on the texts of a view, if params.yaml requests it.

python -m epigram.stages.pretrain VIEW ENCODED OUT

If the view has no `pretrain:` section, about.json records 0 steps, and torch is not imported.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from epigram.core.errors import arguments, handle_errors
from epigram.core.files import atomic_folder, sha256, write_json
from epigram.core.settings import Params
from epigram.core.stage_process import run_stage
from epigram.text.settings import PretrainSettings, read_view

PARAMS = ("views.{key}",)


def run(name: str, settings: PretrainSettings, encoded: Path, out: Path) -> None:
    """Pretrain an encoder on the texts of a view and write `out` atomically."""
    import torch

    from epigram.nn.pretrained import warm_start
    from epigram.text.encoded_dataset import View
    from epigram.text.local_files import local_file
    from epigram.text.unlabelled import write_texts
    from epigram.training.checkpoint import Checkpoints, resume_folder
    from epigram.training.pretrain_encoder import pretrain_encoder
    from epigram.training.progress import Printer
    from epigram.training.shards import Texts

    view, setting = View.load(encoded), f"views.{name}.pretrain.texts"
    further = None if settings.texts is None else local_file(settings.texts, setting)
    torch.set_num_threads(settings.threads)
    printer = Printer(f"{name} pretrain")
    facts = settings, view.fingerprint, further and sha256(further)
    with resume_folder("pretrain", name, *facts) as state, atomic_folder(out) as folder:
        scratch = folder / "texts"
        scratch.mkdir()
        write_texts(scratch, view, further)
        train, held = (Texts.load(scratch, part) for part in ("train", "held"))
        done = pretrain_encoder(view, settings, train, held, printer, Checkpoints(state))
        shutil.rmtree(scratch)
        about = {
            "steps": done.steps,
            "perplexity": {"before": done.before.perplexity, "after": done.after.perplexity},
            "accuracy": {"before": done.before.accuracy, "after": done.after.accuracy},
            "texts": len(train),
            "tokens": len(train.ids),
            "held_out": len(held),
        }
        warm_start.write(folder, done.encoder, view.tokenizer_json, about)
    perplexity = f"perplexity {done.before.perplexity:,.0f} to {done.after.perplexity:,.1f}"
    accuracy = f"accuracy on masked tokens {100 * done.after.accuracy:.1f}%"
    printer.close(f"{name} pretrain: {perplexity}, {accuracy}; {len(train):,} texts, {len(train.ids):,} tokens")


@handle_errors
def main() -> None:
    """Read the settings and pretrain, or record that the view has no pretraining."""
    name, encoded, out = arguments("VIEW", "ENCODED", "OUT")
    settings = read_view(Params.read(PARAMS, key=name)).pretrain
    if settings is not None:
        return run(name, settings, Path(encoded), Path(out))
    with atomic_folder(Path(out)) as folder:
        write_json(folder / "about.json", {"steps": 0})
    return None


if __name__ == "__main__":
    run_stage(main)
