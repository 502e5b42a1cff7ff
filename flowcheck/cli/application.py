"""The typer application: which commands there are, and what happens when one of them fails."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from flowcheck import __version__
from flowcheck.cli import check_pair, ids, pair, probe, rules, scan, schema, support, trace, upgrade
from flowcheck.cli.errors import Exit, exit_code_of

__all__ = ["app", "main"]


class Commands(TyperGroup):
    """A group whose failures end in one line and a documented exit code, never in a traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and leave the process with its exit code."""
        _open_closed_streams()
        _tolerate_narrow_encodings()
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except BaseException as error:
            if isinstance(error, SystemExit):  # typer and rich leave with 1 where the reader of a help text went away
                if not isinstance(error.__context__, BrokenPipeError):
                    raise
                error = error.__context__
            code = exit_code_of(error)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command of a line; typer would give these two exit codes of its own."""
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, KeyboardInterrupt) as error:
            raise typer.Exit(exit_code_of(error)) from None


app = typer.Typer(
    cls=Commands,
    name="flowcheck",
    help="Proves that EAGLE-3 hidden states are wired right in an SGLang source tree, without running it.",
    epilog="Begin with: flowcheck scan sglang==0.5.9\n\n"
    "Exit codes: 0 nothing at or above --fail-on; 1 findings; 2 bad usage or unreadable input; 3 a bug; 4 a probe that is "
    "inconclusive.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("scan")(scan.scan)
app.command("support")(support.support)
app.command("trace")(trace.trace)
app.command("ids")(ids.ids)
app.command("upgrade")(upgrade.upgrade)
app.command("probe")(probe.probe)
app.command("check-pair")(check_pair.check_pair)
app.add_typer(pair.app, name="pair")
app.command("rules")(rules.rules)
app.command("explain")(rules.explain)
app.command("schema")(schema.schema)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flowcheck {__version__}")
        raise typer.Exit


@app.callback()
def _flowcheck(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(Exit.USAGE)


def _tolerate_narrow_encodings() -> None:
    """What a terminal cannot show becomes a question mark instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _open_closed_streams() -> None:
    """A stream that was closed before we began (``>&-``) gets its place back, so that no file we open takes it.

    What is said on stderr goes nowhere; a report on stdout fails as every other write that cannot be done.
    """
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            place = os.open(os.devnull, flags)
            os.set_inheritable(place, True)
            setattr(sys, name, os.fdopen(place, "r" if name == "stdin" else "w", encoding="utf-8"))


def main() -> None:
    """The console script."""
    app(prog_name="flowcheck")
