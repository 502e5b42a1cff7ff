"""Prints what became of the mutants at the end of a run."""

from __future__ import annotations

import pytest

from tests.mutations.runner import RESULTS, table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if RESULTS:
        terminalreporter.section("mutants")
        for line in table(RESULTS):
            terminalreporter.write_line(line)
