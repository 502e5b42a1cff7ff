"""Widths and contents as plain data."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from flowcheck.interp.contents import (
    Content,
    Rows,
    Segment,
    Storage,
    Width,
    either,
    leaves,
    named,
    one_rank_apart,
    value_of,
    width_of,
)
from flowcheck.interp.values import Known, Unknown

H = Width(0, ((("config", "hidden_size"), 1),))
WIDTHS = some.builds(lambda n, k: Width(n) + H * k, some.integers(-5, 5), some.integers(-3, 3))
NAMED = some.builds(
    lambda path, n, group: named(path, *group).times(n),
    some.sampled_from("abc"),
    some.integers(-2, 3),
    some.sampled_from([(), ("tp",)]),
)


def sum_of(parts: list[Content]) -> Content:
    total = Content()
    for part in parts:
        total = total.plus(part)
    return total


CONTENTS = some.lists(NAMED, max_size=4).map(sum_of)


@given(WIDTHS, WIDTHS, some.integers(1, 9))
def test_widths_are_linear(a: Width, b: Width, h: int) -> None:
    def at(w: Width) -> int:
        return w.const + sum(f * h for _, f in w.atoms)

    assert at(a + b) == at(a) + at(b)
    assert at(a - b) == at(a) - at(b)
    assert at(a * 3) == 3 * at(a)
    assert (a - a) == Width()
    sign = (a - b).sign
    assert sign is None or sign == (at(a) > at(b)) - (at(a) < at(b))


@given(WIDTHS)
def test_widths_are_values_and_back(width: Width) -> None:
    assert width_of(value_of(width)) == width


def test_widths_of_arithmetic() -> None:
    key = ("op", "*", ("config", "hidden_size"), ("lit", 3))
    assert width_of(Unknown("arithmetic", key)) == H * 3
    assert width_of(Known(True)) is None
    assert str(H * 3 + Width(2)) == "3*hidden_size + 2"


@given(CONTENTS, CONTENTS)
def test_sums(a: Content, b: Content) -> None:
    assert a.plus(b) == b.plus(a)
    assert a.plus(b).plus(b, -1) == a
    assert a.joined(a) == a
    assert leaves((a.joined(b),)) <= leaves((a,)) & leaves((b,))


@given(CONTENTS)
def test_a_sum_over_ranks(a: Content) -> None:
    done = a.reduced("tp", 8)
    assert not done.pending
    complete = Content(frozenset(t for t in a.terms if not t.pending))
    partial = Content(frozenset(t for t in a.terms if t.pending))
    assert done == complete.times(8).plus(partial.reduced("tp", 8))


def test_what_rank_0_alone_has_of_one_or_the_other_is_its_part_of_a_sum() -> None:
    common, a, b = named("common"), named("a"), named("b", "ep")
    own = common.plus(either(1, a, b))
    with one_rank_apart("tp"):
        held = own.joined(common)
    assert held.lost is None
    assert held.pending == {"tp", "ep"}
    assert held.reduced("tp", 8) == common.times(8).plus(either(1, a, b)), "no part is counted once for each rank"
    assert held.reduced("ep", 4).pending == {"tp"}, "a sum over another group completes nothing"


def test_a_part_of_a_sum_that_rank_0_has_by_one_path_is_not_known() -> None:
    own = named("common").plus(either(1, named("a", "tp"), named("a")))
    with one_rank_apart("tp"):
        held = own.joined(named("common"))
    assert held.lost is not None
    assert held.terms == named("common").terms


def test_choices_that_nest_are_asked_once_each() -> None:
    """There are more ways through these choices than anybody could walk one by one."""
    made = named("layer.0", "tp")
    for event in range(60):
        made = either(event, made.plus(named(f"layer.{event}", "tp")), made.times(2))
    again = named("layer.0", "tp")
    for event in range(60):
        again = either(event, again.plus(named(f"layer.{event}", "tp")), again.times(2))
    assert made == again
    assert made.pending == {"tp"}
    assert made.settled
    assert made.reduced("tp", 8).pending == frozenset()
    assert made.reduced("tp", 8) == again.reduced("tp", 8)
    assert made.reduced("tp", 8).summed == made.summed


def test_rows() -> None:
    some_rows, all_rows = Rows(picked="rows taken"), Rows()
    assert all_rows.joined(all_rows) == all_rows
    assert some_rows.joined(all_rows).picked is not None
    assert Rows(frozenset({"tp"})).joined(all_rows).shards == {"tp"}


def test_a_storage_that_holds_one_or_the_other_keeps_the_kin_of_both() -> None:
    """What is written through it later may be seen in the kin of either."""
    here = Storage((Segment(Width(), named("a")),), kin=frozenset({1}))
    there = Storage((Segment(Width(), named("b")),), kin=frozenset({2}))
    made = here.either(7, there)
    assert made is not None
    assert made.kin == {1, 2}
