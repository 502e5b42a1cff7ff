"""Ways by which a value can reach a place where it is used. Each keeps the value: given a lower mode it makes a harmful
mutant, given the one that was there it makes a rewrite that means the same."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.mutations.sites import ATTRIBUTE, WORDS, Code, Site
from tests.mutations.text import Draft, NoSuchEdit, Source

__all__ = ["ASSIGNMENTS", "EXPRESSIONS", "KEYWORDS", "Spot", "assignable", "free_condition"]


@dataclass(frozen=True)
class Spot:
    """An expression that is to be replaced, and what stands around it."""

    code: Code
    draft: Draft
    source: Source
    node: ast.expr

    @property
    def statement(self) -> ast.stmt:
        return self.source.statement(self.node)

    @property
    def function(self) -> ast.FunctionDef:
        function = self.source.function(self.node)
        if function is None:
            raise NoSuchEdit("stands in no function")
        return function

    def put(self, text: str) -> None:
        self.draft.replace(self.source, self.node, text)

    def before(self, lines: str) -> None:
        self.draft.before(self.source, self.statement, lines)

    def top(self, lines: str) -> None:
        self.draft.at_top(self.source, lines)

    @property
    def enum(self) -> str:
        """The enum's name, as this module knows it."""
        return enum_name(self.code, self.source)

    def beside(self, text: str) -> str:
        """Adds a module beside this one, and gives its dotted name."""
        folder = self.source.path.rpartition("/")[0]
        self.draft.add(f"{folder}/added_modes.py", text)
        return self.code.module(self.source.path).rpartition(".")[0] + ".added_modes"


def enum_name(code: Code, source: Source) -> str:
    """The enum's name in a module. Raises NoSuchEdit where the module does not have it."""
    name = code.enum[1].name
    if not source.imports(name):
        raise NoSuchEdit("the module does not know the enum")
    return name


def free_condition(source: Source, node: ast.AST) -> str:
    """A condition at this place that some deployments or batches fulfil and others do not."""
    function = source.function(node)
    if function is None:
        raise NoSuchEdit("stands in no function")
    parameters = (*function.args.args, *function.args.kwonlyargs)
    for parameter in parameters:
        if parameter.annotation is not None and "Batch" in source.of(parameter.annotation):
            return f"len({parameter.arg}.seq_lens) > 4"
    cls = source.class_of(function)
    text = source.of(cls) if cls is not None else ""
    if parameters and parameters[0].arg == "self":
        for condition, needs in (
            ("self.topk > 1", "self.topk"),
            ("self.server_args.enable_metrics", "self.server_args"),
        ):
            if needs in text:
                return condition
    raise NoSuchEdit("no condition at hand")


# ------------------------------------------------------------------------------------------------------- expressions
def direct(e: Spot, x: str) -> None:
    e.put(x)


def local(e: Spot, x: str) -> None:
    e.before(f"wanted_mode = {x}")
    e.put("wanted_mode")


def two_locals(e: Spot, x: str) -> None:
    e.before(f"first_mode, wanted_mode = None, {x}\nfirst_mode = wanted_mode")
    e.put("first_mode")


def reassigned(e: Spot, x: str) -> None:
    e.before(f"wanted_mode = None\nfor wanted_mode in (None, {x}):\n    pass")
    e.put("wanted_mode")


def constant(e: Spot, x: str) -> None:
    e.top(f"WANTED_MODE = {x}")
    e.put("WANTED_MODE")


def constant_elsewhere(e: Spot, x: str) -> None:
    module = e.beside(f"{e.code.enum_import}\n\nWANTED_MODE = {x}\n")
    e.top(f"from {module} import WANTED_MODE as SPEC_MODE")
    e.put("SPEC_MODE")


def import_alias(e: Spot, x: str) -> None:
    if not x.startswith(e.code.enum[1].name):
        raise NoSuchEdit("does not name the enum")
    e.before(f"{e.code.enum_import} as Capture")
    e.put("Capture" + x[len(e.code.enum[1].name) :])


def module_alias(e: Spot, x: str) -> None:
    if not x.startswith(e.code.enum[1].name):
        raise NoSuchEdit("does not name the enum")
    parent, _, name = e.code.module(e.code.enum[0].path).rpartition(".")
    e.before(f"from {parent} import {name} as batch_info")
    e.put(f"batch_info.{x}")


def class_alias(e: Spot, x: str) -> None:
    if not x.startswith(e.code.enum[1].name):
        raise NoSuchEdit("does not name the enum")
    e.top(f"Capture = {e.code.enum[1].name}")
    e.put("Capture" + x[len(e.code.enum[1].name) :])


def helper(e: Spot, x: str) -> None:
    e.top(f"def wanted_mode():\n    return {x}")
    e.put("wanted_mode()")


def helper_elsewhere(e: Spot, x: str) -> None:
    module = e.beside(f"{e.code.enum_import}\n\n\ndef wanted_mode():\n    return {x}\n")
    e.before(f"from {module} import wanted_mode")
    e.put("wanted_mode()")


def helper_default(e: Spot, x: str) -> None:
    e.top(f"def wanted_mode(mode={x}):\n    return mode")
    e.put("wanted_mode()")


def helper_argument(e: Spot, x: str) -> None:
    e.top("def wanted_mode(first, *, mode=None):\n    return first if mode is None else mode")
    e.put(f"wanted_mode(None, mode={x})")


def helper_kwargs(e: Spot, x: str) -> None:
    e.top('def wanted_mode(**options):\n    return options["mode"]')
    e.put(f"wanted_mode(mode={x})")


def helper_star(e: Spot, x: str) -> None:
    e.top("def wanted_mode(*options):\n    return options[-1]")
    e.put(f"wanted_mode(None, *[None, {x}])")


def helper_early_return(e: Spot, x: str) -> None:
    e.top(f"def wanted_mode(ask):\n    if not ask:\n        return None\n    return {x}")
    e.put("wanted_mode(True)")


def method(e: Spot, x: str) -> None:
    function = e.function
    if not function.args.args or function.args.args[0].arg != "self" or e.source.class_of(function) is None:
        raise NoSuchEdit("is no method")
    e.draft.before(e.source, function, f"def wanted_mode(self):\n    return {x}\n\n")
    e.put("self.wanted_mode()")


def prop(e: Spot, x: str) -> None:
    function = e.function
    if not function.args.args or function.args.args[0].arg != "self" or e.source.class_of(function) is None:
        raise NoSuchEdit("is no method")
    e.draft.before(e.source, function, f"@property\ndef wanted_mode(self):\n    return {x}\n\n")
    e.put("self.wanted_mode")


def static_method(e: Spot, x: str) -> None:
    function = e.function
    if not function.args.args or function.args.args[0].arg != "self" or e.source.class_of(function) is None:
        raise NoSuchEdit("is no method")
    e.draft.before(e.source, function, f"@staticmethod\ndef wanted_mode():\n    return {x}\n\n")
    e.put("self.wanted_mode()")


def class_attribute(e: Spot, x: str) -> None:
    e.top(f"class Wanted:\n    mode = {x}")
    e.put("Wanted.mode")


def instance_attribute(e: Spot, x: str) -> None:
    e.top("class Wanted:\n    def __init__(self, mode):\n        self.mode = mode")
    e.put(f"Wanted({x}).mode")


def dataclass_default(e: Spot, x: str) -> None:
    e.top(f"import dataclasses\n\n\n@dataclasses.dataclass\nclass Wanted:\n    mode: object = {x}")
    e.put("Wanted().mode")


def named_tuple(e: Spot, x: str) -> None:
    e.top(f"from typing import NamedTuple\n\n\nclass Wanted(NamedTuple):\n    mode: object = {x}")
    e.put("Wanted().mode")


def dictionary(e: Spot, x: str) -> None:
    e.top(f'MODES = {{"target": {x}, "draft": None}}')
    e.put('MODES["target"]')


def dictionary_get(e: Spot, x: str) -> None:
    e.put(f'dict(target={x}).get("target")')


def sequence(e: Spot, x: str) -> None:
    e.put(f"[None, {x}][-1]")


def _member(e: Spot, x: str) -> tuple[str, str]:
    """The enum and the member that ``x`` names."""
    enum, _, member = x.rpartition(".")
    if enum != e.code.enum[1].name or member not in WORDS.mode.members:
        raise NoSuchEdit("names no member")
    return enum, member


def by_getattr(e: Spot, x: str) -> None:
    enum, member = _member(e, x)
    e.put(f'getattr({enum}, "{member}")')


def by_name(e: Spot, x: str) -> None:
    enum, member = _member(e, x)
    e.put(f'{enum}["{member}"]')


def by_value(e: Spot, x: str) -> None:
    enum, member = _member(e, x)
    e.put(f"{enum}({WORDS.mode.members.index(member)})")


def walrus(e: Spot, x: str) -> None:
    e.put(f"(wanted_mode := {x})")


def lambda_call(e: Spot, x: str) -> None:
    e.put(f"(lambda: {x})()")


def partial(e: Spot, x: str) -> None:
    e.top("import functools\n\n\ndef pick_mode(mode, unused):\n    return mode")
    e.put(f"functools.partial(pick_mode, {x})(None)")


def cached(e: Spot, x: str) -> None:
    e.top(f"import functools\n\n\n@functools.lru_cache(maxsize=None)\ndef wanted_mode():\n    return {x}")
    e.put("wanted_mode()")


def nested(e: Spot, x: str) -> None:
    e.before(f"def wanted_mode():\n    return {x}\n")
    e.put("wanted_mode()")


def both_arms(e: Spot, x: str) -> None:
    e.put(f"({x} if {free_condition(e.source, e.node)} else {x})")


def decided_if(e: Spot, x: str) -> None:
    e.before(f"if True:\n    wanted_mode = {x}\nelse:\n    wanted_mode = None")
    e.put("wanted_mode")


def boolean_or(e: Spot, x: str) -> None:
    e.put(f"(None or {x})")


def try_finally(e: Spot, x: str) -> None:
    e.before(f"wanted_mode = None\ntry:\n    pass\nfinally:\n    wanted_mode = {x}")
    e.put("wanted_mode")


def try_except(e: Spot, x: str) -> None:
    e.before(f'try:\n    wanted_mode = {{}}["mode"]\nexcept KeyError:\n    wanted_mode = {x}')
    e.put("wanted_mode")


def match_statement(e: Spot, x: str) -> None:
    e.before(f'match "target":\n    case "draft":\n        wanted_mode = None\n    case _:\n        wanted_mode = {x}')
    e.put("wanted_mode")


def generator(e: Spot, x: str) -> None:
    e.put(f"next(mode for mode in ({x},))")


EXPRESSIONS: Mapping[str, Callable[[Spot, str], None]] = {
    "direct": direct,
    "local": local,
    "two locals": two_locals,
    "local set in a loop": reassigned,
    "module constant": constant,
    "constant of another module": constant_elsewhere,
    "import alias": import_alias,
    "module alias": module_alias,
    "class alias": class_alias,
    "helper": helper,
    "helper in another module": helper_elsewhere,
    "helper's default": helper_default,
    "helper's keyword": helper_argument,
    "helper's **kwargs": helper_kwargs,
    "helper's *args": helper_star,
    "helper with two returns": helper_early_return,
    "method": method,
    "property": prop,
    "static method": static_method,
    "class attribute": class_attribute,
    "instance attribute": instance_attribute,
    "dataclass default": dataclass_default,
    "named tuple": named_tuple,
    "dictionary": dictionary,
    "dictionary get": dictionary_get,
    "list element": sequence,
    "getattr of the enum": by_getattr,
    "member by name": by_name,
    "member by value": by_value,
    "walrus": walrus,
    "lambda": lambda_call,
    "functools.partial": partial,
    "lru_cache": cached,
    "nested function": nested,
    "conditional with equal arms": both_arms,
    "decided if": decided_if,
    "or": boolean_or,
    "try/finally": try_finally,
    "try/except": try_except,
    "match": match_statement,
    "generator": generator,
}


# -------------------------------------------------------------------------------------------------------- assignments
@dataclass(frozen=True)
class Target:
    """An object whose attribute is to be set by statements that are put at some place."""

    code: Code
    draft: Draft
    source: Source
    name: str
    top: Callable[[str], None]
    beside: Callable[[str], str]


Assignment = Callable[[Target, str], str]
"""The statements that set the attribute of the target to a value."""


def plain(o: Target, x: str) -> str:
    return f"{o.name}.{ATTRIBUTE} = {x}"


def by_setattr(o: Target, x: str) -> str:
    return f'setattr({o.name}, "{ATTRIBUTE}", {x})'


def by_dict(o: Target, x: str) -> str:
    return f'{o.name}.__dict__["{ATTRIBUTE}"] = {x}'


def by_vars(o: Target, x: str) -> str:
    return f"vars({o.name}).update({ATTRIBUTE}={x})"


def by_dict_update(o: Target, x: str) -> str:
    return f'{o.name}.__dict__.update({{"{ATTRIBUTE}": {x}}})'


def by_object_setattr(o: Target, x: str) -> str:
    return f'object.__setattr__({o.name}, "{ATTRIBUTE}", {x})'


def alias(o: Target, x: str) -> str:
    return f"same_batch = {o.name}\nsame_batch.{ATTRIBUTE} = {x}"


def element(o: Target, x: str) -> str:
    return f"pair = ({o.name}, None)\npair[0].{ATTRIBUTE} = {x}"


def loop_over_names(o: Target, x: str) -> str:
    return f'for name in ("{ATTRIBUTE}",):\n    setattr({o.name}, name, {x})'


def loop_over_pairs(o: Target, x: str) -> str:
    return f'for name, value in {{"{ATTRIBUTE}": {x}}}.items():\n    setattr({o.name}, name, value)'


def loop_over_objects(o: Target, x: str) -> str:
    return f"for each in [{o.name}]:\n    each.{ATTRIBUTE} = {x}"


def closure(o: Target, x: str) -> str:
    return f"def set_mode():\n    {o.name}.{ATTRIBUTE} = {x}\n\nset_mode()"


def setter_lambda(o: Target, x: str) -> str:
    return f'(lambda batch: setattr(batch, "{ATTRIBUTE}", {x}))({o.name})'


def manager(o: Target, x: str) -> str:
    o.top(
        "import contextlib\n\n\n@contextlib.contextmanager\ndef capturing(batch, mode):\n"
        f"    batch.{ATTRIBUTE} = mode\n    yield batch"
    )
    return f"with capturing({o.name}, {x}):\n    pass"


def manager_class(o: Target, x: str) -> str:
    o.top(
        "class Capturing:\n    def __init__(self, batch, mode):\n        self.batch, self.mode = batch, mode\n\n"
        f"    def __enter__(self):\n        self.batch.{ATTRIBUTE} = self.mode\n        return self.batch\n\n"
        "    def __exit__(self, *unused):\n        return False"
    )
    return f"with Capturing({o.name}, {x}):\n    pass"


def in_finally(o: Target, x: str) -> str:
    return f"try:\n    pass\nfinally:\n    {o.name}.{ATTRIBUTE} = {x}"


def by_helper(o: Target, x: str) -> str:
    o.top(f"def set_mode(batch):\n    batch.{ATTRIBUTE} = {x}")
    return f"set_mode({o.name})"


def by_helper_elsewhere(o: Target, x: str) -> str:
    module = o.beside(f"{o.code.enum_import}\n\n\ndef set_mode(batch):\n    batch.{ATTRIBUTE} = {x}\n")
    return f"from {module} import set_mode\nset_mode({o.name})"


def by_generic_helper(o: Target, x: str) -> str:
    module = o.beside(
        "def override(target, **values):\n    for name in values:\n        setattr(target, name, values[name])\n"
    )
    return f"from {module} import override\noverride({o.name}, {ATTRIBUTE}={x})"


def by_attribute_helper(o: Target, x: str) -> str:
    module = o.beside("def override(target, name, value):\n    setattr(target, name, value)\n")
    return f'from {module} import override\noverride({o.name}, "{ATTRIBUTE}", {x})'


def chained(o: Target, x: str) -> str:
    return f"kept_mode = {o.name}.{ATTRIBUTE} = {x}"


def unpacked(o: Target, x: str) -> str:
    return f"{o.name}.{ATTRIBUTE}, kept_mode = {x}, None"


def replaced(o: Target, x: str) -> str:
    if not o.name.isidentifier():
        raise NoSuchEdit("is no name")
    return f"import dataclasses\n{o.name} = dataclasses.replace({o.name}, {ATTRIBUTE}={x})"


def copied(o: Target, x: str) -> str:
    if not o.name.isidentifier():
        raise NoSuchEdit("is no name")
    return f"import copy\n{o.name} = copy.copy({o.name})\n{o.name}.{ATTRIBUTE} = {x}"


def by_walrus(o: Target, x: str) -> str:
    return f"(same_batch := {o.name}).{ATTRIBUTE} = {x}"


def by_partial(o: Target, x: str) -> str:
    return f'import functools\nfunctools.partial(setattr, {o.name}, "{ATTRIBUTE}")({x})'


def while_loop(o: Target, x: str) -> str:
    return f"turns = 0\nwhile turns < 1:\n    {o.name}.{ATTRIBUTE} = {x}\n    turns += 1"


def comprehension(o: Target, x: str) -> str:
    return f'[setattr(each, "{ATTRIBUTE}", {x}) for each in ({o.name},)]'


def in_handler(o: Target, x: str) -> str:
    return f"try:\n    raise ValueError\nexcept ValueError:\n    {o.name}.{ATTRIBUTE} = {x}"


def formatted_name(o: Target, x: str) -> str:
    head, _, tail = ATTRIBUTE.rpartition("_")
    return f'setattr({o.name}, "{head}" + "_{tail}", {x})'


def by_own_setattr(o: Target, x: str) -> str:
    return f'{o.name}.__setattr__("{ATTRIBUTE}", {x})'


def by_type_setattr(o: Target, x: str) -> str:
    return f'type({o.name}).__setattr__({o.name}, "{ATTRIBUTE}", {x})'


def by_star_arguments(o: Target, x: str) -> str:
    return f'setattr(*({o.name}, "{ATTRIBUTE}", {x}))'


def by_operator(o: Target, x: str) -> str:
    return f'import operator\noperator.setitem(vars({o.name}), "{ATTRIBUTE}", {x})'


def by_exec(o: Target, x: str) -> str:
    return f'exec("{o.name}.{ATTRIBUTE} = {x}")'


def by_map(o: Target, x: str) -> str:
    o.top(f"def set_mode(batch):\n    batch.{ATTRIBUTE} = {x}")
    return f"list(map(set_mode, [{o.name}]))"


def by_thread(o: Target, x: str) -> str:
    o.top(f"import threading\n\n\ndef set_mode(batch):\n    batch.{ATTRIBUTE} = {x}")
    return f"worker = threading.Thread(target=set_mode, args=({o.name},))\nworker.start()\nworker.join()"


def by_generator(o: Target, x: str) -> str:
    o.top(f"def modes_set(batch):\n    batch.{ATTRIBUTE} = {x}\n    yield batch")
    return f"for _ in modes_set({o.name}):\n    pass"


def by_recursion(o: Target, x: str) -> str:
    o.top(
        f"def set_mode(batch, turns):\n    if turns == 0:\n        batch.{ATTRIBUTE} = {x}\n"
        "    else:\n        set_mode(batch, turns - 1)"
    )
    return f"set_mode({o.name}, 3)"


def by_returned_object(o: Target, x: str) -> str:
    o.top("def same(batch):\n    return batch")
    return f"same({o.name}).{ATTRIBUTE} = {x}"


def by_global(o: Target, x: str) -> str:
    o.top("HELD = {}")
    return f'HELD["batch"] = {o.name}\nHELD["batch"].{ATTRIBUTE} = {x}'


def by_global_name(o: Target, x: str) -> str:
    o.top(
        "CURRENT = None\n\n\ndef hold(batch):\n    global CURRENT\n    CURRENT = batch\n\n\n"
        f"def set_mode():\n    CURRENT.{ATTRIBUTE} = {x}"
    )
    return f"hold({o.name})\nset_mode()"


def by_class_variable(o: Target, x: str) -> str:
    o.top(
        f"class Held:\n    batch = None\n\n    @classmethod\n    def lower(cls):\n        cls.batch.{ATTRIBUTE} = {x}"
    )
    return f"Held.batch = {o.name}\nHeld.lower()"


def by_holder(o: Target, x: str) -> str:
    o.top(
        "class Holder:\n    def __init__(self, batch):\n        self.batch = batch\n\n"
        f"    def set(self, mode):\n        self.batch.{ATTRIBUTE} = mode"
    )
    return f"Holder({o.name}).set({x})"


def by_callable_object(o: Target, x: str) -> str:
    o.top(f"class Setter:\n    def __call__(self, batch):\n        batch.{ATTRIBUTE} = {x}")
    return f"Setter()({o.name})"


def by_inherited_method(o: Target, x: str) -> str:
    o.top(
        f"class Setting:\n    def apply(self, batch):\n        batch.{ATTRIBUTE} = self.wanted()\n\n"
        "    def wanted(self):\n        raise NotImplementedError\n\n\n"
        f"class Chosen(Setting):\n    def wanted(self):\n        return {x}"
    )
    return f"Chosen().apply({o.name})"


def by_list(o: Target, x: str) -> str:
    return f"held = []\nheld.append({o.name})\nheld.pop().{ATTRIBUTE} = {x}"


def by_starred_target(o: Target, x: str) -> str:
    return f"*_, last_batch = [None, {o.name}]\nlast_batch.{ATTRIBUTE} = {x}"


def by_conditional_object(o: Target, x: str) -> str:
    return f"({o.name} if {o.name} is not None else None).{ATTRIBUTE} = {x}"


def by_default(o: Target, x: str) -> str:
    return f"def set_mode(batch={o.name}):\n    batch.{ATTRIBUTE} = {x}\n\nset_mode()"


def in_for_else(o: Target, x: str) -> str:
    return f"for _ in ():\n    pass\nelse:\n    {o.name}.{ATTRIBUTE} = {x}"


def in_broken_loop(o: Target, x: str) -> str:
    return f"while True:\n    {o.name}.{ATTRIBUTE} = {x}\n    break"


def in_match(o: Target, x: str) -> str:
    return f"match {o.name}:\n    case batch if batch is not None:\n        batch.{ATTRIBUTE} = {x}"


def by_dispatch_table(o: Target, x: str) -> str:
    o.top(f'def set_mode(batch):\n    batch.{ATTRIBUTE} = {x}\n\n\nSTEPS = {{"mode": set_mode}}')
    return f'STEPS["mode"]({o.name})'


def by_steps(o: Target, x: str) -> str:
    o.top(
        f"def set_mode(batch):\n    batch.{ATTRIBUTE} = {x}\n\n\ndef nothing(batch):\n    pass\n\n\n"
        "STEPS = (nothing, set_mode)"
    )
    return f"for step in STEPS:\n    step({o.name})"


def by_exit_stack(o: Target, x: str) -> str:
    o.top(f"import contextlib\n\n\ndef set_mode(batch):\n    batch.{ATTRIBUTE} = {x}")
    return f"with contextlib.ExitStack() as stack:\n    stack.callback(set_mode, {o.name})"


def by_async(o: Target, x: str) -> str:
    o.top(f"import asyncio\n\n\nasync def set_mode(batch):\n    batch.{ATTRIBUTE} = {x}")
    return f"asyncio.run(set_mode({o.name}))"


def by_nested_record(o: Target, x: str) -> str:
    o.top("import dataclasses\n\n\n@dataclasses.dataclass\nclass Request:\n    batch: object\n    mode: object = None")
    return f"request = Request({o.name}, mode={x})\nrequest.batch.{ATTRIBUTE} = request.mode"


ASSIGNMENTS: Mapping[str, Assignment] = {
    "plain": plain,
    "setattr": by_setattr,
    "__dict__": by_dict,
    "vars().update": by_vars,
    "__dict__.update": by_dict_update,
    "object.__setattr__": by_object_setattr,
    "alias": alias,
    "element of a tuple": element,
    "loop of names": loop_over_names,
    "loop of pairs": loop_over_pairs,
    "loop of objects": loop_over_objects,
    "closure": closure,
    "lambda": setter_lambda,
    "context manager": manager,
    "context manager class": manager_class,
    "finally": in_finally,
    "helper": by_helper,
    "helper in another module": by_helper_elsewhere,
    "helper with **kwargs": by_generic_helper,
    "helper that is given the name": by_attribute_helper,
    "chained": chained,
    "unpacked": unpacked,
    "dataclasses.replace": replaced,
    "copy.copy": copied,
    "walrus": by_walrus,
    "partial of setattr": by_partial,
    "while": while_loop,
    "comprehension": comprehension,
    "exception handler": in_handler,
    "composed name": formatted_name,
    "the object's __setattr__": by_own_setattr,
    "the type's __setattr__": by_type_setattr,
    "setattr of *arguments": by_star_arguments,
    "operator.setitem of vars": by_operator,
    "exec": by_exec,
    "map": by_map,
    "thread": by_thread,
    "generator": by_generator,
    "recursion": by_recursion,
    "what a helper returns": by_returned_object,
    "global dictionary": by_global,
    "global name": by_global_name,
    "class variable": by_class_variable,
    "holder": by_holder,
    "callable object": by_callable_object,
    "template method": by_inherited_method,
    "list": by_list,
    "starred target": by_starred_target,
    "conditional object": by_conditional_object,
    "default argument": by_default,
    "for/else": in_for_else,
    "loop that breaks": in_broken_loop,
    "match of the object": in_match,
    "dispatch table": by_dispatch_table,
    "steps in a loop": by_steps,
    "exit stack": by_exit_stack,
    "coroutine": by_async,
    "record that holds it": by_nested_record,
}


def assignable(code: Code, draft: Draft, source: Source, name: str) -> Target:
    """An object that is known by ``name`` where the statements will be put."""

    def top(lines: str) -> None:
        draft.at_top(source, lines)

    def beside(text: str) -> str:
        folder = source.path.rpartition("/")[0]
        draft.add(f"{folder}/added_modes.py", text)
        return code.module(source.path).rpartition(".")[0] + ".added_modes"

    return Target(code, draft, source, name, top, beside)


# ----------------------------------------------------------------------------------------------------------- keywords
Keyword = Callable[[Code, Draft, Site, str], None]
"""Gives a call the value by other means than its keyword."""


def star_dict(code: Code, draft: Draft, site: Site, x: str) -> None:
    draft.replace(site.source, site.keyword, f"**dict({ATTRIBUTE}={x})")


def star_literal(code: Code, draft: Draft, site: Site, x: str) -> None:
    draft.replace(site.source, site.keyword, f'**{{"{ATTRIBUTE}": {x}}}')


def star_local(code: Code, draft: Draft, site: Site, x: str) -> None:
    draft.before(site.source, site.source.statement(site.node), f'options = {{}}\noptions["{ATTRIBUTE}"] = {x}')
    draft.replace(site.source, site.keyword, "**options")


def star_helper(code: Code, draft: Draft, site: Site, x: str) -> None:
    draft.at_top(site.source, f"def options_of(mode):\n    return dict({ATTRIBUTE}=mode)")
    draft.replace(site.source, site.keyword, f"**options_of({x})")


def star_union(code: Code, draft: Draft, site: Site, x: str) -> None:
    draft.replace(site.source, site.keyword, f'**({{"{ATTRIBUTE}": None}} | {{"{ATTRIBUTE}": {x}}})')


def partial_call(code: Code, draft: Draft, site: Site, x: str) -> None:
    assert isinstance(site.node, ast.Call)
    draft.at_top(site.source, "import functools")
    draft.replace(site.source, site.node.func, f"functools.partial({site.source.of(site.node.func)}, {ATTRIBUTE}={x})")
    _drop(draft, site)


def set_afterwards(code: Code, draft: Draft, site: Site, x: str) -> None:
    name = _bound_name(site)
    cls = _made_class(code, site)
    if field_default(cls) is None:
        raise NoSuchEdit("the field has no default")
    _drop(draft, site)
    draft.after(site.source, site.source.statement(site.node), f"{name}.{ATTRIBUTE} = {x}")


def replaced_afterwards(code: Code, draft: Draft, site: Site, x: str) -> None:
    name = _bound_name(site)
    lines = f"import dataclasses\n{name} = dataclasses.replace({name}, {ATTRIBUTE}={x})"
    draft.after(site.source, site.source.statement(site.node), lines)


def factory(code: Code, draft: Draft, site: Site, x: str) -> None:
    assert isinstance(site.node, ast.Call)
    draft.at_top(
        site.source, f"def make_with(kind, mode, *given, **rest):\n    return kind(*given, {ATTRIBUTE}=mode, **rest)"
    )
    func = site.node.func
    draft.replace(site.source, func, "make_with")
    end = site.source.span(func)[1]
    opening = site.source.text.index("(", end) + 1
    draft.splice(site.source, opening, opening, f"{site.source.of(func)}, {x}, ")
    _drop(draft, site)


def moved_first(code: Code, draft: Draft, site: Site, x: str) -> None:
    assert isinstance(site.node, ast.Call)
    if site.node.args or len(site.node.keywords) < 2 or site.node.keywords[0] is site.keyword:
        raise NoSuchEdit("the keyword cannot move")
    start = site.source.span(site.node.keywords[0])[0]
    draft.splice(site.source, start, start, f"{ATTRIBUTE}={x}, ")
    _drop(draft, site)


KEYWORDS: Mapping[str, Keyword] = {
    "**dict()": star_dict,
    "**{}": star_literal,
    "**local": star_local,
    "**helper()": star_helper,
    "** of a union": star_union,
    "partial of the class": partial_call,
    "attribute set afterwards": set_afterwards,
    "dataclasses.replace afterwards": replaced_afterwards,
    "factory": factory,
    "keyword moved": moved_first,
}


def _drop(draft: Draft, site: Site) -> None:
    """Takes the keyword away, with the comma that follows it."""
    start, end = site.source.span(site.keyword)
    rest = site.source.text[end:]
    cut = len(rest) - len(rest.lstrip())
    if rest[cut : cut + 1] == ",":
        end += cut + 1
    draft.splice(site.source, start, end, "")


drop_keyword = _drop


def _bound_name(site: Site) -> str:
    statement = site.source.statement(site.node)
    if (
        isinstance(statement, ast.Assign)
        and statement.value is site.node
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
    ):
        return statement.targets[0].id
    raise NoSuchEdit("what is made gets no name")


def _made_class(code: Code, site: Site) -> ast.ClassDef:
    path = code.carriers.get(site.made)
    if path is None:
        raise NoSuchEdit("what is made is no class with the field")
    return code.source(path).classes(site.made)[0]


made_class = _made_class


def field_default(cls: ast.ClassDef) -> ast.expr | None:
    """The default of the mode in a class."""
    from tests.mutations.sites import field_of

    declared = field_of(cls)
    return declared.value if declared is not None else None
