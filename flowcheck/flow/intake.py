"""What a draft takes in, asked of the tree's own class for it.

The projection is found by what happens: it is the first linear layer to which the forward gives the target's states. On what
its width depends is found by asking again: a key decides if the layer is twice as wide where the file says twice as much, and
so does a number that the tree writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from flowcheck.data import rules_dir
from flowcheck.flow.contracts import Kernels, load_kernels
from flowcheck.flow.drafts import Built, Draft, Run, Sizes, Use
from flowcheck.flow.facts import Phase, Place
from flowcheck.flow.forwarding import Forwarding
from flowcheck.flow.modes import place_of
from flowcheck.flow.scenario import Scenario
from flowcheck.flow.setters import class_place
from flowcheck.flow.stack import with_deep_stack
from flowcheck.flow.targets import registered
from flowcheck.flow.vocabulary import Vocabulary
from flowcheck.flow.width import Factor, Intake, KeyRead, Layers, NoDraftClass, Projection, Skip
from flowcheck.interp.trails import Site
from flowcheck.program.modules import Program
from flowcheck.source import Tree

__all__ = ["draft_of", "intake"]

UNLIKELY = 7919
"""A width that no layer has: what is compared with it is compared with the width of the states."""

OTHER = 7
"""How many states the draft is asked to take by a key that its file does not write."""

MOST_WIDTHS = 6
MOST_KEYS = 64
DEEPEST = 3


def intake(
    tree: Tree,
    program: Program,
    words: Vocabulary,
    scenario: Scenario,
    draft: Mapping[str, Any],
    architectures: Sequence[str] = (),
    *,
    kernels: Kernels | None = None,
) -> Intake | NoDraftClass:
    """What the draft's class takes in. ``architectures`` stand for those that the draft's file writes, if any are given.

    Where the scenario does not say how many ranks there are, it is one: what a draft takes in does not depend on them.
    """

    def work() -> Intake | NoDraftClass:
        made = draft_of(tree, program, words, scenario, draft, architectures, kernels)
        if isinstance(made, NoDraftClass):
            return made
        answer = _Question(made, draft).answered(Intake(made.architecture, made.cls.name, class_place(made.cls)))
        return replace(answer, followed=_followed(made, answer))

    return with_deep_stack(work)


def draft_of(
    tree: Tree,
    program: Program,
    words: Vocabulary,
    scenario: Scenario,
    draft: Mapping[str, Any],
    architectures: Sequence[str] = (),
    kernels: Kernels | None = None,
) -> Draft | NoDraftClass:
    """The class that the tree registers for the first of the draft's architectures that it knows."""
    kernels = kernels if kernels is not None else load_kernels(rules_dir() / "kernels.toml")
    settings = {words.entry.algorithm_argument: scenario.algorithm, **scenario.settings}
    ranks = _ranks(kernels, scenario)
    forwarding = Forwarding(tree, tp=ranks, words=words, kernels=kernels, settings=settings, program=program)
    it = forwarding.it = forwarding.interpreter()
    names = tuple(str(name) for name in architectures or draft.get("architectures") or ())
    for name in names:
        cls = registered(it, words, name)
        if cls is not None:
            return Draft(forwarding, it, cls, name)
    return NoDraftClass(names)


def _ranks(kernels: Kernels, scenario: Scenario) -> int:
    said = [scenario.settings.get(name) for name, v in kernels.facts.arguments.items() if v == "$tp"]
    return next((n for n in said if type(n) is int and n > 0), 1)


class _Question:
    """One draft's class under one configuration."""

    def __init__(self, draft: Draft, raw: Mapping[str, Any]) -> None:
        self.draft = draft
        self.raw = raw
        self.words = draft.words

    def answered(self, answer: Intake) -> Intake:
        """The answer with everything that could be found out."""
        built = self.draft.build(self.raw)
        answer = replace(answer, reads=_reads(built.keys), raises=built.raised, open=built.open)
        while built.lacking and len(answer.lacking) < MOST_KEYS:
            self.raw = {**self.raw, built.lacking: None}
            answer = replace(answer, lacking=(*answer.lacking, built.lacking))
            built = self.draft.build(self.raw)
        answer = replace(answer, reads=_reads(built.keys), open=built.open)
        if built.model is None:
            return answer
        by_member: dict[str, dict[int, Run]] = {}
        for _, member in self.draft.members():
            runs = by_member[member] = {}
            self._run(built, UNLIKELY, runs, member)
            self._run(built, runs[UNLIKELY].embedding or 0, runs, member)
        runs = next((each for each in by_member.values() if _alone(each) is not None), next(iter(by_member.values())))
        run = runs[UNLIKELY]
        firsts = [each.first for each in runs.values() if each.first is not None]
        use = _alone(runs) or next(iter(firsts), None)
        answer = replace(answer, reads=_reads(built.keys), embedding=run.embedding)
        site = self.draft.site_of(built, use.module) if use is not None else None
        if use is None or site is None:
            unread = not any(each.uses for each in runs.values())
            doubt = run.ended if use is None else f"{use.path} is made at a place that is not known"
            return replace(answer, takes_states=None if unread and doubt else not unread, open=doubt)
        sizes = self.draft.sizes(built.state.obj(use.module))
        beside = self._beside(use, runs)
        into = (sizes.into or 0) - (beside or 0)
        if sizes.into is not None and beside is not None:
            for member, each in by_member.items():
                self._run(built, sizes.into - beside, each, member)
        return replace(
            answer,
            takes_states=True,
            projection=self._projection(use, site, sizes, beside or 0),
            skips=self._skips(use, by_member),
            layers=self._layers(built, use),
            altered=next(filter(None, (_altered(use, r.get(into)) for r in by_member.values())), ""),
            reads=_reads(built.keys),
            open="; ".join(self._doubts(use, sizes, beside, by_member)),
        )

    # ------------------------------------------------------------------------------------------------------ forwards
    def _run(self, built: Built, width: int, runs: dict[int, Run], member: str) -> None:
        """Runs the forward on states of a width, and of every width with which the forward compares that of the states."""
        todo = [width]
        while todo and len(runs) < MOST_WIDTHS:
            at = todo.pop(0)
            if at in runs or at <= 0:
                continue
            runs[at] = self.draft.run(built, at, member)
            todo += runs[at].compared

    def _beside(self, use: Use, runs: Mapping[int, Run]) -> int | None:
        """How many columns of something else the layer is given beside those of the states."""
        found = {each.first.columns - width for width, each in runs.items() if _gives(each, use)}  # type: ignore[union-attr,operator]
        return found.pop() if len(found) == 1 and min(found) >= 0 else None

    def _doubts(
        self, use: Use, sizes: Sizes, beside: int | None, by_member: Mapping[str, Mapping[int, Run]]
    ) -> list[str]:
        """Why it is not certain that the layer takes the states: it has to at the width that it is made for."""
        if sizes.into is None:
            return [f"how wide the input of {use.path} is, is not known"]
        if beside is None:
            return [f"{use.path} takes other columns than those of the states"]
        doubts: list[str] = []
        for runs in by_member.values():
            at = runs.get(sizes.into - beside)
            if at is None:
                return [f"no states are as wide as {use.path} takes them"]
            if at.ended:
                doubts.append(f"on states of width {sizes.into - beside}, {at.ended}")
            if at.first is not None and at.first.module == use.module and not at.is_clean:
                doubts.append(f"the states may go past {use.path}")
            if not at.uses and not at.ended:
                doubts.append("in one of its forwards the draft gives the states to nothing that is followed")
            if altered := _altered(use, at):
                doubts.append(altered)
            if len(runs) >= MOST_WIDTHS:
                doubts.append("the width of the states is compared with many numbers")
        return list(dict.fromkeys(doubts))

    def _skips(self, use: Use, by_member: Mapping[str, Mapping[int, Run]]) -> tuple[Skip, ...]:
        """The widths at which the forward gives the states to something else: after an extend, after a verify, or both."""
        found: dict[int, dict[Phase, list[Place]]] = {}
        phases = {phase for phase, _ in self.draft.members()}
        for phase, member in self.draft.members():
            for width, run in by_member[member].items():
                if width != UNLIKELY and run.uses and (run.first is None or run.first.module != use.module):
                    sites = [s for each in by_member[member].values() for s in each.compared.get(width, ())]
                    found.setdefault(width, {}).setdefault(phase, []).extend(map(_place, sites))
        skips = []
        for width, places in found.items():
            everywhere = tuple(dict.fromkeys(p for each in places.values() for p in each))
            if set(places) == phases:
                skips.append(Skip(width, everywhere))
            else:
                skips += [Skip(width, tuple(dict.fromkeys(each)), phase) for phase, each in places.items()]
        return tuple(skips)

    def _layers(self, built: Built, use: Use) -> Layers | None:
        """The decoder layers: each has one attention."""
        inner = use.path.rpartition(".")[0]
        paths = [path for path, name in self.draft.modules(built) if name in self.words.draft.attention]
        heads = {path.removeprefix(inner + ".").split(".")[0] for path in paths}
        if len(heads) != 1:
            return None
        path = f"{inner}.{heads.pop()}" if inner else heads.pop()
        keys = self.draft.forwarding.kernels.forward.layers_keys
        said = next((self.raw[key] for key in keys if type(self.raw.get(key)) is int), None)
        return Layers(len(paths), said, path)

    # ----------------------------------------------------------------------------------------------------- the width
    def _projection(self, use: Use, site: Site, sizes: Sizes, beside: int) -> Projection:
        """The layer, and on what its width depends."""
        made = Projection(use.path, _place(site), sizes.into, sizes.out, sizes.bias, beside)
        if beside:
            return replace(made, open=f"{beside} columns of its input are not the states'")
        first = self.draft.build(self.raw, until=site)
        if sizes.into is None or first.sizes is None or first.sizes.into != sizes.into:
            return replace(made, open="how wide its input is, is not known")
        factors, odd = self._factors(site, sizes.into, first)
        if odd:
            return replace(made, open=f"its input is no multiple of what {', '.join(odd)} says")
        widths = [f for f in factors if f.key in self.words.configurations.width_keys]
        states = [f for f in factors if f not in widths]
        rest, left = divmod(sizes.into, prod(f.value for f in factors))
        if rest != 1 or not states:
            states.append(Factor(rest, "", self._literal(site, rest, sizes.into, first)))
        if left or len(widths) != 1 or len(states) != 1:
            parts = " x ".join(f"{f.key or 'a number of the tree'} ({f.value})" for f in (*states, *widths))
            return replace(made, open=f"its input is {parts}")
        others = self._others(site, widths[0].value, first)
        return replace(made, states=states[0], width=widths[0], states_keys=others)

    def _factors(self, site: Site, into: int, first: Built) -> tuple[list[Factor], list[str]]:
        """The keys of the file with which the layer's input grows, and those on which it depends in another way."""
        factors: list[Factor] = []
        odd: list[str] = []
        for key in list(first.keys)[:MOST_KEYS]:
            doubled = _doubled(_get(self.raw, key))
            if doubled is None:
                continue
            value, more = doubled
            sizes = self.draft.build(_with(self.raw, key, more), until=site).sizes
            if sizes is not None and sizes.into == 2 * into:
                factors.append(Factor(value, key, tuple(_place(s) for s in first.keys[key])))
            elif sizes is not None and sizes.into is not None and sizes.into != into:
                odd.append(key)
        return factors, odd

    def _literal(self, site: Site, value: int, into: int, first: Built) -> tuple[Place, ...]:
        """Where the tree writes a number with which the layer's input grows."""
        places = []
        for node, where in first.constants.values():
            if node.value == value and value > 1:
                sizes = self.draft.build(self.raw, until=site, constant=(id(node), 2 * value)).sizes
                if sizes is not None and sizes.into == 2 * into:
                    places.append(_place(where))
        return tuple(dict.fromkeys(places))

    def _others(self, site: Site, width: int, first: Built) -> tuple[str, ...]:
        """The keys that the file does not write and that would decide how many states the layer takes."""
        found: list[str] = []
        todo = [(key, self.raw) for key in first.keys if _get(self.raw, key) is None]
        for key, raw in todo:  # which grows meanwhile
            for value in (OTHER, list(range(OTHER))):
                sizes = self.draft.build(_with(raw, key, value), until=site).sizes
                if sizes is not None and sizes.into == OTHER * width:
                    found.append(key)
                    break
            else:
                if key.count(".") + 1 < DEEPEST and len(todo) < MOST_KEYS:
                    inside = _with(raw, key, {"": ""})  # an empty one may be taken for none
                    asked = self.draft.build(inside, until=site).keys
                    todo += [(each, inside) for each in asked if each.startswith(f"{key}.")]
        return tuple(dict.fromkeys(found))


def _alone(runs: Mapping[int, Run]) -> Use | None:
    """The first layer that is given the states and nothing else, in one of these runs."""
    firsts = [(width, run.first) for width, run in runs.items() if run.first is not None]
    return next((first for width, first in firsts if first.columns == width), None)


def _gives(run: Run, use: Use) -> bool:
    """Whether a run gave a layer columns whose number is known."""
    return run.first is not None and run.first.module == use.module and run.first.columns is not None


def _followed(draft: Draft, answer: Intake) -> frozenset[tuple[str, int]]:
    """The functions of model files that were gone through: all that was entered, if nothing ended early."""
    if answer.open or (answer.raises is not None and not answer.lacking):
        return frozenset()
    beyond = re.compile(draft.words.relevance.beyond.encode(), re.M)
    files = draft.it.program.corpus.files
    return frozenset(each for each in draft.entered if beyond.search(files.get(each[0], b"")))


# ---------------------------------------------------------------------------------------------------------- documents
def _get(raw: object, key: str) -> object:
    """What a file writes under a path; None where it writes nothing."""
    for part in key.split("."):
        raw = raw.get(part) if isinstance(raw, Mapping) else None
    return raw


def _with(raw: Mapping[str, Any], key: str, value: object) -> dict[str, Any]:
    """The same file with another value under a path."""
    head, _, rest = key.partition(".")
    inner = raw.get(head)
    return {**raw, head: _with(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value}


def _doubled(value: object) -> tuple[int, object] | None:
    """What a value counts for, and one that counts for twice as much; None for what is neither a number nor a list."""
    if type(value) is int and value > 0:
        return value, 2 * value
    if isinstance(value, (list, tuple)) and value:
        above = max((x for x in value if type(x) is int), default=0) + 1
        return len(value), [*value, *range(above, above + len(value))]
    return None


def _reads(keys: Mapping[str, Iterable[Site]]) -> tuple[KeyRead, ...]:
    return tuple(KeyRead(key, tuple(_place(site) for site in sites)) for key, sites in keys.items())


def _place(site: Site) -> Place:
    return place_of(site)


def _altered(use: Use, run: Run | None) -> str:
    """How a run gives the projection something else than the states as they are."""
    first = run.first if run is not None else None
    is_given = first is not None and first.module == use.module and first.changed
    return f"before {use.path}, {first.changed}" if first is not None and is_given else ""
