"""Ways in Python to an attribute that are easy to overlook: the value that CPython leaves there is never ruled out."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from flowcheck.interp import calls, names
from flowcheck.interp.engine import Config, Interpreter
from flowcheck.interp.heap import State
from flowcheck.interp.values import Known, Unknown, Value
from flowcheck.program.modules import Program
from flowcheck.syntax import SyntaxStore
from tests.interp.harness import (
    INPUTS,
    PARAMETERS,
    PYTHON,
    MemoryTree,
    check_exact,
    covers,
    deeply,
    interpret,
    numbered,
)

TRACKED = frozenset({"mode"})

_BOX = """
class Box:
    def __init__(self, mode):
        self.mode = mode

    def lower(self, *given, **named):
        self.mode = "LAST"
        return True


def lower(box, *given, **named):
    box.mode = "LAST"
    return box
"""

_TEXT = """
### exact: a loop that always breaks has no else
box = Box("LAST")
for step in range(8):
    if step == 3:
        break
else:
    box.mode = "FULL"
return box
### exact: a loop that never breaks has its else
box = Box("FULL")
for step in (1, 2):
    if step == 3:
        break
else:
    box.mode = "LAST"
return box
### exact: a suppressed error cuts the body
import contextlib
box = Box("LAST")
with contextlib.suppress(KeyError):
    {}["target"]
    box.mode = "FULL"
return box
### exact: only what is named is suppressed
import contextlib
box = Box("LAST")
try:
    with contextlib.suppress(KeyError, AttributeError):
        [][0]
        box.mode = "FULL"
except IndexError:
    return box, "not suppressed"
return box
### an error that may be suppressed
import contextlib
box = Box("LAST")
with contextlib.suppress(Exception):
    if a:
        raise ValueError
    box.mode = "FULL"
return box
### an error in a manager that swallows
import contextlib
class Quiet(contextlib.AbstractContextManager):
    def __exit__(self, kind, error, trace):
        return True
box = Box("LAST")
with Quiet():
    {}["target"]
    box.mode = "FULL"
return box
### exact: a list of a map
box = Box("FULL")
return list(map(box.lower, [1])), box
### exact: a map of two
box = Box("FULL")
list(map(box.lower, [1], [2]))
return box
### exact: a map that nobody asks
box = Box("FULL")
rows = map(box.lower, [1])
return box
### exact: next of a map
box = Box("FULL")
next(map(lower, [box]))
return box
### exact: a tuple of a map
box = Box("FULL")
tuple(map(lower, (box,)))
return box
### exact: a loop over a map
box = Box("FULL")
for each in map(lower, [box]):
    pass
return box
### exact: a map is unpacked
box = Box("FULL")
(same,) = map(lower, [box])
return box, same is box
### exact: a map as arguments
box = Box("FULL")
def take(*given):
    pass
take(*map(lower, [box]))
return box
### exact: a list extended by a map
box, rows = Box("FULL"), []
rows.extend(map(lower, [box]))
return box
### exact: a deque of a map
import collections
box = Box("FULL")
collections.deque(map(lower, [box]), maxlen=0)
return box
### exact: a join of a map
box = Box("FULL")
"".join(map(lambda x: x.lower() and "", [box]))
return box
### exact: a set of a map
box = Box("FULL")
set(map(lambda x: x.lower(), [box]))
return box
### exact: a dict of a map
box = Box("FULL")
dict(map(lambda x: (1, x.lower()), [box]))
return box
### exact: a sum of a map
box = Box("FULL")
return sum(map(lambda x: x.lower(), [box])), box
### exact: any of a map
box = Box("FULL")
return any(map(lower, [box])), box
### exact: a filter
box = Box("FULL")
return list(filter(lower, [box])) == [box], box
### exact: the key of a sort
box = Box("FULL")
sorted([box], key=lambda x: x.lower())
return box
### exact: the key of a maximum
box = Box("FULL")
max([box], key=lambda x: x.lower())
return box
### exact: the key of a list's sort
box = Box("FULL")
rows = [box]
rows.sort(key=lambda x: x.lower())
return box
### exact: a reduction
import functools
box = Box("FULL")
functools.reduce(lambda x, y: lower(y), [1, box])
return box
### exact: a reduction with a start
import functools
box = Box("FULL")
return functools.reduce(lambda x, y: x + y.lower(), [box], 1), box
### a key over an unknown number of rows
box = Box("FULL")
max([box for _ in range(b or 1)], key=lambda x: x.lower())
return box
### a sort of an unknown number of rows
box = Box("FULL")
sorted([box for _ in range(b or 1)], key=lambda x: x.lower())
return box
### a reduction of an unknown number of rows
import functools
box = Box("FULL")
functools.reduce(lambda x, y: lower(box), [box for _ in range((b or 0) + 2)])
return box
### itertools
import itertools
box, other, third = Box("FULL"), Box("FULL"), Box("FULL")
list(itertools.starmap(lower, [(box,)]))
list(itertools.chain(map(lower, [other])))
list(itertools.takewhile(lower, [third]))
return box, other, third
### exact: stored through the dict
box = Box("FULL")
box.__dict__["mode"] = "LAST"
return box
### exact: stored through vars
box = Box("FULL")
vars(box)["mode"] = "LAST"
return box
### exact: the dict is updated
box = Box("FULL")
box.__dict__.update({"mode": "LAST"}, other=1)
return box
### exact: vars are updated
box = Box("FULL")
vars(box).update(mode="LAST")
return box
### exact: the dict is a live view
box = Box("FULL")
held = box.__dict__
held["mode"] = "LAST"
box.other = 3
return box, held["mode"], held["other"], "mode" in held, held.get("none", 4), held.get("other"), len(held)
### exact: what the dict holds
box = Box("FULL")
return list(box.__dict__), [*vars(box).items()], dict(vars(box)), sorted(box.__dict__.values())
### exact: popped from the dict
box = Box("FULL")
held = vars(box).pop("mode")
return hasattr(box, "mode"), held, vars(box).pop("mode", 3)
### exact: the dict's defaults
box = Box("FULL")
vars(box).setdefault("mode", "LAST")
vars(box).setdefault("more", "LAST")
return box
### exact: deleted from the dict
box = Box("FULL")
del box.__dict__["mode"]
return hasattr(box, "mode")
### the dict is replaced
box = Box("FULL")
box.__dict__ = {"mode": "LAST"}
return box
### the dict under an unknown key
box = Box("FULL")
box.__dict__["mode" if a else "other"] = "LAST"
return box
### the dict is updated by something unknown
box = Box("FULL")
box.__dict__.update(**{("mode" if b else "none"): "LAST"})
return box.mode
### the dict given away
box = Box("FULL")
def put(d, k, v):
    d[k] = v
put(vars(box), "mode", "LAST")
return box
### the dicts of two
x, y = Box("FULL"), Box("FULL")
(x if a else y).__dict__["mode"] = "LAST"
return x, y
### a copy by way of the dict
x, y = Box("FULL"), Box("LAST")
x.__dict__.update(y.__dict__)
return x, y
### a copy of the dict
x, y = Box("FULL"), Box("LAST")
x.__dict__ = y.__dict__.copy()
y.mode = "NULL"
return x, y
### the dict is merged in place
x = Box("FULL")
x.__dict__ |= {"mode": "LAST"}
return x
### exact: object's own setter
box = Box("FULL")
object.__setattr__(box, "mode", "LAST")
return box
### exact: the type's own setter
box = Box("FULL")
type(box).__setattr__(box, "mode", "LAST")
return box
### exact: the class's own setter
box = Box("FULL")
Box.__setattr__(box, "mode", "LAST")
return box
### exact: the object's own setter
box = Box("FULL")
box.__setattr__("mode", "LAST")
return box
### exact: object's own setter by keyword names
box = Box("FULL")
for name in ("mode", "other"):
    object.__setattr__(box, name, "LAST")
return box
### object's own setter with a name that is not known
box = Box("FULL")
object.__setattr__(box, "mode" if a else "other", "LAST")
return box
### object's own deletion
box = Box("FULL")
object.__delattr__(box, "mode")
return hasattr(box, "mode")
### exact: object's own getter
box = Box("LAST")
return object.__getattribute__(box, "mode"), getattr(box, "mode")
### exact: a record's own setter in its own constructor
import dataclasses
@dataclasses.dataclass
class Row:
    mode: str
    size: int = 3
    def __setattr__(self, name, value):
        if name == "mode":
            value = "LAST"
        object.__setattr__(self, name, value)
return Row("FULL"), Row(mode="FULL", size=2)
### exact: a record's inherited setter
import dataclasses
class Base:
    def __setattr__(self, name, value):
        super().__setattr__(name, "LAST" if name == "mode" else value)
@dataclasses.dataclass
class Row(Base):
    mode: str
row = Row("FULL")
row.size = 3
return row
### exact: a record's property
import dataclasses
@dataclasses.dataclass
class Row:
    size: int
    mode: str = "FULL"
    def __post_init__(self):
        self.mode = "LAST"
return Row(3)
### exact: setter of a property
class Row:
    def __init__(self):
        self.mode = "FULL"
    @property
    def mode(self):
        return self._mode
    @mode.setter
    def mode(self, value):
        self._mode = "LAST"
return Row().mode
### exact: setter of an inherited property
class Base:
    def __init__(self):
        self._mode = "FULL"
    @property
    def mode(self):
        return self._mode
    @mode.setter
    def mode(self, value):
        self._mode = value
class Row(Base):
    @Base.mode.setter
    def mode(self, value):
        self._mode = "LAST"
row = Row()
row.mode = "FULL"
return row.mode
### exact: a property's own functions
class Row:
    def __init__(self):
        self._mode = "FULL"
    @property
    def mode(self):
        return self._mode
    @mode.setter
    def mode(self, value):
        self._mode = value
row = Row()
Row.mode.fset(row, "LAST")
return Row.mode.fget(row)
### exact: a property through super
class Base:
    def __init__(self):
        self._mode = "FULL"
    @property
    def mode(self):
        return self._mode
    @mode.setter
    def mode(self, value):
        self._mode = value
class Row(Base):
    @property
    def mode(self):
        return super().mode
    @mode.setter
    def mode(self, value):
        super(Row, type(self)).mode.fset(self, "LAST")
row = Row()
row.mode = "FULL"
return row.mode
### exact: the deleter of a property
class Row:
    def __init__(self):
        self._mode = "FULL"
    @property
    def mode(self):
        return self._mode
    @mode.deleter
    def mode(self):
        self._mode = "LAST"
row = Row()
del row.mode
return row.mode
### exact: a descriptor
class Slot:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, row, owner):
        return getattr(row, self.name)
    def __set__(self, row, value):
        setattr(row, self.name, "LAST")
class Row:
    mode = Slot()
row = Row()
row.mode = "FULL"
return row.mode
### exact: a descriptor's deletion
class Slot:
    def __get__(self, row, owner):
        return row.other
    def __set__(self, row, value):
        row.other = value
    def __delete__(self, row):
        row.other = "LAST"
class Row:
    mode = Slot()
row = Row()
row.mode = "FULL"
del row.mode
return row.mode
### exact: a descriptor that only gives
class Slot:
    def __get__(self, row, owner):
        return "LAST"
class Row:
    mode = Slot()
row, other = Row(), Row()
row.mode = "FULL"
return row.mode, other.mode
### exact: a descriptor before the instance
class Slot:
    def __get__(self, row, owner):
        return "LAST"
    def __set__(self, row, value):
        pass
class Row:
    mode = Slot()
row = Row()
row.__dict__["mode"] = "FULL"
return row.mode
### exact: a descriptor as a decorator
class lazily:
    def __init__(self, function):
        self.function = function
    def __get__(self, row, owner):
        return self.function(row)
class Row:
    @lazily
    def mode(self):
        return "LAST"
return Row().mode
### exact: the attribute of a class
class Row:
    mode = "FULL"
row = Row()
Row.mode = "LAST"
return row.mode, Row.mode
### exact: a method replaced
class Row:
    def run(self):
        return "FULL"
row = Row()
Row.run = lambda self: "LAST"
return row.run()
### exact: a method replaced by name
class Row:
    def run(self):
        return "FULL"
row = Row()
setattr(Row, "run", lambda self: "LAST")
return row.run()
### exact: a method of one object
class Row:
    def run(self):
        return "FULL"
row, other = Row(), Row()
row.run = lambda: "LAST"
return row.run(), other.run()
### exact: a method bound by hand
import types
class Row:
    def run(self):
        return "FULL"
row = Row()
row.mode = "LAST"
row.run = types.MethodType(lambda self: self.mode, row)
return row.run()
### exact: the class of an object is replaced
class Row:
    def run(self):
        return "FULL"
class Other:
    def run(self):
        return "LAST"
row = Row()
row.__class__ = Other
return row.run()
### exact: a hook for what is read
class Row:
    def __init__(self):
        self.size = 3
    def __getattribute__(self, name):
        if name == "mode":
            return "LAST"
        return object.__getattribute__(self, name)
row = Row()
row.mode = "FULL"
return row.mode, row.size
### exact: a method of the type
box = Box("FULL")
Box.lower(box)
return box
### unpacked arguments that are not known
def put(box, mode="FULL"):
    box.mode = mode
box = Box("FULL")
put(box, *(["LAST"] if a else []))
return box
### unpacked arguments of unknown number
def put(*boxes):
    for x in boxes:
        x.mode = "LAST"
box = Box("FULL")
put(*[box for _ in range(b or 1)])
return box
### unpacked keywords that are not known
def put(box, **values):
    for k, v in values.items():
        setattr(box, k, v)
box = Box("FULL")
put(box, **{("mode" if a else "other"): "LAST"})
return box
### an exit stack
import contextlib
box = Box("FULL")
@contextlib.contextmanager
def lowered():
    box.mode = "LAST"
    yield
    box.other = 3
with contextlib.ExitStack() as stack:
    stack.enter_context(lowered())
    seen = box.mode
return seen, box.mode
### an exit stack of classes
import contextlib
class Lowered:
    def __init__(self, box):
        self.box = box
    def __enter__(self):
        self.box.mode = "LAST"
        return self.box
    def __exit__(self, *error):
        self.box.mode = "NULL"
box = Box("FULL")
with contextlib.ExitStack() as stack:
    inner = stack.enter_context(Lowered(box))
    seen = inner.mode
return seen, box, inner is box
### the callbacks of an exit stack
import contextlib
box, other, third = Box("FULL"), Box("FULL"), Box("FULL")
class Lowered:
    def __exit__(self, *error):
        third.mode = "LAST"
with contextlib.ExitStack() as stack:
    stack.callback(box.lower)
    stack.callback(lower, other)
    stack.push(Lowered())
return box, other, third
### an exit stack that is closed by hand
import contextlib
box = Box("FULL")
stack = contextlib.ExitStack()
stack.callback(box.lower)
stack.close()
return box
### an exit stack in an attribute
import contextlib
box = Box("FULL")
class Owner:
    def __init__(self):
        self.stack = contextlib.ExitStack()
owner = Owner()
with owner.stack:
    owner.stack.callback(box.lower)
return box
### an exit stack that swallows
import contextlib
box = Box("LAST")
with contextlib.ExitStack() as stack:
    stack.enter_context(contextlib.suppress(KeyError))
    {}["target"]
    box.mode = "FULL"
return box
### closing
import contextlib
class Lowered(Box):
    def close(self):
        self.mode = "LAST"
box = Lowered("FULL")
with contextlib.closing(box) as same:
    seen = same.mode
return seen, box
### an exception group of managers
import contextlib
box = Box("FULL")
with contextlib.nullcontext(box) as same, contextlib.suppress(KeyError):
    same.mode = "LAST"
return box
### a decorator that is a manager
import contextlib
box = Box("FULL")
@contextlib.contextmanager
def lowered():
    box.mode = "LAST"
    yield
@lowered()
def run():
    return box.mode
return run(), box
### a manager as a decorator
import contextlib
box = Box("FULL")
class Lowered(contextlib.ContextDecorator):
    def __enter__(self):
        box.mode = "LAST"
    def __exit__(self, *error):
        return False
@Lowered()
def run():
    return box.mode
return run(), box
### a method by name
import operator
box = Box("FULL")
operator.methodcaller("lower")(box)
return box
### exact: an attribute by name
import operator
box = Box("LAST")
return operator.attrgetter("mode")(box), operator.itemgetter(1)([2, 3])
### an item by name
import operator
box = Box("FULL")
operator.setitem(box.__dict__, "mode", "LAST")
return box
### a thread
import threading
box, other = Box("FULL"), Box("FULL")
thread = threading.Thread(target=lower, args=(box,))
thread.start(); thread.join()
thread = threading.Thread(target=other.lower)
thread.start(); thread.join()
return box, other
### a thread of one's own
import threading
class Own(threading.Thread):
    def __init__(self, box):
        super().__init__()
        self.box = box
    def run(self):
        self.box.mode = "LAST"
box = Box("FULL")
own = Own(box)
own.start(); own.join()
return box
### an executor
from concurrent.futures import ThreadPoolExecutor
box, other, third = Box("FULL"), Box("FULL"), Box("FULL")
with ThreadPoolExecutor(1) as executor:
    executor.submit(lower, box).result()
    list(executor.map(lower, [other]))
    executor.submit(third.lower).result()
return box, other, third
### what an executor gives
from concurrent.futures import ThreadPoolExecutor
box = Box("FULL")
def wanted():
    return "LAST"
with ThreadPoolExecutor(1) as executor:
    box.mode = executor.submit(wanted).result()
return box
### a partial that is handed over
import functools
from concurrent.futures import ThreadPoolExecutor
box = Box("FULL")
with ThreadPoolExecutor(1) as executor:
    executor.submit(functools.partial(lower, box)).result()
return box
### a callback that raises
import atexit
box = Box("FULL")
def fail():
    box.mode = "LAST"
    raise ValueError
atexit.register(fail)
atexit.unregister(fail)
return box.mode
### a callable object that is handed over
from concurrent.futures import ThreadPoolExecutor
class Lower:
    def __call__(self, box):
        box.mode = "LAST"
box = Box("FULL")
with ThreadPoolExecutor(1) as executor:
    executor.submit(Lower(), box).result()
return box
### a substitution
import re
box = Box("FULL")
re.sub("x", lambda m: box.lower() and "y", "x")
return box
### a class that is handed over
from concurrent.futures import ThreadPoolExecutor
class Lower:
    def __init__(self, box):
        box.mode = "LAST"
box = Box("FULL")
with ThreadPoolExecutor(1) as executor:
    executor.submit(Lower, box).result()
return box
### a function by its name
box = Box("FULL")
globals()["lower"](box)
return box
### a function by its name, asked for
box = Box("FULL")
globals().get("lower")(box)
return box
### a global that is stored by name
globals()["MODE"] = "LAST"
return MODE
### exec of a text
box = Box("FULL")
exec("box.mode = 'LAST'")
return box
### exec of a text with names
box = Box("FULL")
exec("x.mode = 'LAST'", {"x": box})
return box
### exec of a text that reaches further
box = Box("FULL")
held = {"row": [(1, box)]}
exec("held['row'][0][1].mode = 'LAST'")
return box
### eval of a text
box = Box("FULL")
eval("box.lower()")
return box
### eval of a text that gives
box = Box("FULL")
box.mode = eval("'LA' + 'ST'")
return box
### a recursion without an end
box = Box("FULL")
def walk(box, n):
    if n == 0:
        box.mode = "LAST"
        return "LAST"
    return walk(box, n - 1)
return walk(box, 12), box
### a recursion that never ends
def walk(box):
    walk(box)
    box.mode = "FULL"
    return "FULL"
try:
    return walk(Box("FULL"))
except RecursionError:
    return "LAST"
### a recursion that a raise ends
def walk(n):
    if n == 0:
        raise KeyError
    return walk(n - 1)
try:
    return walk(12)
except KeyError:
    return "LAST"
### a recursion of a method
class Row(Box):
    def walk(self, n):
        if n:
            self.walk(n - 1)
        else:
            self.lower()
row = Row("FULL")
row.walk(9)
return row
### a recursion that lowers what it closes over
box = Box("FULL")
def walk(n):
    if n:
        return walk(n - 1)
    box.mode = "LAST"
walk(9)
return box
### a class that is made at run time
Row = type("Row", (Box,), {"run": lambda self: self.lower()})
box = Row("FULL")
box.run()
return box.mode
### exact: a class that is extended at run time
class Row(Box):
    pass
for name in ("run",):
    setattr(Row, name, Box.lower)
box = Row("FULL")
box.run()
return box
### a weak reference
import weakref
box = Box("FULL")
weakref.ref(box)().mode = "LAST"
return box
### a proxy
import weakref
box = Box("FULL")
weakref.proxy(box).mode = "LAST"
return box
### exact: a wrapped method
class Proxy:
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
    def __setattr__(self, name, value):
        if name == "inner":
            object.__setattr__(self, name, value)
        else:
            setattr(self.inner, name, "LAST")
box = Box("FULL")
Proxy(box).mode = "NULL"
Proxy(box).lower
return box
### exact: a manager on a method
import contextlib
class Row:
    def __init__(self):
        self.mode = "FULL"
    @contextlib.contextmanager
    def lowered(self):
        self.mode = "LAST"
        yield 3
    def run(self):
        with self.lowered() as n:
            return self.mode, n
return Row().run()
### a manager as a decorator of a method
import contextlib
@contextlib.contextmanager
def lowered():
    yield
class Row(Box):
    @lowered()
    def run(self, n):
        self.mode = "LAST"
        return n
box = Row("FULL")
return box.run(3), box
### the rest of a generator
box = Box("FULL")
def rows():
    yield 1
    box.mode = "LAST"
    yield 2
    yield 3
g = rows()
next(g)
next(g)
return box
### the rest of a generator in a loop
box = Box("FULL")
def rows():
    yield 1
    box.mode = "LAST"
    yield 2
g = rows()
next(g)
for x in g:
    pass
return box
### a generator that is given away
import collections, itertools
box = Box("FULL")
def rows():
    yield box.lower()
for x in itertools.islice(rows(), 3):
    pass
return box
### a list of rows for an executor
import concurrent.futures
box = Box("FULL")
with concurrent.futures.ThreadPoolExecutor(1) as executor:
    list(executor.map(lower, [box, box]))
return box
### a single dispatch
import functools
@functools.singledispatch
def run(x):
    return "FULL"
@run.register
def _(x: Box):
    x.mode = "LAST"
    return "LAST"
box = Box("FULL")
return run(box), box
### a wrapper that is reached
import functools
def outer(f):
    @functools.wraps(f)
    def inner(box):
        box.mode = "LAST"
        return f(box)
    return inner
@outer
def run(box):
    return box.mode
box = Box("FULL")
return run(box), run.__wrapped__(box)
### a generator that is closed
box = Box("FULL")
def rows():
    try:
        yield 1
    finally:
        box.mode = "LAST"
g = rows()
next(g)
g.close()
return box
### a generator that is sent to
box = Box("FULL")
def rows():
    x = yield 1
    x.mode = "LAST"
    yield 2
g = rows()
next(g)
g.send(box)
return box
### an asynchronous call
import asyncio
box = Box("FULL")
async def run():
    box.mode = "LAST"
asyncio.run(run())
return box
### augmented on a descriptor
class Row:
    def __init__(self):
        self._mode = "LA"
    @property
    def mode(self):
        return self._mode
    @mode.setter
    def mode(self, value):
        self._mode = value
row = Row()
row.mode += "ST"
return row.mode
### the state of a pickle
class Row(Box):
    def __setstate__(self, state):
        self.mode = "LAST"
import copy
return copy.copy(Row("FULL")), copy.deepcopy(Row("FULL"))
### a replaced record
import dataclasses
@dataclasses.dataclass
class Row:
    mode: str
    def __setattr__(self, name, value):
        object.__setattr__(self, name, "LAST" if name == "mode" else value)
return dataclasses.replace(Row("FULL"), mode="FULL")
"""


def _programs() -> dict[str, str]:
    found: dict[str, str] = {}
    for part in _TEXT.split("\n### ")[1:]:
        title, body = part.split("\n", 1)
        lines = dedent(body).splitlines()
        imports = [line for line in lines if line.startswith(("import ", "from "))]
        rest = "\n".join(line for line in lines if line not in imports)
        found[title] = "\n".join(imports) + _BOX + "\n\ndef main(a, b, c):\n" + indent(rest, "    ")
    return found


PROGRAMS = _programs()
"""Those that begin with "exact" are known as well as CPython knows them."""


@pytest.mark.parametrize("title", PROGRAMS)
def test_what_cpython_leaves_is_not_ruled_out(title: str) -> None:
    source = PROGRAMS[title]
    outcomes = PYTHON.run(source, INPUTS)
    assert not [o["broken"] for o in outcomes if "broken" in o], outcomes
    store = SyntaxStore(MemoryTree({"program.py": source}))  # type: ignore[arg-type]

    def work() -> None:
        free: list[Value] = [Unknown(p, key=p) for p in PARAMETERS]
        runs: list[tuple[list[Value], list[int]]] = [(free, list(range(len(INPUTS))))]
        runs += [([Known(x) for x in INPUTS[i]], [i]) for i in (0, 1)]
        for given, covered in runs:
            abstract = interpret(store, given, TRACKED)
            for i in covered:
                wrong = covers(abstract, outcomes[i], dict(zip(PARAMETERS, INPUTS[i], strict=True)))
                assert wrong is None, f"main{INPUTS[i]} given {given}: {wrong}\n{numbered(source)}"

    deeply(work)


@pytest.mark.parametrize("title", [title for title in PROGRAMS if title.startswith("exact")])
def test_what_is_plain_is_known(title: str) -> None:
    check_exact(PROGRAMS[title], INPUTS[0])


def _main(files: dict[str, str]) -> Value | None:
    """What ``main()`` of ``pkg.program`` gives in a tree of several modules."""
    store = SyntaxStore(MemoryTree(files))  # type: ignore[arg-type]
    it = Interpreter(Program(store), Config(tracked=TRACKED))
    module = it.program.module("pkg.program")
    assert module is not None
    names.apply_patches(it)
    main = names.global_value(it, module, "main", it.base_state)
    assert main is not None
    return calls.call(it, main, [], {}, State(it.base), None, it.module_frame(module))


ROW = "class Row:\n    def run(self):\n        return 'FULL'\n\n\ndef run():\n    return 'FULL'\n"


@pytest.mark.parametrize(
    "patch",
    [
        "from pkg.row import Row\n\n\ndef lowered(self):\n    return 'LAST'\n\n\nRow.run = lowered\n",
        "import pkg.row\n\npkg.row.Row.run = lambda self: 'LAST'\n",
        "from pkg import row\n\nrow.Row.run = lambda self: 'LAST'\n",
        "from pkg.row import Row\n\nsetattr(Row, 'run', lambda self: 'LAST')\n",
    ],
)
def test_a_patch_of_another_module_is_seen(patch: str) -> None:
    program = "import pkg.patch\nfrom pkg.row import Row\n\n\ndef main():\n    return Row().run()\n"
    assert _main({"program.py": program, "row.py": ROW, "patch.py": patch}) == Known("LAST")


def test_a_patch_that_nothing_imports_is_no_part_of_the_run() -> None:
    program = "from pkg.row import Row\n\n\ndef main():\n    return Row().run()\n"
    patch = "from pkg.row import Row\n\nRow.run = lambda self: 'LAST'\n"
    assert _main({"program.py": program, "row.py": ROW, "patch.py": patch}) == Known("FULL")


def test_a_patched_function_of_a_module_is_seen() -> None:
    program = "from pkg import patch, row\n\n\ndef main():\n    return row.run()\n"
    patch = "from pkg import row\n\nrow.run = lambda: 'LAST'\n"
    assert _main({"program.py": program, "row.py": ROW, "patch.py": patch}) == Known("LAST")


def test_an_import_is_not_cut_short_by_the_budget_of_a_call() -> None:
    row = "def size(n):\n    return n * 2\n\n\nWANTED, SIZES = 'FULL', [size(n) for n in range(9)]\n"
    it = Interpreter(Program(SyntaxStore(MemoryTree({"row.py": row}))), Config(tracked=TRACKED))  # type: ignore[arg-type]
    module = it.program.module("pkg.row")
    assert module is not None
    it.budgets.append(it.steps + 5)
    assert names.global_value(it, module, "WANTED", it.base_state) == Known("FULL")
    assert it.budgets[0] > it.steps  # and the call has left of its own what it had


@pytest.mark.parametrize("how", ["importlib.import_module('pkg.row')", "__import__('pkg.row').row"])
def test_a_module_by_its_name_is_that_module(how: str) -> None:
    program = f"import importlib\n\n\ndef main():\n    return {how}.run()\n"
    assert _main({"program.py": program, "row.py": ROW}) == Known("FULL")
