"""A probe without its command line: the scan that it is held against, where its code runs, the job, the answer."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flowcheck.cli.engine import Request, ask
from flowcheck.cli.errors import InconclusiveError, InputError, say
from flowcheck.cli.output import progress
from flowcheck.cli.settings import Value

if TYPE_CHECKING:
    from flowcheck.checks.rules import RuleBook
    from flowcheck.checks.run import Selection
    from flowcheck.draft import Pairing
    from flowcheck.probe.devices import Gpu
    from flowcheck.probe.environment import Environment
    from flowcheck.probe.expansion import Switch
    from flowcheck.probe.plan import Plan, Variant
    from flowcheck.probe.protocol import Backend, Job, Phase, Through
    from flowcheck.probe.running import Ran, Where
    from flowcheck.probe.shrinking import Shrinking, Shrunk
    from flowcheck.report.model import Report
    from flowcheck.source import Tree

__all__ = ["Wish", "probe_report"]

SIMULATED_BYTES = 700 * 10**6
"""What one simulated rank takes at most: its memory is that of the imports."""

REAL_BYTES = 450 * 10**6
"""What a process takes before its model."""

FULL_PRECISION = 4
"""Bytes of a number where numbers are compared."""

HALF_PRECISION = 2
"""Bytes of a number where GPUs compute."""

GPU_SHARE = 0.9
"""What of a GPU's memory weights may take: the rest is for what is computed, and for the largest matrix before it is divided."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user asked of a probe beside the scan. ``earlier``: a report to take the plan from; ``work``: where the job is
    kept; ``collect``: only judge what lies there; ``settings``: server arguments that were given by hand."""

    backend: str | None = None
    shrink: bool = False
    few_experts: bool = False
    env: Path | None = None
    earlier: Path | None = None
    seconds: float = 1800.0
    port: int | None = None
    nodes: int = 1
    work: Path | None = None
    collect: bool = False
    dry_run: bool = False
    through: Through = "model"
    settings: Mapping[str, Value] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what contradicts itself."""
        if self.nodes > 1 and self.backend != "nccl":
            raise InputError(f"--nnodes {self.nodes} needs --backend nccl: other ranks run on this machine")
        if self.nodes > 1 and self.work is None:
            raise InputError(f"--nnodes {self.nodes} needs --work DIR: a folder that all nodes see")
        if self.collect and self.work is None:
            raise InputError("--collect needs --work DIR: the folder with what the ranks left")
        if self.through == "model-runner" and self.backend not in ("gloo", "nccl"):
            raise InputError(
                "--through model-runner needs --backend gloo or nccl: simulated ranks have no memory to give it"
            )
        if self.few_experts and self.shrink:
            raise InputError(
                "--few-experts and --shrink exclude each other: a model that is made smaller has few experts"
            )
        if self.few_experts and self.backend == "gloo":
            raise InputError("--few-experts: gloo makes the whole model smaller")
        if self.port is not None and self.backend == "fake":
            raise InputError("--port: simulated ranks listen nowhere")


def probe_report(request: Request, wish: Wish, rules: RuleBook, selected: Selection, *, quiet: bool) -> Report | None:
    """Scan, run, judge. None where what was asked for is printed already (``--dry-run``, the launch on several nodes)."""
    from flowcheck.probe.errors import ProbeError
    from flowcheck.source import SourceError, open_source

    try:
        with progress(enabled=not quiet) as tell:
            base = _base(request, wish, rules, tell)
        with open_source(request.source, package_root=request.package_root, offline=request.offline) as tree:
            return _Probe(request, wish, rules, selected, base, tree, quiet).report()
    except (ProbeError, SourceError) as error:
        raise InputError(str(error)) from None


def _base(request: Request, wish: Wish, rules: RuleBook, tell: Any) -> Report:
    """The report of a scan: today's, or an earlier one."""
    if wish.earlier is None:
        from flowcheck.checks.run import selection

        return ask(request, rules, selection(rules), tell)[0]
    from pydantic import ValidationError

    from flowcheck.probe.section import without_probe
    from flowcheck.report.model import Report

    try:
        report = Report.model_validate_json(wish.earlier.read_bytes())
    except OSError as error:
        raise InputError(f"--report {wish.earlier}: {error.strerror or error}") from None
    except ValidationError:
        raise InputError(
            f"--report {wish.earlier}: this is no flowcheck.report/1 (scan --format json writes one)"
        ) from None
    if not report.capture:
        raise InputError(f"--report {wish.earlier}: that scan was about no pair; scan with --draft and --target")
    return without_probe(report)


@dataclass
class _Probe:
    request: Request
    wish: Wish
    rules: RuleBook
    selected: Selection
    base: Report
    tree: Tree
    quiet: bool

    @property
    def pairing(self) -> Pairing:
        """The pair."""
        assert self.request.pairing is not None
        return self.request.pairing

    @property
    def ranks(self) -> int:
        """How many ranks."""
        assert self.request.tp is not None
        return self.request.tp

    def report(self) -> Report | None:
        """The whole way."""
        from flowcheck.probe.running import Ran, collected, workplace

        self._check_base()
        began = time.perf_counter()
        torch = "of --env"
        if self.wish.env is None:
            from flowcheck.probe.torches import installed_torch

            torch = installed_torch().version
        backend, gpus = self._backend()
        table = _table()
        target, draft = self._models(backend, table)
        plan = self._plan(backend, target)
        needed = self._check_memory(backend, gpus, target, table)
        if self.wish.dry_run:
            self._print_plan(plan, backend, needed)
            return None
        cache = _cache()
        with workplace(cache, self.wish.work) as where:
            job = self._job(plan, target, draft, where)
            further = [_further(job, each) for each in plan.variants]
            if not plan.phases:
                ran = Ran({}, (), "the scan knows of no forward that could be run")
            elif self.wish.collect:
                ran = collected(job, further)
            else:
                environment = self._environment(backend)
                if self.wish.nodes > 1:
                    self._print_launch(job, further, environment, where)
                    return None
                ran = self._run(job, further, environment, where)
        from flowcheck.probe.section import Circumstances, with_probe
        from flowcheck.probe.verdict import judge

        judged = judge(plan, ran.results, trouble=ran.trouble, troubles=ran.troubles, limits=job.limits, ids=ran.ids)
        circumstances = Circumstances(
            torch=torch,
            wall_seconds=time.perf_counter() - began,
            compared_with=self.wish.earlier.name if self.wish.earlier is not None else "",
            draft_reductions=draft.reductions,
            left_out=draft.left_out,
        )
        return with_probe(self.base, plan, judged, ran, circumstances, self.rules, self.selected)

    def _check_base(self) -> None:
        """Refuse what cannot be run, with the scan's own reason."""
        from flowcheck.probe.names import probe_names

        base = self.base
        if self.wish.earlier is not None and base.source.digest != self.tree.digest:
            say(f"warning: --report {self.wish.earlier}: it is about another tree ({base.source.label})")
        if not base.capture:
            reasons = [each.message for each in base.findings if each.file is not None or each.verdict == "violated"]
            reasons += [each.reason for each in base.unproved if each.rule or each.about == "tree"]
            why = f": {reasons[0]}" if reasons else " (flowcheck scan says why)"
            raise InconclusiveError(f"this tree captures nothing for this pair that could be run{why}")

        together = probe_names()["parallel"]["together"]
        for name, value in self.request.settings.items():
            if name in together and value != together[name]:
                raise InconclusiveError(
                    f"with {name} = {json.dumps(value)} ranks do not share one batch and all layers, and a probe gives them "
                    "nothing else: flowcheck scan answers for that deployment"
                )

    # ------------------------------------------------------------------------------------------------------ backend
    def _backend(self) -> tuple[Backend, tuple[Gpu, ...]]:
        """Where the ranks run, and the GPUs that are there."""
        from flowcheck.probe.devices import visible_gpus

        wanted = self.wish.backend
        if wanted in ("fake", "gloo"):
            return cast("Backend", wanted), ()
        here = -(-self.ranks // self.wish.nodes)
        gpus = visible_gpus(_interpreter(self.wish.env))
        if wanted is None:
            return ("nccl", gpus) if len(gpus) >= self.ranks else ("fake", ())
        if len(gpus) < here and not self.wish.dry_run and not self.wish.collect and self.wish.nodes == 1:
            raise InputError(f"{_counted(here, 'GPU')} needed, {len(gpus)} found; use --backend fake")
        return "nccl", gpus

    def _models(self, backend: Backend, table: Shrinking) -> tuple[Shrunk, Shrunk]:
        """Target and draft as they are built."""
        from flowcheck.probe.shrinking import Shrunk, few_experts, shrunk, shrunk_draft

        target, draft = self.pairing.target, self.pairing.draft
        if self.wish.few_experts:
            return few_experts(target.raw, target.nesting, self.ranks, table), Shrunk(dict(draft.raw))
        if backend != "gloo" and not self.wish.shrink:
            return Shrunk(dict(target.raw)), Shrunk(dict(draft.raw))
        small = shrunk(target.raw, target.nesting, self.ranks, table)
        return small, shrunk_draft(draft.raw, small.widths, self.ranks, table)

    def _check_memory(self, backend: Backend, gpus: Sequence[Gpu], target: Shrunk, table: Shrinking) -> int | None:
        """Refuse what cannot fit; the estimate in bytes, None where the configuration does not say enough."""
        from flowcheck.probe.memory import free_memory, spoken_size

        if self.wish.collect:
            return None
        parameters = self._parameters(target, table)
        if backend == "nccl":
            return self._check_gpus(gpus, parameters, table)
        needed = SIMULATED_BYTES
        if backend == "gloo":
            # The reference has all of it, and so have the ranks together; each reads it whole while it loads its part.
            whole = FULL_PRECISION * (parameters or 0)
            needed = REAL_BYTES * self.ranks + 3 * whole
        free = free_memory()
        if free is not None and needed > free and not self.wish.dry_run:
            raise InputError(
                f"{backend} needs about {spoken_size(needed)} of memory, {spoken_size(free)} are free"
                + ("; --backend fake needs little" if backend == "gloo" else "")
            )
        return needed

    def _parameters(self, target: Shrunk, table: Shrinking) -> int | None:
        from flowcheck.probe.memory import parameters_of

        config = self.pairing.target
        text: Any = target.raw
        for key in filter(None, config.nesting.split(".")):
            text = text[key]
        return parameters_of(text, config.layers, table)

    def _check_gpus(self, gpus: Sequence[Gpu], parameters: int | None, table: Shrinking) -> int | None:
        from flowcheck.probe.memory import spoken_size
        from flowcheck.probe.shrinking import few_experts

        if parameters is None:
            return None
        needed = HALF_PRECISION * parameters
        smallest = min((gpu.memory for gpu in gpus[: self.ranks]), default=0)
        if gpus and not self.wish.dry_run and needed > GPU_SHARE * smallest:
            few = few_experts(self.pairing.target.raw, self.pairing.target.nesting, self.ranks, table)
            least = self._parameters(few, table) or parameters
            helps = least < parameters and HALF_PRECISION * least <= GPU_SHARE * smallest
            size = spoken_size(HALF_PRECISION * least)
            raise InputError(
                f"the target's weights take {spoken_size(needed)} in bf16, once on all ranks together and before that on one of "
                f"them, for the states that theirs are compared with; a GPU with {spoken_size(smallest)} is too little: "
                + (f"--few-experts leaves {size} of them at the true width, " if helps else "")
                + "--shrink makes it narrower, --backend fake needs no GPU"
            )
        return needed

    # ---------------------------------------------------------------------------------------------------------- job
    def _plan(self, backend: Backend, target: Shrunk) -> Plan:
        from flowcheck.probe.plan import Model, plan_of

        config = self.pairing.target
        sizes = Model(
            target_width=target.widths.get(config.hidden_size, config.hidden_size),
            draft_width=self._draft_width(target),
            reductions=target.reductions,
            left_out=target.left_out,
        )
        return plan_of(
            self.base.capture,
            backend=backend,
            ranks=self.ranks,
            sizes=sizes,
            switch=self._switch(),
            through=self.wish.through,
            has_draft=bool(self.pairing.draft.architectures),
        )

    def _draft_width(self, target: Shrunk) -> int | None:
        """How wide the input of the draft's first layer is by the scan, in the models that are built."""
        took = self.base.intake
        if took is None or took.in_features is None:
            return None
        if not target.widths:
            return took.in_features
        if took.states is None or took.state_width is None:
            return None
        return took.states * target.widths.get(took.state_width, took.state_width)

    def _job(self, plan: Plan, target: Shrunk, draft: Shrunk, where: Where) -> Job:
        from flowcheck.probe.memory import free_memory
        from flowcheck.probe.names import probe_names
        from flowcheck.probe.protocol import Job, Limits
        from flowcheck.probe.running import free_port
        from flowcheck.source import cache_root

        free = free_memory() or SIMULATED_BYTES
        package = self.tree.unpacked(cache_root() / "trees", say)
        _link(where.work / "tree", self.tree.package, package)
        for name, made in (("target", target), ("draft", draft)):
            (where.work / name / "config.json").write_text(json.dumps(made.raw, indent=1), "utf-8")
        port = free_port(wanted=self.wish.port) if plan.backend != "fake" and not self.wish.collect else 0
        draft_architecture = next(iter(self.pairing.draft.architectures), None)
        return Job(
            tree=str(where.work / "tree"),
            package=self.tree.package,
            backend=plan.backend,
            ranks=plan.ranks,
            target=str(where.work / "target"),
            architecture=next((row.architecture for row in self.base.capture), ""),
            phases=plan.phases,
            names=probe_names(),
            work=str(where.work),
            draft=str(where.work / "draft") if draft_architecture is not None else None,
            draft_architecture=draft_architecture,
            draft_width=plan.model.draft_width,
            reductions=plan.model.reductions,
            port=port,
            at_once=max(1, min(_cores(), plan.ranks, free // SIMULATED_BYTES)),
            settings={**plan.settings, **(self._decided() if plan.backend == "nccl" else {}), **self.wish.settings},
            algorithm=self.request.algorithm,
            through=self.wish.through,
            limits=Limits.of(plan.backend),
        )

    def _environment(self, backend: Backend) -> Environment:
        from flowcheck.probe.environment import environment_for, named_environment
        from flowcheck.probe.errors import ProbeError
        from flowcheck.probe.requirements import named_among, wanted_of
        from flowcheck.probe.torches import installed_torch

        packages = _data("environment.toml")
        stated = self.tree.requirements()
        needed = [*packages["needed"], *named_among(stated, packages["pinned"])]
        if self.wish.env is not None:
            return named_environment(self.wish.env, needed)
        if backend == "nccl":  # the tree's own kernels belong to an environment in which it is served
            try:
                return named_environment(Path(sys.executable), needed)
            except ProbeError as error:
                reason = str(error).partition(": ")[2]
                raise ProbeError(
                    f"nccl runs where the tree is served: name that environment with --env ({reason})"
                ) from None
        wanted = wanted_of(stated, packages["light"], packages["pinned"])
        if wanted.open:
            say(f"warning: the tree says of no version of {', '.join(wanted.open)}: the newest is taken")
        return environment_for(
            wanted, installed_torch(), _cache() / "environments", offline=self.request.offline, announce=say
        )

    def _decided(self) -> dict[str, Value]:
        """What the deployment says of all-reduce fusion: a launch may, where ``--set`` does not."""
        return {name: value for name, value in self.request.settings.items() if name in _fusion()}

    def _switch(self) -> Switch | None:
        """All-reduce fusion, unless the deployment decides it."""
        from flowcheck.probe.expansion import Switch

        switches = {name: each for name, each in _fusion().items() if each[0] != each[1]}
        name = next((name for name, (_, on) in switches.items() if isinstance(on, bool)), None)
        if name is None or self._decided():
            return None
        off, on = ({key: each[side] for key, each in switches.items()} for side in (0, 1))
        return Switch(name, off, on)

    def _run(self, job: Job, further: Sequence[Job], environment: Environment, where: Where) -> Ran:
        from flowcheck.cli.ranks import watching
        from flowcheck.probe.running import run_job

        with watching(job.ranks, enabled=not self.quiet) as heard:
            return run_job(
                job,
                environment,
                where,
                tree_digest=self.tree.package_digest,
                seconds=self.wish.seconds,
                port_is_given=self.wish.port is not None,
                heard=heard,
                further=further,
            )

    # -------------------------------------------------------------------------------------------------------- print
    def _print_plan(self, plan: Plan, backend: Backend, needed: int | None) -> None:
        """``--dry-run``: what would be run, and how."""
        from flowcheck.cli.output import write
        from flowcheck.probe.memory import spoken_size
        from flowcheck.probe.running import launch_command

        lines = [f"backend   {backend}, {_counted(plan.ranks, 'rank')} of tensor parallelism"]
        lines += [f"phase     {_phase(each)}" for each in plan.phases]
        for variant in plan.variants:
            given = ", ".join(f"{key}={_said(value)}" for key, value in variant.settings.items())
            lines.append(f"then      {variant.name}: the same ranks with {given}")
            lines += [f"phase     {_phase(each)}" for each in variant.phases]
        lines += [f"shrunk    {each.key} {each.was} -> {each.now}" for each in plan.model.reductions]
        lines.append(
            f"memory    {f'about {spoken_size(needed)}' if needed is not None else 'not known from the configuration'}"
        )
        if backend == "nccl":
            command = launch_command("WORK/job.json", plan.ranks, self.wish.nodes)
            lines.append(f"launch    {' '.join(command)}")
            each = plan.ranks // self.wish.nodes
            lines.append(f"ranks     {each} on each of {_counted(self.wish.nodes, 'node')}, rank r on GPU r % {each}")
        write("".join(f"{line}\n" for line in lines))

    def _print_launch(self, job: Job, further: Sequence[Job], environment: Environment, where: Where) -> None:
        """Several nodes: the job is written, and the user starts the ranks."""
        from flowcheck.cli.output import write
        from flowcheck.probe.protocol import dumps
        from flowcheck.probe.running import job_path, launch_command

        python = environment.python
        reference = replace(job.as_reference(), phases=tuple(each for run in (job, *further) for each in run.phases))
        ids = [] if job.through == "model-runner" else [job.as_ids()]  # its ranks read them themselves
        first = (job.as_learning(), *ids, reference)
        for each in (*first, job, *further):
            job_path(each).write_text(dumps(each), "utf-8")
        lines = [
            "on one node, first:",
            *(f"  PYTHONPATH={where.imports} {python} -m flowcheck.probe.rank {job_path(each)} 0" for each in first),
        ]
        for each in (job, *further):
            command = " ".join(launch_command(str(job_path(each)), job.ranks, self.wish.nodes))
            lines += [
                f"then on each of {self.wish.nodes} nodes, HOST being the first of them:",
                f"  PYTHONPATH={where.imports} {python} -m torch.distributed.run {command.partition(' ')[2]}",
            ]
        lines.append("and then this command again, with --collect")
        write("".join(f"{line}\n" for line in lines))


def _further(job: Job, variant: Variant) -> Job:
    """The job of a further run."""
    return replace(job, phases=variant.phases, settings={**job.settings, **variant.settings}, variant=variant.name)


def _link(folder: Path, package: str, place: Path) -> None:
    """Let ``package`` be imported from ``folder``, wherever it lies: nothing that lies beside it is."""
    *parents, name = package.split(".")
    inside = folder.joinpath(*parents)
    inside.mkdir(parents=True, exist_ok=True)
    (inside / name).symlink_to(place.resolve(), target_is_directory=True)


def _phase(phase: Phase) -> str:
    graph = ", recorded as a graph and replayed" if phase.graph else ""
    size = f"{_counted(phase.requests, 'request')} x {_counted(phase.tokens, 'token')}"
    return f"{phase.name}: {size}{graph}, told {_told(phase.calls)}"


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _told(calls: Sequence[tuple[int, ...] | None]) -> str:
    return ", then ".join("no ids" if each is None else str(list(each)) for each in calls) or "nothing"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _interpreter(env: Path | None) -> Path:
    if env is None:
        return Path(sys.executable)
    return env if env.is_file() else env / "bin" / "python"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cache() -> Path:
    from flowcheck.source import cache_root

    return cache_root() / "probe"


def _data(name: str) -> dict[str, Any]:
    from flowcheck.data import rules_dir

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads((rules_dir() / name).read_text("utf-8"))


def _table() -> Shrinking:
    from flowcheck.probe.shrinking import Shrinking

    return Shrinking(**_data("shrinking.toml"))


def _fusion() -> dict[str, tuple[Any, Any]]:
    """The server arguments that decide all-reduce fusion, each with what it is without and with it."""
    from flowcheck.data import rules_dir
    from flowcheck.flow.contracts import load_kernels

    return load_kernels(rules_dir() / "kernels.toml").facts.fusion
