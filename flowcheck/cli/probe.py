"""``flowcheck probe``: what does the tree's own model code do on running ranks?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from flowcheck.cli.errors import Exit, InputError, say
from flowcheck.cli.output import Color, progress, warn
from flowcheck.cli.pairing import (
    DraftModel,
    HeaderFile,
    LaunchScript,
    PairName,
    PairOptions,
    TargetModel,
    TrainedBoundaries,
    TrainedWith,
    deployment_of,
    ranks_of,
)
from flowcheck.cli.rules import RulesDir, read_rules
from flowcheck.cli.scan import FailOn, Format, Many, destination, fails, write_as
from flowcheck.cli.settings import parse_settings

if TYPE_CHECKING:
    from flowcheck.probe.protocol import Through
    from flowcheck.report.model import Report

__all__ = ["probe"]

ABOUT = ("HS5",)
"""The rules that speak of what running ranks showed; --select shows others beside them."""

RANKS = 8
"""How many ranks where nobody says it: those of the machines that serve such targets."""
SECONDS = 1800


def probe(
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
    backend: Annotated[
        Optional[str],  # noqa: UP045 - typer reads these at run time
        typer.Option(
            metavar="fake|gloo|nccl",
            help="Simulated ranks, processes on CPUs with a smaller model, or GPUs; GPUs by default, or else fake.",
        ),
    ] = None,
    nproc: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--nproc", min=1, max=1024, metavar="N", help="How many ranks; by default as the launch says, or 8."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run the tree's code without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be run, and run nothing of the tree.")
    ] = False,
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink", help="Make the model small enough: narrower, never with fewer layers. Always so for gloo."
        ),
    ] = False,
    few_experts: Annotated[
        bool,
        typer.Option("--few-experts", help="Keep only as many experts as routing needs, and every width: for GPUs."),
    ] = False,
    env: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--env", metavar="DIR", help="Run in this environment (or interpreter) instead of one of the probe's own."
        ),
    ] = None,
    earlier: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--report", metavar="FILE", help="Hold the ranks against this JSON report of a scan, and scan nothing."
        ),
    ] = None,
    timeout: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="When what still runs has hung.")] = SECONDS,
    port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, max=65535, metavar="N", help="Where rank 0 listens; by default a port that is free."),
    ] = None,
    nodes: Annotated[
        int, typer.Option("--nnodes", min=1, metavar="N", help="How many machines share the ranks (nccl).")
    ] = 1,
    work: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--work", metavar="DIR", help="Where the job and its results are kept; all nodes must see it."),
    ] = None,
    collect: Annotated[
        bool, typer.Option("--collect", help="Run nothing: judge what the ranks left in --work.")
    ] = False,
    through: Annotated[
        str,
        typer.Option(
            metavar="model|model-runner",
            help="Call the target's class, or let the tree's own model runner make, tell and run it (gloo, nccl).",
        ),
    ] = "model",
    algorithm: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME", help="The speculative algorithm of the deployment; by default the draft's."),
    ] = None,
    settings: Annotated[
        Many, typer.Option("--set", metavar="KEY=VALUE", help="Fix a server argument ('' is empty text). Repeatable.")
    ] = None,
    select: Annotated[
        Many, typer.Option(metavar="RULES", help="Show these rules instead of HS5: ids or prefixes, with commas.")
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
    rules_dir: RulesDir = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Scan anew, and keep nothing of the scan.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch and install nothing.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the findings and the last line alone.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more of each finding.")] = False,
    color: Annotated[Color, typer.Option("--color", help="When to use colour.")] = Color.AUTO,
) -> None:
    """Run the tree's own model code on several ranks, and hold what it captures against the scan.

    Unlike scan, this EXECUTES code of SOURCE, in child processes, with your rights.
    """
    from flowcheck.cli.engine import Request, check, pick
    from flowcheck.cli.probing import Wish, probe_report

    if quiet and verbose:
        raise InputError("--quiet and --verbose exclude each other")
    to = destination(output)
    fixed = parse_settings(settings or ())
    check(algorithm, fixed)
    rules = read_rules(rules_dir)
    selected = pick(rules, select or ABOUT, ignore or ())
    wish = Wish(
        backend=_backend(backend),
        shrink=shrink,
        few_experts=few_experts,
        env=env,
        earlier=earlier,
        seconds=float(timeout),
        port=port,
        nodes=nodes,
        work=work,
        collect=collect,
        dry_run=dry_run,
        settings=fixed,
        through=_through(through),
    )
    wish.check()
    if not dry_run and not collect:
        _consent(source, yes=yes)
    options = PairOptions(draft, target_model, header, trained, pair, launch, training, not no_cache)
    with progress(enabled=not quiet) as tell:
        deployment = deployment_of(options, algorithm, fixed, offline=offline, progress=tell)
        if deployment.pairing is None:
            raise InputError("probe runs a pair: give --draft and --target, --pair, or a --launch that names both")
        request = Request(
            source=source,
            algorithm=deployment.algorithm,
            settings=deployment.settings,
            package_root=package_root,
            cache=not no_cache,
            offline=offline,
            tp=ranks_of(nproc, deployment) or RANKS,
            modes=False,
            pairing=deployment.pairing,
            launch=deployment.launch,
            launched=deployment.launched,
            warnings=deployment.warnings,
        )
    report = probe_report(request, wish, rules, selected, quiet=quiet)
    if report is None:  # what was to be printed has been
        return
    _write(report, format_, to, color, quiet=quiet, verbose=verbose)
    warn(report.source.warnings, everything=verbose)
    if fails(report, fail_on):
        raise typer.Exit(Exit.FINDINGS)
    if not _is_conclusive(report):
        raise typer.Exit(Exit.INCONCLUSIVE)


BACKENDS = ("fake", "gloo", "nccl")


def _backend(given: str | None) -> str | None:
    if given is not None and given not in BACKENDS:
        raise InputError(f"--backend {given}: it is one of {', '.join(BACKENDS)}")
    return given


def _through(given: str) -> Through:
    if given not in ("model", "model-runner"):
        raise InputError(f"--through {given}: it is one of model, model-runner")
    return "model-runner" if given == "model-runner" else "model"


def _consent(source: str, *, yes: bool) -> None:
    """Say loudly that code will be run, and ask, unless the user said so already."""
    warning = f"probe EXECUTES code of {source}, in child processes, with your rights; scan does not"
    if yes:
        say(warning)
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"{warning}: --yes says that this is wanted")
    say(warning)
    sys.stderr.write("go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("nothing was run")


def _is_conclusive(report: Report) -> bool:
    """Whether something was shown, and nothing that the backend reaches stayed open."""
    paths = report.probe.paths if report.probe is not None else []
    verdicts = {path.verdict for path in paths}
    return bool(verdicts & {"proved", "violated"}) and "inconclusive" not in verdicts


def _write(report: Report, format_: Format, to: Path | None, color: Color, *, quiet: bool, verbose: bool) -> None:
    from flowcheck.report.json_writer import to_json
    from flowcheck.report.terminal.probe import probe_page

    shown = report.probe
    assert shown is not None
    write_as(
        format_,
        lambda: to_json(report),
        lambda width: probe_page(report, shown, width, quiet=quiet, verbose=verbose),
        to,
        color,
    )
