"""``flowcheck check-pair``: all that can be said about a draft and its target without a tree."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from flowcheck import __version__
from flowcheck.cli.errors import Exit, InputError
from flowcheck.cli.output import Color, progress
from flowcheck.cli.pairing import (
    HeaderFile,
    PairName,
    PairOptions,
    TrainedBoundaries,
    TrainedWith,
    access_of,
    algorithm_of,
    read_pair_of,
)
from flowcheck.cli.rules import RulesDir, read_rules
from flowcheck.cli.scan import FailOn, Format, Many, destination, fails, write_report

if TYPE_CHECKING:
    from flowcheck.checks.rules import RuleBook
    from flowcheck.checks.run import Selection
    from flowcheck.draft import Pairing
    from flowcheck.report.model import Report

__all__ = ["check_pair", "report_on"]

DRAFT_HELP = "A folder, a config.json, or org/name@revision on the hub."


def check_pair(
    draft: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="DRAFT", show_default=False, help=DRAFT_HELP),
    ] = None,
    target: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="TARGET", show_default=False, help="Likewise."),
    ] = None,
    pair: PairName = None,
    header: HeaderFile = None,
    trained: TrainedBoundaries = None,
    training: TrainedWith = None,
    algorithm: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME", help="The speculative algorithm that the draft is served with."),
    ] = None,
    select: Annotated[
        Many, typer.Option(metavar="RULES", help="Show only these rules: ids or prefixes, with commas. Repeatable.")
    ] = None,
    ignore: Annotated[Many, typer.Option(metavar="RULES", help="Leave these rules out. Repeatable.")] = None,
    fail_on: Annotated[FailOn, typer.Option(help="The lightest finding that makes the exit code 1.")] = FailOn.ERROR,
    format_: Annotated[Format, typer.Option("--format", help="How the report is written.")] = Format.TERMINAL,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file; - is stdout."),
    ] = None,
    rules_dir: RulesDir = None,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the findings and the last line alone.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Add fingerprints.")] = False,
    color: Annotated[Color, typer.Option("--color", help="When to use colour.")] = Color.AUTO,
) -> None:
    """Check a draft with its target: everything that can be said without a tree."""
    from flowcheck.cli.engine import pick

    if quiet and verbose:
        raise InputError("--quiet and --verbose exclude each other")
    if algorithm is not None and not algorithm.strip():
        raise InputError("--algorithm is empty: name one, as in --algorithm EAGLE3")
    options = PairOptions(draft, target, header, trained, pair, trained_with=training)
    if pair is not None and draft is not None:
        raise InputError("--pair names the draft and the target: leave the arguments out")
    if pair is None and (draft is None or target is None):
        raise InputError("a pair needs DRAFT and TARGET, or --pair NAME (see flowcheck check-pair --help)")
    options.check()
    to = destination(output)
    rules = read_rules(rules_dir)
    selected = pick(rules, select or (), ignore or ())
    started = time.perf_counter(), time.process_time()
    with progress(enabled=not quiet) as say:
        pairing = read_pair_of(options, access_of(offline=offline, progress=say))
    report = report_on(pairing, rules, selected, algorithm, started)
    write_report(report, format_, to, color, quiet=quiet, verbose=verbose)
    if fails(report, fail_on):
        raise typer.Exit(Exit.FINDINGS)


def report_on(
    pairing: Pairing, rules: RuleBook, selected: Selection, algorithm: str | None, started: tuple[float, float]
) -> Report:
    """The report about a pair; ``started`` is when its clocks did, wall and CPU."""
    from flowcheck.checks.pairs import pair_findings
    from flowcheck.report.build import Timing, build_pair_report

    return build_pair_report(
        pairing,
        pair_findings(pairing, rules, algorithm=algorithm),
        rules=rules,
        selected=selected,
        algorithm=algorithm or algorithm_of(pairing),
        version=__version__,
        timing=Timing(time.perf_counter() - started[0], time.process_time() - started[1]),
    )
