"""Adapter to the transformers library: after `import epigram.hf`, its Auto classes and pipelines load saved models.

AutoModelForSequenceClassification.from_pretrained(folder)  AutoTokenizer.from_pretrained(folder)
pipeline("text-classification", folder)

Predictions are the same as with `epigram predict`. No code from the folder is run. Config, tokenizer and model raise
DataError for a folder with a file that is changed, missing or not in the manifest.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from torch.nn.functional import pad
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from epigram.core.arrays import Ragged
from epigram.core.errors import ParameterError
from epigram.core.files import read_json
from epigram.models.batches import NO_WORD
from epigram.models.ensemble import require_single_model
from epigram.models.manifest import require_unchanged, verify
from epigram.models.serialization import Saved, load
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.loss import classification_loss
from epigram.nn.layers.types import Tokens
from epigram.text.dataset.pos_words import PosWords, WordWeights
from epigram.text.tokens import tokenizers
from epigram.text.tokens.encoding import separator_ids

Folder = str | PathLike[str]
CONFIG_KEYS = ("format", "system", "task", "about", "paper", "parts", "frame", "thresholds")  # keys of config.json


class EpigramConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Configuration of a saved model, from config.json."""

    model_type = "epigram"

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **options: Any) -> Any:
        """Return the config with the library's `options`; AutoConfig calls it, so the folder is verified first.

        Only epigram's own keys of config.json are used, because the library would act on others, such as
        attn_implementation.
        """
        if "name_or_path" in options:  # set by AutoConfig, which may have been given another file of the folder
            folder = Path(options["name_or_path"])
            verify(folder)
            require_single_model(folder)
            config_dict = read_json(folder / "config.json")
        return super().from_dict({name: config_dict[name] for name in CONFIG_KEYS if name in config_dict}, **options)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Folder, *_: Any, **__: Any) -> Any:
        """Read the folder of a saved model; other arguments of the library's loader have no effect."""
        return cls.from_dict({}, name_or_path=str(pretrained_model_name_or_path))


class EpigramTokenizer(PreTrainedTokenizerFast):
    """Tokenizer of the model: adds prompt and special tokens to every text, and truncates texts to the model's maximum.

    Texts are truncated unless `truncation=False` is given; prompt and special tokens are never truncated.
    """

    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012  same form as in transformers

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Folder, *_: Any, **__: Any) -> EpigramTokenizer:
        """Read the folder of a saved model; other arguments of the library's loader have no effect."""
        path = Path(pretrained_model_name_or_path)
        with require_unchanged(path):
            verify(path)
            require_single_model(path)
            frame = TextTemplate(**read_json(path / "config.json")["frame"])
            tokenizer = tokenizers.load(path / "tokenizer.json")
        tokenizer.normalizer = build_normalizer(tokenizer)
        tokenizer.post_processor = build_post_processor(frame, tokenizer)
        return cls(
            tokenizer_object=tokenizer,
            model_max_length=frame.max_length,
            pad_token=tokenizer.id_to_token(frame.pad_id),
            unk_token=tokenizer.id_to_token(frame.unk_id),
            split_special_tokens=True,  # the characters "[MASK]" in a text are not a mask token
            padding_side="right",
            truncation_side="right",
        )

    def __call__(self, *texts: Any, truncation: Any = True, **options: Any) -> Any:
        """Return token ids and attention mask of `texts`, as the library's tokenizers do."""
        return super().__call__(*texts, truncation=truncation, **options)


def build_normalizer(tokenizer: Tokenizer) -> normalizers.Normalizer:
    """Return a normalizer that strips whitespace, as `epigram predict` does, before the tokenizer's own normalizer."""
    own = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    return normalizers.Sequence([normalizers.Strip(), *own])


def build_post_processor(frame: TextTemplate, tokenizer: Tokenizer) -> TemplateProcessing:
    """Return a post-processor that adds the frame's prefix and suffix to a text, and separators between two sides."""
    template_ids = {"prefix": frame.prefix_ids, "between": separator_ids(tokenizer), "suffix": frame.suffix_ids}
    before, between, after = ([name] if ids else [] for name, ids in template_ids.items())
    special = [
        {"id": name, "ids": template_ids[name], "tokens": [tokenizer.id_to_token(i) for i in template_ids[name]]}
        for name in [*before, *between, *after]
    ]
    pair = [*before, "$A", *between, "$B", *after]
    return TemplateProcessing(single=[*before, "$A", *after], pair=pair, special_tokens=special)


class EpigramForSequenceClassification(PreTrainedModel):  # type: ignore[no-untyped-call]
    """Saved model as a sequence classifier of transformers: ids in, logits (B, C) out."""

    config_class = EpigramConfig
    main_input_name = "input_ids"

    def __init__(self, config: EpigramConfig, saved: Saved) -> None:
        super().__init__(config)
        self.model, self.frame = saved.model, saved.frame
        self.word_weights = _word_weights(saved)

    @classmethod
    def from_pretrained(  # type: ignore[override]  # a model always needs a folder
        cls, pretrained_model_name_or_path: Folder, *_: Any, **__: Any
    ) -> EpigramForSequenceClassification:
        """Load the folder of a saved model as `epigram predict` does, for inference in single precision.

        Other arguments of the library's loader have no effect. Raises InputMissingError or DataError for a folder that
        is incomplete or has changed since it was saved, and ParameterError for a model that also reads characters, or
        that chooses labels by their price.
        """
        folder = Path(pretrained_model_name_or_path)
        saved = load(folder)
        if saved.frame.characters:
            raise ParameterError(
                f"{folder} needs the characters of tokens, which transformers does not provide: use epigram predict"
            )
        if saved.prices is not None:
            raise ParameterError(
                f"{folder} chooses the label with the least expected price, and transformers the most probable one: "
                "use epigram predict"
            )
        config = EpigramConfig.from_dict(read_json(folder / "config.json"))
        config.id2label = dict(enumerate(saved.labels))
        config.label2id = {label: number for number, label in enumerate(saved.labels)}
        config.problem_type = "multi_label_classification" if saved.model.multi else "single_label_classification"
        model = cls(config, saved)
        model.train(False)
        return model

    def save_pretrained(self, *_: Any, **__: Any) -> None:
        """Raise ParameterError, because the checksums of the folder would not match."""
        raise ParameterError("an epigram model cannot be saved by transformers: copy its folder instead")

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **_: Any
    ) -> SequenceClassifierOutput:
        """Return the logits (B, C) of ids and mask (B, L), padded on the right.

        If `labels` are given, the loss is the cross-entropy of the logits.
        """
        valid = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        logits = self.model(self._fill_empty_texts(input_ids.long(), valid.bool())).logits
        loss = None if labels is None else classification_loss(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _fill_empty_texts(self, ids: Tensor, valid: Tensor) -> Tokens:
        """Return ids and mask (B, L) with an unknown token in every empty text, since models require a token."""
        prefix, suffix = self.frame.prefix_ids, self.frame.suffix_ids
        unknown = ids.new_tensor([*prefix, self.frame.unk_id, *suffix])  # a text of one unknown token
        empty = valid.sum(1) < len(unknown)
        if empty.any():
            missing = max(0, len(unknown) - ids.shape[1])
            ids, valid = pad(ids, (0, missing), value=self.frame.pad_id), pad(valid, (0, missing))
            ids[empty, : len(unknown)] = unknown
            valid[empty, : len(unknown)] = True
        return Tokens(ids, valid, word_weight=self._word_weight(ids, valid))

    def _word_weight(self, ids: Tensor, valid: Tensor) -> Tensor | None:
        """Return the part-of-speech weight of each token's word (B, L), if the model reads them."""
        if self.word_weights is None:
            return None
        before, after = len(self.frame.prefix_ids), len(self.frame.suffix_ids)
        position = torch.arange(ids.shape[1], device=ids.device)
        inside = (position >= before) & (position < valid.sum(1, keepdim=True) - after)  # (B, L): the texts' own tokens
        texts = Ragged.from_lengths(ids[inside].cpu().numpy(), inside.sum(1).cpu().numpy())
        weight = torch.full(ids.shape, NO_WORD, device=ids.device)
        weight[inside] = torch.from_numpy(self.word_weights.find(texts, self.frame.room)).to(ids.device)
        return weight


def _word_weights(saved: Saved) -> WordWeights | None:
    if saved.frame.pos_words is None:
        return None
    words = PosWords.parse(saved.frame.pos_words, f"{saved.folder}/config.json")
    return WordWeights(words, tokenizers.vocabulary_of(tokenizers.load(saved.folder / "tokenizer.json")))


AutoConfig.register("epigram", EpigramConfig)
AutoModelForSequenceClassification.register(EpigramConfig, EpigramForSequenceClassification)
AutoTokenizer.register(EpigramConfig, tokenizer_class=EpigramTokenizer)  # type: ignore[no-untyped-call]
