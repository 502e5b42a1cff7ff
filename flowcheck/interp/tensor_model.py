"""What the interpreter asks about tensors: the hooks of the engine, and the contracts that stand for what is not entered.

An interpretation without a :class:`TensorModel` (``Config.tensors`` is None) knows no tensors: they are unknown there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from flowcheck.interp import functions, kernels, tensor_methods, tensor_ops
from flowcheck.interp.contents import Content, value_of, width_of
from flowcheck.interp.contract_tables import Contracts
from flowcheck.interp.frames import CallEvent
from flowcheck.interp.heap import Obj, State
from flowcheck.interp.keeps import Kept, asking
from flowcheck.interp.kernels import Contract
from flowcheck.interp.tensors import is_tensor, read, site_text, tensors_in, view_of, widened, write
from flowcheck.interp.torch_modules import LAYERS, LINEAR, sized
from flowcheck.interp.trails import Site
from flowcheck.interp.values import (
    FALSE,
    NONE,
    BuiltinV,
    ClassV,
    ExternalV,
    FuncV,
    Known,
    Ref,
    Union,
    Unknown,
    Value,
    alternatives,
)
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["TensorModel"]

LISTS = frozenset({"torch.nn.ModuleList", "torch.nn.ParameterList", "torch.nn.Sequential"})
ITSELF = frozenset({"to", "cuda", "eval", "train", "half", "float", "bfloat16", "requires_grad_", "apply"})
REGISTERS = frozenset({"register_buffer", "register_parameter", "add_module", "register_module"})


Given = tuple["list[Value]", "dict[str, Value]"]
OnFunction = Callable[["Interpreter", FuncV, "list[Value]", "dict[str, Value]", State, "Site | None", "Frame"], None]


class TensorModel(Contracts):
    """Contracts by name, and the names of modules.

    ``paths`` names the modules of the model that is run, by their addresses; ``stack`` is the list of its layers.
    ``ranks`` is how many ranks a group has.
    ``keeps``: tensors that were put into lists. ``unmodelled``: what was called with tensors and has no model, and where.
    ``absent``: what the configuration was asked for and does not say, and whether the code's own default holds then.
    ``on_function`` sees every call of a function of the tree, ``on_contract`` what every contract made of a call,
    ``on_layer`` the making of every module of PyTorch's own. ``limits``: numbers with which a number of rows was compared:
    whose rows ("rows", "share", "gathered"), the operator, the number, and where. ``sums``: what the bodies of modules that
    sum their results themselves were found to owe.
    """

    def __init__(
        self,
        functions: Mapping[str, Contract],
        classes: Mapping[str, Contract],
        externals: Mapping[str, Contract],
        unknowns: Mapping[str, Contract],
        pure: Sequence[str] = (),
        ranks: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(functions, classes, externals, unknowns, pure)
        self.ranks = dict(ranks or {})
        self.paths: dict[int, str] = {}
        self.stack = ""
        self.keeps: list[Kept] = []
        self.unmodelled: dict[str, str] = {}
        self.absent: dict[str, bool] = {}
        self.on_function: OnFunction | None = None
        self.on_contract: Callable[[Contract, kernels.Call, Value | None], None] | None = None
        self.on_layer: Callable[[Ref, Obj, Site | None], None] | None = None
        self.limits: dict[tuple[str, str, int], Site] = {}
        self.sums: dict[tuple[int, str], str | bool | None] = {}

    def owed(self, contract: Contract, call: kernels.Call) -> str | bool | None:
        """The group over which a module that should sum its result leaves it partial (see :mod:`own_sums`)."""
        from flowcheck.interp.own_sums import owed

        return owed(self, contract, call)

    # ------------------------------------------------------------------------------------------------- attributes
    def attribute(
        self,
        it: Interpreter,
        ref: Ref,
        obj: Obj,
        name: str,
        default: Value | None,
        fr: Frame,
        st: State,
        node: ir.Node | None,
    ) -> Value:
        """``x.name``, ``getattr(x, name, default)``."""
        own = obj.attrs.get(name)
        if own is not None:
            return own
        found = tensor_methods.attribute(it, ref, name, st, fr.site(node) if node is not None else None)
        if found is not None:
            return found
        if not tensor_methods.is_method(name):
            if default is not None:
                return default
            if name.startswith("_"):
                it.throw("AttributeError", st, node, fr)
        return BuiltinV("tensor." + name, ref)

    def module_attribute(self, it: Interpreter, ref: Ref, obj: Obj, name: str) -> Value | None:
        """What every module has from PyTorch; None for any other name."""
        if name in ITSELF or name in REGISTERS or name in MODULE_NAMES:
            return BuiltinV("module." + name, ref)
        return FALSE if name == "training" else None

    def is_module(self, c: ClassV) -> bool:
        """Whether a class of the tree is a module of PyTorch."""
        return any(e in MODULE_CLASSES for b in c.mro for e in b.external)

    def plain_base(self, name: str) -> bool:
        """Whether a base outside the tree adds nothing that is not known."""
        return name in MODULES

    # -------------------------------------------------------------------------------------------------- operators
    def binary(
        self, it: Interpreter, op: str, a: Value, b: Value, fr: Frame, st: State, e: ir.Node | None
    ) -> Value | None:
        """``a op b``; None when neither is a tensor."""
        if not (is_tensor(a, st) or is_tensor(b, st)):
            return None
        for x in (a, b):
            if isinstance(x, Known) and (x.value is None or isinstance(x.value, str)):
                it.throw("TypeError", st, e, fr)
        return tensor_ops.binary(it, op, a, b, st, fr.site(e) if e is not None else None)

    def unary(self, it: Interpreter, op: str, v: Value, fr: Frame, st: State, e: ir.Node) -> Value:
        """``op x``."""
        if op == "-":
            return tensor_ops.binary(it, "*", v, Known(-1), st, fr.site(e))
        return tensor_ops.loose(it, st, op, [v], fr.site(e))

    def compared(
        self, it: Interpreter, op: str, a: Value, b: Value, fr: Frame, st: State, e: ir.Node | None
    ) -> Value | None:
        """``a == b`` and the like; None when neither is a tensor."""
        if not (is_tensor(a, st) or is_tensor(b, st)):
            return None
        if op in ("==", "!=") and NONE in (a, b):
            return Known(op == "!=")
        return tensor_ops.loose(it, st, op, [a, b], fr.site(e) if e is not None else None)

    def augmented(self, it: Interpreter, op: str, old: Value, new: Value, fr: Frame, st: State, s: ir.Node) -> Value:
        """``x op= new``, in place."""
        assert isinstance(old, Ref)
        if isinstance(new, Union):
            options = [(x,) for x in new.items]

            def arm(x: Value, state: State) -> Value:
                return self.augmented(it, op, old, x, fr, state, s)

            return it.both(st, [(st.fork(), lambda state, x=x: arm(x, state)) for (x,) in options])  # type: ignore[misc]
        if isinstance(new, Known) and (new.value is None or isinstance(new.value, str)):
            it.throw("TypeError", st, s, fr)
        tensor_ops.in_place(it, op, old, new, st, fr.site(s))
        return old

    def taken(self, it: Interpreter, ref: Ref, key: Value, fr: Frame, st: State, e: ir.Node | None) -> Value:
        """``x[key]``."""
        return tensor_ops.taken(it, ref, key, st, fr.site(e) if e is not None else None)

    def stored(self, it: Interpreter, ref: Ref, key: Value, v: Value, fr: Frame, st: State, e: ir.Node | None) -> None:
        """``x[key] = v``."""
        for x in alternatives(v):
            tensor_ops.assigned(it, ref, key, x, st, fr.site(e) if e is not None else None)
            if isinstance(v, Union):
                tensor_ops.assigned(it, widened(it, st, ref, None, whole=False), key, x, st, None)

    def length(self, ref: Ref, st: State) -> Value:
        """``len(x)``."""
        view = view_of(ref, st)
        return view.dims[0] if view is not None and view.dims else Unknown("a number of rows")

    def replaced(self, it: Interpreter, ref: Ref, st: State, site: Site | None) -> None:
        """``x.data = y``: the tensor shows another storage from now on, its aliases do not."""
        write(it, st, ref, Content(lost=f"its data are replaced at {site_text(site)}"), site)

    def unpacked(self, it: Interpreter, ref: Ref, n: int, st: State, node: ir.Node, fr: Frame) -> list[Value] | None:
        """The parts of a tensor that is unpacked over its rows; none where it has another number of rows, which raises.
        None when it is no tensor."""
        view = view_of(ref, st)
        if view is None:
            return None
        count = view.dims[0] if view.dims else None
        if isinstance(count, Unknown):
            count = Known(it.forced_facts[("value", count.key)]) if ("value", count.key) in it.forced_facts else None
        if count is not None and count != Known(n):
            it.may_throw("ValueError", st, node, fr)
            return []
        if count is None:
            it.may_raise(st, node, fr)
        return [self.element(it, ref, st) for _ in range(n)]

    def kept(self, container: Value, v: Value, st: State, node: ir.Node | None, fr: Frame) -> None:
        """A value is put into a list: what a tensor holds at that moment may be overwritten later."""
        if isinstance(container, Ref):
            site = asking(container, st.obj(container.oid).site, fr) or (fr.site(node) if node is not None else None)
            for x in alternatives(v):
                if isinstance(x, Ref) and is_tensor(x, st):
                    self.keeps.append(Kept(container.oid, x.oid, read(st, x), site))

    def element(self, it: Interpreter, ref: Ref, st: State) -> Value:
        """What going over a tensor gives, or what unpacking something that may be one gives."""
        return widened(it, st, ref, None, width=None, dims=None, whole=False)

    # ------------------------------------------------------------------------------------------------------- calls
    def method(
        self,
        it: Interpreter,
        f: BuiltinV,
        args: list[Value],
        kw: dict[str, Value],
        st: State,
        node: ir.Node | None,
        fr: Frame,
    ) -> Value:
        """A method of a tensor or of PyTorch's modules."""
        kind, name = f.name.split(".", 1)
        assert isinstance(f.self_, Ref)
        if kind == "tensor":
            union = next((i for i, a in enumerate(args) if isinstance(a, Union)), None)
            if union is not None:

                def arm(x: Value) -> Value:
                    return self.method(it, f, [*args[:union], x, *args[union + 1 :]], kw, st, node, fr)

                from flowcheck.interp.values import union_of

                if name.endswith("_"):
                    for x in alternatives(args[union]):
                        write_weakly(it, f.self_, name, [*args[:union], x, *args[union + 1 :]], kw, st, node, fr)
                    return f.self_
                return union_of([arm(x) for x in alternatives(args[union])])
            return tensor_methods.method(it, f.self_, name, args, kw, st, node, fr)
        held = st.obj(f.self_.oid)
        if held.kind == "variable":
            return _context_variable(f.self_, held, name, args, st)
        if name in REGISTERS and args and isinstance(args[0], Known):
            value = args[1] if len(args) > 1 else kw.get("tensor", kw.get("param", kw.get("module", NONE)))
            st.write(f.self_.oid).attrs[str(args[0].value)] = value
            return NONE
        if name in ITSELF:
            return f.self_
        return Unknown(f"module.{name}(…)")

    def function(
        self,
        it: Interpreter,
        f: FuncV,
        args: list[Value],
        kw: dict[str, Value],
        st: State,
        node: ir.Node | None,
        fr: Frame,
    ) -> Value | None:
        """What a function of the tree with a contract gives; None when it is to be entered."""
        if self.on_function is not None:
            self.on_function(it, f, args, kw, st, fr.site(node) if node is not None else None, fr)
        contract: Contract | None
        module: Value | None = None
        if f.cls is None or f.kind == "static":
            contract = self.of_function(f)
        else:
            module = args[0] if args else None
            obj = st.get(module.oid) if isinstance(module, Ref) else None
            contract = self.of_method(f, obj.cls if obj is not None and obj.cls is not None else f.cls)
        if contract is None:
            return None
        names = tuple(p.name for p in f.node.params.items if p.kind in ("pos", "arg", "kw"))
        given = args
        if module is not None:
            names, given = names[1:], args[1:]
        if contract.module is not None:
            place = names.index(contract.module) if contract.module in names else contract.module
            module = kw.get(str(contract.module))
            if module is None and isinstance(place, int) and place < len(given):
                module = given[place]
        return self.by_contract(it, contract, given, kw, names, module, st, node, fr, f.qualname)

    def by_contract(
        self,
        it: Interpreter,
        contract: Contract,
        args: list[Value],
        kw: dict[str, Value],
        names: tuple[str, ...],
        module: Value | None,
        st: State,
        node: ir.Node | None,
        fr: Frame,
        what: str,
    ) -> Value | None:
        """Applies a contract, to each alternative of an argument that has several."""
        for which in contract.inputs:
            place = names.index(which) if isinstance(which, str) and which in names else which
            name = which if isinstance(which, str) else names[which] if which < len(names) else ""
            by_name = name in kw
            v = kw[name] if by_name else args[place] if isinstance(place, int) and place < len(args) else None
            if not isinstance(v, Union) or not tensors_in([v], st, 0):
                continue

            given = functools.partial(_with, args, kw, name if by_name or not isinstance(place, int) else place)

            if contract.kind == "module" and _alike(v, st):
                args, kw = given(v.items[0])  # what a module adds is named after the module, whatever it is given
                continue

            def arm(x: Value, of: Callable[[Value], Given] = given) -> Callable[[State], Value]:
                def run(state: State) -> Value:
                    made = self.by_contract(it, contract, *of(x), names, module, state, node, fr, what)
                    return made if made is not None else Unknown(f"{what}(…)")

                return run

            return it.both(st, [(st.fork(), arm(x)) for x in v.items])
        site = fr.site(node) if node is not None else None
        path = self.within_layer(self.path_of(module, fr), fr) or f"{what}@{site_text(site)}"
        call = kernels.Call(it, st, args, kw, names, module, path, site, self.ranks, node, fr)
        made = kernels.apply(contract, call)
        if self.on_contract is not None:
            self.on_contract(contract, call, made)
        if made is None:
            made = self.unknown(it, what, args, kw, st, node, fr, "is not called as its contract says")
        return made

    def path_of(self, module: Value | None, fr: Frame) -> str:
        """The name of a module, or of the module whose method runs."""
        if isinstance(module, Ref):
            found = self.paths.get(module.oid)
            if found is not None:
                return found
        for frame in fr.chain():
            if isinstance(frame.self_, Ref):
                found = self.paths.get(frame.self_.oid)
                if found is not None:
                    return found
        return ""

    def within_layer(self, path: str, fr: Frame) -> str:
        """The name of what a module adds: that of a module that hangs outside of the layers, and that a layer calls, begins
        with the layer. Several layers may call it, and each adds something else."""
        inside = f"{self.stack}."
        if not path or not self.stack or path.startswith(inside):
            return path
        for frame in fr.chain():
            caller = self.paths.get(frame.self_.oid, "") if isinstance(frame.self_, Ref) else ""
            if caller.startswith(inside):
                return f"{caller}.@{path}"
        return path

    def constructed(
        self,
        it: Interpreter,
        c: ClassV,
        args: list[Value],
        kw: dict[str, Value],
        st: State,
        node: ir.Node | None,
        fr: Frame,
    ) -> Value | None:
        """An instance of a class that a contract stands for: it holds what its constructor was given."""
        if self.of_class(c) is None:
            return None
        from flowcheck.interp.classes import class_attr

        obj = Obj("free", c, site=fr.site(node) if node is not None else None)
        init = class_attr(it, c, "__init__", st)
        if isinstance(init, FuncV):
            obj.attrs = functions.bind(it, init, [NONE, *args], kw, st, False, node, fr)
            first = init.node.params.items[0].name if init.node.params.items else ""
            obj.attrs.pop(first, None)
        obj.tag = c.name
        return Ref(st.new(obj))

    def external(
        self,
        it: Interpreter,
        f: ExternalV,
        args: list[Value],
        kw: dict[str, Value],
        st: State,
        node: ir.Node | None,
        fr: Frame,
    ) -> Value | None:
        """A call of something outside the tree; None when it is no business of tensors."""
        name = f.name
        if name in LISTS:
            items = None
            if len(args) == 1 and not kw:
                from flowcheck.interp.builtin_models import MODELS

                return MODELS["list"](it, args, {}, st, node, fr)
            return it.new_list(st, list(args) if items is None else items)
        if name == "torch.nn.ModuleDict":
            from flowcheck.interp.builtin_models import MODELS

            return MODELS["dict"](it, args, kw, st, node, fr)
        if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"):
            return args[0] if args else kw.get("data", Unknown("a parameter"))
        if name == "contextvars.ContextVar":
            return Ref(st.new(Obj("variable", attrs={"value": kw.get("default", Unknown("a context variable"))})))
        contract = self.of_external(name)
        if contract is not None:
            return self.by_contract(it, contract, args, kw, (), None, st, node, fr, name)
        last = name.rsplit(".", 1)[-1]
        if name.startswith(("torch.nn.functional.", "torch.special.")) or (
            name.count(".") == 1 and name.startswith("torch.")
        ):
            return tensor_methods.function(it, last, args, kw, st, fr, node)
        if name.startswith("torch.nn.") and last[:1].isupper():
            obj = Obj("torch module", attrs=dict(kw))
            obj.items = list(args)
            obj.tag = last
            if name == LINEAR:
                sized(obj)
            ref = Ref(st.new(obj))
            if self.on_layer is not None:
                self.on_layer(ref, obj, fr.site(node) if node is not None else None)
            return ref
        if not tensors_in([*args, *kw.values()], st):
            return None
        if self.is_pure(name):
            return tensor_ops.loose(it, st, last, [*args, *kw.values()], fr.site(node) if node is not None else None)
        return self.unknown(it, name, args, kw, st, node, fr, "has no contract")

    def called(
        self,
        it: Interpreter,
        ref: Ref,
        obj: Obj,
        args: list[Value],
        kw: dict[str, Value],
        st: State,
        node: ir.Node | None,
        fr: Frame,
    ) -> Value:
        """A module of PyTorch's own, called."""
        site = fr.site(node) if node is not None else None
        if obj.tag == "Identity" and args:
            return args[0]
        stands = self.classes.get(str(obj.tag))
        if stands is not None:
            made = self.by_contract(it, stands, args, kw, (), ref, st, node, fr, str(obj.tag))
            return made if made is not None else Unknown(f"{obj.tag}(…)")
        width = obj.items[1] if obj.tag == "Linear" and len(obj.items) > 1 else obj.attrs.get("out_features")
        contract = Contract("module")
        made = self.by_contract(it, contract, args, kw, (), ref, st, node, fr, f"torch.nn.{obj.tag}")
        if made is not None and is_tensor(made, st):
            w = width_of(width) if width is not None else None
            view = view_of(made, st)
            assert view is not None
            if w is not None and isinstance(made, Ref):
                held = st.obj(view.storage).tag.segments[0].content
                from flowcheck.interp.tensors import make

                dims = (*view.dims[:-1], value_of(w)) if view.dims else None
                return make(it, st, held, w, view.rows, dims, site)
        return made if made is not None else Unknown(f"torch.nn.{obj.tag}(…)")

    def inherited(
        self,
        it: Interpreter,
        ref: Ref,
        name: str,
        args: list[Value],
        kw: dict[str, Value],
        st: State,
        node: ir.Node | None,
        fr: Frame,
    ) -> Value | None:
        """A method that a class of the tree has from one of PyTorch's layers; None for any other."""
        obj = st.get(ref.oid)
        base = (
            next((e for b in obj.cls.mro for e in b.external if e in LAYERS), None)
            if obj is not None and obj.cls
            else None
        )
        if base is None:
            return None
        if name == "__init__":
            st.write(ref.oid).attrs.update(dict(zip(LAYERS[base], args, strict=False)) | kw)
            return NONE
        if name != "forward":
            return None
        return self.by_contract(it, Contract("module", width=LAYERS[base][1]), args, kw, (), ref, st, node, fr, base)

    def observed(self, it: Interpreter, event: CallEvent) -> Value | None:
        """A call that is not entered: unknown code may write the tensors that it is given."""
        values = [*event.args, *event.keywords.values()]
        if isinstance(event.callee, ExternalV):
            return self.external(it, event.callee, event.args, event.keywords, event.state, event.node, event.frame)
        contract = self.functions.get(event.name)
        if contract is None and isinstance(event.callee, Unknown):
            contract = self.of_unknown(event.callee.reason)
        if contract is not None:
            it_, args, kw = it, event.args, event.keywords
            return self.by_contract(it_, contract, args, kw, (), None, event.state, event.node, event.frame, event.name)
        if not tensors_in(values, event.state):
            return None
        return self.unknown(
            it, event.name, event.args, event.keywords, event.state, event.node, event.frame, "is not known"
        )

    def unknown(
        self,
        it: Interpreter,
        name: str,
        args: list[Value],
        kw: dict[str, Value],
        st: State,
        node: ir.Node | None,
        fr: Frame,
        why: str,
    ) -> Value:
        """Something that is given tensors and that nobody knows: it may write them, and gives what depends on them."""
        site = fr.site(node) if node is not None else None
        self.unmodelled.setdefault(f"{name} {why}", site_text(site))
        values = [*args, *kw.values()]
        made = tensor_ops.loose(it, st, name, values, site)
        for ref in tensors_in(values, st):
            lost = Content(lost=f"{name} may write it at {site_text(site)}")
            write(it, st, widened(it, st, ref, None, whole=False), lost, site)
        return made


def _context_variable(ref: Ref, held: Obj, name: str, args: list[Value], st: State) -> Value:
    """``get``, ``set`` and ``reset`` of a context variable: there is one context."""
    before = held.attrs["value"]
    if name == "get":
        return before
    if name == "set" and args:
        st.write(ref.oid).attrs["value"] = args[0]
        return Ref(st.new(Obj("plain object", attrs={"old": before})))
    token = st.get(args[0].oid) if args and isinstance(args[0], Ref) else None
    st.write(ref.oid).attrs["value"] = token.attrs["old"] if token is not None else Unknown("a context variable")
    return NONE


def _with(args: list[Value], kw: dict[str, Value], place: int | str, x: Value) -> Given:
    """The arguments with one of them replaced."""
    if isinstance(place, str):
        return args, {**kw, place: x}
    return [*args[:place], x, *args[place + 1 :]], kw


def _alike(v: Union, st: State) -> bool:
    """Whether all alternatives are tensors of the same rows and shape."""
    views = [view_of(x, st) for x in v.items]
    first = views[0]
    return first is not None and all(x is not None and x.rows == first.rows and x.dims == first.dims for x in views)


def write_weakly(
    it: Interpreter,
    ref: Ref,
    name: str,
    args: list[Value],
    kw: dict[str, Value],
    st: State,
    node: ir.Node | None,
    fr: Frame,
) -> None:
    """An in-place method that may have run or not."""
    tensor_methods.method(it, widened(it, st, ref, None, whole=False), name, args, kw, st, node, fr)


MODULE_CLASSES = frozenset(
    {
        "torch.nn.Embedding", "torch.nn.Linear",
        "torch.nn.Module", "torch.nn.modules.module.Module", "torch.nn.ModuleList", "transformers.PreTrainedModel",
        "transformers.modeling_utils.PreTrainedModel",
    }
)  # fmt: skip
MODULES = MODULE_CLASSES | {"abc.ABC", "typing.Protocol"}
MODULE_NAMES = frozenset(
    {
        "parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers",
        "named_buffers", "state_dict", "load_state_dict", "post_init", "init_weights", "register_forward_hook",
        "register_forward_pre_hook", "get_submodule", "zero_grad",
    }
)  # fmt: skip
