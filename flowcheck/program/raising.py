"""What a slice leaves out may still raise: where, is marked in it."""

from __future__ import annotations

from msgspec.structs import replace

from flowcheck.syntax import ir

__all__ = ["LEFT_OUT", "may_raise", "replace_case", "with_raises"]

LEFT_OUT = "a statement that is left out"


def may_raise(s: ir.Stmt) -> bool:
    """Whether a statement may raise at all."""
    if isinstance(s, ir.ExprStmt):
        return not isinstance(s.value, (ir.Const, ir.Name))
    if isinstance(s, (ir.Assign, ir.AnnAssign)):
        return s.value is not None and not isinstance(s.value, (ir.Const, ir.Name))
    return not isinstance(
        s,
        (ir.Pass, ir.Break, ir.Continue, ir.Global, ir.Nonlocal, ir.Import, ir.ImportFrom, ir.FunctionDef, ir.ClassDef),
    )


def replace_case(k: ir.Case, body: tuple[ir.Stmt, ...]) -> ir.Case:
    """A case of a ``match`` with another body."""
    return ir.Case(k.nid, k.pattern, k.guard, body)


def with_raises(body: tuple[ir.Stmt, ...], kept: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    """A slice with a mark wherever ``body`` holds statements that are left out of it and may raise.

    Whoever calls the function may catch what they raise: some of what is kept has not happened then.
    """
    found = {s.nid: s for s in kept}
    if not any(s.nid in found for s in body):
        return kept
    out: list[ir.Stmt] = []
    for s in body:
        same = found.get(s.nid)
        if same is not None and not (isinstance(same, ir.Opaque) and same.reason == LEFT_OUT):
            out.append(_with_raises_inside(s, same))
        elif may_raise(s) and not (out and isinstance(out[-1], ir.Opaque)):
            out.append(ir.Opaque(s.nid, LEFT_OUT))
    return tuple(out)


def _with_raises_inside(s: ir.Stmt, kept: ir.Stmt) -> ir.Stmt:
    if s is kept:
        return kept
    if isinstance(s, ir.With) and isinstance(kept, (ir.With, ir.If)):
        return replace(kept, body=with_raises(s.body, kept.body))
    if isinstance(s, (ir.If, ir.For, ir.While)) and isinstance(kept, (ir.If, ir.For, ir.While)):
        return replace(kept, body=with_raises(s.body, kept.body), orelse=with_raises(s.orelse, kept.orelse))
    if isinstance(s, ir.Match) and isinstance(kept, ir.Match):
        pairs = zip(s.cases, kept.cases, strict=True)
        return replace(kept, cases=tuple(replace_case(k, with_raises(whole.body, k.body)) for whole, k in pairs))
    if isinstance(s, ir.Try) and isinstance(kept, ir.Try):
        handlers = tuple(
            ir.Handler(k.nid, k.type, k.name, with_raises(whole.body, k.body))
            for whole, k in zip(s.handlers, kept.handlers, strict=True)
        )
        return replace(
            kept,
            body=with_raises(s.body, kept.body),
            handlers=handlers,
            orelse=with_raises(s.orelse, kept.orelse),
            final=with_raises(s.final, kept.final),
        )
    return kept
