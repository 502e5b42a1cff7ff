"""Ways in which a draft may apply the layer that takes the states in: what is not followed is open, never a finding of widths."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.pairs import flowcheck
from tests.cli.wirings import needing, pair_of, tree_of, with_cache

__all__ = ["with_cache"]

APPLIED = "self.fc(hidden_states)"
DRAFT = Path("sglang/srt/models/llama_eagle3.py")


@pytest.mark.parametrize(
    "form",
    [
        "nn.functional.linear(hidden_states, self.fc.weight, self.fc.bias)",
        "hidden_states @ self.fc.weight.t()",
        "torch.matmul(hidden_states, self.fc.weight.T)",
    ],
)
def test_a_projection_that_is_applied_by_its_weight_is_open(form: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(tree_of("wiring-healthy"), tree)
    text = (tree / DRAFT).read_text("utf-8")
    assert APPLIED in text
    (tree / DRAFT).write_text(text.replace(APPLIED, form), "utf-8")
    result = flowcheck("scan", tree, *pair_of("wiring-healthy"), *needing(), "--format", "json")
    report = json.loads(result.stdout)
    assert {(each["rule"], each["verdict"]) for each in report["findings"]} == {("HS219", "unproved")}
    assert result.exit_code == 1
