"""Names of algorithms that a deployment gives and the scheduler never sees: the server arguments translate them first."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcheck.flow.roles import UnknownAlgorithm
from tests.flow.trees import QUESTIONS, SPEC_INFO, edited, scan, write


def test_an_alias_is_the_algorithm_that_it_stands_for(tmp_path: Path) -> None:
    answer = scan(write(tmp_path, edited([])), algorithm="NEXTN")
    assert answer.proved == QUESTIONS
    assert answer.facts.workers == ("EAGLEWorker",)


def test_a_tree_with_an_algorithm_of_that_name_keeps_it(tmp_path: Path) -> None:
    member = (SPEC_INFO, "    NGRAM = auto()\n", "    NGRAM = auto()\n    NEXTN = auto()\n")
    answer = scan(write(tmp_path, edited([member])), algorithm="NEXTN")
    assert ("verify", "decode_graph") not in answer.proved  # it is no EAGLE to the graph runner


def test_a_name_that_stands_for_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownAlgorithm, match="knows no algorithm NEXTEST"):
        scan(write(tmp_path, edited([])), algorithm="NEXTEST")
