"""Which pair and which deployment a command is about: from options, a frozen pair, or a launch script."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from flowcheck.cli.errors import InputError
from flowcheck.cli.settings import Value

if TYPE_CHECKING:
    from flowcheck.draft import Access, Computed, DraftConfig, Pairing, TargetConfig, TrainingTree
    from flowcheck.draft.launch import Launch

__all__ = ["Deployment", "DraftModel", "HeaderFile", "LaunchScript", "PairName", "PairOptions", "Ranks", "TargetModel"]
__all__ += ["TrainedBoundaries", "TrainedWith", "access_of", "algorithm_of", "deployment_of", "one_line", "ranks_of"]
__all__ += ["read_pair_of"]

DraftModel = Annotated[
    Optional[str],  # noqa: UP045 - typer reads these at run time
    typer.Option("--draft", metavar="D", help="The draft: a folder, a config.json, or org/name@revision on the hub."),
]
TargetModel = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--target", metavar="T", help="Its target, named likewise."),
]
LaunchScript = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--launch", metavar="SCRIPT", help="A shell script that launches the server: it says pair and scenario."
    ),
]

HeaderFile = Annotated[
    Optional[str],  # noqa: UP045 - typer reads these at run time
    typer.Option(
        "--header",
        metavar="FILE",
        help="The draft's checkpoint, if it does not lie beside its configuration: a folder, a safetensors file, or a "
        "JSON dump of names and shapes.",
    ),
]
TrainedBoundaries = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--trained-boundaries",
        metavar="N,N,N",
        help="What the draft was trained on: 0 is the embedding, k the output of the k-th layer, counted from 1.",
    ),
]
TrainedWith = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--trained-with",
        metavar="SOURCE",
        help="The tree that the draft was trained with: what its setter makes of the ids is what the draft needs.",
    ),
]
Ranks = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        "--tp",
        min=1,
        metavar="N",
        help="How many ranks share the target's layers; by default as the launch says, or 8, or fewer if it cannot be split so.",
    ),
]
PairName = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--pair", metavar="NAME", help="A pair that flowcheck pair freeze keeps; needs no network."),
]

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PairOptions:
    """What a user said about a pair; None is what was not said. ``keep``: whether what a training tree says is cached."""

    draft: str | None = None
    target: str | None = None
    header: str | None = None
    trained: str | None = None
    name: str | None = None
    launch: str | None = None
    trained_with: str | None = None
    keep: bool = True

    def check(self) -> None:
        """Refuse options that contradict each other or say nothing."""
        if self.launch is not None and not self.launch.strip():
            raise InputError("--launch is empty: name a shell script")
        if self.header is not None and not self.header.strip():
            raise InputError("--header is empty: name a folder, a safetensors file, or a JSON dump")
        if self.trained is not None:
            _boundaries(self.trained)
        if self.trained_with is not None and not self.trained_with.strip():
            raise InputError("--trained-with is empty: name a tree, as in --trained-with sglang==X.Y.Z")
        if self.trained is not None and self.trained_with is not None:
            raise InputError("--trained-boundaries and --trained-with exclude each other")
        if self.name is not None and (self.draft, self.target, self.header) != (None, None, None):
            raise InputError("--pair names the draft, the target and the header: leave the other options out")
        if self.launch is not None or self.name is not None:
            return
        if (self.draft is None) != (self.target is None):
            given, missing = ("--draft", "--target") if self.target is None else ("--target", "--draft")
            raise InputError(f"{given} without {missing}: a pair needs both")
        for option, value in (
            ("--header", self.header),
            ("--trained-boundaries", self.trained),
            ("--trained-with", self.trained_with),
        ):
            if value is not None and self.draft is None:
                raise InputError(f"{option} belongs to a pair: give --draft and --target, or --pair")


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a scan is about. ``launch`` is the script and the line, ``launched`` are the settings that it fixes."""

    algorithm: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    pairing: Pairing | None = None
    launch: str = ""
    launched: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """What the room ``draft`` refuses is the user's to mend."""
    from flowcheck.draft import DraftError

    try:
        yield
    except DraftError as error:
        raise InputError(str(error)) from None


def access_of(*, offline: bool, progress: Progress | None) -> Access:
    """How far to go for a model."""
    from flowcheck.draft import Access
    from flowcheck.source import cache_root

    return Access(offline=offline, cache_dir=cache_root(), progress=progress)


def read_pair_of(
    options: PairOptions, access: Access, *, root: Path | None = None, override: Mapping[str, object] | None = None
) -> Pairing:
    """The pair that options name: a frozen one, or a draft and a target."""
    from flowcheck.draft import read_pairing

    declared = _boundaries(options.trained) if options.trained is not None else None
    source = options.trained_with
    training = _training(source, access, keep=options.keep) if source is not None else None
    with one_line():
        if options.name is not None:
            return _frozen(options.name, options, declared, training, root)
        assert options.draft is not None
        assert options.target is not None
        pair = read_pairing(
            options.draft,
            options.target,
            header=options.header,
            declared=declared,
            training=training,
            access=access,
            override=override,
        )
    if options.header is not None and pair.header is None:
        raise InputError(f"--header {options.header}: {pair.no_header}")
    return pair


def _boundaries(text: str) -> tuple[int, ...]:
    from flowcheck.draft import boundaries_from_text

    with one_line():
        return boundaries_from_text(text)


def _frozen(
    name: str,
    options: PairOptions,
    declared: Sequence[int] | None,
    training: TrainingTree | None,
    root: Path | None,
) -> Pairing:
    from flowcheck.draft.manifest import read_pair
    from flowcheck.draft.training import Basis, trained_boundaries

    pair = read_pair(name, root)
    if declared is None and training is None:
        return pair
    trained = trained_boundaries(pair.draft, pair.target, declared=declared, training=training)
    known = pair.trained.reading
    if (
        known is not None
        and known.basis in (Basis.DECLARED, Basis.COMPUTED)
        and known.answer != trained.readings[0].answer
    ):
        said = f"--trained-with {options.trained_with} gives {trained.readings[0]}"
        if declared is not None:
            said = f"--trained-boundaries {','.join(map(str, declared))}"
        raise InputError(f"{said}: pair {name} was frozen with {known}, {known.basis.value}")
    return dataclasses.replace(pair, trained=trained)


def _training(source: str, access: Access, *, keep: bool) -> TrainingTree:
    """What the tree that a draft was trained with makes of it; the tree is opened when it is asked."""

    def computed(draft: DraftConfig, target: TargetConfig) -> Computed:
        from flowcheck.flow import Scenario
        from flowcheck.flow.training_tree import trained_with
        from flowcheck.source import SourceError, open_source

        scenario = Scenario(SERVED_AS.get(draft.algorithm.value, DEFAULT))
        cache_dir = access.cache_dir if keep else None
        try:
            with open_source(source, offline=access.offline, progress=access.progress) as tree:
                return trained_with(tree, scenario, draft, target, cache_dir=cache_dir, progress=access.progress)
        except SourceError as error:
            raise InputError(f"--trained-with {source}: {error}") from None

    return computed


# -------------------------------------------------------------------------------------------------------------- scan
def deployment_of(
    options: PairOptions,
    algorithm: str | None,
    settings: Mapping[str, Value],
    *,
    offline: bool,
    progress: Progress | None,
) -> Deployment:
    """What a scan is about, from everything that was said about it; contradictions are refused."""
    options.check()
    if options.launch is None and options.name is None and options.draft is None:
        return Deployment(algorithm if algorithm is not None else DEFAULT, settings)
    access = access_of(offline=offline, progress=progress)
    if options.launch is None:
        pairing = read_pair_of(options, access)
        return Deployment(algorithm if algorithm is not None else algorithm_of(pairing), settings, pairing)
    return _launched(options, options.launch, algorithm, settings, access)


def ranks_of(given: int | None, deployment: Deployment) -> int | None:
    """Over how many ranks the target is split: ``--tp``, else what the launch or ``--set`` says; None where nobody does."""
    if deployment.pairing is None:
        if given is not None:
            raise InputError("--tp belongs to a pair: give --draft and --target, or --pair")
        return None
    from flowcheck.draft.launch import TENSOR_PARALLEL

    said = deployment.settings.get(TENSOR_PARALLEL)
    if said is None:
        return given
    if isinstance(said, bool) or not isinstance(said, int) or said < 1:
        raise InputError(f"{TENSOR_PARALLEL} is {said!r}; expected a number of ranks, as in --tp 8")
    if given is not None and given != said:
        by = deployment.launch if TENSOR_PARALLEL in deployment.launched else f"--set {TENSOR_PARALLEL}={said}"
        raise InputError(f"--tp {given}: {by} says {said}")
    return said


DEFAULT = "EAGLE3"

SERVED_AS = {"DFLASH": "DFLASH", "DSPARK": "DSPARK", "EAGLE": "EAGLE", "MTP": "EAGLE"}
"""The algorithm under which a draft is served that needs another than the default."""


def algorithm_of(pairing: Pairing) -> str:
    """The algorithm that a deployment of this draft has to ask for, where nobody says which it does."""
    return SERVED_AS.get(pairing.draft.algorithm.value, DEFAULT)


def _launched(
    options: PairOptions, script: str, algorithm: str | None, settings: Mapping[str, Value], access: Access
) -> Deployment:
    from flowcheck.draft.launch import ALGORITHM, read_launch

    with one_line():
        launch = read_launch(script)
        override = launch.model_override
    label = f"{script}:{launch.line}"
    if algorithm is None:
        _refuse_unread(launch, ALGORITHM, script, "--algorithm")
    elif launch.algorithm and launch.algorithm != algorithm.upper():
        raise InputError(f"--algorithm {algorithm}: {label} launches {launch.algorithm}")
    pairing, warnings = _pair_of_launch(options, launch, script, label, access, override)
    if algorithm is None and launch.algorithm is None:
        warnings.append(f"{label} names no speculative algorithm")
    warnings += [f"{script}, {each}; it is left free" for each in launch.left_open if each.argument not in settings]
    names = sorted(name for name in launch.environment if name.startswith(ENVIRONMENT))
    if names:
        warnings.append(f"{label} sets {', '.join(names)}: the report assumes an environment without it")
    chosen = algorithm or launch.algorithm or (algorithm_of(pairing) if pairing is not None else DEFAULT)
    deployed = launch.deployment
    for name, value in settings.items():
        if name in deployed and deployed[name] != value:
            raise InputError(f"--set {name}={value}: {label} sets {name} to {deployed[name]!r}")
    return Deployment(
        algorithm=chosen,
        settings={**deployed, **settings},
        pairing=pairing,
        launch=label,
        launched=frozenset(deployed) - frozenset(settings),
        warnings=tuple(warnings),
    )


ENVIRONMENT = ("SGLANG_", "SGL_")
"""How the variables begin that a server reads."""


def _pair_of_launch(
    options: PairOptions, launch: Launch, script: str, label: str, access: Access, override: Mapping[str, object]
) -> tuple[Pairing | None, list[str]]:
    """The pair of a launch: what the user names wins over what the script does."""
    from flowcheck.draft.launch import DRAFT, MODEL

    if options.name is not None:
        said = f"{label} lays keys over the target's configuration, which a frozen pair does not take"
        return read_pair_of(options, access), [said] if override else []
    if options.draft is None:
        _refuse_unread(launch, DRAFT, script, "--draft")
    if options.target is None:
        _refuse_unread(launch, MODEL, script, "--target")
    draft = options.draft if options.draft is not None else launch.draft
    target = options.target if options.target is not None else launch.model
    if draft is None or target is None:
        missing = "draft" if draft is None else "target"
        if options != PairOptions(launch=options.launch):
            raise InputError(f"{label} names no {missing}: give --{missing}")
        return None, [f"{label} names no {missing}, so that nothing is said about a pair"]
    try:
        pair = read_pair_of(dataclasses.replace(options, draft=draft, target=target), access, override=override)
    except InputError as error:
        if options.draft is not None and options.target is not None:
            raise
        raise InputError(f"{error}; {label} names it, and --draft, --target or --pair may name another") from None
    return pair, []


def _refuse_unread(launch: Launch, argument: str, script: str, option: str) -> None:
    for each in launch.unread:
        if each.argument == argument:
            raise InputError(f"{script}, {each}: give {option}")
