"""What is captured against what the draft's class takes in: each wrong factor is one rule's business."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowcheck.checks.findings import Finding, Verdict
from flowcheck.checks.rules import load_rules
from flowcheck.checks.widths import WIDTH_CHECKS, width_findings
from flowcheck.draft import Header, Pairing, draft_from, pair, target_from
from flowcheck.draft.header import Tensor
from flowcheck.flow.facts import Path, Phase
from flowcheck.flow.pair_facts import CaptureRow, PairFacts, Told
from flowcheck.flow.requested import Raise
from flowcheck.flow.width import Factor, Intake, KeyUse, Loading, Projection, Skip, TensorUse, Use
from tests.report.fakes import RUNNER, place, row

RULES = load_rules()
HEAD = "python/sglang/srt/models/llama_eagle3.py"
TARGET = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 8, "hidden_size": 64, "vocab_size": 100}
DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "vocab_size": 100,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 6]},
}
KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"


def made(fc: tuple[int, int] | None = None, **more: Any) -> Pairing:
    header: Header | str = "none"
    if fc is not None:
        header = Header("h", {"fc.weight": Tensor("fc.weight", "BF16", fc)})
    return pair(draft_from({**DRAFT, **more}, "d"), target_from(TARGET, "t"), header=header, declared=[3, 5, 7])


def intake(into: int = 192, states: Factor | None = None, width: Factor | None = None, **more: Any) -> Intake:
    states = states or Factor(3, KEY, (place(HEAD, 48),))
    width = width or Factor(64, "hidden_size", (place(HEAD, 45),))
    layer = Projection("model.fc", place(HEAD, 49), into, 64, False, 0, states, width)
    return replace(Intake("A", "LlamaForCausalLMEagle3", place(HEAD, 7), layer, True, 64), **more)


def served(took: Intake | None, *rows: CaptureRow, **more: Any) -> PairFacts:
    rows = rows or (row(Phase.EXTEND, Path.EAGER, 3, 5, 7, ids=(2, 4, 6)),)
    return replace(PairFacts("LlamaForCausalLM", True, rows, intake=took), **more)


def found(facts: PairFacts, pairing: Pairing | None = None) -> list[Finding]:
    return list(width_findings(facts, pairing or made(), RULES))


def test_a_width_that_fits_is_no_finding() -> None:
    assert found(served(intake()), made((64, 192))) == []


def test_another_width_is_blamed_on_the_layer() -> None:
    facts = served(intake(256, Factor(4, "num_aux_hidden_states", (place(HEAD, 47),))))
    (finding,) = found(facts)
    assert (finding.rule, finding.verdict, finding.place) == ("HS301", Verdict.VIOLATED, place(HEAD, 49))
    assert "192 columns are captured, and fc takes 256" in finding.message
    assert finding.subjects == facts.rows


def test_a_number_in_the_code_is_blamed_where_it_stands() -> None:
    facts = served(intake(320, Factor(5, "", (place(HEAD, 50, 20, 21),))))
    (finding,) = found(facts)
    assert (finding.rule, finding.place) == ("HS302", place(HEAD, 50, 20, 21))


def test_a_number_in_the_code_that_is_right_is_nobodys_business() -> None:
    assert found(served(intake(192, Factor(3, "", (place(HEAD, 50),))))) == []


def test_the_width_of_another_model_is_blamed_on_its_key() -> None:
    facts = served(intake(288, width=Factor(96, "hidden_size", (place(HEAD, 45),))))
    (finding,) = found(facts)
    assert (finding.rule, finding.place) == ("HS303", place(HEAD, 45))
    assert "96" in finding.message
    assert "64" in finding.message


def test_a_checkpoint_of_another_shape_does_not_load() -> None:
    (finding,) = found(served(intake()), made((64, 320)))
    assert finding.rule == "HS301"
    assert "64 x 320" in finding.message


def test_a_layer_that_is_wrong_for_both_is_one_finding() -> None:
    facts = served(intake(256, Factor(4, "num_aux_hidden_states", (place(HEAD, 47),))))
    assert [each.rule for each in found(facts, made((64, 192)))] == ["HS301"]


def test_a_width_at_which_the_layer_is_left_out() -> None:
    one = row(Phase.EXTEND, Path.EAGER, 5, ids=(4,))
    (finding,) = found(served(intake(64, skips=(Skip(64, (place(HEAD, 57),)),)), one))
    assert (finding.rule, finding.place) == ("HS304", place(HEAD, 57))


def test_a_draft_without_states_from_inside_is_meant_to_skip_it() -> None:
    last = replace(row(Phase.EXTEND, Path.EAGER), width=64)
    plain = made(eagle_config={"use_aux_hidden_state": False})
    assert found(served(intake(64, skips=(Skip(64, (place(HEAD, 57),)),)), last), plain) == []


def test_what_is_not_known_is_no_accusation() -> None:
    assert found(served(intake(256, open="a budget ran out"))) == []
    assert found(served(intake(), replace(row(Phase.EXTEND, Path.EAGER, 3, ids=(2,)), width=None))) == []


@pytest.mark.parametrize("use", [Use.IGNORED, Use.READ])
def test_ids_that_are_not_handed_to_the_target(use: Use) -> None:
    told = row(Phase.EXTEND, Path.EAGER, 2, 4, 5, told_at=307)
    facts = served(intake(), told, uses=(KeyUse(KEY, use),))
    (finding,) = found(facts)
    assert (finding.rule, finding.place) == ("HS401", place(RUNNER, 307))
    assert ("other code of it reads" in finding.message) is (use is Use.READ)


def test_ids_that_some_call_hands_to_the_target_are_read() -> None:
    mine = Told("set_layers", (2, 4, 6), KEY, "", place(RUNNER, 622))
    graph = row(Phase.VERIFY, Path.DECODE_GRAPH, 2, 4, 5)
    assert found(served(intake(), row(Phase.EXTEND, Path.EAGER, 3, 5, 7, more=(mine,)), graph)) == []


@pytest.mark.parametrize(
    ("value", "use", "spoken"),
    [(True, Use.IGNORED, True), (False, Use.IGNORED, False), (True, Use.READ, False), (True, Use.OPEN, False)],
)
def test_a_key_that_changes_what_the_draft_computes(value: bool, use: Use, spoken: bool) -> None:
    facts = served(intake(), uses=(KeyUse("norm_before_fc", use), KeyUse("vocab_size", Use.IGNORED)))
    findings = found(facts, made(norm_before_fc=value))
    assert [each.rule for each in findings] == (["HS403"] if spoken else [])


def test_a_key_inside_another() -> None:
    facts = served(intake(), uses=(KeyUse("eagle_config.use_aux_hidden_state", Use.IGNORED),))
    inside = made(eagle_config={**DRAFT["eagle_config"], "use_aux_hidden_state": False})  # type: ignore[dict-item]
    assert [each.rule for each in found(facts, inside)] == ["HS403"]


def test_a_draft_that_the_tree_does_not_know_or_cannot_make() -> None:
    (finding,) = found(served(None, no_draft=("Eagle3DeepseekV2ForCausalLM",)))
    assert finding.rule == "HS406"
    assert "Eagle3DeepseekV2ForCausalLM" in finding.message
    raising = intake(raises=Raise("ValueError", True, place(HEAD, 128)))
    (finding,) = found(served(replace(raising, projection=None)))
    assert (finding.rule, finding.place) == ("HS406", place(HEAD, 128))
    (finding,) = found(served(replace(intake(), projection=None, takes_states=False)))
    assert finding.rule == "HS406"


@pytest.mark.parametrize(
    ("tensors", "left", "severity"),
    [
        ({"layers.0.mlp.weight": False}, ("model.midlayer.mlp.weight",), "error"),
        ({"q_proj.bias": False}, (), "warning"),
        ({"t2d": False, "fc.weight": True}, ("model.embed_tokens.weight",), None),
        ({"x.weight": None}, (), None),
    ],
)
def test_tensors_that_the_loader_passes_over(
    tensors: dict[str, bool | None], left: tuple[str, ...], severity: str | None
) -> None:
    uses = tuple(TensorUse(name, taken) for name, taken in tensors.items())
    for open_ in ("", "a loop"):
        findings = found(served(intake(), loading=Loading(uses, left, place(HEAD, 90), open_)))
        assert [(each.rule, each.severity.value) for each in findings] == (
            [("HS405", severity)] if severity and not open_ else []
        )


def test_every_finding_is_worded_by_its_rule() -> None:
    assert set(WIDTH_CHECKS) <= {rule.id for rule in RULES}
    for finding in found(served(None, no_draft=("A",))):
        assert "{" not in finding.message + finding.fix
