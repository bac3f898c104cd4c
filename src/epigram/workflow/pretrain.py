"""Pretraining of a masked language model on the texts of a view.

If the view has no `pretrain:` section, about.json records 0 steps, and torch is not imported.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from epigram.core.files import atomic_folder, sha256, write_json
from epigram.process.display import echo
from epigram.text.settings import PretrainSettings

if TYPE_CHECKING:
    from epigram.text.dataset.encoded_dataset import View
    from epigram.training.loop.checkpoints import Checkpoints


def pretrain_view(name: str, settings: PretrainSettings | None, encoded: Path, out: Path, *, state: Path) -> None:
    """Pretrain an encoder on the training texts of a view, and one for each fold, and write `out` atomically.

    Without `settings`, only record that there is no pretraining. The folder `state` keeps the progress.
    """
    if settings is not None:
        _pretrain_parts(name, settings, encoded, out, state)
        return
    with atomic_folder(out) as folder:
        write_json(folder / "about.json", {"steps": 0})


def _pretrain_parts(name: str, settings: PretrainSettings, encoded: Path, out: Path, state: Path) -> None:
    import torch

    from epigram.models.devices import default_device
    from epigram.text.dataset.encoded_dataset import View, fold_folder
    from epigram.text.local_files import local_file
    from epigram.training.distributed.resources import hardware
    from epigram.training.pretraining.pretrain_encoder import training_config
    from epigram.training.resume import mark_finished, read_finished, resume_folder

    view, setting = View.load(encoded), f"views.{name}.pretrain.texts"
    further = None if settings.texts is None else local_file(settings.texts, setting)
    torch.set_num_threads(settings.threads)
    on = hardware(training_config(settings).precision, default_device())
    facts = settings, view.fingerprint, further and sha256(further), on
    with resume_folder(state, *facts) as progress, atomic_folder(out) as folder:
        for number in range(view.folds):
            part, kept = view.fold(number), progress / f"fold-{number}"
            if read_finished(kept) is None:
                label = f"{name} pretrain fold {number + 1}/{view.folds}"
                mark_finished(kept, _pretrain(label, part, settings, further, progress / f"fold-{number}-steps", kept))
            shutil.copytree(kept, fold_folder(folder, number))
        _pretrain(f"{name} pretrain", view, settings, further, progress, folder)


def _pretrain(
    label: str, view: View, settings: PretrainSettings, further: Path | None, state: Path, folder: Path
) -> Checkpoints:
    """Write the encoder that is pretrained on the training texts of `view` to `folder`; checkpoints are in `state`."""
    from epigram.nn.pretrained import warm_start
    from epigram.text.unlabelled import write_texts
    from epigram.training.loop.checkpoints import Checkpoints
    from epigram.training.loop.progress import Printer
    from epigram.training.pretraining.pretrain_encoder import pretrain_encoder
    from epigram.training.pretraining.shards import Texts

    printer, checkpoints = Printer(label), Checkpoints(state)
    scratch = folder / "texts"
    scratch.mkdir(parents=True)
    left_out = write_texts(scratch, view, further)
    train, held = (Texts.load(scratch, part) for part in ("train", "held"))
    done = pretrain_encoder(view, settings, train, held, printer, checkpoints)
    shutil.rmtree(scratch)
    about = {
        "steps": done.steps,
        "perplexity": {"before": done.before.perplexity, "after": done.after.perplexity},
        "accuracy": {"before": done.before.accuracy, "after": done.after.accuracy},
        "texts": len(train),
        "tokens": len(train.ids),
        "held_out": len(held),
        "left_out": left_out,  # further texts that dev or test has too
    }
    warm_start.write(folder, done.encoder, view.tokenizer_json, about, view.checkpoint)
    perplexity = f"perplexity {done.before.perplexity:,.0f} to {done.after.perplexity:,.1f}"
    accuracy = f"accuracy on masked tokens {100 * done.after.accuracy:.1f}%"
    printer.close(f"{label}: {perplexity}, {accuracy}; {len(train):,} texts, {len(train.ids):,} tokens")
    if further is not None:
        echo(f"{label}: {left_out:,} texts of {further.name} are left out: they are also in dev or test", flush=True)
    return checkpoints
