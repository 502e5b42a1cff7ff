"""What the interpreter tells the call graph: calls that it resolved, classes that it made instances of, tracked attributes.

Questions that are asked beside the run (``quiet``) are none of the tree's own calls, and neither are those without a
node: nothing in the tree spells them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowcheck.interp.values import ClassV, FuncV
from flowcheck.program.callgraph import Definition, EdgeKind, Mark
from flowcheck.syntax import ir

if TYPE_CHECKING:
    from flowcheck.interp.engine import Interpreter
    from flowcheck.interp.frames import Frame

__all__ = ["called", "caller_of", "constructed", "touched"]


def caller_of(it: Interpreter, fr: Frame) -> Definition:
    """The definition whose code a frame runs."""
    while fr.outer is not None:
        fr = fr.outer
    if fr.func is not None:
        return it.graph.definition(fr.module, fr.func.node, fr.func.owner)
    if fr.slice_of is not None:
        return it.graph.definition(fr.module, fr.slice_of[0])
    return it.graph.definition(fr.module, fr.cls.node if fr.cls is not None else None)


def called(it: Interpreter, f: FuncV, node: ir.Node | None, fr: Frame) -> None:
    """A call of a function of the tree, entered or left out."""
    if node is None or it.quiet:
        return
    callee = it.graph.definition(f.module, f.node, f.owner)
    it.graph.note(caller_of(it, fr), callee, EdgeKind.CALLS, Mark(fr.module, fr.owner, node.nid))
    if f.cls is not None:
        _meet(it, f.cls)


def constructed(it: Interpreter, c: ClassV, node: ir.Node | None, fr: Frame) -> None:
    """A call of a class of the tree."""
    if node is None or it.quiet:
        return
    callee = it.graph.definition(c.module, c.node)
    it.graph.note(caller_of(it, fr), callee, EdgeKind.CONSTRUCTS, Mark(fr.module, fr.owner, node.nid))
    _meet(it, c)


def touched(it: Interpreter, c: ClassV, name: str, kind: EdgeKind, node: ir.Node | None, fr: Frame) -> None:
    """A tracked attribute of an instance of ``c`` is read or written."""
    if node is None or it.quiet:
        return
    it.graph.note(caller_of(it, fr), _attribute(it, c, name), kind, Mark(fr.module, fr.owner, node.nid))


def _attribute(it: Interpreter, c: ClassV, name: str) -> Definition:
    """The attribute, on the class furthest up that declares or stores it: instances of its subclasses share it."""
    found = it.graph.attributes.get((c.node, name))
    if found is None:
        home = next((b for b in reversed(c.mro) if _has(b, name)), c)
        found = Definition(home.module.path, f"{home.qualname}.{name}", home.node.line, "attribute")
        it.graph.attributes[(c.node, name)] = found
    return found


def _has(c: ClassV, name: str) -> bool:
    """Whether the text of a class declares the attribute in its body, or stores it on ``self``."""
    syntax = c.module.syntax
    if syntax is None:
        return False
    text = "\n".join(syntax.text.split("\n")[c.node.line - 1 : c.node.end_line])
    return (
        re.search(rf"^[ \t]+(?:self\.)?{re.escape(name)}[ \t]*(?::[^=\n]+)?(?:=(?!=)|\n|$|:)", text, re.M) is not None
    )


def _meet(it: Interpreter, c: ClassV) -> None:
    if it.graph.meets((c.module.path, c.qualname)):
        it.graph.met([(b.module, b.node) for b in c.mro])
