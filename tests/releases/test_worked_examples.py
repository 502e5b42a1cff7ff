"""Which boundaries each kind of target captures for which ids, release by release: the worked examples of the field.

Eight layers of each: the default is boundaries 2, 4 and 5. A string is the exception that leaves the setter or the forward.
"""

from __future__ import annotations

import functools
from typing import Any, Union

import pytest

from flowcheck.flow.capturing import capture
from flowcheck.flow.forwarding import Forwarding
from flowcheck.source import Tree, cache_root, open_source
from tests.flow.models import target_config
from tests.releases.witnesses import WITNESSES

pytestmark = pytest.mark.release

Ids = Union[tuple[int, ...], None]
Outcome = Union[tuple[int, ...], tuple[None, ...], str]
Table = dict[Ids, Outcome]

RELEASES = ("0.4.9.post3", "0.5.6", "0.5.10", "0.5.11", "0.5.12", "0.5.13", "0.5.16", "0.5.17", "0.5.23")

AFTER: Table = {
    None: (2, 4, 5),
    (1, 3, 4): (2, 4, 5),
    (2, 4, 5): (3, 5, 6),
    (0, 3, 4): (1, 4, 5),
    (4, 1, 3): (2, 4, 5),
    (2, 2, 4): (3, 5),
    (1, 3, 7): (2, 4),
    (): "ValueError",
}
"""An id is the layer of whose output a draft speaks: every list that the model's own loop walks through."""

WITH_FLAGS: Table = {**AFTER, (1, 3, 7): "IndexError"}
"""The setter marks layers, and there is none after the last."""

WITH_THE_END: Table = {**AFTER, (1, 3, 7): (2, 4, 8)}
"""The loop looks once more after its last layer."""

FIRST_DECIDES: Table = {
    None: (2, 4, 5),
    (1, 3, 4): (2, 4, 5),
    (2, 4, 5): (2, 4, 5),
    (3, 4, 6): (3, 4, 6),
    (4, 1, 3): (1, 3, 4),
    (2, 2, 4): (2, 4),
    (-1, 2, 4): (2, 4),
    (1, 3, 7): (2, 4),
}
"""A list that begins with 1 is one of outputs, any other is one of boundaries."""

SHORT: tuple[Ids, ...] = ((2, 2, 4), (-1, 2, 4), (1, 3, 7))
ASSERTED: Table = {**FIRST_DECIDES, **dict.fromkeys(SHORT, "AssertionError")}
"""The same, and what packs the states asserts that as many have come as were asked for."""

COUNTED: Table = {**FIRST_DECIDES, **dict.fromkeys(SHORT, "RuntimeError")}
"""The same, and an exception instead of the assertion, which an optimised Python would leave out."""

LAST_DECIDES: Table = {
    None: (2, 4, 5),
    (1, 3, 4): (2, 4, 5),
    (2, 4, 5): (3, 5, 6),
    (2, 5, 8): (2, 5, 8),
    (1, 3, 7): (2, 4, 8),
}
"""A list that ends with the number of layers is one of boundaries, any other is one of outputs."""

NORMED: Table = {None: (None,) * 3, (1, 3, 4): (None,) * 3, (2, 4, 5): (None,) * 3}
"""What was captured is written over by the norm of the next layer: no boundary at all."""


def of(table: Table, *versions: str) -> dict[str, Table]:
    return dict.fromkeys(versions, table)


TABLE: dict[str, dict[str, Table]] = {
    "llama": of(AFTER, *RELEASES),
    "qwen3": of(AFTER, *RELEASES),
    "minimax-m2.5": of(AFTER, *RELEASES[1:]),
    "qwen3-moe": {**of(AFTER, "0.4.9.post3"), **of(WITH_FLAGS, *RELEASES[1:])},
    "deepseek-v3": {
        **of(AFTER, "0.5.6", "0.5.10", "0.5.11", "0.5.12"),
        **of(FIRST_DECIDES, "0.5.13", "0.5.16"),
        "0.5.17": ASSERTED,
        "0.5.23": COUNTED,
    },
    "kimi-k2.5": {
        **of(AFTER, "0.5.10", "0.5.11", "0.5.12"),
        **of(FIRST_DECIDES, "0.5.13", "0.5.16"),
        "0.5.17": ASSERTED,
        "0.5.23": COUNTED,
    },
    "gpt-oss": {
        **of({**AFTER, (2, 5, 8): (3, 6)}, "0.5.2", "0.5.6", "0.5.10", "0.5.11", "0.5.12", "0.5.13", "0.5.16"),
        **of(LAST_DECIDES, "0.5.17", "0.5.23"),
    },
    "gemma3": {**of(WITH_THE_END, "0.5.12", "0.5.13", "0.5.16"), **of(NORMED, "0.5.17", "0.5.23")},
}
QUICK = {("llama", "0.4.9.post3"), ("qwen3-moe", "0.4.9.post3"), ("qwen3-moe", "0.5.6"), ("deepseek-v3", "0.5.12")}


@functools.cache
def release(version: str) -> Tree:
    return open_source(f"sglang=={version}", cache_dir=cache_root())


def config_of(name: str) -> dict[str, Any]:
    return WITNESSES[name] if name in WITNESSES else {**target_config(name), "num_hidden_layers": 8}


@pytest.mark.parametrize(
    ("target", "version"),
    [
        pytest.param(target, version, marks=() if (target, version) in QUICK else pytest.mark.long)
        for target, rows in TABLE.items()
        for version in rows
    ],
)
def test_what_ids_mean(target: str, version: str) -> None:
    config, wrong = config_of(target), []
    forwarding = Forwarding(release(version))
    for ids, expected in TABLE[target][version].items():
        (found,) = capture(forwarding, config["architectures"][0], config, ids, ("verify",))
        said: object = found.question or (found.raised[0] if found.raised else found.boundaries)
        if said != expected or not all(state.boundary.certain for state in found.states):
            wrong.append(f"{ids}: {said} {found.raised or [state.boundary for state in found.states]}, not {expected}")
    assert not wrong, "\n".join(wrong)
