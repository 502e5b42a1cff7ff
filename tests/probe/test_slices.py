"""Parts of methods run alone: what a target is told, without what only a GPU can do."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowcheck.probe.rank.slices import bare, methods_of
from flowcheck.probe.rank.tree import Unbridged

RUNNER = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nowhere import Nothing

def only_on_a_gpu():
    raise RuntimeError("no GPU")

class Base:
    def init_ids(self):
        only = self.config["ids"]
        self.ids = only if self.is_on else None

class Runner(Base):
    def __init__(self, config: Nothing, rank: int, is_draft: bool = False):
        self.rank = rank
        self.device = only_on_a_gpu()
        self.config = config
        self.is_on = False
        if not is_draft:
            self.is_on = config.get("on", True)
        self.initialize()

    def initialize(self):
        only_on_a_gpu()
        times = 2
        if self.is_on:
            self.model.tell([each * times for each in self.ids])
        only_on_a_gpu()

    def asks_the_rank(self):
        self.said = "first" if self.rank == 0 else "other"

    def once(self):
        self.often = 1

    def again(self):
        self.often = 2
"""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Any]:
    path = tmp_path / "runner_of_a_tree.py"
    path.write_text(textwrap.dedent(RUNNER), "utf-8")
    spec = importlib.util.spec_from_file_location("runner_of_a_tree", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["runner_of_a_tree"] = module
    spec.loader.exec_module(module)
    yield module.Runner
    del sys.modules["runner_of_a_tree"]


class Target:
    def __init__(self) -> None:
        self.told: list[list[int]] = []

    def tell(self, ids: list[int]) -> None:
        self.told.append(ids)


def told(runner: Any, config: dict[str, Any], **given: Any) -> list[list[int]]:
    methods = methods_of(runner, "runner_of_a_tree")
    target = Target()
    values = {"config": config, **given}
    made = bare(runner, methods, values, {"model": target})
    (method,) = (each for each in methods if each.function.__name__ == "initialize")
    method.run([each for each in method.node.body if type(each).__name__ == "If"], made, values)
    return target.told


def test_what_leads_to_a_call_is_run_and_nothing_else(runner: Any) -> None:
    assert told(runner, {"ids": [1, 2]}) == [[2, 4]]


def test_conditions_on_the_way_are_those_of_the_class(runner: Any) -> None:
    assert told(runner, {"ids": [1, 2], "on": False}) == []
    assert told(runner, {"ids": [1, 2]}, is_draft=True) == []


def test_what_is_raised_on_the_way_names_its_line(runner: Any) -> None:
    with pytest.raises(KeyError) as caught:
        told(runner, {"on": True})
    last = caught.traceback[-1]
    assert (last.path.name, str(last.statement).strip()) == ("runner_of_a_tree.py", 'only = self.config["ids"]')


def test_a_value_that_nobody_knows_is_not_looked_at(runner: Any) -> None:
    methods = methods_of(runner, "runner_of_a_tree")
    with pytest.raises(Unbridged, match="it depends on rank, which the probe does not know"):
        bare(runner, methods, {}, {}).said  # noqa: B018
    assert bare(runner, methods, {"rank": 0}, {}).said == "first"


def test_an_attribute_of_two_methods_is_nobodys(runner: Any) -> None:
    made = bare(runner, methods_of(runner, "runner_of_a_tree"), {}, {})
    with pytest.raises(Unbridged, match=r"often is set by Runner\.once, Runner\.again"):
        made.often  # noqa: B018
    with pytest.raises(AttributeError, match="Runner has no missing that the probe could find"):
        made.missing  # noqa: B018
