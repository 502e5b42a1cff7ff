"""``flowcheck pair``: pairs as small files that are committed and read offline."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from flowcheck.cli.check_pair import DRAFT_HELP, report_on
from flowcheck.cli.errors import Exit, InputError, say
from flowcheck.cli.output import Color, progress, write
from flowcheck.cli.pairing import (
    HeaderFile,
    PairOptions,
    TrainedBoundaries,
    TrainedWith,
    access_of,
    one_line,
    read_pair_of,
)
from flowcheck.cli.rules import read_rules
from flowcheck.cli.scan import Format, write_report

if TYPE_CHECKING:
    from flowcheck.draft import Pairing

__all__ = ["app"]

Root = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads this at run time
    typer.Option("--root", metavar="DIR", help="The folder that holds .flowcheck; by default the working directory."),
]

app = typer.Typer(
    help="Keep pairs of draft and target as files below .flowcheck/pairs.",
    invoke_without_command=True,
    add_completion=False,
)


@app.callback()
def _pair(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(Exit.USAGE)


@app.command("freeze")
def freeze(
    draft: Annotated[str, typer.Argument(metavar="DRAFT", show_default=False, help=DRAFT_HELP)],
    target: Annotated[str, typer.Argument(metavar="TARGET", show_default=False, help="Likewise.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the pair is called.")],
    header: HeaderFile = None,
    trained: TrainedBoundaries = None,
    training: TrainedWith = None,
    root: Root = None,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing.")] = False,
) -> None:
    """Keep a pair: configurations, names and shapes of the checkpoint, revisions, what the draft was trained on."""
    from flowcheck.draft.manifest import check_name, pair_path, write_pair

    _check_root(root)
    with one_line():
        check_name(name)
        options = PairOptions(draft, target, header, trained, trained_with=training)
        options.check()
        with progress(enabled=True) as tell:
            pairing = read_pair_of(options, access_of(offline=offline, progress=tell))
        path = pair_path(name, root)
        known = path.exists()
        write_pair(pairing, name, root)
    lines = [f"{'replaced' if known else 'froze'} {name} in {path.as_posix()}", f"  {_summary(pairing)}"]
    if pairing.trained.question is not None:
        lines.append("  what it was trained on is open: freeze it with --trained-boundaries (flowcheck explain HS402)")
    if pairing.header is None:
        lines.append(f"  without a header: {pairing.no_header}")
    write("".join(f"{line}\n" for line in lines))


@app.command("list")
def list_(root: Root = None) -> None:
    """List the pairs that are kept."""
    from flowcheck.draft import DraftError
    from flowcheck.draft.manifest import pair_names, read_pair

    _check_root(root)
    with one_line():
        names = pair_names(root)
    rows: list[tuple[str, str]] = []
    damaged: list[str] = []
    for name in names:
        try:
            rows.append((name, _summary(read_pair(name, root))))
        except DraftError as error:
            damaged.append(str(error))
    column = max((len(name) for name, _ in rows), default=0) + 2
    write("".join(f"{name:<{column}}{text}\n" for name, text in rows))
    for each in damaged:
        say(f"error: {each}")
    if damaged:
        raise typer.Exit(Exit.USAGE)
    if not names:
        say("no pairs are kept here: flowcheck pair freeze DRAFT TARGET --name NAME keeps one")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="What the pair is called.")],
    root: Root = None,
    format_: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TERMINAL,
    color: Annotated[Color, typer.Option("--color", help="When to use colour.")] = Color.AUTO,
) -> None:
    """Show a pair that is kept, with what flowcheck check-pair says of it; the exit code is 0 whatever that is."""
    from flowcheck.checks.run import selection

    _check_root(root)
    started = time.perf_counter(), time.process_time()
    rules = read_rules(None)
    pairing = read_pair_of(PairOptions(name=name), access_of(offline=True, progress=None), root=root)
    report = report_on(pairing, rules, selection(rules), None, started)
    write_report(report, format_, None, color, quiet=False, verbose=False)


def _check_root(root: Path | None) -> None:
    if root is not None and not root.is_dir():
        raise InputError(f"--root {root}: no such folder")


def _summary(pairing: Pairing) -> str:
    reading = pairing.trained.reading
    needs = str(reading) if reading is not None else "what it needs is open"
    draft = _called(pairing.draft_origin.repository, pairing.draft.label)
    target = _called(pairing.target_origin.repository, pairing.target.label)
    return f"{draft} with {target}: {needs}"


def _called(repository: str, label: str) -> str:
    return repository or label
