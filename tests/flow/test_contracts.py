"""The table of contracts: what the shipped one says, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from flowcheck.data import rules_dir
from flowcheck.flow.contracts import Deployment, load_kernels

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
