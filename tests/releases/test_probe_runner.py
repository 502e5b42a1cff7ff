"""The tree's own model runner on ranks without a GPU: it reads the draft's ids itself."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.releases.test_probe import covered, probed, seen
from tests.releases.witnesses import WITNESSES

pytestmark = [pytest.mark.release, pytest.mark.long]


def test_a_release_tells_its_target_the_ids_of_the_draft(tmp_path: Path) -> None:
    options = ["--backend", "gloo", "--through", "model-runner"]
    probe = probed("sglang==0.5.10", dict(WITNESSES["llama"]), [1, 3, 4], tmp_path, *options)
    for path in covered(probe):
        assert seen(path) == path["expected_boundaries"] == [2, 4, 5]
        assert (path["verdict"], path["ranks_agree"], path["draft_accepts"]) == ("proved", True, True)
    assert not {"attention", "ids of the draft"} & {each["what"] for each in probe["not_covered"]}
