"""Export of a saved model as a graph: a model folder that gives the same predictions without the model's code.

The folder has model.onnx, or model.xml and model.bin of OpenVINO, in place of model.safetensors; its other files are
copies of the model's.
"""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from epigram.core.errors import ParameterError
from epigram.core.extras import require
from epigram.core.files import atomic_folder, read_json, write_text
from epigram.inference.onnx import graph, ngram_graph, openvino_network
from epigram.inference.onnx.graph import export_error
from epigram.inference.onnx.quantize import quantize
from epigram.models import ensemble, manifest
from epigram.models.classifier import count_parameters
from epigram.models.ensemble import is_ensemble
from epigram.models.linear_svm import LinearSvm
from epigram.models.manifest import CARD
from epigram.models.serialization import COPIED_FILES, GRAPH, Saved, load
from epigram.nn.heads.label_decoder import LabelDecoderHead
from epigram.process.display import echo

Format = Literal["onnx", "openvino"]
PACKAGES = ("onnx", "onnxruntime", "onnxscript")
NOT_EXPORTABLE = {  # kinds of model and head, with the reason why they cannot be exported
    "random_baseline": "it predicts at random",
}
MAX_STEPS = 128  # maximum number of labels that a decoder may choose; each is a step of the graph
MAX_WEIGHT_BYTES = 2**31 - 2**20  # maximum bytes of weights in one ONNX file


def export(folder: Path, out: Path, *, to: Format = "onnx", int8: bool = False) -> None:
    """Export the model in `folder` as a graph to the new folder `out`, in ONNX with 8-bit weights if `int8` is true.

    Of an ensemble, each member is exported. A link to the model is followed once, at the beginning.

    Raises ParameterError if the model cannot be exported, if int8 is not faster on this machine than the model and its
    float32 graph, and if `out` exists or is inside `folder`; MissingPackageError if a package is not installed.
    """
    folder = folder.resolve()  # `runs/latest` may be moved to another model during the export
    manifest.check_new_folder(folder, out)
    require("export", *(("onnx", *PACKAGES) if to == "onnx" else ("onnx,openvino", *PACKAGES, "openvino")))
    if is_ensemble(folder):
        saved, facts = ensemble.load(folder), manifest.read_facts(folder)
        one = partial(export, to=to, int8=int8)
        ensemble.save(replace(saved, folder=out), lambda name, new: one(saved.member(name), new), facts)
        return
    _export_model(folder, out, to=to, int8=int8)


def _export_model(folder: Path, out: Path, *, to: Format, int8: bool) -> None:
    saved = load(folder)
    _check_exportable(saved)
    linear = isinstance(saved.model, LinearSvm)
    if linear and int8:
        raise ParameterError(f"--int8 quantizes layers, but {saved.system} has none; export without --int8")
    with atomic_folder(out) as new, _silence_exporter():
        (ngram_graph if linear else graph).write_graph(saved, new / GRAPH)
        note = quantize(saved, new / GRAPH) if int8 else ""
        kind = f"ONNX, {'int8' if int8 else 'fp32'}"
        if to == "openvino":
            kind = "OpenVINO"
            openvino_network.convert(saved, new / GRAPH)
        _write_other_files(new, folder, kind, note)
    if note:
        echo(f"{saved.system}: {note}")


def _check_exportable(saved: Saved) -> None:
    """Raise ParameterError for a model of a kind or size that cannot be exported."""
    parts = read_json(saved.folder / "config.json")["parts"]
    for part in parts.values():
        if part["kind"] in NOT_EXPORTABLE:
            raise export_error(saved, NOT_EXPORTABLE[part["kind"]])
    head = getattr(saved.model, "head", None)
    if isinstance(head, LabelDecoderHead) and head.steps > MAX_STEPS:
        steps = f"it chooses up to {head.steps} labels of a text one after another"
        raise export_error(saved, f"{steps}; train it with head.max_labels of at most {MAX_STEPS}")
    if 4 * count_parameters(saved.model) > MAX_WEIGHT_BYTES:
        raise export_error(saved, "its weights are larger than 2 GB, the limit of an ONNX file")


@contextmanager
def _silence_exporter() -> Iterator[None]:
    """Silence the warnings and log output of the exporter and the quantizer."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


def _write_other_files(new: Path, folder: Path, kind: str, note: str) -> None:
    """Copy the other files of the model's `folder` to `new`, and write the card, with `note`, and the manifest.

    `kind` is the format of the graph and, if there are several, its precision.
    """
    for name in COPIED_FILES:
        shutil.copyfile(folder / name, new / name)
    card = (folder / CARD).read_text(encoding="utf-8")
    card = card.replace("weights (safetensors)", f"graph ({kind})")
    write_text(new / CARD, f"{card}\n{note}\n" if note else card)
    manifest.write(new, {**manifest.read_facts(folder), "graph": kind})
