"""Tests of head-to-head attention in every family of pretrained encoders, and its refusal by unsupported families.

The encoders are tiny and random; the forward pass of transformers is the reference.
"""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from epigram.core.errors import ParameterError
from epigram.models.serialization import load, save
from epigram.models.text_template import TextTemplate
from epigram.nn.layers.types import Tokens
from epigram.nn.transformers_adapter import FAMILIES as TAKEN
from tests.support.families import DEPTH, FAMILIES, MASK, OTHERS, PAD, VOCABULARY, built, checkpoint, recipe_of, texts

GATES = ["paper", "residual"]
SITES = ["scores", "context"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: checkpoint(family, root / family) for family in FAMILIES}


def gates(model: torch.nn.Module) -> list[Any]:
    return [module.head_to_head for module in model.modules() if hasattr(module, "head_to_head")]


def stirred(model: Any) -> Any:
    """Set random weights in every gate, so that it has an effect."""
    generator = torch.Generator().manual_seed(5)
    for part in gates(model):
        for weight in part.parameters():
            weight.data = torch.randn(weight.shape, generator=generator)
    return model


@torch.no_grad()
def reference(folder: Path, tokens: Tokens) -> Tensor:
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    out: Tensor = model(input_ids=tokens.ids, attention_mask=tokens.valid.long()).last_hidden_state
    return out


def test_every_family_of_the_table_is_tried() -> None:
    assert set(FAMILIES) == set(TAKEN)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_starts_as_the_checkpoint(family: str, site: str, folders: dict[str, Path]) -> None:
    tokens = texts()
    wanted = reference(folders[family], tokens)[tokens.valid]
    for settings in ({}, {"head_to_head": "residual", "site": site}):
        _, encoder = built(folders[family], **settings)
        states = encoder(tokens).states
        assert len(states) == DEPTH + 1
        torch.testing.assert_close(states[-1][tokens.valid], wanted, atol=1e-5, rtol=1e-5)
    _, encoder = built(folders[family], head_to_head="paper", site=site)
    assert (encoder(tokens).last[tokens.valid] - wanted).abs().max() > 1e-3  # the gate changes the states


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_checkpoint_lacks_is_initialised(family: str, folders: dict[str, Path]) -> None:
    _, encoder = built(folders[family], head_to_head="residual")
    parts = gates(encoder)
    assert len(parts) == (1 if family == "albert" else DEPTH)
    for part in parts:
        assert part.strength.item() == 0
        assert all(0 < part.get_parameter(f"{name}.weight").abs().max() <= 2**-0.5 for name in ("first", "second"))
    assert all(torch.isfinite(weight).all() and weight.device.type == "cpu" for weight in encoder.parameters())


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_padding_does_not_show(family: str, site: str, folders: dict[str, Path]) -> None:
    encoder = stirred(built(folders[family], head_to_head="paper", site=site)[1])
    tokens = texts()
    together = encoder(tokens).last
    for row, length in enumerate(tokens.valid.sum(1).tolist()):
        alone = encoder(Tokens(tokens.ids[row : row + 1, :length], tokens.valid[row : row + 1, :length])).last[0]
        torch.testing.assert_close(together[row, :length], alone, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("family", FAMILIES)
def test_gradient_reaches_the_gate(family: str, gate: str, folders: dict[str, Path]) -> None:
    model, encoder = built(folders[family], head_to_head=gate)
    model(texts(), torch.tensor([0, 1, 0])).loss.backward()
    for part in gates(encoder):
        learnt = part.strength if gate == "residual" else part.first.weight  # the others get gradients once s is not 0
        assert learnt.grad.abs().sum() > 0
    for part in gates(stirred(encoder)):
        part.zero_grad()
    model(texts(), torch.tensor([0, 1, 0])).loss.backward()
    assert all(weight.grad.abs().sum() > 0 for part in gates(encoder) for weight in part.parameters())


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_attention_weights_come_with_the_same_numbers(family: str, site: str, folders: dict[str, Path]) -> None:
    encoder = stirred(built(folders[family], head_to_head="residual", site=site)[1])
    tokens = texts()
    out = encoder.backbone(input_ids=tokens.ids, attention_mask=tokens.valid.long(), output_attentions=True)
    wanted = encoder(tokens).last[tokens.valid]
    torch.testing.assert_close(out.last_hidden_state[tokens.valid], wanted, atol=1e-5, rtol=1e-5)
    for weights in (encoder.attentions(tokens), built(folders[family])[1].attentions(tokens)):
        assert len(weights) == DEPTH and weights[0].shape == (3, 2, 20, 20)
        rows = weights[0].sum(-1).transpose(1, 2)[tokens.valid]
        torch.testing.assert_close(rows, torch.ones_like(rows))


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_saved_cut_and_reloaded_without_the_checkpoint(
    family: str, gate: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(folders[family], tmp_path / "checkpoint")
    model = stirred(built(tmp_path / "checkpoint", head_to_head=gate, site="context")[0])
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "tokenizer.json").write_text("{}")
    frame = TextTemplate(
        language="en", max_length=32, prefix_ids=[], suffix_ids=[], pad_id=PAD, unk_id=0, mask_id=MASK,
        vocabulary=VOCABULARY,
    )  # fmt: skip
    shorter = copy.deepcopy(model)
    shorter.drop(0)
    shorter.drop(-1)
    assert not torch.equal(shorter(texts()).logits, model(texts()).logits)
    for depth, made in ((DEPTH, model), (DEPTH - 2, shorter)):
        folder = tmp_path / f"depth-{depth}"
        save(
            folder, made, recipe=recipe_of(head_to_head=gate, site="context"), frame=frame, labels=["a", "b"],
            tokenizer=tmp_path / "tokenizer.json", facts={},
        )  # fmt: skip
        saved = load(folder).model
        assert saved.depth == depth and len(saved.encoder(texts()).states) == depth + 1
        assert torch.equal(saved(texts()).logits, made(texts()).logits)
        assert len(gates(saved)) == len(gates(made)) > 0


@pytest.mark.parametrize("family", OTHERS)
def test_a_family_that_would_ignore_it_is_refused_by_name(family: str, tmp_path: Path) -> None:
    folder = checkpoint(family, tmp_path, OTHERS[family])
    with pytest.raises(ParameterError, match=rf"head_to_head is 'residual', but the attention of {family} cannot be"):
        built(folder, head_to_head="residual")


def test_a_wide_window_needs_no_matrix_and_a_narrow_one_is_kept() -> None:
    from transformers.masking_utils import sliding_window_bidirectional_mask_function as window

    from epigram.nn.pretrained.transformers_attention import build_mask

    valid = texts().valid
    sizes = {"batch_size": 3, "q_length": 20, "kv_length": 20}
    wide = build_mask(mask_function=window(64), attention_mask=valid, local_size=64, **sizes)
    narrow = build_mask(mask_function=window(4), attention_mask=valid, local_size=4, **sizes)
    assert wide is not None and wide.shape == (3, 1, 1, 20)
    assert narrow is not None and not narrow[0, 0, 0, 5] and narrow[0, 0, 0, 4]
    assert torch.equal(narrow.any(2).squeeze(1), valid)
