"""``flowcheck ids``: which layer ids make a tree capture what a draft was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from flowcheck.cli.errors import Exit, InputError
from flowcheck.cli.output import Color, progress, warn
from flowcheck.cli.pairing import (
    LaunchScript,
    PairName,
    PairOptions,
    Ranks,
    TrainedBoundaries,
    TrainedWith,
    deployment_of,
    ranks_of,
)
from flowcheck.cli.rules import read_rules
from flowcheck.cli.scan import Format, Many, destination, write_as
from flowcheck.cli.settings import parse_settings

if TYPE_CHECKING:
    from flowcheck.draft import Pairing, Reading

__all__ = ["ids"]


def ids(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", show_default=False, help="The tree, as flowcheck scan takes it.")
    ],
    draft: Annotated[
        Optional[str],  # noqa: UP045 - typer reads these at run time
        typer.Argument(metavar="DRAFT", show_default=False, help="A folder, a config.json, or org/name@revision."),
    ] = None,
    target: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="TARGET", show_default=False, help="Likewise."),
    ] = None,
    pair: PairName = None,
    launch: LaunchScript = None,
    trained: TrainedBoundaries = None,
    training: TrainedWith = None,
    tp: Ranks = None,
    algorithm: Annotated[
        Optional[str],  # noqa: UP045
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
    package_root: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FOLDER", help="The package inside SOURCE, where there are several."),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Parse everything anew and keep nothing.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print what to write alone.")] = False,
    color: Annotated[Color, typer.Option("--color", help="When to use colour.")] = Color.AUTO,
) -> None:
    """Find the layer ids that make this tree capture what the draft was trained on.

    The exit code is 0 if they do so on every path, 1 if no ids do, or not on every path, or if what the draft
    was trained on is open.
    """
    from flowcheck.cli.engine import Request, check, choose
    from flowcheck.report.json_writer import to_json
    from flowcheck.report.terminal.choices import choices_page, snippets

    to = destination(output)
    fixed = parse_settings(settings or ())
    check(algorithm, fixed)
    rules = read_rules(None)
    if pair is not None and draft is not None:
        raise InputError("--pair names the draft and the target: leave the arguments out")
    options = PairOptions(draft, target, None, trained, pair, launch, training, not no_cache)
    if draft is not None and target is None and launch is None:
        raise InputError("ids needs SOURCE, DRAFT and TARGET, or --pair NAME (see flowcheck ids --help)")
    with progress(enabled=not quiet) as say:
        deployment = deployment_of(options, algorithm, fixed, offline=offline, progress=say)
        if deployment.pairing is None:
            raise InputError("ids needs a pair: DRAFT and TARGET, --pair NAME, or a --launch that names both")
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
        document = choose(request, rules, _readings(deployment.pairing), say)
    layout = (lambda _: snippets(document)) if quiet else (lambda width: choices_page(document, width))
    write_as(format_, lambda: to_json(document), layout, to, color)
    warn(document.source.warnings, everything=False)
    if not deployment.pairing.trained.is_settled or any(choice.verdict != "proved" for choice in document.choices):
        raise typer.Exit(Exit.FINDINGS)


def _readings(pairing: Pairing) -> list[Reading]:
    """What the draft may have been trained on, as far as ids can say it."""
    found = {each.boundaries: each for each in reversed(pairing.trained.readings) if each.boundaries}
    if not found:
        raise InputError(f"{pairing.draft.label} takes the last state after the final norm: there are no ids to write")
    partly = next((each for each in found.values() if each.post_norm), None)
    if partly is not None and len(found) == 1:
        raise InputError(
            f"{pairing.draft.label} takes {partly}, which no ids give; --trained-boundaries says otherwise"
        )
    return [each for each in pairing.trained.readings if found.get(each.boundaries) is each and not each.post_norm]
