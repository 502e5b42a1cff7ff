"""Which boundaries small models capture: every edit changes one thing, and the answer follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from flowcheck.flow.boundaries import Capture, Reach
from flowcheck.flow.capturing import capture
from flowcheck.flow.forwarding import Forwarding
from flowcheck.source import open_source
from tests.flow.tiny_models import CONFIG, write_tree


def run(folder: Path, edits: dict[str, str], ids: list[int] | None, phase: str = "extend") -> Capture:
    tree = open_source(str(write_tree(folder, edits)))
    return capture(Forwarding(tree), "TinyForCausalLM", CONFIG, ids, (phase,))[0]


def of_told(
    folder: Path, edits: dict[str, str], *told: Sequence[int] | None, config: Mapping[str, object] = CONFIG
) -> Capture:
    tree = open_source(str(write_tree(folder, edits)))
    return capture(Forwarding(tree), "TinyForCausalLM", config, phases=("extend",), told=told)[0]


APPEND = "captured.append(hidden_states + residual)"
SUM = "hidden_states.clone() if residual is None else hidden_states + residual"
IN_PLACE = "hidden_states += residual\n                residual.zero_()\n                "
AFTER = "        hidden_states, _ = self.norm(hidden_states, residual)\n"
LAST = "        if len(self.layers) in self.layers_to_capture:\n            captured.append(hidden_states + residual)\n"
LATE = {
    "reduce_results=True)": "reduce_results=False)",
    "        hidden_states = self.attn(hidden_states)\n": (
        "        hidden_states = tensor_model_parallel_all_reduce(self.attn(hidden_states))\n"
    ),
    "        if residual is None:\n            residual = hidden_states\n": (
        "        if residual is not None:\n"
        "            hidden_states = tensor_model_parallel_all_reduce(hidden_states)\n"
        "        if residual is None:\n            residual = hidden_states\n"
    ),
    AFTER: "        hidden_states = tensor_model_parallel_all_reduce(hidden_states)\n" + AFTER,
}
"""Every layer leaves its last sum to the next one."""

FUSED = (
    'global_server_args_dict["tp_size"] == 1 or global_server_args_dict.get("enable_flashinfer_allreduce_fusion", True)'
)
DICT = "import torch\n\nglobal_server_args_dict = {}\nglobal_server_args_dict.update(torch.load('arguments'))\n"

EXACT = [
    pytest.param({}, [1, 3], (2, 4), id="the residual is added"),
    pytest.param({}, None, (2, 3), id="the tree's own default"),
    pytest.param({}, [3, 1], (2, 4), id="the order of the ids is lost"),
    pytest.param({"[i + 1 for i in layer_ids]": "list(layer_ids)"}, [2, 4], (2, 4), id="literal ids"),
    pytest.param({"[i + 1 for i in layer_ids]": "[i + 2 for i in layer_ids]"}, [1, 2], (3, 4), id="off by one"),
    pytest.param({APPEND: f"captured.append({SUM})"}, [-1, 1], (0, 2), id="the embedding"),
    pytest.param({APPEND: "captured.append(torch.add(hidden_states, residual))"}, [1], (2,), id="torch.add"),
    pytest.param(
        {APPEND: "captured.append(hidden_states.clone().add_(residual))"}, [1], (2,), id="a sum in place of a copy"
    ),
    pytest.param({APPEND: "captured.append((residual + hidden_states).contiguous())"}, [1], (2,), id="contiguous"),
    pytest.param({AFTER: LAST + AFTER}, [1, 5], (2, 6), id="the input of the final norm"),
    pytest.param({}, [1, 5], (2,), id="the last layer's output is never captured"),
    pytest.param(
        {APPEND: f"captured.append(hidden_states if torch.compiler.is_compiling() else {SUM})"},
        [1],
        (2,),
        id="nothing compiles what runs eagerly",
    ),
    pytest.param(
        {APPEND: f"captured.append(hidden_states if {FUSED} else {SUM})", "import torch\n": DICT},
        [1],
        (2,),
        id="server arguments in a dict",
    ),
]


@pytest.mark.parametrize("other", ["positions.shape[0]", "()", "(hidden_states.shape[1],)"])
def test_a_number_of_rows_is_compared_with_what_is_no_number(tmp_path: Path, other: str) -> None:
    asked = f"        if hidden_states.shape[0] == {other}:\n            hidden_states = hidden_states + 0\n"
    found = run(tmp_path, {AFTER: asked + AFTER}, [1, 3])
    assert (found.question, found.boundaries, found.limits) == (None, (2, 4), ())


UNSIZED = {
    "config.hidden_size, config.intermediate_size)": "config.hidden_size, config.wide or config.hidden_size // config.n)",
    "config.intermediate_size, config.hidden_size, reduce_results=True)": (
        "config.wide or config.hidden_size // config.n, config.hidden_size, reduce_results=False)"
    ),
}
"""Nobody knows how wide a layer is that leaves its sum to others, and so which part of it a rank has."""


def test_of_how_many_parts_an_unknown_size_is_one_is_not_guessed(tmp_path: Path) -> None:
    (state,) = run(tmp_path, UNSIZED, [1]).states
    assert not state.boundary.certain


def test_a_layer_may_say_over_how_many_ranks_it_is_split(tmp_path: Path) -> None:
    edits = {old: f"{new}{SAID}" if "False" in new else new for old, new in UNSIZED.items()}
    (state,) = run(tmp_path, edits, [1]).states
    assert (state.boundary.index, state.boundary.reach, state.boundary.certain) == (2, Reach.PARTIAL, True)


SAID = "\n        self.down_proj.tp_size = 8"


KERNEL = """import torch
import triton


@triton.jit
def _kernel(x, weight, shared, out):
    pass


def NAME(hidden_states, gate_weight, shared_output, final_hidden_states):
    assert hidden_states.is_contiguous()
    _kernel[(hidden_states.shape[0],)](hidden_states, gate_weight, shared_output, final_hidden_states)
"""


def gated(name: str, into: str = "routed") -> dict[str, str]:
    """A shared expert beside the others, added in a kernel that multiplies it by a gate."""
    return {
        "import torch\n": KERNEL.replace("NAME", name),
        "        self.mlp = Mlp(config)\n": (
            "        self.mlp, self.shared = Mlp(config), Mlp(config)\n"
            "        self.gate = nn.Linear(config.hidden_size, 1, bias=False)\n"
        ),
        "        hidden_states = self.mlp(hidden_states)\n": (
            "        routed, shared = self.mlp(hidden_states), self.shared(hidden_states)\n"
            f"        {name}(hidden_states, self.gate.weight.squeeze(), shared, {into})\n"
            "        hidden_states = routed\n"
        ),
    }


def test_a_kernel_that_adds_a_gated_expert_in_place(tmp_path: Path) -> None:
    found = run(tmp_path, gated("fused_gate_sigmoid_mul_add"), [1, 3])
    assert (found.question, found.raised) == (None, None)
    assert found.boundaries == (2, 4)
    assert all(s.boundary.certain and s.boundary.reach is Reach.COMPLETE for s in found.states)


def test_a_kernel_that_adds_a_gated_expert_to_what_was_captured(tmp_path: Path) -> None:
    (state,) = run(tmp_path, gated("fused_gate_sigmoid_mul_add", into="residual"), [1]).states
    assert state.boundary.index == 2  # the sum was captured, not the tensor that the kernel writes
    edits = {
        **gated("fused_gate_sigmoid_mul_add", into="residual"),
        APPEND: f"{IN_PLACE}captured.append(hidden_states)",
    }
    (state,) = run(tmp_path, edits, [1]).states
    assert state.overwritten is not None


def test_a_kernel_that_nobody_knows_is_a_question(tmp_path: Path) -> None:
    (state,) = run(tmp_path, gated("another_kernel"), [1]).states
    assert not state.boundary.certain


@pytest.mark.parametrize("phase", ["extend", "verify"])
@pytest.mark.parametrize(("edits", "ids", "expected"), EXACT)
def test_boundaries(
    tmp_path: Path, edits: dict[str, str], ids: list[int] | None, expected: tuple[int, ...], phase: str
) -> None:
    found = run(tmp_path, edits, ids, phase)
    assert (found.question, found.raised) == (None, None)
    assert found.boundaries == expected
    assert all(s.boundary.certain and s.boundary.reach is Reach.COMPLETE for s in found.states)
    assert found.width == str(64 * len(expected))
    assert found.rows == "all rows"


def test_places(tmp_path: Path) -> None:
    found = run(tmp_path, {}, [1])
    state = found.states[0]
    assert state.made is not None
    assert state.appended is not None
    assert state.made.path == state.appended.path == "sglang/srt/models/tiny.py"
    assert state.made.symbol == "Model.forward"
    assert found.concat is not None
    assert found.concat.path == "sglang/srt/layers/logits_processor.py"
    assert state.overwritten is None


def test_without_the_residual(tmp_path: Path) -> None:
    state = run(tmp_path, {APPEND: "captured.append(hidden_states)"}, [1]).states[0]
    assert state.at_capture.index is None
    assert not state.at_capture.residual
    assert state.boundary.normed  # the next norm writes there


def test_a_clone_without_the_residual_is_what_it_was(tmp_path: Path) -> None:
    state = run(tmp_path, {APPEND: "captured.append(hidden_states.clone())"}, [1]).states[0]
    assert state.boundary == state.at_capture
    assert state.boundary.index is None
    assert state.boundary.certain
    assert not state.boundary.residual


def test_an_alias_that_later_layers_overwrite(tmp_path: Path) -> None:
    edits = {
        APPEND: "hidden_states += residual\n                residual.zero_()\n                captured.append(hidden_states)"
    }
    state = run(tmp_path, edits, [1]).states[0]
    assert state.at_capture.index == 2
    assert state.boundary.normed  # the fused kernel writes the norm of the sum where the captured tensor lies
    assert state.overwritten is not None
    assert state.overwritten.path == "sglang/srt/layers/layers.py"


def test_the_embedding_lies_where_the_stream_is_summed_up(tmp_path: Path) -> None:
    edits = {APPEND: f"captured.append({SUM.replace('.clone()', '')})"}
    state = run(tmp_path, edits, [-1, 1]).states[0]
    assert state.at_capture.index == 0
    assert state.boundary.index == 6  # by the end, every layer has been added where the embedding was
    assert state.overwritten is not None


def test_a_copy_is_not_overwritten(tmp_path: Path) -> None:
    edits = {APPEND: f"{IN_PLACE}captured.append(hidden_states.clone())"}
    state = run(tmp_path, edits, [1]).states[0]
    assert state.boundary.index == 2
    assert not state.boundary.normed


def test_partial_sums(tmp_path: Path) -> None:
    found = run(tmp_path, LATE, [1])
    assert found.states[0].boundary.index == 2
    assert found.states[0].boundary.reach is Reach.PARTIAL


def test_captured_after_the_sum(tmp_path: Path) -> None:
    edits = {**LATE, APPEND: "captured.append(tensor_model_parallel_all_reduce(hidden_states.clone()) + residual)"}
    found = run(tmp_path, edits, [1])
    assert found.states[0].boundary.index == 2
    assert found.states[0].boundary.reach is Reach.COMPLETE


def test_a_sum_that_may_be_made_in_place_is_not_made_twice(tmp_path: Path) -> None:
    edits = {**LATE, APPEND: "captured.append(tensor_model_parallel_all_reduce(hidden_states) + residual)"}
    found = run(tmp_path, edits, [1])
    assert not found.states[0].boundary.certain  # the layer sums it again: whether that is of a sum is not known


def test_a_complete_state_that_is_summed_again(tmp_path: Path) -> None:
    edits = {APPEND: "captured.append(tensor_model_parallel_all_reduce(hidden_states + residual))"}
    state = run(tmp_path, edits, [1]).states[0]
    assert state.boundary.index is None
    assert state.boundary.certain
    assert "counts otherwise" in state.boundary.reason


def test_sixteen_columns_of_sixty_four(tmp_path: Path) -> None:
    found = run(tmp_path, {APPEND: "captured.append((hidden_states + residual)[:, :16])"}, [1])
    assert found.states[0].width == "16"
    assert found.width == "16"


def test_nothing_captured_is_unpacked(tmp_path: Path) -> None:
    found = run(tmp_path, {}, [])
    assert found.raised is not None
    assert found.raised[0] == "ValueError"


def test_the_embedding_without_a_residual_raises(tmp_path: Path) -> None:
    found = run(tmp_path, {}, [-1, 1])
    assert found.raised is not None
    assert found.raised[0] == "TypeError"


def test_something_that_nobody_knows(tmp_path: Path) -> None:
    edits = {
        "from sglang.srt.layers.logits_processor import": "import mystery\nfrom sglang.srt.layers.logits_processor import",
        APPEND: "captured.append(mystery.mix(hidden_states, residual))",
    }
    found = run(tmp_path, edits, [1])
    assert not found.states[0].boundary.certain
    assert any("mystery.mix" in u for u in found.unmodelled)


ONE_OF = """total = hidden_states + residual
                if mystery.chosen:
                    total = {other}
                """
MYSTERY = {
    "from sglang.srt.layers.logits_processor import": "import mystery\nfrom sglang.srt.layers.logits_processor import"
}


def test_a_state_that_is_one_of_two_with_the_same_content(tmp_path: Path) -> None:
    same = ONE_OF.format(other="total.clone()") + "captured.append(total)"
    found = run(tmp_path, {**MYSTERY, APPEND: same}, [1])
    assert (found.boundaries, found.states[0].boundary.certain) == ((2,), True)


@pytest.mark.parametrize("other", ["residual", "total[:, :16]", "mystery.mix(total)", "mystery.nothing"])
def test_a_state_that_is_one_of_two_with_other_contents(other: str, tmp_path: Path) -> None:
    found = run(tmp_path, {**MYSTERY, APPEND: ONE_OF.format(other=other) + "captured.append(total)"}, [1])
    (state,) = found.states
    assert (state.boundary.index, state.boundary.certain) == (None, False)
    assert "<object" not in state.boundary.reason


@pytest.mark.parametrize(
    "write",
    [
        pytest.param("captured[-1].mul_(positions)", id="an operation that nobody follows"),
        pytest.param("torch.relu_(captured[-1])", id="torch.relu_"),
        pytest.param("torch.nn.functional.silu(captured[-1], inplace=True)", id="inplace"),
        pytest.param("captured[-1].data = hidden_states", id="data"),
        pytest.param("captured[-1][:, :8] = 0", id="some columns"),
        pytest.param("captured[-1][:2] = 0", id="some rows"),
        pytest.param("torch.ops.some.kernel(captured[-1])", id="a kernel"),
        pytest.param("captured[-1].to(torch.float32).zero_()", id="what may be a copy or not"),
    ],
)
def test_what_is_written_after_the_capture(tmp_path: Path, write: str) -> None:
    found = run(tmp_path, {APPEND: f"{APPEND}\n                {write}"}, [1])
    assert found.states[0].at_capture.index == 2
    assert found.states[0].boundary.index is None
    assert found.states[0].overwritten is not None


SHARED = {
    "        self.mlp = Mlp(config)\n": "",
    "    def forward(self, positions, hidden_states, forward_batch, residual):": (
        "    def forward(self, positions, hidden_states, forward_batch, residual, bank):"
    ),
    "hidden_states = self.mlp(hidden_states)": "hidden_states = bank[self.index % 2](hidden_states)",
    "        self.layers_to_capture = []\n": (
        "        self.layers_to_capture = []\n        self.bank = nn.ModuleList([Mlp(config), Mlp(config)])\n"
    ),
    "layer(positions, hidden_states, forward_batch, residual)": (
        "layer(positions, hidden_states, forward_batch, residual, self.bank)"
    ),
}


def test_what_layers_share_is_added_by_the_layer_that_calls_it(tmp_path: Path) -> None:
    found = run(tmp_path, SHARED, [1, 3])
    assert (found.raised, found.question) == (None, None)
    assert found.boundaries == (2, 4)


def test_a_capture_that_lacks_what_layers_share_is_no_boundary(tmp_path: Path) -> None:
    found = run(
        tmp_path, {**SHARED, "captured.append(hidden_states + residual)": "captured.append(residual.clone())"}, [1, 3]
    )
    assert found.boundaries == (None, None)
    assert all(state.boundary.certain for state in found.states)


def test_a_class_without_a_hook(tmp_path: Path) -> None:
    found = run(tmp_path, {"def set_eagle3_layers_to_capture": "def set_layers"}, [1])
    assert found.question is not None
    assert "has no set_eagle3_layers_to_capture" in found.question


WITHOUT_SIZES = {k: v for k, v in CONFIG.items() if k not in ("intermediate_size", "rms_norm_eps", "vocab_size")}
OF_TWO_CLASSES = {
    "        self.mlp = Mlp(config)\n": "        self.mlp = Experts(config) if index >= config.first_dense else Mlp(config)\n",
    "class Layer(nn.Module):": (
        "class Experts(nn.Module):\n"
        "    def __init__(self, config):\n"
        "        super().__init__()\n"
        "        self.out_proj = RowLinear(config.moe_size, config.hidden_size, reduce_results=REDUCES)\n\n"
        "    def forward(self, x):\n"
        "        return self.out_proj(x)\n\n\n"
        "class Layer(nn.Module):"
    ),
}


def of_two_classes(reduces: bool) -> dict[str, str]:
    return {k: v.replace("REDUCES", str(reduces)) for k, v in OF_TWO_CLASSES.items()}


def test_sizes_that_nobody_knows(tmp_path: Path) -> None:
    """A layer that takes a part of the columns is known by the division, not by the numbers."""
    found = of_told(tmp_path, {}, [1, 3], config=WITHOUT_SIZES)
    assert (found.question, found.raised, found.boundaries) == (None, None, (2, 4))
    assert all(s.boundary.certain and s.boundary.reach is Reach.COMPLETE for s in found.states)


def test_partial_sums_of_sizes_that_nobody_knows(tmp_path: Path) -> None:
    found = of_told(tmp_path, LATE, [1], config=WITHOUT_SIZES)
    assert found.boundaries == (2,)
    assert found.states[0].boundary.reach is Reach.PARTIAL


def test_a_layer_that_may_be_of_either_class(tmp_path: Path) -> None:
    """Which of two classes a layer has does not matter, if the stream has what it adds either way."""
    found = of_told(tmp_path, of_two_classes(True), [1, 3], config=WITHOUT_SIZES)
    assert (found.question, found.raised, found.boundaries) == (None, None, (2, 4))
    assert all(s.boundary.certain and s.boundary.reach is Reach.COMPLETE for s in found.states)


def test_a_layer_that_may_leave_its_sum_to_others(tmp_path: Path) -> None:
    found = of_told(tmp_path, of_two_classes(False), [1], config=WITHOUT_SIZES)
    state = found.states[0].boundary
    assert not state.certain
    assert "on some paths only" in state.reason


CHOOSES = {
    "        hidden_states = self.mlp(hidden_states)\n": (
        "        SEEN\n"
        "        if self.chosen:\n"
        "            hidden_states = self.mlp(hidden_states)\n"
        "        else:\n"
        "            hidden_states = self.attn(hidden_states)\n"
    ),
    "        self.index = index\n": "        self.index = index\n        self.chosen, self.other = config.chosen, config.other\n",
}


@pytest.mark.parametrize(
    ("seen", "certain"),
    [
        pytest.param(
            "self.seen = self.mlp(hidden_states) if self.other else self.attn(hidden_states)", False, id="another"
        ),
        pytest.param(
            "self.seen = self.attn(hidden_states) if self.chosen else self.mlp(hidden_states)", False, id="opposite"
        ),
        pytest.param("self.seen = self.mlp(hidden_states)", False, id="one side"),
    ],
)
def test_what_another_path_adds(tmp_path: Path, seen: str, certain: bool) -> None:
    """A state in which a path has put one of two things is the stream's only if it is the same path's."""
    edits = {k: v.replace("SEEN", seen) for k, v in CHOOSES.items()}
    assert of_told(tmp_path / "stream", edits, [1]).boundaries == (2,)
    edits[APPEND] = "captured.append(self.layers[i - 1].seen + residual)"
    found = of_told(tmp_path / "seen", edits, [1])
    assert found.boundaries == (None,)
    assert found.states[0].boundary.certain is certain


def test_a_choice_does_not_hide_what_is_missing(tmp_path: Path) -> None:
    edits = {
        **{k: v.replace("SEEN", "pass") for k, v in CHOOSES.items()},
        APPEND: "captured.append(hidden_states.clone())",
    }
    found = of_told(tmp_path, edits, [1])
    assert found.boundaries == (None,)
    assert found.states[0].boundary.certain
    assert not found.states[0].boundary.residual


def test_setter_calls_come_one_after_the_other(tmp_path: Path) -> None:
    found = of_told(tmp_path, {}, None, [3])
    assert found.told == (None, (3,))
    assert found.boundaries == (4,)


def test_flags_of_two_calls_add_up(tmp_path: Path) -> None:
    edits = {
        "            self.model.layers_to_capture = [i + 1 for i in layer_ids]": (
            "            for i in layer_ids:\n                self.model.layers[i + 1].wanted = True"
        ),
        "if i in self.layers_to_capture:": "if layer.wanted:",
        "        self.index = index\n": "        self.index = index\n        self.wanted = False\n",
    }
    assert of_told(tmp_path, edits, [3], [1]).boundaries == (2, 4)


def test_a_model_that_nobody_tells_captures_nothing(tmp_path: Path) -> None:
    found = of_told(tmp_path, {})
    assert (found.question, found.raised, found.states) == (None, None, ())


def test_ids_out_of_range_raise_where_the_setter_says(tmp_path: Path) -> None:
    edits = {
        "            self.model.layers_to_capture = [i + 1 for i in layer_ids]": (
            "            for i in layer_ids:\n                self.model.layers[i + 1].wanted = True"
        )
    }
    found = of_told(tmp_path, edits, [1, 5])
    assert found.raised is not None
    assert found.raised[0] == "IndexError"
    assert found.raised[1] is not None
    assert found.raised[1].symbol == "TinyForCausalLM.set_eagle3_layers_to_capture"


def test_a_setter_that_refuses(tmp_path: Path) -> None:
    edits = {
        "        self.capture_aux_hidden_states = True\n": (
            "        self.capture_aux_hidden_states = True\n"
            "        if layer_ids is not None and min(layer_ids) < 0:\n"
            '            raise ValueError("negative")\n'
        )
    }
    found = of_told(tmp_path, edits, [-1, 2])
    assert found.raised is not None
    assert found.raised[0] == "ValueError"


SCALED = {
    "        self.attn = Mlp(config)\n": (
        '        self.register_buffer("scale", torch.ones(1))\n        self.attn = Mlp(config)\n'
    ),
    "        hidden_states = self.mlp(hidden_states)\n        return hidden_states, residual\n": (
        "        hidden_states = self.mlp(hidden_states)\n"
        "        return hidden_states * self.scale, residual * self.scale\n"
    ),
}
"""Every layer scales the whole stream."""


def test_layers_that_scale_the_whole_stream(tmp_path: Path) -> None:
    """What later layers multiply it by is not in a boundary; what its own layer does not yet multiply it by is not either."""
    assert run(tmp_path / "plain", SCALED, [1, 3]).boundaries == (2, 4)
    late = {**SCALED, APPEND: "captured.append((hidden_states + residual) * layer.scale)"}
    early = {**SCALED, APPEND: "captured.append(hidden_states / self.layers[i - 1].scale + residual)"}
    for edits in (late, early):
        found = run(tmp_path / str(len(edits[APPEND])), edits, [1, 3])
        assert found.boundaries == (None, None)
        assert all(s.boundary.certain and "counts otherwise" in s.boundary.reason for s in found.states)


NORM_ADD = """
def gemma_rmsnorm_residual_scalar(x, weight, residual, scalar, eps=1e-6):
    out = torch.empty_like(x)
    kernel[(1,)](x, weight, residual, scalar, out)
    return out


class Layer(nn.Module):
"""


def test_a_norm_a_residual_and_a_scale_in_one_kernel(tmp_path: Path) -> None:
    edits = {
        **SCALED,
        "class Layer(nn.Module):\n": NORM_ADD.lstrip(),
        "        return hidden_states * self.scale, residual * self.scale\n": (
            "        norm = self.input_layernorm\n"
            "        summed = gemma_rmsnorm_residual_scalar(hidden_states, norm.weight.data, residual, self.scale, norm.eps)\n"
            "        return torch.zeros_like(summed), summed\n"
        ),
    }
    assert run(tmp_path, edits, [1, 3]).boundaries == (2, 4)


BY_ROWS = "captured.append(hidden_states if input_ids.shape[0] > 64 else hidden_states + residual)"


@pytest.mark.parametrize("append", [f"captured.append({SUM})", BY_ROWS])
def test_runs_of_one_model_do_not_see_each_other(tmp_path: Path, append: str) -> None:
    """Models are built once: what one run stores, is told or notes is not there for the next."""
    tree = open_source(str(write_tree(tmp_path, {APPEND: append})))
    shared = Forwarding(tree)
    asked: list[tuple[Sequence[Sequence[int] | None], str, int]] = [
        ([[1]], "extend", 37), ([[2], None], "verify", 4096), ([], "extend", 37), ([[-1, 1]], "verify", 1), ([[1]], "extend", 37),
    ]  # fmt: skip
    for told, phase, rows in asked:
        shared.rows = rows
        found = capture(shared, "TinyForCausalLM", CONFIG, (), (phase,), told=told)
        assert found == capture(Forwarding(tree, rows=rows), "TinyForCausalLM", CONFIG, (), (phase,), told=told)
