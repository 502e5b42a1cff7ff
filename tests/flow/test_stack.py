"""The process around a walk: what it changes there is put back."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from flowcheck.flow.stack import COLLECTED, rarely_collected


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_garbage_is_looked_for_less_often_and_then_as_before() -> None:
    gc.set_threshold(700, 10, 10)
    with rarely_collected():
        assert gc.get_threshold() == COLLECTED
    assert gc.get_threshold() == (700, 10, 10)


def test_an_error_puts_it_back_too() -> None:
    gc.set_threshold(700, 10, 10)
    with pytest.raises(KeyError), rarely_collected():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("asked", [(0, 10, 10), (1_000_000, 5, 5)])
def test_who_asked_for_less_is_left_alone(asked: tuple[int, int, int]) -> None:
    gc.set_threshold(*asked)
    with rarely_collected():
        assert gc.get_threshold() == asked
    assert gc.get_threshold() == asked
