"""Stand-ins for packages that the tree imports and the environment lacks: kernels, codecs, clients of services.

Only roots on a list are stubbed, so that optional imports of the tree go on as "not installed". The list is learned by trying
(:func:`missing_root` says what an attempt lacked). A stubbed kernel does nothing and is counted when it is launched.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["KERNEL_LANGUAGE", "LAUNCHES", "StubFinder", "install", "is_stub", "missing_root"]

LAUNCHES: set[str] = set()
"""Names of the stubbed kernels that were launched in this process."""

KERNEL_LANGUAGE = "triton"
"""The package whose functions are kernels."""

_NO_DEVICE = f"{KERNEL_LANGUAGE}.runtime.driver"


class _Kernel:
    """What a kernel's decorator leaves behind: it can be launched, does nothing, and is counted."""

    def __init__(self, function: types.FunctionType) -> None:
        self.fn = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __getitem__(self, grid: object) -> _Kernel:
        return self

    def __call__(self, *args: object, **kwargs: object) -> None:
        LAUNCHES.add(self.__name__)


class _Stub(type):
    """The class of all stubs. They are classes, so that a tree may derive from them, annotate with them and call them."""

    stub_name: str

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if cls.stub_name == _NO_DEVICE:
            raise RuntimeError("0 active drivers")  # as on a machine without a GPU: the tree has a branch for that
        return _stub(f"{cls.stub_name}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if "stub_name" not in cls.__dict__:  # a class of the tree that derives from a stub
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs:
            (only,) = args
            if isinstance(only, _Kernel):
                return only
            if isinstance(only, types.FunctionType):
                return _Kernel(only) if cls.stub_name.startswith(f"{KERNEL_LANGUAGE}.") else only
            if isinstance(only, type) and not is_stub(only):
                return only
        if cls.stub_name.split(".")[0] != KERNEL_LANGUAGE and not cls.stub_name.rsplit(".", 1)[-1][:1].isupper():
            LAUNCHES.add(cls.stub_name)
        return cls

    def __getitem__(cls, key: object) -> Any:
        return cls

    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        return {"type": "any"}

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __len__(cls) -> int:
        return 0

    def __bool__(cls) -> bool:
        return False

    def __or__(cls, other: object) -> Any:
        return cls

    __ror__ = __or__

    def __contains__(cls, other: object) -> bool:
        return False

    def __int__(cls) -> int:
        return 0

    __index__ = __int__

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *args: object) -> None:
        return None

    def __lt__(cls, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __add__(cls, other: object) -> Any:
        return cls

    __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __add__

    def __repr__(cls) -> str:
        return f"<stub {cls.stub_name}>" if "stub_name" in cls.__dict__ else type.__repr__(cls)


_made: dict[str, _Stub] = {}


def _stub(name: str) -> _Stub:
    if name not in _made:
        module, _, last = name.rpartition(".")
        space = {"stub_name": name, "__module__": module, "__init_subclass__": classmethod(lambda cls, **kwargs: None)}
        _made[name] = _Stub(last, (), space)
    return _made[name]


def is_stub(value: object) -> bool:
    """Whether something is a stand-in, not a class of the tree that derives from one."""
    return isinstance(value, _Stub) and "stub_name" in value.__dict__


class _StubModule(types.ModuleType):
    __version__ = "0.0.0+flowcheck.stub"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        frame = sys._getframe(1)
        kept = frame.f_globals.get(name)
        if frame.f_code.co_name == "<module>" and name in frame.f_globals and not is_stub(kept):
            return kept  # `from kernels import RMSNorm` in a module that has one: a stand-in never takes its place
        if f"{self.__name__}.{name}" == _NO_DEVICE:
            return _stub(_NO_DEVICE)
        return _stub(f"{self.__name__}.{name}")


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for the roots on its list, after every other finder: what is installed is never stubbed."""

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = frozenset(roots)
        self.found: set[str] = set()

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        """A package, for every name below a root."""
        if fullname.split(".")[0] not in self.roots:
            return None
        self.found.add(fullname.split(".")[0])
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """A module that has whatever is asked of it."""
        module = _StubModule(spec.name)
        module.__path__ = []
        module.__file__ = f"<stub {spec.name}>"
        for name, value in _KNOWN.get(spec.name, {}).items():
            setattr(module, name, value)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


_KNOWN: dict[str, dict[str, Any]] = {
    KERNEL_LANGUAGE: {
        "cdiv": lambda a, b: -(-a // b),
        "next_power_of_2": lambda n: 1 << (int(n) - 1).bit_length() if n > 0 else 1,
        "__version__": "3.4.0",
    },
    "dill": {"dumps": lambda *args, **kwargs: b""},
}
"""What trees compute with while they are imported."""


def install(roots: Sequence[str]) -> StubFinder:
    """Puts stand-ins for these roots at the end of the import path."""
    finder = StubFinder(roots)
    sys.meta_path.append(finder)
    return finder


_ASKED = re.compile(r"requires the (\w+) library")
"""How transformers asks for a package that it does without until something of it is used."""


def missing_root(error: BaseException, package: str) -> str | None:
    """The root package that an attempt to run the tree lacked.

    Args:
        error: What the attempt ended with.
        package: The scanned package: what lacks in it is no one else's.

    Returns:
        Its name, or None if something else was the matter.
    """
    seen: set[int] = set()
    last: BaseException | None = error
    while last is not None and id(last) not in seen:
        seen.add(id(last))
        root = ""
        if isinstance(last, ModuleNotFoundError) or type(last) is NameError:
            root = (last.name or "").split(".")[0]
        elif isinstance(last, ImportError) and (asked := _ASKED.search(str(last))):
            root = asked.group(1).lower()
        if root and root != package and _is_lacking(root):
            return root
        last = last.__cause__ or last.__context__
    return None


def _is_lacking(root: str) -> bool:
    try:
        return importlib.util.find_spec(root) is None
    except (ImportError, ValueError):
        return False
