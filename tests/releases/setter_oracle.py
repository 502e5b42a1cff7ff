"""One release's setters, asked twice: of CPython on stubs, and of the interpreter on its own instances."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowcheck.flow.requested import Requested
from flowcheck.flow.setters import capture_requests
from flowcheck.flow.targets import NoTarget, Target
from flowcheck.interp.engine import Interpreter
from flowcheck.source import Tree
from tests.flow.models import WORDS, built, interpreter_of

Calls = Sequence[Sequence[int] | None]


class Stubs:
    """The child that executes setters."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.child = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("setter_stubs.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ask(self, request: list[Any]) -> Any:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(json.dumps(request) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def registered(self) -> dict[str, list[str]]:
        """The setters of every class that is registered."""
        return self._ask([self.folder])  # type: ignore[no-any-return]

    def run(self, name: str, method: str, layers: int, calls: Calls) -> dict[str, Any]:
        return self._ask([self.folder, name, method, layers, list(calls)])  # type: ignore[no-any-return]

    def close(self) -> None:
        self.child.communicate()


def witness(name: str, layers: int) -> dict[str, Any]:
    """A configuration that is good enough to make a model's layers of."""
    text = {"num_hidden_layers": layers, "num_layers": layers, "hidden_size": 64, "vocab_size": 128}
    return {"architectures": [name], **text, "text_config": dict(text), "vision_config": {"num_hidden_layers": 3}}


@dataclass
class Release:
    """The models of one tree, and instances of them, each made once."""

    tree: Tree
    stubs: Stubs
    it: Interpreter = field(init=False)
    made: dict[tuple[str, int], Target | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.it = interpreter_of(self.tree, cached=True)

    def target(self, name: str, layers: int) -> Target | None:
        if (name, layers) not in self.made:
            try:
                self.made[name, layers] = built(self.it, witness(name, layers))
            except NoTarget:
                self.made[name, layers] = None
        return self.made[name, layers]

    def difference(self, name: str, method: str, layers: int, calls: Calls) -> str | None:
        """What the two say differently; None where they agree, or the stub cannot say."""
        truth = self.stubs.run(name, method, layers, calls)
        if "unsupported" in truth:
            return f"unsupported: {truth['unsupported']}"
        target = self.target(name, layers)
        if target is None:
            return "the interpreter finds no such class"
        said = spelled(capture_requests(self.it, WORDS, target, calls, method=method))
        if truth["raised"] is not None:
            return None if said["raised"] == truth["raised"] else f"raised {truth['raised']}, said {said}"
        return None if said == truth else f"{truth}, said {said}"


def spelled(found: Requested) -> dict[str, Any]:
    """A request as the child spells what it saw."""

    def key(owner: str, attribute: str) -> str:
        return f"{owner}.{attribute}" if owner else attribute

    certain = [r.exception for r in found.raised if r.certain]
    raised = None if found.returns else "/".join(certain) or "?"
    if found.missing is not None:
        raised = "AttributeError"
    said: dict[str, Any] = {
        "lists": {key(p.owner, p.attribute): list(p.values) for p in found.lists},
        "flags": {key(p.owner, p.attribute): list(p.indices) for p in found.flags},
        "settings": {key(p.owner, p.attribute): p.value for p in found.settings},
        "raised": raised,
    }
    if not found.is_exact:
        said["unclear"] = [f"{u.owner}.{u.attribute}: {u.reason}" for u in found.unclear] or found.raised
    return said
