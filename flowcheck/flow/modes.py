"""From what a walk noted to facts: each target forward's phase, path and capture mode, with the chain of sites."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flowcheck.flow.facts import Flow, Mode, Open, Path, Phase, Place, Step
from flowcheck.flow.keeping import keeps_nothing
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.flow.walk import Forward, Walk
from flowcheck.interp import calls, elsewhere, stores
from flowcheck.interp.classes import class_attr, enum_members
from flowcheck.interp.frames import Dead, Raised
from flowcheck.interp.trails import Site, Trail, chains, links
from flowcheck.interp.values import (
    UNBOUND,
    ClassV,
    FuncV,
    Known,
    Member,
    Unknown,
    Value,
    alternatives,
)
from flowcheck.syntax.ir import Span

__all__ = ["Reading", "flows_of", "graph_path", "opens_of", "place_of"]


def place_of(site: Site) -> Place:
    """The exact position of a site."""
    syntax = site.module.syntax
    span = syntax.span(site.owner, site.nid) if syntax is not None else Span(1, 1, 1, 1)
    return Place(site.module.path, span, site.symbol)


def steps_of(trail: Trail | None) -> tuple[Step, ...]:
    return tuple(Step(place_of(t.site), t.note) for t in links(trail))


def chains_of(trail: Trail | None) -> list[tuple[Step, ...]]:
    """One chain of evidence for each origin, the one with most links first: it says most about where a mode is set."""
    found = [tuple(Step(place_of(t.site), t.note) for t in chain) for chain in chains(trail)]
    return sorted(found, key=len, reverse=True)


@dataclass
class Reading:
    """How the tree itself reads a mode: the member as which the logits processor treats it, and where that is said."""

    words: Vocabulary
    effective: dict[str, tuple[str, Step | None]]


def read_modes(walk: Walk) -> Reading:
    """Asks the tree's own predicates about each member of the mode enum."""
    it, words = walk.it, walk.words
    out: dict[str, tuple[str, Step | None]] = {}
    for member in enum_members(it, walk.roles.mode):
        if member.name != words.mode.required:
            out[member.name] = (member.name, None)
            continue
        verdict: tuple[str, Step | None] = (member.name, None)
        for name, want in [
            *((n, True) for n in words.mode.true_of_required),
            *((n, False) for n in words.mode.false_of_required),
        ]:
            found = _wrong_answer(walk, member, name, want)
            if found is not None:
                method, answer = found
                step = _method_step(method, f"{name}() is {answer} for {member.name}")
                others = [m for m in words.mode.members if m != member.name]
                verdict = (others[-1] if answer is not None else "unknown", step)
                break
        out[member.name] = verdict
    return Reading(words, out)


def read_kept(walk: Walk, reading: Reading) -> Reading:
    """How the logits processor acts on a mode: as the tree reads it, but what keeps nothing is the lowest member."""
    effective = dict(reading.effective)
    for member in enum_members(walk.it, walk.roles.mode):
        if member.name == walk.words.mode.required and effective[member.name][1] is None:
            site = keeps_nothing(walk, member)
            if site is not None:
                step = Step(place_of(site), f"the logits processor gives no states for {member.name}")
                effective[member.name] = (walk.words.mode.members[0], step)
    return Reading(walk.words, effective)


def _wrong_answer(walk: Walk, member: Member, name: str, want: bool) -> tuple[FuncV, bool | None] | None:
    """A predicate of the mode that does not answer as it should, and its answer: the enum's own, or one by which a function
    may replace that while the server runs. None where all do."""
    it, cls = walk.it, walk.roles.mode
    own = class_attr(it, cls, name, it.base_state)
    methods = [*alternatives(own)] if own is not None else []
    later = elsewhere.stored(it, cls, name, called_only=True)
    methods += list(alternatives(later)) if later is not None else []
    unknown: tuple[FuncV, bool | None] | None = None
    named = next((x for x in methods if isinstance(x, FuncV)), None)
    for method in methods:
        if isinstance(method, FuncV):
            answer = _ask(walk, member, method)
        elif isinstance(method, Unknown) and named is not None:
            method, answer = named, None
        else:
            continue
        if answer is not want:
            unknown = (method, answer)
            if answer is not None:
                break
    return unknown


def _ask(walk: Walk, member: Member, method: FuncV) -> bool | None:
    it = walk.it
    frame = it.module_frame(walk.roles.mode.module)
    if method.kind not in ("func", "static"):
        return None
    with it.outside():
        try:
            given: list[Value] = [member] if method.kind == "func" else []
            v = calls.call(it, method, given, {}, it.base_state, None, frame)
        except Dead:
            return None
    return bool(v.value) if isinstance(v, Known) and isinstance(v.value, bool) else None


def _method_step(f: FuncV, note: str) -> Step:
    return Step(place_of(Site(f.module, f.owner, f.node.nid, f.qualname)), note)


def modes_of(v: Value, reading: Reading, read: bool) -> tuple[Mode, ...]:
    """The alternatives of a mode. ``read``: as the logits processor takes them."""
    out: list[Mode] = []
    for x in alternatives(v):
        if isinstance(x, Member):
            name, step = reading.effective.get(x.name, (x.name, None)) if read else (x.name, None)
            reason = step.note if step is not None else ""
            for evidence in chains_of(x.trail) or [()]:
                out.append(Mode(name, (*evidence, step) if step is not None else evidence, reason))
        elif isinstance(x, Known) and x.value is None:
            out.append(Mode("None", steps_of(x.trail)))
        elif x is UNBOUND:
            out.append(Mode("unset"))
        elif isinstance(x, Unknown):
            out.append(Mode("unknown", steps_of(x.trail), x.reason))
        else:
            out.append(Mode("unknown", (), f"{x!r} is no capture mode"))
    unique: dict[tuple[object, ...], Mode] = {}
    for m in out:
        unique.setdefault((m.member, m.evidence[:1], m.reason), m)
    return tuple(unique.values())


def phases_of(v: Value, words: Vocabulary) -> list[Phase]:
    """The phases of a forward: one that is not known may be any of those whose states are asked for."""
    out: list[Phase] = []
    for x in alternatives(v):
        if isinstance(x, Unknown):
            out += [p for p in (Phase.EXTEND, Phase.VERIFY) if p not in out]
            continue
        name = x.name if isinstance(x, Member) else ""
        if name in words.phase.verify:
            phase = Phase.VERIFY
        elif name in words.phase.extend:
            phase = Phase.EXTEND
        elif name in words.phase.idle:
            phase = Phase.IDLE
        else:
            phase = Phase.OTHER
        if phase not in out:
            out.append(phase)
    return out


def path_of(f: Forward, phase: Phase, words: Vocabulary) -> Path:
    return Path.EAGER if f.runner is None else graph_path(f.runner, phase, words)


def graph_path(runner: ClassV, phase: Phase | None, words: Vocabulary) -> Path:
    """What the graphs of a runner stand for."""
    text = f"{runner.name} {runner.module.path}".lower()
    if any(w in text for w in words.graph.prefill_words) or phase is Phase.EXTEND:
        return Path.PREFILL_GRAPH
    return Path.DECODE_GRAPH


def flows_of(walk: Walk, condition: str, assumptions: tuple[str, ...]) -> list[Flow]:
    """The flows of one walk, each once."""
    reading = read_modes(walk)
    kept = read_kept(walk, reading)
    words = walk.words
    found: dict[tuple[object, ...], Flow] = {}
    for f in walk.forwards:
        if f.kind == "record":
            continue
        drafts = {x.value if isinstance(x, Known) else None for x in alternatives(f.draft)}
        if drafts == {True}:
            continue
        asked = modes_of(f.asked, reading, read=f.kind == "eager")
        reached = modes_of(f.reached, kept, read=True)
        if drafts != {False} and None in drafts:
            reached = (*reached, Mode("unknown", (), "whether this is the target's forward"))
        # A batch without requests is padded to the phase of the other ranks; nobody takes the states of its rows.
        idle = f.case.mode in words.phase.idle
        for phase in [Phase.IDLE] if idle else phases_of(f.phase, words):
            flow = Flow(
                phase=phase,
                path=path_of(f, phase, words),
                worker=f.worker or "(no worker)",
                call=place_of(f.site),
                asked=asked,
                reached=reached,
                condition=condition,
                consumed=f.consumed,
                chain=tuple(Step(place_of(s), name) for name, s in reversed(f.chain) if s is not None),
                assumptions=assumptions,
                replay_guard=f.refused,
            )
            key = (
                flow.phase,
                flow.path,
                flow.worker,
                tuple((m.member, m.evidence[:1]) for m in asked),
                tuple((m.member, m.evidence[:1]) for m in reached),
                flow.consumed,
            )
            found.setdefault(key, flow)
    return list(found.values())


def opens_of(walk: Walk, flows: Iterable[Flow], required: Iterable[Phase]) -> list[Open]:
    """Questions that the walk left open: required phases without a forward, stopped cases."""
    out: list[Open] = []
    flows = list(flows)
    for _, cls in walk.worker_list:
        for phase in required:
            if any(f.worker == cls.name and f.phase is phase and f.path is Path.EAGER for f in flows):
                continue
            out.append(_missing(walk, cls, phase))
    for result in walk.results:
        if result.stopped:
            out.append(
                Open(
                    f"what a {result.case.mode} batch does",
                    f"{result.stopped} were used up" if not result.stopped.startswith("the") else result.stopped,
                    None,
                    "budget",
                )
            )
    for name, site in stores.open_stores(walk.it):
        if name == walk.words.mode.attribute:
            out.append(
                Open(
                    f"whether {name} is overwritten",
                    f"{name} is stored on an object that cannot be known",
                    place_of(site),
                    "unknown",
                )
            )
    return out


def _missing(walk: Walk, cls: ClassV, phase: Phase) -> Open:
    words = walk.words.phase
    modes = words.extend if phase is Phase.EXTEND else [m for m in words.dispatched if m not in words.extend]
    results = [r for r in walk.results if r.case.mode in modes and r.case.mode not in words.idle]
    question = f"which mode target {phase.value} captures in {cls.name}"
    certain: list[Raised] = []
    if results and not any(r.returned for r in results):
        certain = [r for result in results for r in result.raised if r.certain and r.site is not None]
    if certain:
        last = certain[-1]
        assert last.site is not None
        return Open(
            question, f"{last.name} is raised on every path that was followed", place_of(last.site), "raises",
            phase, Path.EAGER, cls.name,
        )  # fmt: skip
    return Open(
        question, "no forward of the target was found in this phase", None, "missing", phase, Path.EAGER, cls.name
    )
