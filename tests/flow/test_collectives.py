"""Rows and sums that move between ranks, in small models: what each rank holds of what is captured, and for how many rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcheck.flow.boundaries import Boundary, Capture, Reach
from flowcheck.flow.capturing import capture
from flowcheck.flow.forwarding import Forwarding
from flowcheck.flow.row_ranges import RowRange, capture_by_rows
from flowcheck.source import open_source
from tests.flow.tiny_models import CONFIG, write_tree

APPEND = "captured.append(hidden_states + residual)"
CLASS = "class Mlp(nn.Module):"
KNOWN_BY_NAME = [
    "attn_tp_all_reduce(x)",
    "attn_tp_reduce_scatter_tensor(out, x)",
    "attn_tp_all_gather_into_tensor(out, x)",
    "tensor_model_parallel_all_gather(x, dim=-1)",
    "dp_gather_partial(everybodys, x, batch)",
    "dp_gather_replicate(everybodys, x, batch)",
    "dp_scatter(out, everybodys, batch)",
    "dp_reduce_scatter_tensor(out, everybodys)",
    "get_local_dp_buffer()",
    "get_global_dp_buffer()",
    "get_attention_tp_rank()",
]
FUNCTIONS = "".join(f"def {f}:\n    raise NotImplementedError\n\n\n" for f in KNOWN_BY_NAME)
QUARTERS = """class QuarterLinear(RowLinear):
    def __init__(self, input_size, output_size, reduce_results=True):
        super().__init__(input_size, output_size, reduce_results)
        self.input_size_per_partition = input_size // 4

    def forward(self, x):
        out = self.quant_method.apply(self, x)
        return attn_tp_all_reduce(out) if self.reduce_results else out


"""
BY_FOUR = {
    CLASS: FUNCTIONS + QUARTERS + CLASS,
    "self.down_proj = RowLinear(": "self.down_proj = QuarterLinear(",
}
"""Each of two replicas of attention has four ranks, and everything is computed by them alone."""
INDENT = "\n                "


def run(folder: Path, edits: dict[str, str], dp_attention: int = 1, ids: tuple[int, ...] = (1,)) -> Capture:
    tree = open_source(str(write_tree(folder, {CLASS: FUNCTIONS + CLASS, **edits})))
    return capture(Forwarding(tree, dp_attention=dp_attention), "TinyForCausalLM", CONFIG, list(ids), ("extend",))[0]


def captured(folder: Path, *lines: str, dp_attention: int = 1, edits: dict[str, str] | None = None) -> Boundary:
    """The state that these lines capture before layer 2."""
    found = run(folder, {**(edits or {}), APPEND: INDENT.join(lines)}, dp_attention)
    assert (found.question, found.raised, found.unmodelled) == (None, None, ())
    return found.states[0].boundary


PART = ("whole = hidden_states + residual", "part = whole.tensor_split(8)[0]")


# --------------------------------------------------------------------------------------------------------- shares of rows
def test_a_share_of_the_rows(tmp_path: Path) -> None:
    state = captured(tmp_path, *PART, "captured.append(part)")
    assert (state.index, state.reach) == (2, Reach.SCATTERED)


def test_a_share_that_is_gathered(tmp_path: Path) -> None:
    state = captured(tmp_path, *PART, "captured.append(tensor_model_parallel_all_gather(part, dim=0))")
    assert (state.index, state.reach) == (2, Reach.COMPLETE)


def test_a_share_that_is_gathered_into_a_buffer(tmp_path: Path) -> None:
    lines = (
        *PART,
        "full = get_local_dp_buffer()",
        "attn_tp_all_gather_into_tensor(full, part)",
        "captured.append(full)",
    )
    state = captured(tmp_path, *lines)
    assert (state.index, state.reach) == (2, Reach.COMPLETE)


def test_shares_are_not_summed(tmp_path: Path) -> None:
    state = captured(tmp_path, *PART, "captured.append(tensor_model_parallel_all_reduce(part))")
    assert not state.certain
    assert "own rows" in state.reason


def test_columns_that_are_gathered(tmp_path: Path) -> None:
    state = captured(tmp_path, "captured.append(tensor_model_parallel_all_gather(hidden_states + residual))")
    assert state.index is None


def test_what_is_whole_and_gathered_has_everybodys_rows(tmp_path: Path) -> None:
    lines = "captured.append(tensor_model_parallel_all_gather(hidden_states + residual, dim=0))"
    found = run(tmp_path, {APPEND: lines})
    assert found.states[0].rows == "rows of all ranks of tp"
    assert found.rows != "all rows"


def test_a_sum_that_is_scattered(tmp_path: Path) -> None:
    edits = {
        "reduce_results=True)": "reduce_results=False)",
        "        hidden_states = self.attn(hidden_states)\n": (
            "        hidden_states = tensor_model_parallel_all_reduce(self.attn(hidden_states))\n"
        ),
        "        if residual is None:\n            residual = hidden_states\n": (
            "        if residual is not None:\n"
            "            hidden_states = tensor_model_parallel_all_reduce(hidden_states)\n"
            "        if residual is None:\n            residual = hidden_states\n"
        ),
        "        hidden_states, _ = self.norm(hidden_states, residual)\n": (
            "        hidden_states, _ = self.norm(tensor_model_parallel_all_reduce(hidden_states), residual)\n"
        ),
    }
    lines = (
        "owed = hidden_states.clone()",
        "part = owed.tensor_split(8)[0]",
        "attn_tp_reduce_scatter_tensor(part, owed)",
    )
    state = captured(tmp_path, *lines, "captured.append(part + residual.tensor_split(8)[0])", edits=edits)
    assert (state.index, state.reach, state.certain) == (2, Reach.SCATTERED, True)
    whole = captured(tmp_path, *lines, "captured.append(owed + residual)", edits=edits)
    assert not whole.certain  # a part of it was summed, the others were not


def test_what_is_written_into_a_share_is_seen_there(tmp_path: Path) -> None:
    lines = (
        "whole = hidden_states.clone()",
        "part = whole.tensor_split(8)[0]",
        "part += residual.tensor_split(8)[0]",
    )
    state = captured(tmp_path, *lines, "captured.append(part)")
    assert (state.index, state.reach, state.certain) == (2, Reach.SCATTERED, True)
    assert not captured(tmp_path, *lines, "captured.append(whole)").certain


def test_what_is_written_into_the_whole_may_be_seen_in_a_share(tmp_path: Path) -> None:
    lines = (*PART, "part += 0", "whole.zero_()", "captured.append(part)")
    assert not captured(tmp_path, *lines).certain


# --------------------------------------------------------------------------------------------------- what one rank does
ZEROS = "own = torch.zeros_like(hidden_states)"
OWN = ("if get_attention_tp_rank() == 0:", "    own += hidden_states + residual")


def test_what_rank_0_alone_adds_is_summed_once(tmp_path: Path) -> None:
    lines = (ZEROS, *OWN, "captured.append(attn_tp_all_reduce(own))")
    state = captured(tmp_path, *lines, dp_attention=2, edits=BY_FOUR)
    assert (state.index, state.reach, state.certain) == (2, Reach.COMPLETE, True)


def test_what_rank_0_alone_has_is_its_part(tmp_path: Path) -> None:
    state = captured(tmp_path, ZEROS, *OWN, "captured.append(own)", dp_attention=2, edits=BY_FOUR)
    assert (state.index, state.reach) == (2, Reach.PARTIAL)


def test_what_every_rank_adds_is_summed_as_often(tmp_path: Path) -> None:
    lines = (ZEROS, OWN[1].strip(), "captured.append(attn_tp_all_reduce(own))")
    state = captured(tmp_path, *lines, dp_attention=2, edits=BY_FOUR)
    assert state.index is None
    assert "counts otherwise" in state.reason


def test_what_the_other_ranks_drop(tmp_path: Path) -> None:
    lines = (
        "own = hidden_states + residual",
        "if get_attention_tp_rank() != 0:",
        "    own.fill_(0)",
        "captured.append(attn_tp_all_reduce(own))",
    )
    state = captured(tmp_path, *lines, dp_attention=2, edits=BY_FOUR)
    assert (state.index, state.reach, state.certain) == (2, Reach.COMPLETE, True)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            (ZEROS, "if get_attention_tp_rank() != 0:", "    own += hidden_states + residual"), id="the other ranks add"
        ),
        pytest.param(
            (
                "own = hidden_states",
                "if get_attention_tp_rank() == 0:",
                "    own = hidden_states + residual",
            ),
            id="another tensor",
        ),
        pytest.param(
            ("own = hidden_states + residual if get_attention_tp_rank() == 0 else residual",), id="an expression"
        ),
    ],
)
def test_what_differs_from_rank_to_rank_is_not_known(tmp_path: Path, lines: tuple[str, ...]) -> None:
    found = run(
        tmp_path,
        {**BY_FOUR, APPEND: INDENT.join((*lines, "captured.append(attn_tp_all_reduce(own))"))},
        dp_attention=2,
    )
    assert not found.states[0].boundary.certain


# ------------------------------------------------------------------------------------------------------------- replicas
MLP = "        hidden_states = self.mlp(hidden_states)\n"
ROWS_OF_ALL = {
    **BY_FOUR,
    "self.mlp = Mlp(config)": "self.mlp = RowLinear(config.hidden_size, config.hidden_size, reduce_results=REDUCES)",
    MLP: (
        "        everybodys = get_global_dp_buffer()\n"
        "        dp_gather_replicate(everybodys, hidden_states, forward_batch)\n"
        "        everybodys = self.mlp(everybodys)\n"
        "        hidden_states = get_local_dp_buffer()\n"
        "        SCATTER\n"
    ),
}


def with_rows_of_all(reduces: bool, scatter: str) -> dict[str, str]:
    return {k: v.replace("REDUCES", str(reduces)).replace("SCATTER", scatter) for k, v in ROWS_OF_ALL.items()}


@pytest.mark.parametrize(
    ("reduces", "scatter", "reach"),
    [
        pytest.param(True, "dp_scatter(hidden_states, everybodys, forward_batch)", Reach.COMPLETE, id="summed"),
        pytest.param(
            False, "dp_reduce_scatter_tensor(hidden_states, everybodys)", Reach.COMPLETE, id="summed on the way"
        ),
        pytest.param(False, "dp_scatter(hidden_states, everybodys, forward_batch)", Reach.PARTIAL, id="never summed"),
    ],
)
def test_layers_that_see_the_rows_of_all_replicas(tmp_path: Path, reduces: bool, scatter: str, reach: Reach) -> None:
    found = run(tmp_path, with_rows_of_all(reduces, scatter), dp_attention=2)
    state = found.states[0]
    assert (found.question, found.raised, found.unmodelled) == (None, None, ())
    assert (state.boundary.index, state.boundary.reach, state.rows) == (2, reach, "all rows")


def test_rows_of_different_replicas_are_not_summed(tmp_path: Path) -> None:
    found = run(tmp_path, {}, dp_attention=2)  # each layer sums over all eight ranks what four of them have
    assert not found.states[0].boundary.certain
    assert "replicas" in found.states[0].boundary.reason


BY_EIGHT_SUMMED_BY_FOUR = {
    **with_rows_of_all(False, "dp_reduce_scatter_tensor(hidden_states, everybodys)"),
    "hidden_states = self.attn(hidden_states)": "hidden_states = attn_tp_all_reduce(self.attn(hidden_states))",
    "config.intermediate_size, config.hidden_size, reduce_results=True)": (
        "config.intermediate_size, config.hidden_size, reduce_results=False)"
    ),
    "self.down_proj = RowLinear(": "self.down_proj = RowLinear(",
}


@pytest.mark.parametrize(
    ("edits", "partial", "unfinished"),
    [
        pytest.param(BY_EIGHT_SUMMED_BY_FOUR, True, True, id="by eight, summed by four"),
        pytest.param(
            with_rows_of_all(False, "dp_reduce_scatter_tensor(hidden_states, everybodys)"), False, False, id="complete"
        ),
        pytest.param(
            {
                **BY_FOUR,
                "config.intermediate_size, config.hidden_size, reduce_results=True)": (
                    "config.intermediate_size, config.hidden_size, reduce_results=False)"
                ),
                "hidden_states = self.attn(hidden_states)": "hidden_states = attn_tp_all_reduce(self.attn(hidden_states))",
                "self.input_layernorm(hidden_states, residual)": (
                    "self.input_layernorm(attn_tp_all_reduce(hidden_states), residual)"
                ),
                "self.norm(hidden_states, residual)": "self.norm(attn_tp_all_reduce(hidden_states), residual)",
            },
            True,
            False,
            id="captured before the sum",
        ),
    ],
)
def test_a_class_that_never_completes_its_sums(
    tmp_path: Path, edits: dict[str, str], partial: bool, unfinished: bool
) -> None:
    found = run(tmp_path, edits, dp_attention=2)
    assert (found.question, found.raised, found.unmodelled) == (None, None, ())
    assert (found.states[0].boundary.reach is Reach.PARTIAL) is partial
    assert found.unfinished is unfinished


def test_ranks_that_are_no_whole_replicas(tmp_path: Path) -> None:
    tree = open_source(str(write_tree(tmp_path, {})))
    with pytest.raises(ValueError, match="8 ranks cannot be 3 replicas"):
        Forwarding(tree, dp_attention=3)


# ------------------------------------------------------------------------------------------------------- numbers of rows
def by_rows(folder: Path, edits: dict[str, str]) -> tuple[RowRange, ...]:
    tree = open_source(str(write_tree(folder, {CLASS: FUNCTIONS + CLASS, **edits})))
    return capture_by_rows(Forwarding(tree), "TinyForCausalLM", CONFIG, [1], "extend")


def reaches(ranges: tuple[RowRange, ...]) -> list[tuple[int, int | None, int | None]]:
    assert all(r.whole for r in ranges)
    return [(r.low, r.high, r.capture.states[0].boundary.index if r.capture.states else -1) for r in ranges]


def test_one_answer_for_any_number_of_rows(tmp_path: Path) -> None:
    ranges = by_rows(tmp_path, {})
    assert reaches(ranges) == [(1, None, 2)]
    assert (ranges[0].limits, ranges[0].cuts) == ((), ())


def test_where_the_code_goes_another_way_and_captures_the_same(tmp_path: Path) -> None:
    append = "captured.append(hidden_states + residual if hidden_states.shape[0] > 64 else residual + hidden_states)"
    (found,) = by_rows(tmp_path, {APPEND: append})
    assert (found.low, found.high, found.cuts) == (1, None, (65,))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        pytest.param("hidden_states.shape[0] <= 100", [(1, 100, 2), (101, None, None)], id="at most"),
        pytest.param("100 > hidden_states.shape[0]", [(1, 99, 2), (100, None, None)], id="less, the other way round"),
        pytest.param("len(input_ids) == 7", [(1, 6, None), (7, 7, 2), (8, None, None)], id="exactly"),
        pytest.param("input_ids.shape[0] > 5000", [(1, 5000, None), (5001, None, 2)], id="more"),
        pytest.param("0 < input_ids.shape[0]", [(1, None, 2)], id="any"),
        pytest.param(
            "hidden_states.shape[0] <= 100 and hidden_states.shape[0] > 20",
            [(1, 20, None), (21, 100, 2), (101, None, None)],
            id="between",
        ),
        pytest.param(
            "hidden_states.shape[0] > 1000 and hidden_states.shape[0] != 1200",
            [(1, 1000, None), (1001, 1199, 2), (1200, 1200, None), (1201, None, 2)],
            id="a limit behind a limit",
        ),
        pytest.param(
            "hidden_states.tensor_split(8)[0].shape[0] < 10", [(1, 79, 2), (80, None, None)], id="a share of the rows"
        ),
    ],
)
def test_limits(tmp_path: Path, test: str, expected: list[tuple[int, int | None, int | None]]) -> None:
    append = f"captured.append(hidden_states + residual if {test} else residual.clone())"
    ranges = by_rows(tmp_path, {APPEND: append})
    assert reaches(ranges) == expected
    for r in ranges:
        assert {limit.place.symbol for limit in r.limits} == ({"Model.forward"} if len(ranges) > 1 else set())
        assert {limit.place.path for limit in r.limits} <= {"sglang/srt/models/tiny.py"}
