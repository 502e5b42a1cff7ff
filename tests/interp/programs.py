"""Small programs, one construct each, whose outcome the interpreter must know exactly. All define ``main(a, b, c)``.

They are called with ``a=True, b=2, c=None``. A program that starts with ``return`` or has no ``def main`` is its body.
"""

from __future__ import annotations

from textwrap import dedent, indent

_TEXT = """
### assignment
x = y = b
x, (y, *z), w = 1, (2, 3, 4), x
return x, y, z, w
### augmented
x = b
x += 3; x -= 1; x *= 4; x //= 3; x %= 4; x **= 2; x <<= 2; x |= 1; x &= 7; x ^= 2
return x
### augmented alias
x = [1]; y = x
x += [2]
y.append(3)
z = x
z = z + [4]
return x, y, z
### augmented parts
class C: pass
o = C(); o.n = 1; o.l = []
p = o.l
o.n += 4; o.l += [1]
d = {"k": 1, "l": p}
d["k"] += 1; d["l"] += [2]
l = [1, 2, 3]
l[1] += 5
l[0:1] += [7]
return o, p, d, l
### elif
if b == 1:
    x = "one"
elif b == 2:
    x = "two"
else:
    x = "many"
return x
### while
n, seen = b, []
while n < 6:
    n += 1
    if n == 4:
        continue
    seen.append(n)
else:
    seen.append("end")
return n, seen
### while break
n = 0
while True:
    n += 1
    if n > 4:
        break
else:
    n = -1
return n
### for else
out = []
for i in range(3):
    for j in range(3):
        if j == i:
            break
        out.append((i, j))
    else:
        out.append(i)
else:
    out.append("else")
return out, i, j
### for targets
out = []
for k, (v, *w) in {"x": (1, 2, 3)}.items():
    out.append((k, v, w))
return out
### try
out = []
try:
    out.append(1)
    raise ValueError("no")
except (KeyError, ValueError) as e:
    out.append(2)
else:
    out.append(3)
finally:
    out.append(4)
return out
### try else
out = []
try:
    out.append(1)
except ValueError:
    out.append(2)
else:
    out.append(3)
finally:
    out.append(4)
return out
### nested try
out = []
try:
    try:
        {}["k"]
    except ValueError:
        out.append("never")
    finally:
        out.append("inner")
except LookupError:
    out.append("outer")
return out
### finally return
def f():
    try:
        return 1
    finally:
        return 2
return f()
### finally order
out = []
def f():
    try:
        out.append("body")
        return len(out)
    finally:
        out.append("finally")
return f(), out
### finally loop
out = []
for i in range(4):
    try:
        if i == 1:
            continue
        if i == 3:
            break
        out.append(i)
    finally:
        out.append("f")
return out
### user exception
class Base(Exception): pass
class Mine(Base):
    def __init__(self, code):
        super().__init__(code)
        self.code = code
try:
    raise Mine(b)
except Base as e:
    return e.code
### uncaught
class Mine(Exception): pass
def f():
    raise Mine
f()
### reraise
out = []
try:
    try:
        raise KeyError("k")
    except KeyError:
        out.append(1)
        raise
except LookupError:
    out.append(2)
return out
### exception in handler
try:
    try:
        raise KeyError("k")
    except KeyError as e:
        raise ValueError("v") from e
except ValueError:
    return "v"
### exception name unbound
e = 1
try:
    raise KeyError
except KeyError as e:
    pass
return e
### unbound local
def f():
    if not a:
        x = 1
    return x
return f()
### assert
assert b == 1, "no"
### closure
def counter():
    n = 0
    def step(by=1):
        nonlocal n
        n += by
        return n
    return step
f, g = counter(), counter()
return f(), f(2), g(), f()
### closure of loop variable
fs = []
for i in range(3):
    fs.append(lambda: i)
gs = [lambda j=j: j for j in range(3)]
hs = [lambda: j for j in range(3)]
return [f() for f in fs], [g() for g in gs], [h() for h in hs]
### global
TOTAL = 1
SEEN = []
def bump():
    global TOTAL
    TOTAL += 1
    SEEN.append(TOTAL)
    return TOTAL
def main(a, b, c):
    return bump(), bump(), TOTAL, SEEN
### defaults
def f(x, y=2, *args, k=3, **kw):
    return x, y, args, k, kw
return f(1), f(1, 5, 6, 7, k=8, z=9), f(*[1, 2, 3], **{"k": 4, "q": 5})
### mutable default
def f(x, into=[]):
    into.append(x)
    return into
p = f(1)
q = f(2)
return p, q, p is q, f(3, [])
### positional only
def f(x, /, y, *, z):
    return x, y, z
try:
    f(x=1, y=2, z=3)
except TypeError:
    return f(1, y=2, z=3)
### recursion
def f(n):
    return 1 if n == 0 else n * f(n - 1)
return f(2)
### displays
x = [1, 2]
t = (0, *x, 3)
d = {"a": 1, **{"b": 2, "a": 3}}
s = {1, True, 1.0}
return t, [*x, *t], d, s, len(s)
### comprehensions
xs = [x * y for x in range(3) if x for y in range(2)]
d = {k: v for k, v in zip("ab", range(2))}
s = {x % 2 for x in range(4)}
return xs, d, len(s), sum(x for x in xs), [x for x in range(3)]
### comprehension scope
x = 7
ys = [x for x in range(2)]
zs = [(last := y) for y in ys]
return x, ys, zs, last
### slices
x = [0, 1, 2, 3, 4]
y = x[1:4]
x[1:3] = ["a"]
del x[0]
t = (1, 2, 3)
return x, y, x[-1], t[::-1], t[:2], "hello"[1:3]
### delete
d = {"a": 1, "b": 2}
del d["a"]
l = [1, 2, 3]
del l[1]
class C: pass
o = C(); o.x = 1; o.y = 2
del o.x
return d, l, o, hasattr(o, "x")
### walrus
if (n := b + 1) > 2:
    return n
### conditional expression
return (1 if a else 2), (b if c is None else c), ("x" if not a else "y")
### chained comparison
calls = []
def f(x):
    calls.append(x)
    return x
return f(1) < f(3) < f(2) < f(9), calls, 1 < b <= 2 != 5
### boolean operands
return (0 or [] or "x"), (1 and 2 and 0 and 3), (c or b), (a and b), not b
### short circuit
out = []
def f(x):
    out.append(x)
    return x
f(0) or f(1) or f(2)
f(1) and f(0) and f(3)
return out
### identity
x = [1]
y = x
z = [1]
return x is y, x is z, x == z, None is c, x is not None, True is a
### membership
return 1 in [1, 2], 3 not in (1, 2), "k" in {"k": 1}, "el" in "hello", 2.0 in {2}
### dict keys
d = {1: "a"}
d[True] = "b"
d[1.0] = "c"
d["1"] = "d"
return d, len(d)
### dict methods
d = {"x": 1}
l = d.setdefault("l", [])
l.append(2)
d.update(y=3, z=4)
d.update({"x": 9})
p = d.pop("y")
e = d.copy()
e["x"] = 0
return d, p, d.get("q"), d.get("x", 5), list(d), list(d.values()), e, d.pop("no", None)
### list methods
l = [3, 1, 2]
l.append(4); l.extend((5, 6)); l.insert(0, 0); l.remove(5)
p = l.pop(); q = l.pop(0)
l.sort()
l.reverse()
return l, p, q, l.index(1), l.count(2), l.copy() == l
### set methods
s = {1, 2}
s.add(3); s.discard(1); s |= {4}
return len(s), 3 in s, 1 in s, s & {2}, s - {2, 3, 4}
### string methods
s = "a,b"
return s.split(","), s.upper(), "-".join(["x", "y"]), s.startswith("a"), f"{s}!{b}", s.replace(",", ""), s + "c", s * 2
### class
class A:
    kind = "a"
    def __init__(self, x):
        self.x = x
    def get(self):
        return self.kind, self.x
class B(A):
    kind = "b"
    def __init__(self, x, y):
        super().__init__(x)
        self.y = y
    def get(self):
        return (*super().get(), self.y)
o = B(1, 2)
m = o.get
o.x = 5
o.kind = "mine"
return o, m(), B.kind, A.get(o), isinstance(o, A), type(o) is B, issubclass(B, A)
### multiple inheritance
class A:
    def f(self): return ["A"]
class B(A):
    def f(self): return ["B", *super().f()]
class C(A):
    def f(self): return ["C", *super().f()]
class D(B, C):
    def f(self): return ["D", *super().f()]
return D().f(), [k.__name__ for k in D.__mro__[:4]]
### property
class P:
    def __init__(self):
        self._x = 0
        self.log = []
    @property
    def x(self):
        self.log.append("get")
        return self._x
    @x.setter
    def x(self, v):
        self.log.append("set")
        self._x = v
    @property
    def fixed(self):
        return 3
o = P()
o.x = 4
o.x += 1
try:
    o.fixed = 1
except AttributeError:
    o.log.append("no")
return o, o.fixed
### class and static methods
class C:
    made = 0
    @classmethod
    def make(cls, n=1):
        cls.made += n
        return cls()
    @staticmethod
    def double(x):
        return x * 2
class D(C): pass
o = D.make()
p = C.make(5)
return type(o).__name__, D.made, C.made, o.double(4), C.double(b)
### class attribute shared
class C:
    shared = []
    count = 0
x, y = C(), C()
x.shared.append(1)
x.count += 1
return x.shared is y.shared, C.shared, x.count, y.count, C.count
### equality
class E:
    def __init__(self, n): self.n = n
    def __eq__(self, other): return isinstance(other, E) and self.n == other.n
    def __hash__(self): return hash(self.n)
return E(1) == E(1), E(1) != E(2), E(1) in [E(1)], len({E(1): 1, E(1): 2})
### truth
class T:
    def __init__(self, n): self.n = n
    def __bool__(self): return self.n > 0
class L:
    def __len__(self): return 0
return bool(T(0)), bool(T(1)), not L(), (T(0) or 5), (1 if L() else 2)
### getattr fallback
class G:
    x = 1
    def __getattr__(self, name):
        if name == "no":
            raise AttributeError(name)
        return name + "!"
o = G()
return o.x, o.y, getattr(o, "no", "default"), hasattr(o, "no"), hasattr(o, "z")
### setattr hook
class S:
    def __init__(self):
        object.__setattr__(self, "log", [])
    def __setattr__(self, name, value):
        self.log.append(name)
        super().__setattr__(name, value)
o = S()
o.x = 1
setattr(o, "y", 2)
return o
### getattr setattr
class C: pass
o = C()
setattr(o, "x", 1)
for n in ("p", "q"):
    setattr(o, n, n)
delattr(o, "q")
return getattr(o, "x"), getattr(o, "z", 9), hasattr(o, "p"), o
### call and item methods
class C:
    def __init__(self): self.d = {}
    def __call__(self, x): return x + 1
    def __getitem__(self, k): return self.d[k]
    def __setitem__(self, k, v): self.d[k] = v
    def __contains__(self, k): return k in self.d
    def __len__(self): return len(self.d)
    def __iter__(self): return iter(self.d)
o = C()
o["a"] = 1
return o(1), o["a"], "a" in o, "b" in o, len(o), list(o)
### arithmetic methods
class V:
    def __init__(self, n): self.n = n
    def __add__(self, o): return V(self.n + (o.n if isinstance(o, V) else o))
    def __radd__(self, o): return V(o + self.n)
    def __lt__(self, o): return self.n < o.n
    def __iadd__(self, o):
        self.n += o
        return self
x = V(1)
y = x
x += 5
return x + V(1), 2 + x, x < V(9), y is x
### with
class M:
    def __init__(self, log, swallow): self.log = log; self.swallow = swallow
    def __enter__(self): self.log.append("in"); return self
    def __exit__(self, kind, value, tb): self.log.append(kind is None); return self.swallow
log = []
with M(log, True) as m, M(log, False):
    log.append(m.swallow)
    raise ValueError
log.append("after")
try:
    with M(log, False):
        raise KeyError
except KeyError:
    log.append("caught")
return log
### with return
class M:
    def __init__(self, log): self.log = log
    def __enter__(self): return 5
    def __exit__(self, *a): self.log.append("out")
log = []
def f():
    for i in range(3):
        with M(log) as v:
            if i == 1:
                return v, i
return f(), log
### contextmanager
from contextlib import contextmanager
@contextmanager
def managed(x, log):
    log.append("in")
    try:
        yield x + 1
    finally:
        log.append("out")
def main(a, b, c):
    log = []
    with managed(b, log) as v:
        log.append(v)
    try:
        with managed(1, log):
            raise KeyError
    except KeyError:
        log.append("caught")
    return log
### contextmanager swallows
from contextlib import contextmanager
@contextmanager
def swallow(log):
    try:
        yield
    except KeyError:
        log.append("swallowed")
def main(a, b, c):
    log = []
    with swallow(log):
        raise KeyError
    log.append("after")
    def f():
        with swallow(log):
            return 7
    return log, f()
### dataclass
from dataclasses import dataclass, field, replace
@dataclass
class P:
    x: int
    y: int = 2
    l: list = field(default_factory=list)
@dataclass
class Q(P):
    z: int = 3
    def __post_init__(self):
        self.l.append(self.z)
def main(a, b, c):
    p, q = P(1), Q(1, z=5)
    p.l.append(0)
    r = replace(p, x=9)
    return p, q, r, P(1) == P(1), P(1) == P(2), r.l is p.l
### frozen dataclass
from dataclasses import dataclass
@dataclass(frozen=True)
class F:
    x: int = 1
def main(a, b, c):
    f = F(b)
    try:
        f.x = 3
    except AttributeError:
        return f, {F(2): "found"}.get(f), f == F(2)
### enum
from enum import Enum, IntEnum, auto
class Color(Enum):
    RED = 1
    BLUE = auto()
    ALSO = 1
    def nice(self):
        return self.name.lower()
class Mode(IntEnum):
    NULL = 0
    LAST = 1
    FULL = 2
def main(a, b, c):
    m = Mode.NULL
    return (Color.RED, Color.BLUE.value, Color.ALSO is Color.RED, Color.RED.nice(), Color["BLUE"], Color(2),
            m or Mode.LAST, max(Mode.LAST, Mode.FULL), min(Mode), Mode.FULL > Mode.LAST, Mode(2), Mode.FULL == 2,
            [x.name for x in Color], Color.RED == 1, Color.RED in (Color.BLUE, Color.RED), {Color.RED: 1}[Color(1)])
### string enum
from enum import Enum
class K(str, Enum):
    A = "a"
    B = "b"
def main(a, b, c):
    return K.A == "a", {"a": 1}[K.A], K("b"), K.A.value, K.A is K("a"), isinstance(K.A, str), K.B.startswith("b")
### enum lookup fails
from enum import Enum
class K(Enum):
    A = 1
def main(a, b, c):
    try:
        K(b)
    except ValueError:
        return K["B"]
### generator
def gen(n):
    for i in range(n):
        yield i
    yield from "ab"
return list(gen(2)), sum(gen(0) if False else [1]), [x for x in gen(1)]
### generator order
log = []
def gen():
    log.append("start")
    yield 1
    log.append("middle")
    yield 2
    log.append("end")
g = gen()
log.append("made")
for x in g:
    log.append(x)
return log
### generator left early
log = []
def gen():
    try:
        yield 1
        log.append("never")
        yield 2
    finally:
        log.append("closed")
for x in gen():
    break
log.append("after")
return log, x
### generator next
def gen():
    yield 1
    yield 2
g = gen()
x = next(g)
y = next(g, 0)
return x, y, next(g, "done")
### generator twice
def gen():
    yield 1
g = gen()
return list(g), list(g)
### generator expression
log = []
def f(x):
    log.append(x)
    return x > 1
return any(f(x) for x in (1, 2, 3)), log
### generator expression late
k = 1
g = (x * k for x in [1, 2])
k = 10
return list(g)
### iterator
it = iter([1, 2, 3])
x = next(it)
y = list(zip("ab", [1, 2, 3])), list(enumerate("x", 5)), list(map(str, [1])), list(reversed([1, 2]))
return x, list(it), list(it), y
### partial
from functools import partial
def f(x, y, z=0):
    return x, y, z
def main(a, b, c):
    g = partial(f, 1, z=5)
    h = partial(g.func, *g.args, **(g.keywords or {}))
    return g(2), g(3, z=4), partial(g, 9)(), h(7), partial(f).keywords
### copy
import copy
class N:
    def __init__(self, l): self.l = l
def main(a, b, c):
    o = N([1, [2]])
    s, d = copy.copy(o), copy.deepcopy(o)
    o.l.append(3)
    o.l[1].append(4)
    t = [o.l, o.l]
    u = copy.deepcopy(t)
    return o, s, d, s.l is o.l, d.l is o.l, u, u[0] is u[1]
### named tuple
from typing import NamedTuple
class P(NamedTuple):
    x: int
    y: int = 5
def main(a, b, c):
    p = P(1)
    u, v = p
    return p.x, u, v, p[1], len(p), p == (1, 5), p._replace(x=3).x
### metaclass registry
REGISTRY = {}
class Meta(type):
    def __new__(mcs, name, bases, namespace):
        cls = super().__new__(mcs, name, bases, namespace)
        REGISTRY[name] = cls
        return cls
class Base(metaclass=Meta):
    def hello(self): return "base"
class Child(Base):
    def hello(self): return "child"
def main(a, b, c):
    return sorted(REGISTRY), REGISTRY["Child"]().hello()
### init subclass
NAMES = []
class Base:
    def __init_subclass__(cls, tag=None, **kw):
        super().__init_subclass__(**kw)
        NAMES.append((cls.__name__, tag))
class X(Base, tag="x"): pass
class Y(X): pass
def main(a, b, c):
    return NAMES
### registry decorator
TABLE = {}
def register(name):
    def wrap(f):
        TABLE[name] = f
        return f
    return wrap
@register("double")
def double(x): return x * 2
@register("triple")
def triple(x): return x * 3
def main(a, b, c):
    return [f(b) for f in TABLE.values()], list(TABLE)
### decorator
def twice(f):
    def inner(*args, **kw):
        return f(*args, **kw), f(*args, **kw)
    return inner
N = [0]
@twice
def tick(by=1):
    N[0] += by
    return N[0]
def main(a, b, c):
    return tick(), tick(by=5)
### match
def f(v):
    match v:
        case 0 | 1:
            return "small"
        case [x, y]:
            return x, y
        case [x, *rest]:
            return x, rest
        case {"k": x}:
            return "k", x
        case str():
            return "text"
        case None:
            return "none"
        case int(n) if n > 5:
            return "big", n
        case _:
            return "other"
return [f(v) for v in (0, 1, [1, 2], (1, 2, 3), {"k": 4}, "s", None, 7, 3)]
### match class
class P:
    __match_args__ = ("x", "y")
    def __init__(self, x, y): self.x, self.y = x, y
def f(p):
    match p:
        case P(0, y):
            return "axis", y
        case P(x=1, y=y):
            return "one", y
        case P():
            return "point"
return f(P(0, 1)), f(P(1, 2)), f(P(2, 2))
### conversions
x = int("3"), str(5), float(2), bool([]), list("ab"), tuple([1]), abs(-3), max(1, 3), min([4, 2]), sum([1, 2])
return x, len("abc"), 7 // 2, 7 % 3, -7 // 2, 2 ** 5, 1 / 2
### errors
out = []
first = lambda: 1 / 0, lambda: [][0], lambda: {}["x"], lambda: None.x, lambda: 1 + "a"
for f in (*first, lambda: int("x"), lambda: undefined):
    try:
        f()
    except Exception as e:
        out.append(type(e).__name__)
return out
### cached property
from functools import cached_property
class C:
    n = 0
    @cached_property
    def x(self):
        C.n += 1
        return [1]
def main(a, b, c):
    o = C()
    return o.x is o.x, C.n
### vars of aliases
x = []
d = {"p": x, "q": [x, x]}
d["q"][1].append(1)
y = d["q"].pop()
y.append(2)
return x, d, y is x
### swap
class N: pass
p, q = N(), N()
p.o, q.o = q, p
p, q = q, p
p.name, q.name = "p", "q"
return p, p.o.o is p
### tuple compare
return (1, 2) < (1, 3), (1, 2) == (1, 2), [1] < [2], "a" < "b", (1,) + (2,), [0] * 3
### star call
def f(*args, **kw):
    return args, kw
t = (1, 2)
d = {"x": 3}
return f(*t, 4, **d, y=5)
### lambda defaults
k = 3
f = lambda x, y=k, *z: (x, y, z)
k = 4
return f(1), f(1, 2, 3)
### class in function
def make(n):
    class K:
        value = n
        def get(self): return self.value + n
    return K
return make(1)().get(), make(2)().get(), make(1) is make(1)
### counter
class Counter:
    total = 0
    def __init__(self):
        type(self).total += 1
        self.id = Counter.total
return [Counter().id for _ in range(3)], Counter.total
### descriptors of a record
import dataclasses
class Slot:
    def __set_name__(self, owner, name):
        self.slot = "_" + name
    def __get__(self, instance, owner=None):
        return "default" if instance is None else getattr(instance, self.slot)
    def __set__(self, instance, value):
        setattr(instance, self.slot, ("set", value))
@dataclasses.dataclass
class R:
    n: int
    x: object = Slot()
    y: object = Slot()
one = R(1)
two = R(2, "x", y=3)
two.x = 4
three = dataclasses.replace(two, n=5, y=6)
return R.x, one.x, one.y, two.x, two.y, three.x, three.y, three.n, three._x, sorted(vars(two))
### a property of a record
import dataclasses
@dataclasses.dataclass
class R:
    x: int
    def _get(self):
        return self._x + 1
    def _set(self, value):
        self._x = value * 10
R.x = property(R._get, R._set)
one = R(1)
one.x += 1
return one.x, R(2)._x, dataclasses.replace(one, x=3).x
### metaclass call
import dataclasses
class Base(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.noted = cls.__name__
        return made
class Once(Base):
    kept = {}
    def __call__(cls, *args, **kwargs):
        if cls.__name__ not in Once.kept:
            Once.kept[cls.__name__] = super().__call__(*args, **kwargs)
        return Once.kept[cls.__name__]
class Plain(metaclass=Once):
    def __init__(self, x, y=2):
        self.x, self.y = x, y
@dataclasses.dataclass
class R(metaclass=Base):
    x: int
    y: int = 5
one = Plain(1)
return one is Plain(9), one.x, one.y, one.noted, R(1, y=3), R(2).noted, type.__call__(R, 4).y
### made and initialised
import dataclasses
class Steps(type):
    def __call__(cls, *args, **kwargs):
        made = cls.__new__(cls)
        made.__init__(*args, **kwargs)
        return made
@dataclasses.dataclass
class R(metaclass=Steps):
    x: int
    y: int = 5
class S(R):
    def __init__(self, x):
        super().__init__(x, y=x)
        self.z = self.x + self.y
class T(R):
    def __init__(self):
        R.__init__(self, 7)
one = R(1)
one.__init__(3, 4)
return one.x, one.y, R(y=1, x=2).x, S(3).z, T().x, T().y
### single dispatch
import functools
from enum import IntEnum
class Base: pass
class Box(Base):
    def __init__(self): self.x = 0
class M(IntEnum):
    A = 1
@functools.singledispatch
def run(x, y=0):
    return "any", y
@run.register
def _(x: Base, y=0):
    x.x = y
    return "base", y
@run.register
def _(x: int | None, y=0):
    return "number", y
@run.register(list)
@run.register(str)
def of_rows(x, y=0):
    return "rows", y
run.register(dict, lambda x, y=0: "table")
SAME = run.register(tuple, of_rows) is of_rows
@run.register(object)
def anything(x, y=0):
    return "object", y
def main(a, b, c):
    box = Box()
    return (run(box, 3), box.x, run(1), run(True, y=2), run(M.A), run([1]), run("s"), run({}), run((1,)), run(2.5),
            of_rows(1), SAME, run(()))
### single dispatch of methods
from functools import singledispatchmethod
class Box:
    x = 0
class Marker:
    def __init__(self): self.seen = []
    @singledispatchmethod
    def mark(self, box, how=1):
        self.seen.append("other")
        return None
    @mark.register
    def _(self, box: Box, how=1):
        self.seen.append("box")
        box.x += how
        return box
    @mark.register(type(None))
    def nothing(self, box, how=1):
        self.seen.append("none")
class Loud(Marker):
    def mark(self, box, how=1):
        return super().mark(box, how + 1)
def main(a, b, c):
    box, one, two = Box(), Marker(), Loud()
    same = one.mark(box) is box
    two.mark(box, how=5); one.mark(None); one.mark("s")
    return same, box.x, one.seen, two.seen
### deque
import collections
one, two = [1], [2]
q = collections.deque()
q.append(one); q.append(two); q.appendleft([0])
first = q.popleft()
q.extendleft([7, 8]); q.rotate(1); q.rotate(-1)
one.append("kept")
last = q.pop()
same = q[-1] is one
q.extend("xy")
try:
    collections.deque().popleft()
except IndexError:
    last.append("empty")
return first, last, same, list(q), len(q), bool(q), isinstance(q, list), isinstance(q, collections.deque)
### queue
import queue
q, stack, plain = queue.Queue(), queue.LifoQueue(0), queue.SimpleQueue()
one, two = [1], [2]
for kept in (q, stack, plain):
    kept.put(one)
    kept.put_nowait(two)
got = q.get(), stack.get(block=False), plain.get_nowait()
got[0].append("first"); got[1].append("last")
sizes = q.qsize(), q.empty(), plain.empty(), q.full()
q.get(); q.task_done()
if q:
    try:
        q.get_nowait()
    except queue.Empty:
        got[2].append("empty")
return got[0], got[1], got[2] is one, sizes, q.empty()
### queue in a slice
from collections import deque
from queue import Queue
def main(a, b, c):
    rows = turn({"x": 1}, {"x": 2}, {"x": 3})
    rows["x"] += 10
    return rows
def turn(one, two, three):
    q, d = Queue(), deque([one])
    q.put(one)
    q.put(two)
    q.put(three)
    spare = q.get()
    if spare is not one:
        q.put(one)
    d.append(q.get())
    left = d.popleft()
    return d[0] if left is one else left
### float
return 0.1 + 0.2, 1e10, -0.0, float("inf"), 3.0 == 3, str(1.5), f"{0.5}", 10 / 4
"""


def _split() -> dict[str, str]:
    out: dict[str, str] = {}
    for part in _TEXT.split("\n### ")[1:]:
        name, _, body = part.partition("\n")
        body = body.strip("\n") + "\n"
        if "def main(" not in body:
            body = "def main(a, b, c):\n" + indent(dedent(body), "    ")
        out[name.replace(" ", "-")] = body
    return out


PROGRAMS = _split()
