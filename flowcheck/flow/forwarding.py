"""The target model's forward, interpreted on tensors that carry contents: which boundaries a class captures for given ids.

The model is made by the tree's own ``__init__`` under one configuration, told what to capture by its own setter, and run
on a batch. What reaches the logits processor as captured states is read there, and named relative to the input of the
final norm.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowcheck.data import rules_dir
from flowcheck.flow import setters, targets
from flowcheck.flow.contracts import Deployment, Kernels, load_kernels
from flowcheck.flow.model_runs import Made, ModelRun
from flowcheck.flow.roles import class_value
from flowcheck.flow.vocabulary import Vocabulary, load_vocabulary
from flowcheck.interp import attributes, calls, classes
from flowcheck.interp.contents import Content, Rows, Width
from flowcheck.interp.engine import Config, Interpreter
from flowcheck.interp.frames import Dead, Frame
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.ranks import rank_in
from flowcheck.interp.tensors import make, view_of
from flowcheck.interp.trails import Site
from flowcheck.interp.unify import unified
from flowcheck.interp.values import (
    FALSE,
    NONE,
    TRUE,
    ClassV,
    ExternalV,
    FuncV,
    Known,
    Ref,
    Unknown,
    Value,
    alternatives,
)
from flowcheck.program.modules import Program
from flowcheck.source import Tree
from flowcheck.syntax import SyntaxStore

__all__ = ["Arrival", "Forwarding"]


@dataclass
class Arrival:
    """What one call of the logits processor was given."""

    hidden: Value
    captured: Value
    state: State
    site: Site | None


class Forwarding:
    """Interpretations of target models of one tree, under one deployment. Runs of one model have one interpreter, and each
    a state of its own."""

    def __init__(
        self,
        tree: Tree,
        *,
        tp: int = 8,
        fusion: bool = False,
        dp_attention: int = 1,
        a2a: str = "none",
        words: Vocabulary | None = None,
        kernels: Kernels | None = None,
        settings: Mapping[str, object] | None = None,
        rows: int = 37,
        steps: int = 30_000_000,
        program: Program | None = None,
    ) -> None:
        self.tree = tree
        self.deployment = Deployment(tp, dp_attention, a2a, fusion)
        self.tp = tp
        self.fusion = fusion
        self.rows = rows
        self.steps = steps
        self.words = words if words is not None else load_vocabulary(rules_dir() / "vocabulary.toml")
        self.kernels = kernels if kernels is not None else load_kernels(rules_dir() / "kernels.toml")
        self.settings = dict(settings or {})
        self.program = program if program is not None else Program(SyntaxStore(tree, None))
        self.it: Interpreter | None = None
        self.arrivals: list[Arrival] = []
        self._made: dict[tuple[str, str], Made] = {}
        self._lent: tuple[tuple[str, str], Made] | None = None

    # ------------------------------------------------------------------------------------------------------ config
    def _literal(self, v: object, name: str = "") -> Value:
        """A fact as a value: "$group x" is a group of ranks, "$rank x" the rank in it, "none" is None, and any other "$x" is
        a word of the deployment.
        """
        if isinstance(v, str) and v.startswith("$group "):
            return Unknown(name, ("group", self.deployment.groups()[0][v[7:]]), not_none=True)
        if isinstance(v, str) and v.startswith("$rank "):
            group = self.deployment.groups()[0][v[6:]]
            alone = group == "tp" or self.deployment.groups()[1][group] == 1  # no code asks which of all ranks it is
            return Known(0) if alone else rank_in(group)
        if v in ("$true", "$false"):
            return ExternalV(f"flowcheck.{str(v)[1:]}")
        if v == "$algorithm":
            return Known(self.settings.get(self.words.entry.algorithm_argument, "EAGLE3"))
        if v == "none":
            return NONE
        if isinstance(v, str) and v.startswith("$"):
            return Known(self.deployment.words()[v[1:]])
        return Known(v)

    def interpreter(self) -> Interpreter:
        """A new interpreter that knows tensors, under the facts of the deployment."""
        words, facts = self.words.scenario, self.kernels.facts
        functions: dict[str, Value] = dict.fromkeys(words.true_functions, TRUE)
        functions.update(dict.fromkeys(words.false_functions, FALSE))
        functions.update(dict.fromkeys(words.none_functions, NONE))
        functions.update({n: Unknown(f"{n}()") for n in words.unknown_functions})
        members = {n: v[8:] for n, v in facts.functions.items() if isinstance(v, str) and v.startswith("$member ")}
        functions.update(
            {
                n: Unknown(f"{n}()", ("asked", n)) if v == "?" else self._literal(v)
                for n, v in facts.functions.items()
                if n not in members
            }
        )
        bags = words.bags
        for name in {*bags, *self._bag_names(bags)}:
            functions.setdefault(name, Unknown(f"{name}()", ("bag", name)))
        expressions = {**words.expressions, **facts.expressions}
        settings = {k: self._literal(v, k) for k, v in (*facts.settings.items(), *self.settings.items())}
        for name, by_switch in facts.fusion.items():
            settings.setdefault(name, self._literal(by_switch[self.fusion]))
        for name, backend in facts.backends.items():
            if self.deployment.a2a != backend:  # what an older tree calls the choice of a backend that is not taken
                settings.setdefault(name, FALSE)
        model = self.kernels.model(self.deployment)
        config = Config(
            follow_raises=False,
            functions=functions,
            keyed={k: self._literal(v) for k, v in expressions.items()},
            settings=settings,
            observer=model.observed,
            tensors=model,
            max_unroll=1024,
            max_recorded=1024,
            max_steps=self.steps,
            max_depth=120,
        )
        for name in words.device_attributes:
            config.attributes[("*", name)] = Known(words.device)
        for name, v in words.attributes.items():
            config.attributes[("*", name)] = self._literal(v)
        it = Interpreter(self.program, config)
        inert = Ref(it.base_state.new(Obj("plain object")))
        for name, v in facts.attributes.items():
            owner, _, attribute = name.rpartition(".")
            config.attributes[(owner or "*", attribute)] = inert if v == "$object" else self._literal(v)
        it.base.unify = unified
        config.globals.update({k: self._literal(v) for k, v in facts.globals.items()})
        config.externals["flowcheck.true()"] = TRUE
        config.externals["flowcheck.false()"] = FALSE
        config.externals["torch.cuda.is_available()"] = TRUE
        config.externals["torch.compiler.is_compiling()"] = FALSE
        config.externals["torch.get_device_module()"] = ExternalV(f"torch.{words.device}")
        config.externals["torch.get_default_dtype()"] = ExternalV("torch.bfloat16")
        it.forced_facts.update({("value", ("rank", group)): 0 for group in self.deployment.sizes()})
        self._tell_rows(it)
        for name, text in members.items():
            found = self._named_member(it, *text.split("."))
            if found is not None:
                functions[name] = found
        arguments = self._arguments(it)
        for name in words.arguments_functions:
            functions[name] = arguments
        config.globals.update({name: self._arguments_dict(it, name) for name in words.arguments_dicts})
        return it

    def _tell_rows(self, it: Interpreter) -> None:
        """The number of rows of the batch, of one rank's share of them, and of all replicas together."""
        it.forced_facts[("value", ("rows",))] = self.rows
        it.forced_facts[("value", ("share", ("rows",)))] = max(1, self.rows // self.deployment.sizes()["attn_tp"])
        it.forced_facts[("value", ("gathered", ("rows",)))] = self.rows * self.deployment.replicas

    def _named_member(self, it: Interpreter, cls: str, name: str) -> Value | None:
        """A member of an enum of the tree, by name; "$x" is a word of the deployment."""
        if name.startswith("$"):
            name = str(self.deployment.words()[name[1:]])
        for module in self.program.corpus.modules_with(cls, name):
            c = class_value(it, module, cls) if any(getattr(s, "name", None) == cls for s in module.body) else None
            if c is not None and c.enum_kind:
                return next((m for m in classes.enum_members(it, c) if m.name == name), None)
        return None

    def _bag_names(self, patterns: Sequence[str]) -> list[str]:
        """The functions of the tree whose names a pattern fits."""
        import fnmatch

        found: list[str] = []
        for pattern in patterns:
            if "*" in pattern:
                names = self.program.corpus.captures(
                    rb"(?m)^def[ \t]+(" + re.escape(pattern).replace(r"\*", r"\w*").encode() + rb")\("
                )
                found += sorted(n for n in names if fnmatch.fnmatchcase(n, pattern))
        return found

    def _arguments(self, it: Interpreter) -> Value:
        """The server arguments: those of the facts are known, the others are free."""
        found = self.program.corpus.classes_with_methods(*self.words.entry.arguments_methods)
        cls = next((v for m, c in found if (v := class_value(it, m, c.name)) is not None), None)
        obj = Obj("free", cls) if cls is not None else Obj("plain object")
        obj.tag = self.words.entry.arguments_attribute
        facts = self.kernels.facts
        given = {**self.words.scenario.arguments, **facts.arguments, **self.settings}
        obj.attrs = {k: self._literal(v) for k, v in given.items()}
        for name, by_switch in facts.fusion.items():
            obj.attrs.setdefault(name, self._literal(by_switch[self.fusion]))
        it.config.settings = {**obj.attrs, **it.config.settings}
        return Ref(it.base_state.new(obj))

    def _arguments_dict(self, it: Interpreter, name: str) -> Value:
        """A dict of server arguments, with every key that the tree asks it for."""
        asked = self.program.corpus.captures(rb"\b" + name.encode() + rb"(?:\.get\(|\[)\s*[\"'](\w+)", name.encode())
        known = it.config.settings
        items: dict[Hashable, tuple[Value, Value]] = {
            it.key(Known(key)): (Known(key), known.get(key, Unknown(f"{name}[{key!r}]", ("arguments", key))))
            for key in sorted(asked)
        }
        return it.new_dict(it.base_state, items)

    # ------------------------------------------------------------------------------------------------------- build
    def _named_class(self, it: Interpreter, name: str) -> ClassV | None:
        """A class of the tree, by its name alone."""
        for module in self.program.corpus.modules_with(name):
            for s in module.body:
                if getattr(s, "name", None) == name and hasattr(s, "bases"):
                    return class_value(it, module, name)
        return None

    def fresh(self, architecture: str, config: Mapping[str, Any]) -> ModelRun:
        """A model as :meth:`build` makes it, for one run: what was made for an earlier run is taken, as it was when it was made.

        Raises LookupError, Dead or Budget.
        """
        self._lent, key = None, (architecture, json.dumps(config, default=repr))
        made = self._made.pop(key, None)
        if made is None:
            made = Made.of(self.build(architecture, config))
        self.it, self.arrivals = made.run.it, []
        self._tell_rows(made.run.it)
        self._lent = None if made.by_rows else (key, made)
        return made.again()

    def keep(self) -> None:
        """The last run of a model of :meth:`fresh` came to a good end: the model may serve for another one."""
        if self._lent is not None:
            self._made = dict((self._lent,))
        self._lent = None

    def build(self, architecture: str, config: Mapping[str, Any]) -> ModelRun:
        """Makes a model by interpreting its ``__init__``. Raises LookupError, Dead or Budget."""
        it = self.it = self.interpreter()
        self.arrivals = []
        cls = targets.registered(it, self.words, architecture)
        if cls is None:
            raise LookupError(f"the tree registers no class {architecture}")
        state = State(it.base)
        frame = it.module_frame(cls.module)
        given = targets.config_of(it, self.words, cls, config)
        self.furnish(it, state, given)
        model = calls.call(it, cls, [], {self.words.models.config_argument: given}, state, None, frame)
        run = ModelRun(it, state, model, self._layers_of(it, state, given) or self.layer_count(config), architecture)
        self.name_modules(run)
        return run

    def furnish(self, it: Interpreter, state: State, given: Value) -> None:
        """Makes what the tree keeps beside a model with this configuration: instances, and what it resolves."""
        for name, wanted in self.kernels.facts.instances.items():
            kind = self._named_class(it, wanted)
            if kind is not None:
                it.config.functions[name] = calls.call(it, kind, [], {}, state, None, it.module_frame(kind.module))
        for name, resolver in self.kernels.facts.resolved.items():
            value = self._resolved(it, state, resolver, given)
            if value is not None:
                it.config.settings[name] = value

    def _resolved(self, it: Interpreter, state: State, name: str, config: Value) -> Value | None:
        """What a function of the tree makes of the configuration; None where the tree has none of the name."""
        for module in self.program.corpus.modules_with(name):
            if any(getattr(s, "name", None) == name for s in module.body):
                frame = it.module_frame(module)
                try:
                    f = attributes.get(it, it.module_value(module.name), name, frame, state)
                    return calls.call(it, f, [config], {}, state, None, frame)
                except Dead:
                    return None
        return None

    def layer_count(self, config: Mapping[str, Any]) -> int:
        """How many layers a configuration says the text model has."""
        for table in (config, *(config.get(part) for part in self.kernels.forward.config_parts)):
            for key in self.kernels.forward.layers_keys:
                if isinstance(table, Mapping) and isinstance(table.get(key), int):
                    return int(table[key])
        return 0

    def _layers_of(self, it: Interpreter, state: State, config: Ref) -> int:
        """How many layers the configuration object says the text model has; 0 where it does not say."""
        for key in self.kernels.forward.layers_keys:
            held = state.obj(config.oid).attrs.get(key)
            if isinstance(held, Known) and type(held.value) is int:
                return held.value
        return 0

    def name_modules(self, run: ModelRun) -> None:
        """Names every module of the model by the attributes that lead to it, as PyTorch does."""
        model = run.it.config.tensors
        assert model is not None
        stacks: list[tuple[int, str]] = []
        todo: list[tuple[Value, str]] = [(run.model, "")]
        while todo:
            value, path = todo.pop(0)
            for v in alternatives(value):
                obj = run.state.get(v.oid) if isinstance(v, Ref) else None
                if obj is None or not isinstance(v, Ref) or v.oid in model.paths:
                    continue
                dot = f"{path}." if path else ""
                if obj.kind in ("list", "dict") and path:
                    model.paths[v.oid] = path
                    if obj.kind == "list":
                        items = [(str(i), x) for i, x in enumerate(obj.items or ())]
                        if any(isinstance(x, Ref) for _, x in items):
                            stacks.append((len(items), path))
                    else:
                        items = [(str(k.value), x) for k, x in (obj.items or {}).values() if isinstance(k, Known)]
                    todo += [(x, dot + name) for name, x in items]
                elif obj.kind == "tensor" and path and (view := view_of(v, run.state)) is not None:
                    model.paths.setdefault(view.storage, path)
                elif obj.kind == "torch module" or (obj.cls is not None and model.is_module(obj.cls)):
                    model.paths[v.oid] = path
                    todo += [(x, dot + name) for name, x in obj.attrs.items() if name[:1] != "#"]
        fitting = [path for n, path in stacks if n == run.layers and ".visual" not in path]
        run.stack = model.stack = min(fitting, key=len, default="")

    # --------------------------------------------------------------------------------------------------------- run
    def batch(self, run: ModelRun, member: str) -> Value:
        """A batch of one kind, which asks for all rows."""
        it, words = run.it, self.kernels.batch
        found = [
            v
            for m, c in self.program.corpus.classes_with_members(self.words.phase.attribute, self.words.mode.attribute)
            if c.name == words.class_name and (v := class_value(it, m, c.name)) is not None
        ]
        obj = Obj("free", found[0]) if found else Obj("plain object")
        obj.tag = "batch"
        if found:
            for name, (owner, has_default) in classes.record_fields(it, found[0]).items():
                default = classes.class_attr(it, owner, name, it.base_state) if has_default else None
                if name not in words.unknown and isinstance(default, Known):
                    obj.attrs[name] = default
        obj.attrs.update({k: self._literal(v) for k, v in words.values.items()})
        for name, text in words.replicated.get(member, {}).items() if self.deployment.replicas > 1 else ():
            if isinstance(text, str) and text.startswith("$member "):
                obj.attrs[name] = self._named_member(it, *text[8:].split(".")) or Unknown(text)
            else:
                obj.attrs[name] = self._literal(text)
        obj.attrs[self.words.phase.attribute] = self._member(it, self.words.phase.members, member)
        obj.attrs[self.words.mode.attribute] = self._member(it, self.words.mode.members, self.words.mode.required)
        return Ref(run.state.new(obj))

    def _member(self, it: Interpreter, members: Sequence[str], name: str) -> Value:
        for m, c in self.program.corpus.classes_with_members(*members):
            cls = class_value(it, m, c.name)
            if cls is not None and cls.enum_kind:
                for member in classes.enum_members(it, cls):
                    if member.name == name:
                        return member
        return Unknown(f"the member {name}")

    def has_member(self, it: Interpreter, name: str) -> bool:
        """Whether the tree's enum of phases has a member of that name."""
        return not isinstance(self._member(it, self.words.phase.members, name), Unknown)

    def set_layers(self, run: ModelRun, ids: Sequence[int] | None) -> None:
        """Calls the tree's own setter. Raises Dead where it raises, LookupError where there is none."""
        it, state = run.it, run.state
        frame = it.module_frame(self._class(run).module)
        algorithm = str(self.settings.get(self.words.entry.algorithm_argument, "EAGLE3"))
        method = setters.hook_of(it, self.words, algorithm, run.model, frame, state)
        setter = attributes.get_or(it, run.model, method, NONE, frame, state)
        if setter == NONE:
            raise LookupError(f"{run.name} has no {method}")
        given: list[Value] = [] if ids is None else [it.new_list(state, [Known(i) for i in ids])]
        calls.call(it, setter, given, {}, state, None, frame)

    def _class(self, run: ModelRun) -> ClassV:
        assert isinstance(run.model, Ref)
        cls = run.state.obj(run.model.oid).cls
        assert cls is not None
        return cls

    def forward(self, run: ModelRun, member: str) -> Value:
        """Runs the model's forward on a batch of one kind."""
        it, state = run.it, run.state
        frame = it.module_frame(self._class(run).module)
        rows = Unknown("the number of rows", ("rows",))
        ids = make(it, state, Content(), Width(1), Rows(), (rows,), None)
        positions = make(it, state, Content(), Width(1), Rows(), (rows,), None)
        batch = self.batch(run, member)
        assert isinstance(batch, Ref)
        state.write(batch.oid).attrs.update(input_ids=ids, positions=positions)
        model = it.config.tensors
        assert model is not None
        model.on_function = self._entered
        self.arrivals = []
        method = attributes.get(it, run.model, "forward", frame, state)
        return calls.call(it, method, [ids, positions, batch], {}, state, None, frame)

    def _entered(
        self,
        it: Interpreter,
        f: FuncV,
        args: list[Value],
        kw: dict[str, Value],
        st: State,
        site: Site | None,
        fr: Frame,
    ) -> None:
        """Sees every call of a function of the tree: the logits processor's is where captured states arrive."""
        words = self.kernels.forward
        if (
            f.name != words.processor_method
            or f.cls is None
            or not any(c.name in words.processor_classes for c in f.cls.mro)
        ):
            return
        names = [p.name for p in f.node.params.items]
        given = dict(zip(names, args, strict=False)) | kw
        self.arrivals.append(
            Arrival(given.get(words.states_parameter, NONE), given.get(words.captured_parameter, NONE), st.fork(), site)
        )
