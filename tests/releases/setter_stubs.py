"""Runs released setters with CPython, on plain stubs of the model classes. Nothing of the scanner is imported.

Started as a child: each line of its input is ``[models folder, class, method, layers, ids]``, each line of its output what
the setter left: ``{"lists": …, "flags": …, "settings": …, "raised": …}``, or ``{"unsupported": why}``. The classes are read
with ``ast``; of all their code, only methods that are named like setters are executed.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
import textwrap
import types
import typing
from pathlib import Path
from typing import Any

SETTER = re.compile(r"set_\w*layers_to_capture$")


class Lacking(BaseException):
    """The setter asked for something that the stub does not have."""


class Library:
    """The classes of one folder of models."""

    def __init__(self, folder: Path) -> None:
        self.trees = {path.stem: ast.parse(path.read_text("utf-8-sig")) for path in sorted(folder.glob("*.py"))}
        self.sources = {path.stem: path.read_text("utf-8-sig") for path in sorted(folder.glob("*.py"))}
        self.classes: dict[str, dict[str, ast.ClassDef]] = {
            stem: {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
            for stem, tree in self.trees.items()
        }

    def registered(self) -> list[tuple[str, str]]:
        """The file and name of every class that is registered."""
        found = []
        for stem, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, ast.Assign) and any(
                    isinstance(t, ast.Name) and t.id == "EntryClass" for t in node.targets
                ):
                    names = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
                    found += [(stem, name.id) for name in names if isinstance(name, ast.Name)]
        return found

    def find(self, stem: str, name: str) -> tuple[str, ast.ClassDef] | None:
        """A class as a file sees it: its own, or one that it imports from another model's file."""
        if name in self.classes[stem]:
            return stem, self.classes[stem][name]
        for node in ast.walk(self.trees[stem]):
            if isinstance(node, ast.ImportFrom) and node.module and ".models." in f".{node.module}.":
                source = node.module.rpartition(".")[2]
                for alias in node.names:
                    if (alias.asname or alias.name) == name and source in self.classes:
                        return self.find(source, alias.name)
        return None

    def mro(self, stem: str, name: str) -> list[tuple[str, ast.ClassDef]]:
        """The class and its bases among the models, depth first: no released model inherits in a diamond."""
        found = self.find(stem, name)
        if found is None:
            return []
        out = [found]
        for base in found[1].bases:
            base_name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
            out += [each for each in self.mro(found[0], base_name) if each not in out]
        return out

    @functools.cache  # noqa: B019 - there is one library
    def setters(self, stem: str, name: str) -> dict[str, tuple[str, ast.FunctionDef]]:
        """The methods that are named like setters, those of the class itself before those of its bases."""
        found: dict[str, tuple[str, ast.FunctionDef]] = {}
        for where, node in self.mro(stem, name):
            own = {m.name: (where, m) for m in node.body if isinstance(m, ast.FunctionDef) and SETTER.match(m.name)}
            found = {**own, **found}  # of two definitions in one class body, the last one counts
        return found

    @functools.cache  # noqa: B019 - there is one library
    def parts(self, stem: str, name: str) -> dict[str, tuple[str, str]]:
        """Attributes that hold an instance of a model's class: ``self.x = Class(…)`` in a constructor, or in what it calls.

        A class that stands in a parameter's default is the most derived constructor's: it hands it to those above.
        """
        out: dict[str, tuple[str, str]] = {}
        mro = self.mro(stem, name)
        defaults: dict[str, tuple[str, str]] = {}
        for where, node in mro:
            init = next((m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
            if init is None:
                continue
            for a, default in zip(init.args.args[::-1], init.args.defaults[::-1], strict=False):
                found = self.find(where, default.id) if isinstance(default, ast.Name) else None
                if found is not None:
                    defaults.setdefault(a.arg, (found[0], found[1].name))
            for s in ast.walk(init):
                target = (
                    s.targets[0] if isinstance(s, ast.Assign) else s.target if isinstance(s, ast.AnnAssign) else None
                )
                value = s.value if isinstance(s, (ast.Assign, ast.AnnAssign)) else None
                if isinstance(target, ast.Attribute) and isinstance(value, ast.Call) and target.attr not in out:
                    made = self._made(mro, where, value, defaults)
                    if made is not None:
                        out[target.attr] = made
            if not any(isinstance(s, ast.Name) and s.id == "super" for s in ast.walk(init)):
                break
        return out

    def _made(
        self, mro: list[tuple[str, ast.ClassDef]], where: str, call: ast.Call, defaults: dict[str, tuple[str, str]]
    ) -> tuple[str, str] | None:
        f = call.func
        if isinstance(f, ast.Name):
            if f.id in defaults:
                return defaults[f.id]
            found = self.find(where, f.id)
            return (found[0], found[1].name) if found is not None else None
        if not (isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == "self"):
            return None
        for home, node in mro:
            for m in node.body:
                if isinstance(m, ast.FunctionDef) and m.name == f.attr:  # a method that makes the part
                    returned = [s.value for s in ast.walk(m) if isinstance(s, ast.Return)]
                    made = next((v for v in returned if isinstance(v, ast.Call)), None)
                    return self._made(mro, home, made, {}) if made is not None else None
                if isinstance(m, ast.Assign) and any(isinstance(t, ast.Name) and t.id == f.attr for t in m.targets):
                    value = m.value  # a class that the body names, as it is or as that of a module
                    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
                        return (value.value.id, value.attr) if value.value.id in self.classes else None
                    found = self.find(home, value.id) if isinstance(value, ast.Name) else None
                    return (found[0], found[1].name) if found is not None else None
        return None

    @functools.cache  # noqa: B019 - there is one library
    def has_layers(self, stem: str, name: str) -> bool:
        return any(re.search(r"\bself\.layers\b[^=\n]*=", ast.unparse(node)) for _, node in self.mro(stem, name))


class Layer:
    """A layer, which takes any attribute."""

    def __getattr__(self, name: str) -> object:
        raise Lacking(f"layer.{name}")


def part_of(library: Library, stem: str, name: str, layers: int, depth: int = 0) -> Any:
    """A stub of a class: its setters, a configuration, its layers, and the parts that are models themselves."""

    def lacking(self: Any, attribute: str) -> Any:
        if SETTER.match(attribute):
            raise AttributeError(attribute)
        raise Lacking(f"{name}.{attribute}")

    members: dict[str, Any] = {"__getattr__": lacking}
    group = types.SimpleNamespace(is_last_rank=True, is_first_rank=True, world_size=1, rank_in_group=0)
    for setter, (where, node) in library.setters(stem, name).items():
        source = textwrap.dedent(ast.get_source_segment(library.sources[where], node, padded=True) or "")
        space = dict(vars(typing))
        space["get_pp_group"] = lambda: group
        space["get_parallel"] = lambda: types.SimpleNamespace(pp_group=group)
        exec(compile("from __future__ import annotations\n" + source, where, "exec"), space)
        members[setter] = space[setter]
    stub = type(name, (), members)()
    plain = types.SimpleNamespace(num_hidden_layers=layers, num_layers=layers)
    stub.config = types.SimpleNamespace(num_hidden_layers=layers, num_layers=layers, text_config=plain)
    stub.pp_group = group
    if library.has_layers(stem, name):
        stub.layers = [Layer() for _ in range(layers)]
    if depth < 4:
        for attribute, (where, inner) in library.parts(stem, name).items():
            wanted = library.has_layers(where, inner) or library.setters(where, inner) or attribute == "model"
            if attribute not in ("config", "layers") and wanted:
                stub.__dict__[attribute] = part_of(library, where, inner, layers, depth + 1)
    return stub


def parts_below(stub: Any, path: str = "") -> list[tuple[str, Any]]:
    found = [(path, stub)]
    for name, value in vars(stub).items():
        if hasattr(type(value), "__getattr__"):
            found += parts_below(value, f"{path}.{name}" if path else name)
    return found


def answer(folder: str, class_name: str, method: str, layers: int, calls: list[list[int] | None]) -> dict[str, Any]:
    library = library_of(folder)
    stem = next((stem for stem, name in library.registered() if name == class_name), None)
    if stem is None:
        return {"unsupported": "not registered"}
    stub = part_of(library, stem, class_name, layers)
    before = {path: dict(vars(part)) for path, part in parts_below(stub)}
    raised = None
    try:
        for ids in calls:
            getattr(stub, method)(*([] if ids is None else [ids]))
    except Lacking as error:
        return {"unsupported": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a setter raises is the answer
        raised = type(error).__name__
    lists: dict[str, list[int]] = {}
    flags: dict[str, list[int]] = {}
    settings: dict[str, Any] = {}
    for path, part in parts_below(stub):
        for name, value in vars(part).items():
            key = f"{path}.{name}" if path else name
            if name == "layers":
                for i, layer in enumerate(value):
                    for flag, on in vars(layer).items():
                        if on is True:
                            flags.setdefault(f"{key}.{flag}", []).append(i)
            elif name not in before[path] or before[path][name] is not value:
                if isinstance(value, (set, frozenset)):
                    value = sorted(value)
                (lists if isinstance(value, (list, tuple)) else settings)[key] = value
    return {"lists": lists, "flags": flags, "settings": settings, "raised": raised}


@functools.cache
def library_of(folder: str) -> Library:
    return Library(Path(folder))


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if len(request) == 1:
            library = library_of(request[0])
            reply: Any = {name: sorted(library.setters(stem, name)) for stem, name in library.registered()}
        else:
            reply = answer(*request)
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
