"""The table of contracts: what the shipped one says, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from flowcheck.data import rules_dir
from flowcheck.flow.contracts import Deployment, deployment_of, load_kernels

SHIPPED = rules_dir() / "kernels.toml"


def test_the_shipped_table_is_read() -> None:
    kernels = load_kernels(SHIPPED)
    model = kernels.model(Deployment(tp=4))
    assert model.ranks["tp"] == 4
    assert model.functions["fused_add_rmsnorm"].kind == "add-norm-in-place"
    assert model.is_pure("torch.nn.functional.silu")
    assert not model.is_pure("torch.ops.some.kernel")
    assert not model.is_pure("somebody.kernel")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param('kind = "add-norm-in-place"', 'kind = "magic"', id="kind"),
        pytest.param('kind = "add-norm-in-place"', 'kind = "norm"\nweight = 3', id="key"),
        pytest.param("[forward]", "[forward]\nsetters = 1", id="word"),
    ],
)
def test_what_nobody_knows_is_refused(tmp_path: Path, old: str, new: str) -> None:
    text = SHIPPED.read_text("utf-8")
    path = tmp_path / "kernels.toml"
    path.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(ValidationError):
        load_kernels(path)


def deployed(**settings: object) -> Deployment:
    return deployment_of(load_kernels(SHIPPED).facts, {"pp_size": 1, "lora": False}, settings, tp=8, fusion=False)


@pytest.mark.parametrize(
    ("settings", "replicas", "a2a"),
    [
        ({}, 1, "none"),
        ({"moe_a2a_backend": "deepep"}, 1, "deepep"),
        ({"moe_a2a_backend": None}, 1, "none"),
        ({"enable_deepep_moe": True}, 1, "deepep"),
        ({"enable_deepep_moe": False}, 1, "none"),
        ({"enable_dp_attention": True, "dp_size": 4}, 4, "none"),
        ({"enable_dp_attention": False, "dp_size": 4}, 1, "none"),  # whole servers side by side
        ({"pp_size": 1, "lora": None}, 1, "none"),
    ],
)
def test_settings_decide_which_ranks_share_what(settings: dict[str, object], replicas: int, a2a: str) -> None:
    assert deployed(**settings) == Deployment(8, replicas, a2a)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"enable_dp_attention": True}, "set dp_size"),
        ({"enable_dp_attention": True, "dp_size": 3}, "8 ranks cannot be 3 replicas"),
        ({"enable_dp_attention": True, "dp_size": "many"}, "many"),
        ({"pp_size": 2}, "pp_size is 2"),
        ({"lora": True}, "lora is true"),
    ],
)
def test_a_deployment_that_is_not_modelled_is_refused(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        deployed(**settings)
