"""``flowcheck upgrade``: what changes for pairs from one tree to another."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Optional

import typer

from flowcheck import __version__
from flowcheck.cli.errors import Exit, InputError
from flowcheck.cli.output import Color, progress, warn
from flowcheck.cli.pairing import (
    DraftModel,
    HeaderFile,
    PairOptions,
    Ranks,
    TargetModel,
    TrainedBoundaries,
    TrainedWith,
    deployment_of,
    ranks_of,
)
from flowcheck.cli.rules import read_rules
from flowcheck.cli.scan import Format, Many, destination, write_as
from flowcheck.cli.settings import parse_settings

__all__ = ["upgrade"]


def upgrade(
    old: Annotated[
        str, typer.Argument(metavar="OLD", show_default=False, help="The tree that serves now, as scan takes it.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", show_default=False, help="The tree that is to serve.")],
    pair: Annotated[Many, typer.Option("--pair", metavar="NAME", help="A pair that is kept. Repeatable.")] = None,
    draft: DraftModel = None,
    target_model: TargetModel = None,
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
    format_: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TERMINAL,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--output", "-o", metavar="FILE", help="Write to a file; - is stdout."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Parse everything anew and keep nothing.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of what happens meanwhile.")] = False,
    color: Annotated[Color, typer.Option("--color", help="When to use colour.")] = Color.AUTO,
) -> None:
    """Compare what two trees capture for pairs: each path, the findings, the ids that the draft needs.

    The exit code is 1 if a pair gets worse.
    """
    from flowcheck.cli.engine import Request, ask, check, pick
    from flowcheck.report.comparing import change_of, wanted_ids
    from flowcheck.report.documents import UpgradeDocument
    from flowcheck.report.json_writer import to_json
    from flowcheck.report.model import Tool
    from flowcheck.report.terminal.upgrade import upgrade_page

    to = destination(output)
    fixed = parse_settings(settings or ())
    check(algorithm, fixed)
    rules = read_rules(None)
    names: list[str | None] = list(dict.fromkeys(pair)) if pair else [None]
    asked = [PairOptions(draft, target_model, header, trained, name, None, training, not no_cache) for name in names]
    for options in asked:
        options.check()
    if names == [None] and draft is None:
        raise InputError("upgrade compares pairs: give --pair NAME, or --draft and --target")
    started, warnings = time.perf_counter(), dict[str, None]()
    changes = []
    with progress(enabled=not quiet) as say:
        for options in asked:
            deployment = deployment_of(options, algorithm, fixed, offline=offline, progress=say)
            assert deployment.pairing is not None
            request = Request(
                source=old,
                algorithm=deployment.algorithm,
                settings=deployment.settings,
                cache=not no_cache,
                offline=offline,
                tp=ranks_of(tp, deployment),
                modes=False,
                pairing=deployment.pairing,
            )
            everything = pick(rules, (), ())
            before, was = ask(request, rules, everything, say)
            after, is_ = ask(replace(request, source=new), rules, everything, say)
            warnings.update(dict.fromkeys((*before.source.warnings, *after.source.warnings)))
            ids = (wanted_ids(was, deployment.pairing), wanted_ids(is_, deployment.pairing))
            changes.append(change_of(before, after, *ids))
    document = UpgradeDocument(
        tool=Tool(name="flowcheck", version=__version__),
        old=before.source,
        new=after.source,
        pairs=changes,
        wall_seconds=round(time.perf_counter() - started, 3),
    )
    write_as(format_, lambda: to_json(document), lambda width: upgrade_page(document, width), to, color)
    warn(list(warnings), everything=False)
    if any(change.worse for change in changes):
        raise typer.Exit(Exit.FINDINGS)
