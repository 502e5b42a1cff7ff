"""Stands in for the tree and the engine, in this process or in a child that runs this file with a scene's name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flowcheck.cli import engine
from flowcheck.flow.facts import Facts, Path, Phase
from flowcheck.source import SourceError, SourceWarning
from tests.report.fakes import GRAPH, WORKER, carried, facts, flow, healthy, mode, served, tree_text


@dataclass
class FakeTree:
    kind: str = "package"
    label: str = "./tree"
    root: str = "python/sglang"
    package: str = "sglang"
    version: str | None = "0.5.9"
    digest: str = "0" * 64
    warnings: list[SourceWarning] = field(default_factory=list)

    def read(self, path: str) -> bytes:
        return (tree_text(path) or "").encode()


def scene(name: str) -> Facts:
    """Facts with the worst finding that the name says."""
    rest = healthy("Other")
    refused = flow(path=Path.PREFILL_GRAPH, reached=[mode("NULL", (GRAPH, 227, "starts"))], replay_guard=True)
    scenes = {
        "clean": facts(*healthy()),
        "error": facts(flow(asked=[carried("LAST", WORKER, 372)]), *rest),
        "warning": facts(refused, *rest),
        "unproved": facts(flow(Phase.VERIFY, reached=[mode("unknown", (WORKER, 5, ""), reason="a file")]), *rest),
        "warned": facts(*healthy()),
    }
    return scenes[name]


def install(name: str, patch: Any = setattr) -> list[engine.Request]:
    """Replace the engine's parts that read a tree; the requests that come in are collected."""
    requests: list[engine.Request] = []

    @contextmanager
    def opened(request: engine.Request, progress: object) -> Iterator[FakeTree]:
        requests.append(request)
        if name == "unreadable":
            raise SourceError("nothing\nto read here")
        warnings = [SourceWarning(f"a/{number}.py", "is not UTF-8") for number in range(8 if name == "warned" else 0)]
        yield FakeTree(warnings=warnings)

    def found(*_: object) -> Facts:
        if name == "bug":
            raise ZeroDivisionError("a\nbug")
        if name == "interrupt":
            raise KeyboardInterrupt
        return scene(name)

    patch(engine, "_opened", opened)
    patch(engine, "_facts", found)
    patch(engine, "_served", lambda tree, request, _: served(request.pairing) if request.pairing else None)
    patch(engine, "_without_effect", lambda *_: [])
    return requests


if __name__ == "__main__":
    from flowcheck.cli import main

    install(os.environ["SCENE"])
    sys.argv[0] = "flowcheck"
    main()
