"""What a block of numbers is: every explanation, the rule of the margin, and what stays inconclusive."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from flowcheck.probe.protocol import Block, Limits  # noqa: E402
from flowcheck.probe.rank.identify import Reference, coarsely, identify, split  # noqa: E402

LAYERS, ROWS, WIDTH, RANKS = 6, 5, 16, 4
LIMITS = Limits()


def stream(seed: int = 0) -> Reference:
    """A stream to which every layer adds: boundary k+1 is boundary k and what layer k gave."""
    made = torch.Generator().manual_seed(seed)

    def numbers() -> Any:
        return torch.randn(ROWS, WIDTH, generator=made)

    outputs = [numbers() for _ in range(LAYERS + 1)]
    residuals = [torch.zeros(ROWS, WIDTH)]
    for k in range(1, LAYERS + 1):
        residuals.append(residuals[k - 1] + outputs[k - 1] + numbers())  # what its attention gave is in the residual
    boundaries = [a + b for a, b in zip(outputs, residuals, strict=True)]
    return Reference(torch.stack(boundaries), torch.stack(outputs), torch.stack(residuals))


OF = stream()
NOISE = 1e-7 * torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(7))


def seen(
    block: Any, total: Any = None, *, of: Reference = OF, rank: int = 1, ranks: int = RANKS, limits: Limits = LIMITS
) -> Block:
    return identify(2, block, total, of, limits, rank, ranks)


def parts(whole: Any, rank: int) -> Any:
    """What one rank holds of a sum over the ranks."""
    pieces = torch.randn(RANKS, *whole.shape, generator=torch.Generator().manual_seed(1))
    pieces[-1] += whole - pieces.sum(0)
    return pieces[rank]


@pytest.mark.parametrize("k", range(LAYERS + 1))
def test_a_boundary_is_named_through_the_noise_of_another_order_of_sums(k: int) -> None:
    found = seen(OF.boundaries[k] + NOISE)
    assert (found.index, found.identity, found.boundary) == (2, "boundary", k)
    assert found.distance is not None
    assert 0 < found.distance <= LIMITS.tolerance
    assert found.margin is not None
    assert found.margin >= LIMITS.margin


def test_the_embedding_is_called_so() -> None:
    assert seen(OF.boundaries[0]).explanation == "the embedding (boundary 0)"


def test_boundaries_that_are_too_alike_are_no_answer() -> None:
    boundaries = OF.boundaries.clone()
    boundaries[4] = boundaries[3] * (1 + 900 * LIMITS.tolerance)
    of = replace(OF, boundaries=boundaries)
    for k in (3, 4):
        found = seen(boundaries[k], of=of)
        assert (found.identity, found.boundary) == ("inconclusive", None)
        assert "boundary 3" in found.explanation
        assert "boundary 4" in found.explanation
    assert seen(boundaries[2], of=of).identity == "boundary"


def test_the_margin_counts_in_every_row() -> None:
    """One row in which two boundaries are alike, and the block may be either there."""
    boundaries = OF.boundaries.clone()
    boundaries[4, 0] = boundaries[3, 0]
    assert seen(boundaries[3], of=replace(OF, boundaries=boundaries)).identity == "inconclusive"


def test_one_wrong_row_is_no_boundary() -> None:
    block = OF.boundaries[3].clone()
    block[2] = OF.boundaries[2, 2]
    found = seen(block)
    assert (found.identity, found.boundary) == ("other", None)
    assert found.explanation == "rows 0-1, 3-4 of 5 hold boundary 3, the others boundary 2"


def test_parts_of_a_sum() -> None:
    found = seen(parts(OF.boundaries[3], 1), OF.boundaries[3])
    assert (found.identity, found.boundary) == ("partial", 3)
    assert found.explanation == "rank 1 holds one of 4 parts of boundary 3: the sum over the ranks is missing"


def test_equal_parts_of_a_sum() -> None:
    found = seen(OF.boundaries[3] / RANKS, OF.boundaries[3])
    assert (found.identity, found.boundary) == ("partial", 3)
    assert found.explanation.startswith("rank 1 holds 1/4 of boundary 3")


def test_a_part_of_the_last_addition_beside_the_whole_residual() -> None:
    block = parts(OF.outputs[3], 1) + OF.residuals[3]
    found = seen(block, OF.outputs[3] + RANKS * OF.residuals[3])
    assert (found.identity, found.boundary) == ("partial", 3)
    assert "beside the whole residual" in found.explanation


ONE = {
    "without its residual": lambda k: OF.outputs[k],
    "the residual of boundary 3": lambda k: OF.residuals[k],
    "residual added twice": lambda k: OF.boundaries[k] + OF.residuals[k],
    "residual added by each of 4 ranks": lambda k: OF.outputs[k] + RANKS * OF.residuals[k],
    "what the layer before gave added 4 times": lambda k: RANKS * OF.outputs[k] + OF.residuals[k],
    "0.5 times boundary 3": lambda k: OF.boundaries[k] / 2,
    "boundary 3, normalised": lambda k: OF.boundaries[k] / OF.boundaries[k].square().mean(-1, keepdim=True).sqrt(),
    "rows 0-2 of 5 hold boundary 3, the others are zeros": lambda k: only(OF.boundaries[k], slice(3), slice(None)),
    "columns 4-7 of 16 hold boundary 3, the others are zeros": (
        lambda k: only(OF.boundaries[k], slice(None), slice(4, 8))
    ),
    "another order: [4, 3, 2, 1, 0]": lambda k: OF.boundaries[k].flip(0),
    "rows 1-2 of 5 of boundary 3": lambda k: OF.boundaries[k][1:3],
    "columns 4-7 of 16 of boundary 3": lambda k: OF.boundaries[k][:, 4:8],
    "boundary 3 in the first 5 of 7 rows": lambda k: torch.cat([OF.boundaries[k], torch.zeros(2, WIDTH)]),
}


def only(whole: Any, rows: slice, columns: slice) -> Any:
    out = torch.zeros_like(whole)
    out[rows, columns] = whole[rows, columns]
    return out


@pytest.mark.parametrize("said", ONE)
def test_what_is_no_boundary_is_explained_by_the_nearest_thing(said: str) -> None:
    found = seen(ONE[said](3))
    assert found.identity == "other"
    assert said in found.explanation
    assert found.boundary == 3


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (torch.zeros(ROWS, WIDTH), "zeros"),
        (only(torch.full((ROWS, WIDTH), float("nan")), slice(2), slice(None)), "2 of 5 rows are not finite"),
        (torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(99)), "nothing of the reference"),
        (torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(99)), "no part of a boundary"),
    ],
    ids=["zeros", "nan", "noise", "rows"],
)
def test_what_has_nothing_to_do_with_a_boundary(block: Any, said: str) -> None:
    found = seen(block)
    assert (found.identity, found.boundary) == ("other", None)
    assert said in found.explanation


def test_states_are_taken_apart_by_the_targets_width() -> None:
    states = torch.arange(3 * 32).reshape(3, 32)
    assert [tuple(each.shape) for each in split(states, 16, 4)] == [(3, 16), (3, 16)]
    assert [tuple(each.shape) for each in split(states, 20, 4)] == [(3, 20), (3, 12)]
    assert [tuple(each.shape) for each in split(states[:, :12], 16, 4)] == [(3, 4)] * 3


# ------------------------------------------------------------------------------------------------------ half precision
HALF = Limits.of("nccl")


def deep(layers: int = 40) -> Reference:
    """A stream so deep that what one layer gives is a few hundredths of it."""
    made = torch.Generator().manual_seed(3)

    def numbers() -> Any:
        return torch.randn(ROWS, 256, generator=made)

    outputs = [numbers() for _ in range(layers + 1)]
    residuals = [torch.zeros(ROWS, 256)]
    for k in range(1, layers + 1):
        residuals.append(residuals[k - 1] + outputs[k - 1] + numbers())
    boundaries = [a + b for a, b in zip(outputs, residuals, strict=True)]
    return Reference(torch.stack(boundaries), torch.stack(outputs), torch.stack(residuals))


DEEP = deep()
CARRIED = 0.05 * DEEP.boundaries.norm(dim=-1, keepdim=True) / 16
CARRIED = DEEP.boundaries + CARRIED * torch.randn(DEEP.boundaries.shape, generator=torch.Generator().manual_seed(9))
"""The same stream on ranks that sum in another order."""


def coarse(value: Any, whole: Any, streams: Any = CARRIED, totals: Any = None) -> Block:
    first = identify(0, value, whole, DEEP, HALF, 0, 2)
    totals = streams * 2 if totals is None else totals
    (found,) = coarsely([first], [value], [whole], streams, totals, DEEP, HALF, 0, 2)
    return found


@pytest.mark.parametrize("k", [5, 30, 40])
def test_what_half_precision_carried_away_is_named_by_the_ranks_own_stream(k: int) -> None:
    value = CARRIED[k].bfloat16().float()
    assert identify(0, value, value * 2, DEEP, HALF, 0, 2).identity != "boundary"
    found = coarse(value, value * 2)
    assert (found.identity, found.boundary) == ("boundary", k)
    assert found.distance is not None
    assert found.distance > HALF.tolerance


def test_a_part_stays_a_part() -> None:
    part = CARRIED[30] - DEEP.outputs[30] / 2
    other = DEEP.residuals[30] + DEEP.outputs[30] / 2
    streams = CARRIED.clone()
    streams[30] = part
    totals = CARRIED * 2
    totals[30] = part + other
    found = coarse(part, part + other, streams, totals)
    assert found.identity != "boundary"


def test_a_state_from_within_a_layer_is_no_boundary() -> None:
    value = CARRIED[30] + 0.6 * (CARRIED[31] - CARRIED[30])
    assert coarse(value, value * 2).identity != "boundary"


def test_of_a_whole_state_whose_stream_is_divided_nothing_is_said() -> None:
    """As fused all-reduces leave it: the stream is summed in the next layer, and what is captured there is whole."""
    streams, totals = CARRIED.clone(), CARRIED * 2
    streams[30] = (
        streams[30] - DEEP.outputs[30] / 2 + 5 * torch.randn(ROWS, 256, generator=torch.Generator().manual_seed(4))
    )
    found = coarse(CARRIED[30], CARRIED[30] * 2, streams, totals)
    assert (found.identity, found.boundary) == ("inconclusive", None)


def test_what_is_far_from_every_boundary_is_not_named_by_the_ranks_own_stream() -> None:
    streams = CARRIED.clone()
    streams[30] *= 2
    assert coarse(streams[30], streams[30] * 2, streams).identity != "boundary"
