"""Terms of tensors without numbers: what keeps them, what adds them, and what makes new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from flowcheck.probe.rank.provenance import Provenance  # noqa: E402

ROWS, WIDTH, LAYERS = 4, 8, 3


def blocks_of(capture: Callable[[list[tuple[Any, Any]]], Any]) -> list[tuple[str, int | None]]:
    """Runs a stream over three layers, and names what ``capture`` makes of what entered each layer."""
    with FakeTensorMode(), Provenance(LAYERS) as terms:
        output, residual = torch.empty(ROWS, WIDTH), torch.empty(ROWS, WIDTH)
        entered = []
        for k in range(LAYERS + 1):
            terms.entered(k, (output, residual))
            entered.append((output, residual))
            summed = output.float() + residual.float()
            residual = summed.to(output.dtype)
            output = torch.nn.functional.linear(summed.relu(), torch.empty(WIDTH, WIDTH))
        states = capture(entered)
        return [(each.identity, each.boundary) for each in terms.blocks(states, WIDTH)]


def whole(entered: list[tuple[Any, Any]], k: int) -> Any:
    return entered[k][0] + entered[k][1]


def test_sums_put_side_by_side_are_the_boundaries_that_they_were() -> None:
    found = blocks_of(lambda entered: torch.cat([whole(entered, k) for k in (0, 2, 3)], dim=-1))
    assert found == [("boundary", 0), ("boundary", 2), ("boundary", 3)]


COPIES: dict[str, Callable[[Any], Any]] = {
    "clone": lambda x: x.clone(),
    "another type and back": lambda x: x.to(torch.bfloat16).float(),
    "a view": lambda x: x.view(-1).view(ROWS, WIDTH),
    "a reshape with heads": lambda x: x.reshape(ROWS, 2, WIDTH // 2).reshape(ROWS, WIDTH),
    "all its rows": lambda x: x[:],
    "contiguous": lambda x: x.contiguous(),
    "copied into a buffer": lambda x: torch.empty(ROWS, WIDTH).copy_(x),
}


@pytest.mark.parametrize("way", COPIES)
def test_copies_and_views_keep_it(way: str) -> None:
    assert blocks_of(lambda entered: COPIES[way](whole(entered, 2))) == [("boundary", 2)]


def test_columns_of_a_buffer_are_what_was_written_there() -> None:
    def capture(entered: list[tuple[Any, Any]]) -> Any:
        buffer = torch.empty(ROWS, 2 * WIDTH)
        buffer[:, WIDTH:].copy_(whole(entered, 3))
        buffer[:, :WIDTH].copy_(whole(entered, 1))
        return buffer

    assert blocks_of(capture) == [("boundary", 1), ("boundary", 3)]


def test_states_copied_together_stay_apart() -> None:
    assert blocks_of(lambda entered: torch.cat([whole(entered, 1), whole(entered, 2)], -1).clone()) == [
        ("boundary", 1),
        ("boundary", 2),
    ]


def test_a_missing_residual_is_seen() -> None:
    """Here the residual of boundary 2 is boundary 1."""
    assert blocks_of(lambda entered: torch.cat(entered[2], -1)) == [("other", 2), ("boundary", 1)]


OTHERS: dict[str, Callable[[list[tuple[Any, Any]]], Any]] = {
    "a product": lambda entered: whole(entered, 2) * 2,
    "a sum with a factor": lambda entered: torch.add(*entered[2], alpha=2),
    "a sum with something else": lambda entered: whole(entered, 2) + torch.empty(ROWS, WIDTH),
    "other rows": lambda entered: whole(entered, 2)[torch.tensor([1, 0, 2, 3])],
}


@pytest.mark.parametrize("way", OTHERS)
def test_what_changes_it_loses_it(way: str) -> None:
    ((identity, _),) = blocks_of(OTHERS[way])
    assert identity == "other"


def test_a_buffer_that_is_written_again_is_what_was_written_last() -> None:
    """An alias of what was captured: a later addition in place changes it too."""

    def capture(entered: list[tuple[Any, Any]]) -> Any:
        states = whole(entered, 1)
        kept = states.view(-1)
        states.add_(torch.empty(ROWS, WIDTH))
        return kept.view(ROWS, WIDTH)

    ((identity, _),) = blocks_of(capture)
    assert identity == "other"
