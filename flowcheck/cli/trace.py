"""``flowcheck trace``: the way of a pair's hidden states through a tree, on one screen."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from flowcheck.cli.errors import Exit, InputError
from flowcheck.cli.output import Color, progress, warn
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
from flowcheck.cli.scan import FailOn, Format, Many, destination, fails, write_as
from flowcheck.cli.settings import parse_settings

__all__ = ["trace"]

ABOUT = ("HS2", "HS3", "HS401", "HS402")
"""The rules that speak of ids, of what is captured, and of its width."""


def trace(
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
        Optional[str],  # noqa: UP045 - typer reads these at run time
        typer.Option(metavar="NAME", help="The speculative algorithm of the deployment; by default the draft's."),
    ] = None,
    settings: Annotated[
        Many, typer.Option("--set", metavar="KEY=VALUE", help="Fix a server argument ('' is empty text). Repeatable.")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option(help="The lightest finding that makes the exit code 1.")] = FailOn.ERROR,
    format_: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TERMINAL,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--output", "-o", metavar="FILE", help="Write to a file; - is stdout."),
    ] = None,
    package_root: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FOLDER", help="The package inside SOURCE, where there are several."),
    ] = None,
    rules_dir: RulesDir = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Parse everything anew and keep nothing.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of what happens meanwhile.")] = False,
    color: Annotated[Color, typer.Option("--color", help="When to use colour.")] = Color.AUTO,
) -> None:
    """Show the way of a pair's hidden states: the ids, the setter, what is captured, its width, the draft's fc."""
    from flowcheck.cli.engine import Request, check, pick, run
    from flowcheck.report.json_writer import to_json
    from flowcheck.report.terminal.trace import trace_page

    to = destination(output)
    fixed = parse_settings(settings or ())
    check(algorithm, fixed)
    rules = read_rules(rules_dir)
    options = PairOptions(draft, target_model, header, trained, pair, launch, training, not no_cache)
    with progress(enabled=not quiet) as say:
        deployment = deployment_of(options, algorithm, fixed, offline=offline, progress=say)
        if deployment.pairing is None:
            raise InputError("trace follows a pair: give --draft and --target, --pair, or a --launch that names both")
        request = Request(
            source=source,
            algorithm=deployment.algorithm,
            settings=deployment.settings,
            package_root=package_root,
            cache=not no_cache,
            offline=offline,
            tp=ranks_of(tp, deployment),
            modes=False,
            pairing=deployment.pairing,
            launch=deployment.launch,
            launched=deployment.launched,
            warnings=deployment.warnings,
        )
        report = run(request, rules, pick(rules, ABOUT, ()), say)
    shown = report.pairing
    assert shown is not None
    write_as(format_, lambda: to_json(report), lambda width: trace_page(report, shown, width), to, color)
    warn(report.source.warnings, everything=False)
    if fails(report, fail_on):
        raise typer.Exit(Exit.FINDINGS)
