"""Check of the further pretraining of a checkpoint on the texts of a view, before anything runs."""

from __future__ import annotations

from epigram.checkpoints.folders import is_sentence_encoder, is_static_model
from epigram.core.errors import ParameterError
from epigram.nn.pretrained.checkpoint_info import read_checkpoint_info
from epigram.text.settings import PretrainSettings

SIZES = ("width", "depth", "heads", "hidden")  # settings of the small encoder
FAMILIES = ("albert", "bert", "camembert", "distilbert", "ernie", "modernbert", "roberta", "xlm-roberta")


def check_further(view: str, checkpoint: str, settings: PretrainSettings) -> None:
    """Raise ParameterError if the `checkpoint` did not learn from masked words, or if a size of the encoder is set.

    A checkpoint that the stage encode has yet to download is accepted.
    """
    key, default = f"params.yaml: views.{view}.pretrain", PretrainSettings()
    if own := [name for name in SIZES if getattr(settings, name) != getattr(default, name)]:
        raise ParameterError(f"{key}.{own[0]} has no effect, because the checkpoint has its own sizes; remove it")
    if kind := _unsuited(checkpoint):
        raise ParameterError(
            f"{key} predicts masked words, which the checkpoint {checkpoint!r}, {kind}, has not learned; remove "
            f"pretrain, or use a checkpoint of the families {', '.join(FAMILIES)}"
        )


def _unsuited(checkpoint: str) -> str:
    """Return what a checkpoint is that did not learn from masked words; empty for any other one."""
    if is_sentence_encoder(checkpoint):
        return "a Universal Sentence Encoder"
    if is_static_model(checkpoint):
        return "a table of token vectors"
    info = read_checkpoint_info(checkpoint)
    return "" if info is None or info.model_type in FAMILIES else f"of the family {info.model_type}"
