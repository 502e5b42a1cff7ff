"""What each release does, found by reading it: the workers that its selector can return, and where each sets its modes.

Lines are those of the released file. A place is "file:line" below the package's ``srt`` folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["CONSUMING", "EAGLE3", "REFUSED", "WITHOUT_STATES", "Finding", "Release", "Worker"]


EXTEND = frozenset({"extend"})
BOTH = frozenset({"extend", "verify"})
NEITHER: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Worker:
    """One worker: where the mode of its target extend is set, and that of its target verify."""

    name: str
    extend: str
    verify: str


@dataclass(frozen=True)
class Finding:
    """A finding that is right, with the reason that was found by reading."""

    rule: str
    severity: str
    phase: str
    path: str
    place: str
    why: str


@dataclass(frozen=True)
class Release:
    """One release under one algorithm.

    ``prefill_graphs``: the phases of the target whose batches a runner of prefill graphs takes, or refuses for their
    mode alone. ``for_users``: where a verify's mode may be set as well, because a request asks for hidden states.
    """

    version: str
    workers: tuple[Worker, ...]
    prefill_graphs: frozenset[str] = EXTEND
    findings: tuple[Finding, ...] = ()
    for_users: str = ""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(worker.name for worker in self.workers)


def _v1(extend: int, verify: int) -> Worker:
    file = "speculative/eagle_worker.py"
    return Worker("EAGLEWorker", f"{file}:{extend}", f"{file}:{verify}")


def _v2(extend: int, verify: str) -> Worker:
    return Worker("EAGLEWorkerV2", f"speculative/eagle_worker_v2.py:{extend}", f"speculative/{verify}")


def _layers_v1(extend: int, verify: int) -> Worker:
    file = "speculative/multi_layer_eagle_worker.py"
    return Worker("MultiLayerEagleWorker", f"{file}:{extend}", f"{file}:{verify}")


def _layers_v2(extend: int, verify: str) -> Worker:
    file = "speculative/multi_layer_eagle_worker_v2.py"
    return Worker("MultiLayerEagleWorkerV2", f"{file}:{extend}", f"speculative/{verify}")


def _dflash(extend: int, verify: int) -> Worker:
    file = "speculative/dflash_worker_v2.py"
    return Worker("DFlashWorkerV2", f"{file}:{extend}", f"{file}:{verify}")


def _for_users(line: int) -> str:
    return f"managers/schedule_batch.py:{line}"


REFUSED = Finding(
    rule="HS104",
    severity="warning",
    phase="extend",
    path="prefill_graph",
    place="model_executor/piecewise_cuda_graph_runner.py:227",
    why="E3-036: the runner records NULL unless hidden states are returned to the user (227 to 231), target extends "
    "ask for FULL, and can_run refuses what differs (470): no graph is replayed, and the states are right",
)

# fmt: off
_EAGLE3 = (
    # EagleVerifyInput.create hands the mode over by position.
    Release(
        "0.4.6.post5",
        (Worker("EAGLEWorker", "speculative/eagle_worker.py:314", "speculative/eagle_utils.py:237"),),
        NEITHER,
        for_users=_for_users(1670),
    ),
    Release("0.4.9.post3", (_v1(378, 573),), NEITHER, for_users=_for_users(1743)),
    Release("0.5.2", (_v1(496, 693),), NEITHER, for_users=_for_users(1754)),
    # A registry of factories; overlap scheduling picks the worker. The runner of piecewise graphs looks at nothing but
    # the number of tokens and what log probabilities are asked for, so that it takes verify batches, too.
    Release("0.5.6", (_v1(348, 583), _v2(605, "eagle_info_v2.py:237")), BOTH, for_users=_for_users(1940)),
    # Overlap scheduling and enable_multi_layer_eagle pick one of four.
    Release(
        "0.5.9",
        (
            _v1(372, 610), _v2(656, "eagle_info_v2.py:241"),
            _layers_v1(328, 457), _layers_v2(603, "eagle_info_v2.py:241"),
        ),
        BOTH,
        for_users=_for_users(2220),
    ),
    Release(
        "0.5.10",
        (
            _v1(378, 617), _v2(696, "eagle_info_v2.py:252"),
            _layers_v1(333, 465), _layers_v2(630, "eagle_info_v2.py:252"),
        ),
        BOTH,
        for_users=_for_users(2373),
    ),
    # From here on, FULL is what remains where the algorithm is not standalone, and no prefill graph takes a verify.
    Release(
        "0.5.12",
        (
            _v1(590, 833), _v2(753, "eagle_info_v2.py:313"),
            _layers_v1(385, 516), _layers_v2(668, "eagle_info_v2.py:313"),
        ),
        findings=(REFUSED,),
        for_users=_for_users(2600),
    ),
    # The v1 workers are gone, and overlap scheduling picks nothing any more.
    Release("0.5.14", (_v2(1076, "eagle_utils.py:333"), _layers_v2(766, "eagle_utils.py:333"))),
    Release("0.5.17", (_v2(1111, "eagle_utils.py:548"), _layers_v2(971, "eagle_utils.py:548"))),
    Release("0.5.20", (_v2(1275, "eagle_utils.py:590"), _layers_v2(1065, "eagle_utils.py:590"))),
    Release("0.5.23", (_v2(1555, "eagle_utils.py:387"), _layers_v2(1147, "eagle_utils.py:387"))),
)
# fmt: on

EAGLE3 = MappingProxyType({release.version: release for release in _EAGLE3})

CONSUMING = MappingProxyType(
    {
        # EAGLE takes the workers of EAGLE3.
        **{("EAGLE", version): EAGLE3[version] for version in ("0.5.6", "0.5.14", "0.5.23")},
        ("DFLASH", "0.5.14"): Release("0.5.14", (_dflash(1216, 1512),)),
        ("DFLASH", "0.5.23"): Release("0.5.23", (_dflash(2351, 2829),)),
    }
)
"""Other algorithms whose drafts take the target's hidden states, by algorithm and release. 0.5.6 has no DFLASH."""

WITHOUT_STATES = MappingProxyType(
    {
        ("STANDALONE", "0.5.6"): "StandaloneWorker",
        ("STANDALONE", "0.5.14"): "StandaloneWorkerV2",
        ("STANDALONE", "0.5.23"): "StandaloneWorkerV2",
        ("NGRAM", "0.5.6"): "NGRAMWorker",
        ("NGRAM", "0.5.14"): "NGRAMWorker",
        ("NGRAM", "0.5.23"): "NGRAMWorker",
    }
)
"""The workers of algorithms that draft without the target's hidden states, by algorithm and release."""
