"""The domain questions, asked of the interpreter: which worker runs, which forwards of the target it makes, what they
capture. Facts come out; what a fact is worth is for the checks to say."""

from flowcheck.flow.facts import Facts
from flowcheck.flow.scenario import Scalar, Scenario

__all__ = ["Facts", "Scalar", "Scenario", "analyse"]


def __getattr__(name: str) -> object:
    """``analyse`` is imported when it is used: it brings the whole engine with it."""
    if name == "analyse":
        from flowcheck.flow.analysis import analyse

        return analyse
    raise AttributeError(name)
