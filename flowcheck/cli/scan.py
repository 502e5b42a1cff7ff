"""``flowcheck scan``: is the wiring of this tree right?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from flowcheck.cli.errors import Exit, InputError
from flowcheck.cli.output import PIPED_WIDTH, Color, check_writable, print_lines, progress, warn, write, write_file
from flowcheck.cli.pairing import (
    DraftModel,
    HeaderFile,
    LaunchScript,
    PairName,
    PairOptions,
    Ranks,
    TargetModel,
    TrainedBoundaries,
    TrainedWith,
    deployment_of,
    ranks_of,
)
from flowcheck.cli.rules import RulesDir, read_rules
from flowcheck.cli.settings import parse_settings

if TYPE_CHECKING:
    from rich.text import Text

    from flowcheck.report.model import Report

__all__ = ["FailOn", "Format", "Many", "destination", "fails", "scan", "write_as", "write_report"]


class FailOn(str, Enum):
    """The lightest finding that makes the exit code 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


class Format(str, Enum):
    """How the report is written."""

    TERMINAL = "terminal"
    JSON = "json"


Many = Optional[list[str]]  # noqa: UP045 - typer reads these at run time


def scan(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            show_default=False,
            help="A checkout, a package folder, site-packages, a wheel or sdist, sglang==X.Y.Z, or REPO@REV.",
        ),
    ],
    draft: DraftModel = None,
    target_model: TargetModel = None,
    pair: PairName = None,
    launch: LaunchScript = None,
    header: HeaderFile = None,
    trained: TrainedBoundaries = None,
    training: TrainedWith = None,
    tp: Ranks = None,
    algorithm: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME",
            help="The speculative algorithm of the deployment; by default that of --launch, of the draft, or EAGLE3.",
        ),
    ] = None,
    settings: Annotated[
        Many,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Fix a server argument ('' is empty text); what is not fixed is free. Repeatable.",
        ),
    ] = None,
    classes: Annotated[
        bool,
        typer.Option("--classes", help="Ask about every target class of the tree, too: minutes for a new release."),
    ] = False,
    models: Annotated[
        Many,
        typer.Option("--model", metavar="CLASS", help="Ask about this target class; its findings count. Repeatable."),
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
    package_root: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FOLDER", help="The package inside SOURCE, where there are several."),
    ] = None,
    include_all: Annotated[bool, typer.Option("--all", help="Read tests, benchmarks and examples too.")] = False,
    rules_dir: RulesDir = None,
    jobs: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--jobs", "-j", min=1, metavar="N", help="Walk in N processes; by default as many as there are idle cores."
        ),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Parse everything anew and keep nothing.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the findings and the last line alone.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Add idle and unused forwards, and every chain in full.")
    ] = False,
    color: Annotated[Color, typer.Option("--color", help="When to use colour.")] = Color.AUTO,
) -> None:
    """Check an SGLang tree: does every forward of the target capture FULL? And for a pair: the states that it needs?"""
    from flowcheck.cli.engine import Request, check, pick, run

    if quiet and verbose:
        raise InputError("--quiet and --verbose exclude each other")
    target = destination(output)
    fixed = parse_settings(settings or ())
    check(algorithm, fixed)
    rules = read_rules(rules_dir)
    selected = pick(rules, select or (), ignore or ())
    options = PairOptions(draft, target_model, header, trained, pair, launch, training, not no_cache)
    with progress(enabled=not quiet) as say:
        deployment = deployment_of(options, algorithm, fixed, offline=offline, progress=say)
        request = Request(
            source=source,
            algorithm=deployment.algorithm,
            settings=deployment.settings,
            package_root=package_root,
            include_all=include_all,
            jobs=jobs,
            cache=not no_cache,
            offline=offline,
            tp=ranks_of(tp, deployment),
            classes=classes,
            models=tuple(models or ()),
            pairing=deployment.pairing,
            launch=deployment.launch,
            launched=deployment.launched,
            warnings=deployment.warnings,
        )
        report = run(request, rules, selected, say)
    write_report(report, format_, target, color, quiet=quiet, verbose=verbose)
    warn(report.source.warnings, everything=verbose)
    if fails(report, fail_on):
        raise typer.Exit(Exit.FINDINGS)


def destination(output: str | None) -> Path | None:
    """The file that ``--output`` names, refused before any work if it cannot be written; None is stdout."""
    if output == "":
        raise InputError("--output is empty: name a file, or - for stdout")
    target = None if output in (None, "-") else Path(output)
    if target is not None:
        check_writable(target)
    return target


def write_report(
    report: Report, format_: Format, target: Path | None, color: Color, *, quiet: bool, verbose: bool
) -> None:
    """Write a report in its format to stdout or to a file."""
    from flowcheck.report.json_writer import to_json
    from flowcheck.report.terminal import page

    write_as(
        format_,
        lambda: to_json(report),
        lambda width: page(report, width, quiet=quiet, verbose=verbose),
        target,
        color,
    )


def write_as(
    format_: Format,
    to_json: Callable[[], str],
    layout: Callable[[int], Sequence[Text]],
    target: Path | None,
    color: Color,
) -> None:
    """Write what a command found as a JSON document or as lines, to stdout or to a file."""
    if format_ is Format.JSON:
        text = to_json()
        if target is None:
            write(text)
        else:
            write_file(target, text)
    elif target is None:
        print_lines(layout, color)
    else:
        write_file(target, "".join(f"{line.plain}\n" for line in layout(PIPED_WIDTH)))


def fails(report: Report, fail_on: FailOn) -> bool:
    """Whether there is a finding at or above ``--fail-on``."""
    found = report.summary.findings
    if fail_on is FailOn.NEVER:
        return False
    return found.error > 0 or (fail_on is FailOn.WARNING and found.warning > 0)
