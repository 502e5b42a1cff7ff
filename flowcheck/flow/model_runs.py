"""Models that were built once and are run more than once, each time from the state in which they were built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flowcheck.interp.engine import Interpreter
from flowcheck.interp.heap import State
from flowcheck.interp.keeps import Kept
from flowcheck.interp.trails import Site
from flowcheck.interp.values import Value

__all__ = ["Made", "ModelRun"]


@dataclass
class ModelRun:
    """A built model: its interpreter, its state, and how it was told what to capture."""

    it: Interpreter
    state: State
    model: Value
    layers: int
    name: str
    stack: str = ""


@dataclass(frozen=True)
class Made:
    """A model that was just built, and what the interpreter had noted of its tensors by then (see ``TensorModel``).

    ``steps``: how many steps of the interpreter the making took.
    """

    run: ModelRun
    steps: int
    paths: Mapping[int, str]
    keeps: Sequence[Kept]
    unmodelled: Mapping[str, str]
    absent: Mapping[str, bool]
    limits: Mapping[tuple[str, str, int], Site]

    @classmethod
    def of(cls, run: ModelRun) -> Made:
        """A model of which nothing has been asked yet."""
        m = run.it.config.tensors
        assert m is not None
        notes = dict(m.paths), list(m.keeps), dict(m.unmodelled), dict(m.absent), dict(m.limits)
        return cls(run, run.it.steps, *notes)

    @property
    def by_rows(self) -> bool:
        """Whether the making compared the number of rows with a number: for other batches the model is another one."""
        return bool(self.limits)

    def again(self) -> ModelRun:
        """The model for one more run, in a state of its own: the interpreter forgets what earlier runs noted."""
        it, m = self.run.it, self.run.it.config.tensors
        assert m is not None
        m.stack = self.run.stack
        m.paths, m.keeps, m.unmodelled = dict(self.paths), list(self.keeps), dict(self.unmodelled)
        m.absent, m.limits = dict(self.absent), dict(self.limits)
        it.step_limit = it.config.max_steps + it.steps - self.steps
        return replace(self.run, state=self.run.state.fork())
