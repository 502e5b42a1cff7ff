"""``flowcheck support``: which target classes of a tree can be told what to capture, and whether each then does it right."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from flowcheck.cli.errors import Exit
from flowcheck.cli.output import Color, progress, warn
from flowcheck.cli.rules import RulesDir, read_rules
from flowcheck.cli.scan import FailOn, Format, Many, destination, fails, write_report
from flowcheck.cli.settings import parse_settings

__all__ = ["support"]

ABOUT = ("HS2",)


def support(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            show_default=False,
            help="A checkout, a package folder, site-packages, a wheel or sdist, sglang==X.Y.Z, or REPO@REV.",
        ),
    ],
    models: Annotated[
        Many,
        typer.Option(
            "--model", metavar="CLASS", help="This class alone; its findings decide the exit code. Repeatable."
        ),
    ] = None,
    algorithm: Annotated[
        str, typer.Option(metavar="NAME", help="The speculative algorithm: EAGLE3, DFLASH or DSPARK.")
    ] = "EAGLE3",
    settings: Annotated[
        Many, typer.Option("--set", metavar="KEY=VALUE", help="Fix a server argument ('' is empty text). Repeatable.")
    ] = None,
    fail_on: Annotated[FailOn, typer.Option(help="The lightest finding that makes the exit code 1.")] = FailOn.ERROR,
    format_: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TERMINAL,
    output: Annotated[
        Optional[str],  # noqa: UP045 - typer reads these at run time
        typer.Option("--output", "-o", metavar="FILE", help="Write to a file; - is stdout."),
    ] = None,
    package_root: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FOLDER", help="The package inside SOURCE, where there are several."),
    ] = None,
    rules_dir: RulesDir = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Parse everything anew and keep nothing.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the findings and the last line alone.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every finding with its code.")] = False,
    color: Annotated[Color, typer.Option("--color", help="When to use colour.")] = Color.AUTO,
) -> None:
    """Which target classes can run a draft on this tree: each class's own forward is followed, with no draft in mind."""
    from flowcheck.cli.engine import Request, check, pick, run

    to = destination(output)
    fixed = parse_settings(settings or ())
    check(algorithm, fixed)
    rules = read_rules(rules_dir)
    request = Request(
        source=source,
        algorithm=algorithm,
        settings=fixed,
        package_root=package_root,
        cache=not no_cache,
        offline=offline,
        modes=False,
        classes=True,
        models=tuple(models or ()),
    )
    with progress(enabled=not quiet) as say:
        report = run(request, rules, pick(rules, ABOUT, ()), say)
    write_report(report, format_, to, color, quiet=quiet, verbose=verbose)
    warn(report.source.warnings, everything=verbose)
    if fails(report, fail_on):
        raise typer.Exit(Exit.FINDINGS)
