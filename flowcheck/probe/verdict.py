"""From what ranks saw to a verdict for each path. Pure: a plan and results in, verdicts and problems out.

A path is *proved* only where every rank came to its end, every rank holds the states that the draft was trained on, whole
and in all rows, all ranks hold the same, and the draft's own first layer took them. Whatever could not run, or says too
little, is *inconclusive*; what this backend cannot reach is *not covered*: a graph that was not replayed, kernels that were not
launched. Neither is ever a proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from flowcheck.probe.plan import Plan, PlannedPath
from flowcheck.probe.protocol import Block, DraftInput, Failure, IdsRead, Limits, PhaseResult, RankResult

__all__ = ["PROBE_RULES", "Judged", "LiveVerdict", "PathVerdict", "Problem", "judge", "spelled"]

PROBE_RULES = ("HS501", "HS502", "HS503", "HS504", "HS505", "HS506", "HS507")
"""The rules that speak of what running ranks showed."""


class LiveVerdict(str, Enum):
    """How a path ends."""

    PROVED = "proved"
    VIOLATED = "violated"
    INCONCLUSIVE = "inconclusive"
    NOT_COVERED = "not covered"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong on a path. ``kind`` chooses the rule's message; the rest fills it."""

    rule: str
    kind: str
    found: str = ""
    expected: str = ""
    keys: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PathVerdict:
    """How one path ends, and what was seen on it.

    ``blocks``, ``rows``, ``width`` are those of rank 0, or of the first rank that differs; ``same`` says whether all ranks hold
    the same (None: nothing to compare). ``draft`` is what the draft's first layer made of them.
    """

    path: PlannedPath
    verdict: LiveVerdict
    reason: str = ""
    problems: tuple[Problem, ...] = ()
    blocks: tuple[Block, ...] = ()
    rows: int | None = None
    expected_rows: int | None = None
    width: int | None = None
    same: bool | None = None
    draft: DraftInput | None = None

    @property
    def found(self) -> tuple[int | None, ...]:
        """The boundaries that arrived; None for what is none, or only a part of one."""
        return tuple(each.boundary if each.identity == "boundary" else None for each in self.blocks)


@dataclass(frozen=True, slots=True)
class Judged:
    """The whole answer."""

    paths: tuple[PathVerdict, ...]

    def count(self, verdict: LiveVerdict) -> int:
        """How many paths end so."""
        return sum(path.verdict is verdict for path in self.paths)

    @property
    def is_conclusive(self) -> bool:
        """Whether something was shown, and nothing that this backend reaches stayed open."""
        shown = self.count(LiveVerdict.PROVED) + self.count(LiveVerdict.VIOLATED)
        return shown > 0 and self.count(LiveVerdict.INCONCLUSIVE) == 0


def judge(
    plan: Plan,
    results: Mapping[int, RankResult],
    *,
    trouble: str = "",
    troubles: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    ids: IdsRead | None = None,
) -> Judged:
    """The verdict for each path of the plan.

    Args:
        plan: what was run and what it should show.
        results: what ranks saw, by their numbers; those that left nothing are missing.
        trouble: why the run as a whole shows nothing (a rank died or hung), "" where it came to its end.
        troubles: the same of further runs, by their names.
        limits: those of the job.
        ids: what the tree's own code tells the target; None where that is not known.
    """
    all_troubles = {**(troubles or {}), "": trouble}
    return Judged(
        tuple(
            _of_path(plan, path, results, all_troubles.get(path.variant, ""), limits or Limits(), ids)
            for path in plan.paths
        )
    )


def _of_path(
    plan: Plan,
    path: PlannedPath,
    results: Mapping[int, RankResult],
    trouble: str,
    limits: Limits,
    ids: IdsRead | None,
) -> PathVerdict:
    seen = _Seen.of(plan, path, results)
    if path.excluded:
        return seen.ends(LiveVerdict.NOT_COVERED, path.excluded, apart=any(_ranks_differ(seen, limits, plan.ranks)))
    missing = path.open or trouble or seen.missing(plan)
    if missing:
        return seen.ends(LiveVerdict.INCONCLUSIVE, missing)
    if ids is not None and not set(ids.calls) & set(path.told):  # whatever was seen was told something else
        problem = Problem("HS507", "ids", _told(ids.calls), _told(path.told), reason=", ".join(ids.where))
        return seen.ends(LiveVerdict.INCONCLUSIVE, "the target was not told what the tree tells it", (problem,))
    if failed := seen.failed:
        return _refused(path, seen, failed)
    if unseen := seen.not_replayed() or _not_fused(plan, path, results, seen):
        return seen.ends(LiveVerdict.NOT_COVERED, unseen)
    if path.fused == "none" and (fusing := [rank for rank, phase in seen.phases.items() if phase.fused]):
        return seen.ends(
            LiveVerdict.INCONCLUSIVE, f"{_ranks(fusing, plan.ranks)} fused all-reduces, and was told not to"
        )
    problems = tuple(_problems(plan, path, seen, limits))
    if otherwise := _told_otherwise(path, seen, problems):
        return seen.ends(LiveVerdict.NOT_COVERED, otherwise)
    if any(each.rule != "HS507" for each in problems):
        return seen.ends(LiveVerdict.VIOLATED, "", problems)
    if problems:
        return seen.ends(LiveVerdict.INCONCLUSIVE, "the scan says otherwise: one of the two is wrong", problems)
    left = next(filter(None, _left_open(plan, seen)), "")
    return seen.ends(LiveVerdict.INCONCLUSIVE if left else LiveVerdict.PROVED, left)


def _refused(path: PlannedPath, seen: _Seen, failed: Mapping[int, Failure]) -> PathVerdict:
    """A phase that raised: the tree's doing where it refuses the ids, or where the scan says that it raises."""
    rank, failure = next(iter(failed.items()))
    said = f"{failure.kind}: {failure.message}" if failure.message else failure.kind
    where = f" ({failure.where[-1]})" if failure.where else ""
    of_tree = all(each.about == "tree" for each in failed.values()) and len(failed) == len(seen.phases)
    if of_tree and (failure.stage == "setter" or path.refused):
        stage = failure.stage if failure.stage == "setter" else "forward"
        problem = Problem("HS506", stage, keys=_told(path.told), reason=said + where)
        return seen.ends(LiveVerdict.VIOLATED, "", (problem,))
    return seen.ends(LiveVerdict.INCONCLUSIVE, f"rank {rank} ended in {failure.stage}: {said}{where}")


def _told(calls: Sequence[Sequence[int] | None]) -> str:
    """Calls of the setter in words: "no ids then [1, 3, 4]"."""
    return " then ".join("no ids" if ids is None else str(list(ids)) for ids in calls) or "nothing"


def _told_otherwise(path: PlannedPath, seen: _Seen, problems: Sequence[Problem]) -> str:
    """Why what was seen says nothing of this path: a start of the tree's own told the target something else than the start that
    the scan follows, which may have graph runners that this one had not, and what arrives is not the same."""
    told = next((phase.told for phase in seen.phases.values() if phase.told != path.told), None)
    if told is None or not any(each.rule == "HS507" for each in problems):
        return ""
    return f"the tree told its target {_told(told)} here, and not what it is told on this path"


def _not_fused(plan: Plan, path: PlannedPath, results: Mapping[int, RankResult], seen: _Seen) -> str:
    """Why a row about fused all-reduces was not shown, "" where it was, or is about none."""
    if path.fused not in ("some", "elsewhere"):
        return ""
    if path.fused == "some":
        without = [rank for rank, phase in seen.phases.items() if not phase.fused]
    else:  # behind the limit none are fused; that they would have been is shown by the rows before it
        names = {each.stands_in for each in plan.paths if each.variant == path.variant and each.stands_in}
        fusing = {rank for rank, each in results.items() for p in each.phases if p.phase in names and p.fused}
        without = [rank for rank in seen.ranks if rank not in fusing]
    return f"no all-reduce was fused on {_ranks(without, plan.ranks)}" if without else ""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What all ranks saw on one path."""

    path: PlannedPath
    phases: Mapping[int, PhaseResult]
    drafts: Mapping[int, DraftInput]
    errors: Mapping[int, Failure]
    ranks: tuple[int, ...]

    @classmethod
    def of(cls, plan: Plan, path: PlannedPath, results: Mapping[int, RankResult]) -> _Seen:
        name = path.stands_in
        phases = {
            rank: each for rank, result in results.items() for each in result.phases if name and each.phase == name
        }
        drafts = {
            rank: each for rank, result in results.items() for each in result.draft if name and each.phase == name
        }
        errors = {rank: result.error for rank, result in results.items() if result.error is not None}
        return cls(path, phases, drafts, errors, tuple(range(plan.ranks)))

    def missing(self, plan: Plan) -> str:
        """Why a rank says nothing of this path, "" where all of them do."""
        absent = [rank for rank in self.ranks if rank not in self.phases]
        if not absent:
            return ""
        own = [rank for rank in absent if rank in self.errors and self.errors[rank].about != "other"]
        rank = next(iter(own), absent[0])
        failure = self.errors.get(rank)
        if failure is None:
            return f"{_ranks(absent, plan.ranks)} left no result"
        where = f" ({failure.where[-1]})" if failure.where else ""
        return f"rank {rank} ended in {failure.stage}: {failure.kind}: {failure.message}{where}"

    def not_replayed(self) -> str:
        """Why no graph was replayed where one is asked for, "" where it was on every rank."""
        if not self.path.graph:
            return ""
        without = {
            rank: each.replay for rank, each in self.phases.items() if each.replay is None or not each.replay.done
        }
        if not without:
            return ""
        whys = [replay.why for replay in without.values() if replay is not None and replay.why]
        return f"no graph was replayed on {_ranks(without, len(self.ranks))}{f': {whys[0]}' if whys else ''}"

    @property
    def failed(self) -> dict[int, Failure]:
        """The ranks on which the phase raised."""
        return {rank: phase.error for rank, phase in self.phases.items() if phase.error is not None}

    @property
    def first(self) -> PhaseResult | None:
        """What rank 0 saw."""
        return self.phases.get(0)

    def ends(
        self, verdict: LiveVerdict, reason: str, problems: tuple[Problem, ...] = (), *, apart: bool = False
    ) -> PathVerdict:
        shown = next((phase for phase in self.phases.values() if _is_odd(phase)), self.first)
        draft = next((each for each in self.drafts.values() if each.accepted is not True), self.drafts.get(0))
        views = {_view(phase) for phase in self.phases.values()}
        arrived = any(phase.width is not None for phase in self.phases.values())
        return PathVerdict(
            path=self.path,
            verdict=verdict,
            reason=reason,
            problems=problems,
            blocks=shown.blocks if shown is not None else (),
            rows=shown.rows if shown is not None else None,
            expected_rows=shown.expected_rows if shown is not None else None,
            width=shown.width if shown is not None else None,
            same=(
                len(views) == 1 and not apart and not any(each.rule == "HS504" for each in problems)
                if arrived
                else None
            ),
            draft=draft,
        )


def _is_odd(phase: PhaseResult) -> bool:
    return any(each.identity != "boundary" for each in phase.blocks)


def _view(phase: PhaseResult) -> tuple[object, ...]:
    """What has to be the same on every rank, but for the numbers themselves."""
    return (phase.rows, phase.width, phase.dtype, tuple((each.identity, each.boundary) for each in phase.blocks))


def _problems(plan: Plan, path: PlannedPath, seen: _Seen, limits: Limits) -> Iterator[Problem]:
    total = plan.ranks
    without = [rank for rank, phase in seen.phases.items() if phase.rows is None or phase.width is None]
    if without:
        yield Problem("HS502", "none", keys=_ranks(without, total))
        return
    yield from _wrong_rows(seen, total)
    yield from _wrong_width(plan, seen)
    yield from _wrong_states(plan, seen)
    yield from _unlike_eager(seen, limits, total)
    yield from _ranks_differ(seen, limits, total)
    yield from _refused_by_draft(seen, total)
    yield from _unlike_scan(path, seen)


def _wrong_rows(seen: _Seen, total: int) -> Iterator[Problem]:
    wrong = {rank: phase for rank, phase in seen.phases.items() if phase.rows != phase.expected_rows}
    if wrong:
        one = next(iter(wrong.values()))
        yield Problem("HS502", "differs", str(one.rows), str(one.expected_rows), _ranks(wrong, total))


def _wrong_width(plan: Plan, seen: _Seen) -> Iterator[Problem]:
    if plan.states is None:
        return
    wrong = {rank: phase for rank, phase in seen.phases.items() if phase.width != plan.states * phase.target_width}
    if wrong:
        one = next(iter(wrong.values()))
        fields = (str(one.width), f"{plan.states} x {one.target_width}", _ranks(wrong, plan.ranks))
        yield Problem("HS501", "differs", *fields, spelled_blocks(one.blocks) or "no state has this width")


def _wrong_states(plan: Plan, seen: _Seen) -> Iterator[Problem]:
    """What arrived is not what the draft was trained on."""
    wanted = _wanted(plan)
    for kind in ("partial", "other"):
        of_kind = {
            rank: [each for each in phase.blocks if each.identity == kind] for rank, phase in seen.phases.items()
        }
        wrong = {rank: blocks[0] for rank, blocks in of_kind.items() if blocks}
        if wrong:
            block = next(iter(wrong.values()))
            name = str(block.boundary) if block.boundary is not None else ""
            place = f"block {block.index + 1}"
            yield Problem("HS503", kind, name, place, _ranks(wrong, plan.ranks), block.explanation)
    found = {_names(phase.blocks) for phase in seen.phases.values() if not _is_unnamed(phase.blocks)}
    # Where there are more or fewer than are needed, the width speaks.
    wrong_names = sorted(names for names in found if wanted and names not in wanted and len(names) in map(len, wanted))
    if wrong_names:
        expected = " or ".join(spelled(each) for each in wanted)
        yield Problem("HS503", "boundaries", spelled(wrong_names[0]), expected)


def _unlike_eager(seen: _Seen, limits: Limits, total: int) -> Iterator[Problem]:
    """A replay that leaves other states than the eager forward on the same tokens."""
    replays = {rank: (phase, phase.replay) for rank, phase in seen.phases.items() if phase.replay and phase.replay.done}
    shapes = {rank: each for rank, each in replays.items() if each[1].shape != (each[0].rows, each[0].width)}
    if shapes:
        phase, replay = next(iter(shapes.values()))
        eager = " x ".join(map(str, replay.shape)) or "none"
        reason = f"{phase.rows} x {phase.width} after the replay, {eager} after the eager forward"
        yield Problem("HS503", "replayed", keys=_ranks(shapes, total), reason=reason)
        return
    apart = {rank: each[1].apart for rank, each in replays.items() if (each[1].apart or 0.0) > limits.tolerance}
    if apart:
        most = max(apart.values(), key=lambda each: each or 0.0)
        reason = f"their rows differ by {most:.1e} of their length, and {limits.tolerance:.0e} is allowed"
        yield Problem("HS503", "replayed", keys=_ranks(apart, total), reason=reason)


def _wanted(plan: Plan) -> tuple[tuple[int, ...], ...]:
    return (plan.needed,) if plan.needed is not None else plan.readings


def _names(blocks: Sequence[Block]) -> tuple[int, ...]:
    return tuple(block.boundary for block in blocks if block.boundary is not None)


def _is_unnamed(blocks: Sequence[Block]) -> bool:
    """Whether a block is no whole boundary, so that there is no list of names to compare."""
    return not blocks or any(block.identity != "boundary" or block.boundary is None for block in blocks)


def _ranks_differ(seen: _Seen, limits: Limits, total: int) -> Iterator[Problem]:
    first = seen.first
    if first is None:
        return
    for rank, phase in seen.phases.items():
        if _view(phase) != _view(first):
            reason = f"rank 0 has {_described(first)}, rank {rank} has {_described(phase)}"
            yield Problem("HS504", "differs", keys=f"rank {rank}", reason=reason)
            return
    apart = {rank: phase.spread for rank, phase in seen.phases.items() if (phase.spread or 0.0) > limits.tolerance}
    if apart:
        most = max(apart.values(), key=lambda each: each or 0.0)
        reason = f"their rows differ by {most:.1e} of their length, and {limits.tolerance:.0e} is allowed"
        yield Problem("HS504", "numbers", keys=_ranks(apart, total), reason=reason)


def _described(phase: PhaseResult) -> str:
    return f"{phase.rows} x {phase.width} of {phase.dtype}, {', '.join(each.explanation for each in phase.blocks)}"


def _refused_by_draft(seen: _Seen, total: int) -> Iterator[Problem]:
    wrong = {rank: each for rank, each in seen.drafts.items() if each.accepted is False}
    if wrong:
        one = next(iter(wrong.values()))
        width = next((str(phase.width) for rank, phase in seen.phases.items() if rank in wrong), "")
        name = f"{one.cls}.{one.layer}" if one.layer else one.cls
        taken = str(one.in_features) if one.in_features is not None else "another width"
        yield Problem("HS505", "refused", width, taken, name, one.error or "")


def _unlike_scan(path: PlannedPath, seen: _Seen) -> Iterator[Problem]:
    first = seen.first
    if first is None or not first.blocks:
        return
    if path.refused:
        yield Problem("HS507", "differs", _described(first), f"an exception ({path.refused})")
    elif path.expected is not None and not any(each.identity == "inconclusive" for each in first.blocks):
        # What is no boundary has the nearest as its explanation, and neither side says more than that it is none.
        named = [each.boundary if each.identity in ("boundary", "partial") else None for each in first.blocks]
        live = [
            (at, at is not None and each.identity == "partial") for at, each in zip(named, first.blocks, strict=True)
        ]
        scanned = [(each, each is not None and path.partial) for each in path.expected]
        if live != scanned:
            parts = "one rank's part of " if path.partial else ""
            yield Problem("HS507", "differs", spelled_blocks(first.blocks), f"{parts}{spelled(path.expected)}")


def _left_open(plan: Plan, seen: _Seen) -> Iterator[str]:
    """Why what was seen is no proof, although nothing is wrong."""
    for rank, phase in seen.phases.items():
        for block in phase.blocks:
            if block.identity == "inconclusive" or block.boundary is None:
                yield f"block {block.index + 1} on rank {rank} could not be named: {block.explanation}"
        if not phase.blocks:
            yield f"no block could be named on rank {rank}"
        if seen.path.graph and (phase.replay is None or phase.replay.apart is None):
            yield f"what the graph left on rank {rank} was not compared with an eager forward"
        if plan.backend != "fake" and rank != 0 and phase.spread is None:
            yield f"the states of rank {rank} were not compared with those of rank 0"
    if plan.needed is None:
        fits = spelled(_names(seen.phases[0].blocks))
        yield f"{fits} arrive, and it is open what the draft was trained on"
    if not plan.has_draft:
        yield "no draft was built"
    for rank in seen.ranks:
        draft = seen.drafts.get(rank)
        if draft is None and plan.has_draft:
            yield f"the draft was not run on rank {rank}"
        elif draft is not None and draft.accepted is None:
            yield f"no layer of {draft.cls} is known to take the states{f': {draft.error}' if draft.error else ''}"


def spelled(boundaries: Iterable[int | None]) -> str:
    """Boundaries in words: "the embedding, 3, 31"."""
    return ", ".join("the embedding" if each == 0 else "?" if each is None else str(each) for each in boundaries)


def spelled_blocks(blocks: Iterable[Block]) -> str:
    """Blocks in words: "3, a part of 31, 59"."""
    named = {"boundary": "{}", "partial": "a part of {}", "other": "?", "inconclusive": "?"}
    return ", ".join(named[each.identity].format(spelled((each.boundary,))) for each in blocks)


def _ranks(some: Iterable[int], total: int) -> str:
    """Ranks in words: "every rank", "rank 3", "ranks 0, 1 and 2"."""
    numbers = sorted(set(some))
    if len(numbers) == total and total > 1:
        return "every rank"
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
