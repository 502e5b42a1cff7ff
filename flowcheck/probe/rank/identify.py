"""What a block of captured numbers is: pure functions from tensors to words.

A block is compared with the boundaries of a run on one rank with the same logical weights. The distance of two blocks is the
largest relative difference of a row (Euclidean norm), so that one wrong row counts. It is a boundary only if it is within the
tolerance of it and no other boundary is within ``margin`` tolerances of that one, in any row. What is no boundary is explained
by the nearest thing that it may be: a part of a sum, a missing residual, other rows, other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from flowcheck.probe.protocol import Block, Limits

__all__ = ["Reference", "against_own", "coarsely", "deviation", "distance", "identify", "rows_to_name", "split"]

MOST_ROWS = 256
"""Of larger batches some rows stand for all: a reference of thousands of rows of each layer would take gigabytes on each rank."""


@dataclass(frozen=True)
class Reference:
    """What one rank computed.

    Attributes:
        boundaries: [boundaries, rows, width]; 0 is the embedding.
        outputs: The same shape: what the layer before gave, without the residual that it is yet to be added to. Where there is
            no such residual it is the boundary.
        residuals: The same shape: that residual, or zeros.
    """

    boundaries: Any
    outputs: Any
    residuals: Any

    @property
    def rows(self) -> int:
        """Rows of each boundary."""
        return int(self.boundaries.shape[1])

    @property
    def width(self) -> int:
        """Width of each boundary."""
        return int(self.boundaries.shape[2])

    def in_double(self) -> Reference:
        """The same in double precision."""
        return Reference(self.boundaries.double(), self.outputs.double(), self.residuals.double())


def name_of(boundary: int, last: int) -> str:
    """A boundary in words."""
    if boundary == 0:
        return "the embedding (boundary 0)"
    if boundary == last:
        return f"boundary {boundary} (what leaves the last layer)"
    return f"boundary {boundary}"


def rows_to_name(rows: int) -> list[int] | None:
    """Which rows of a batch are kept and named, evenly from the first to the last; None for all."""
    if rows <= MOST_ROWS:
        return None
    return [index * (rows - 1) // (MOST_ROWS - 1) for index in range(MOST_ROWS)]


def _relative(these: Any, those: Any) -> Any:
    """[..., rows]: the norms of the differences over the norms of ``those``."""
    return (these - those).norm(dim=-1) / those.norm(dim=-1).clamp_min(1e-30)


def distance(these: Any, those: Any) -> float:
    """The largest relative difference of a row."""
    return float(_relative(these.double(), those.double()).max())


def split(states: Any, width: int, ranks: int) -> list[Any]:
    """The blocks of captured states.

    Args:
        states: [rows, any width].
        width: Of the target. A last piece that is narrower stays one; where all are narrower by the number of ranks, they are
            taken apart likewise.
        ranks: Of the group.
    """
    whole = states.shape[-1]
    if whole % width and ranks > 1 and width % ranks == 0 and whole % (width // ranks) == 0 and whole < width:
        return list(torch.split(states, width // ranks, dim=-1))
    return list(torch.split(states, width, dim=-1))


def identify(index: int, block: Any, total: Any, reference: Reference, limits: Limits, rank: int, ranks: int) -> Block:
    """What a block is.

    Args:
        index: Its place in the row.
        block: [rows, width] of this rank.
        total: The sum of that block over all ranks, or None where it is not known or shapes differ.
        reference: Of the same batch.
        limits: See :class:`flowcheck.probe.protocol.Limits`.
        rank: Whose block it is.
        ranks: Of the group.
    """
    of = reference.in_double()
    block = block.double()
    last = of.boundaries.shape[0] - 1
    if not bool(torch.isfinite(block).all()):
        bad = int((~torch.isfinite(block)).any(dim=-1).sum())
        return Block(index, "other", None, f"{bad} of {block.shape[0]} rows are not finite")
    if not bool(block.any()):
        return Block(index, "other", None, "zeros")
    if block.shape != of.boundaries.shape[1:]:
        return _of_another_shape(index, block, of, limits, rank)
    far = _relative(block, of.boundaries).amax(dim=-1)
    best = int(far.argmin())
    away = float(far[best])
    if away <= limits.tolerance:
        apart, other = _apart(of, best)
        margin = apart / limits.tolerance
        if margin < limits.margin:
            said = f"{name_of(best, last)} or {name_of(other, last)}: only {margin:.0f} tolerances apart"
            return Block(index, "inconclusive", None, said, away, margin)
        return Block(index, "boundary", best, name_of(best, last), away, margin)
    if total is not None and ranks > 1 and (found := _part(index, block, total.double(), of, limits, rank, ranks)):
        return found
    for said, boundary, value in _explanations(of, ranks):
        if (here := float(_relative(block, value).max())) <= limits.tolerance * 4:
            return Block(index, "other", boundary, said, here)
    if (found := _scaled(index, block, of, limits)) or (found := _normalised(index, block, of, limits)):
        return found
    if (found := _some_rows(index, block, of, limits)) or (found := _some_columns(index, block, of, limits)):
        return found
    return Block(
        index, "other", None, f"nothing of the reference; nearest is {name_of(best, last)}, {away:.2g} away", away
    )


def deviation(streams: Any, totals: Any, reference: Reference, limits: Limits, rank: int, ranks: int) -> int | None:
    """The first boundary that these ranks have other than one rank has it.

    Args:
        streams: [boundaries, rows, width]: what entered the layers on this rank, and what left the last one.
        totals: Their sums over the ranks: a boundary that is divided among them is not another one.
        reference: What one rank computed.
        limits: See :class:`flowcheck.probe.protocol.Limits`.
        rank: Whose streams they are.
        ranks: Of the group.
    """
    of = reference.in_double()
    for k in range(streams.shape[0]):
        mine, total = streams[k].double(), totals[k].double()
        if distance(mine, of.boundaries[k]) <= limits.tolerance:
            continue
        part = _part(k, mine, total, of, limits, rank, ranks)
        if part is None or part.boundary != k:
            return k
    return None


def against_own(
    blocks: Sequence[Block],
    values: Sequence[Any],
    streams: Any,
    totals: Any,
    reference: Reference,
    limits: Limits,
    rank: int,
    ranks: int,
) -> list[Block]:
    """Names what is nothing of the reference by what entered the layers on these ranks themselves.

    Where a model computes something else on several ranks than on one (a branch that its release does not support), one rank
    is no reference. A boundary that all ranks have alike is whole, so a block that equals it is that boundary; of any other
    nothing is known.

    Args:
        blocks: As they were identified.
        values: Their numbers.
        streams: See :func:`deviation`, likewise the rest.
        totals: See there.
        reference: See there.
        limits: See there.
        rank: See there.
        ranks: See there.
    """
    first = deviation(streams, totals, reference, limits, rank, ranks)
    if first is None:
        return list(blocks)
    own = Reference(streams, streams, torch.zeros_like(streams))
    out = []
    for block, value in zip(blocks, values, strict=True):
        if not (block.identity == "other" and block.boundary is None and block.distance is not None):
            out.append(block)
            continue
        found = identify(block.index, value, None, own, limits, rank, ranks)
        k = found.boundary
        if (
            found.identity == "boundary"
            and k is not None
            and distance(totals[k] / ranks, streams[k]) <= limits.tolerance
        ):
            out.append(
                replace(found, explanation=f"{found.explanation} as these ranks have it, otherwise than one rank")
            )
            continue
        said = f"from boundary {first} on these ranks compute something else than one rank, so nothing can be compared"
        out.append(replace(block, identity="inconclusive", explanation=said))
    return out


COARSE = Limits(tolerance=5e-3, margin=6.0)
"""For what half precision makes of one number in one process: rounded once or twice, and summed in no other order."""

NOISE = 0.25
"""How far sums in another order may have carried a boundary in half precision: beyond that ranks compute something else."""


def coarsely(
    blocks: Sequence[Block],
    values: Sequence[Any],
    wholes: Sequence[Any],
    streams: Any,
    totals: Any,
    reference: Reference,
    limits: Limits,
    rank: int,
    ranks: int,
) -> list[Block]:
    """Names what half precision has carried away from the reference by what entered the layers of this rank itself.

    After some thirty layers the order of sums alone makes several hundredths, and what is that far from a boundary may look like
    a part of it. A block that equals what this rank has at boundary k, to the rounding of one number, is boundary k where all
    ranks have that alike, so that it is no part, and where no other boundary of the reference is nearer to it. Where this rank
    has only a part of boundary k (it is summed in the next layer), and all ranks have the block alike, nothing tells noise from
    another state.

    Args:
        blocks: As they were identified.
        values: Their numbers.
        wholes: Their sums over the ranks, or None.
        streams: See :func:`deviation`, likewise the rest.
        totals: See there.
        reference: See there.
        limits: See there.
        rank: See there.
        ranks: See there.
    """
    own, of = Reference(streams, streams, torch.zeros_like(streams)), reference.boundaries.double()
    alike = [distance(total / ranks, stream) <= limits.tolerance for total, stream in zip(totals, streams, strict=True)]
    out = []
    for block, value, whole in zip(blocks, values, wholes, strict=True):
        if block.identity == "boundary" or value.shape != of.shape[1:] or not bool(torch.isfinite(value).all()):
            out.append(block)
            continue
        far = _relative(value.double(), of).amax(dim=-1)
        near = int(far.argmin())
        away = float(far[near])
        found = identify(block.index, value, None, own, COARSE, rank, ranks)
        if away <= NOISE and found.identity == "boundary" and found.boundary == near and alike[near]:
            out.append(replace(found, distance=away))
        elif away <= NOISE and not alike[near] and _is_alike(value, whole, limits, ranks):
            last = of.shape[0] - 1
            said = f"{away:.2g} from {name_of(near, last)}, of which each rank has a part: that may be another order of sums"
            out.append(Block(block.index, "inconclusive", None, said, away))
        else:
            out.append(block)
    return out


def _is_alike(value: Any, whole: Any, limits: Limits, ranks: int) -> bool:
    return whole is not None and distance(whole / ranks, value) <= limits.tolerance


def _apart(of: Reference, best: int) -> tuple[float, int]:
    """How far the nearest other boundary is, in the row that tells them apart least, and which one it is."""
    far = _relative(of.boundaries, of.boundaries[best]).amin(dim=-1)
    far[best] = float("inf")
    other = int(far.argmin())
    return float(far[other]), other


def _part(index: int, block: Any, total: Any, of: Reference, limits: Limits, rank: int, ranks: int) -> Block | None:
    last = of.boundaries.shape[0] - 1
    if total.shape != of.boundaries.shape[1:]:
        return None
    tolerance = limits.tolerance * 4
    far = _relative(total, of.boundaries).amax(dim=-1)
    best = int(far.argmin())
    if float(far[best]) <= tolerance:
        even = float(_relative(block * ranks, of.boundaries[best]).max()) <= tolerance
        share = f"1/{ranks}" if even else f"one of {ranks} parts"
        said = f"rank {rank} holds {share} of {name_of(best, last)}: the sum over the ranks is missing"
        return Block(index, "partial", best, said, float(far[best]))
    whole = of.outputs + ranks * of.residuals
    far = _relative(total, whole).amax(dim=-1)
    best = int(far.argmin())
    if float(far[best]) <= tolerance:
        added = f"one of {ranks} parts of what the last layer added to {name_of(best, last)}"
        said = f"rank {rank} holds {added}, beside the whole residual"
        return Block(index, "partial", best, said, float(far[best]))
    return None


def _explanations(of: Reference, ranks: int) -> Iterator[tuple[str, int | None, Any]]:
    last = of.boundaries.shape[0] - 1
    for k in range(last + 1):
        name = name_of(k, last)
        if bool(of.residuals[k].any()):
            yield f"{name} without its residual: only what the layer before it gave", k, of.outputs[k]
            yield f"the residual of {name} without what the layer before it gave", k, of.residuals[k]
            yield f"{name} with its residual added twice", k, of.boundaries[k] + of.residuals[k]
            if ranks > 1:
                yield (
                    f"{name} with its residual added by each of {ranks} ranks",
                    k,
                    of.outputs[k] + ranks * of.residuals[k],
                )
                yield (
                    f"{name} with what the layer before gave added {ranks} times",
                    k,
                    ranks * of.outputs[k] + of.residuals[k],
                )


def _scaled(index: int, block: Any, of: Reference, limits: Limits) -> Block | None:
    last = of.boundaries.shape[0] - 1
    factors = (block * of.boundaries).sum((-1, -2)) / of.boundaries.square().sum((-1, -2))
    far = _relative(block, factors[:, None, None] * of.boundaries).amax(dim=-1)
    best = int(far.argmin())
    if float(far[best]) > limits.tolerance * 4:
        return None
    return Block(index, "other", best, f"{float(factors[best]):.4g} times {name_of(best, last)}", float(far[best]))


def _unit(rows: Any) -> Any:
    return rows / rows.norm(dim=-1, keepdim=True).clamp_min(1e-30)


def _normalised(index: int, block: Any, of: Reference, limits: Limits) -> Block | None:
    """Rows of the right direction, of another length each: what a norm of unit weight makes of a boundary."""
    last = of.boundaries.shape[0] - 1
    for about, boundaries in (
        ("", of.boundaries),
        (" and centred", of.boundaries - of.boundaries.mean(dim=-1, keepdim=True)),
    ):
        far = _relative(_unit(block), _unit(boundaries)).amax(dim=-1)
        best = int(far.argmin())
        if float(far[best]) <= limits.tolerance * 8:
            return Block(index, "other", best, f"{name_of(best, last)}, normalised{about}", float(far[best]))
    return None


def _runs(flags: list[bool]) -> str:
    """The places of a list that are true, in words: 0-3, 7."""
    out: list[str] = []
    start: int | None = None
    for place, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = place
        if not flag and start is not None:
            out.append(str(start) if place - start == 1 else f"{start}-{place - 1}")
            start = None
    return ", ".join(out)


def _some_rows(index: int, block: Any, of: Reference, limits: Limits) -> Block | None:
    last = of.boundaries.shape[0] - 1
    same = _relative(block, of.boundaries) <= limits.tolerance
    best = int(same.sum(dim=-1).argmax())
    count = int(same[best].sum())
    if count < of.rows - 1 and (order := _order(block, of, limits)) is not None:
        said = f"{name_of(order[0], last)} with its rows in another order: {order[1]}"
        return Block(index, "other", order[0], said)
    if count == 0:
        return None
    said = f"rows {_runs(same[best].tolist())} of {of.rows} hold {name_of(best, last)}"
    rest = ~same[best]
    if not bool(block[rest].any()):
        return Block(index, "other", best, f"{said}, the others are zeros")
    also = same[:, rest].all(dim=-1)
    if bool(also.any()):
        second = int(also.nonzero()[0])
        return Block(index, "other", None, f"{said}, the others {name_of(second, last)}")
    return Block(index, "other", best, f"{said}, the others something else")


def _order(block: Any, of: Reference, limits: Limits) -> tuple[int, list[int]] | None:
    for k in range(of.boundaries.shape[0]):
        far = _relative(block[:, None, :], of.boundaries[k][None, :, :])
        nearest = far.argmin(dim=-1)
        if bool((far.gather(1, nearest[:, None]) <= limits.tolerance).all()):
            return k, nearest.tolist()
    return None


def _some_columns(index: int, block: Any, of: Reference, limits: Limits) -> Block | None:
    last = of.boundaries.shape[0] - 1
    scale = of.boundaries.norm(dim=-1, keepdim=True) / of.width**0.5
    same = ((block - of.boundaries).abs() <= limits.tolerance * scale * 4).all(dim=1)
    best = int(same.sum(dim=-1).argmax())
    count = int(same[best].sum())
    if count < max(2, of.width // 64):
        return None
    rest = "zeros" if not bool(block[:, ~same[best]].any()) else "something else"
    said = f"columns {_runs(same[best].tolist())} of {of.width} hold {name_of(best, last)}, the others are {rest}"
    return Block(index, "other", best, said)


def _of_another_shape(index: int, block: Any, of: Reference, limits: Limits, rank: int) -> Block:
    last = of.boundaries.shape[0] - 1
    rows, width = block.shape
    searches: tuple[tuple[int, int, str, Callable[[int], Any]], ...] = ()
    if width == of.width and rows < of.rows:
        searches = ((of.rows - rows + 1, rows, "rows", lambda at: of.boundaries[:, at : at + rows]),)
    elif width < of.width and rows == of.rows:
        searches = ((of.width - width + 1, width, "columns", lambda at: of.boundaries[:, :, at : at + width]),)
    elif width == of.width and rows > of.rows:
        searches = ((1, of.rows, "rows", lambda at: of.boundaries),)
    for places, size, what, part in searches:
        for at in range(places):
            mine = block[: of.rows] if rows > of.rows else block
            far = _relative(mine, part(at)).amax(dim=-1)
            best = int(far.argmin())
            if float(far[best]) <= limits.tolerance:
                if rows > of.rows:
                    said = f"{name_of(best, last)} in the first {of.rows} of {rows} rows"
                else:
                    whole = of.rows if what == "rows" else of.width
                    said = f"{what} {at}-{at + size - 1} of {whole} of {name_of(best, last)}: rank {rank} holds its own part"
                return Block(index, "other", best, said, float(far[best]))
    said = f"{rows} rows, {width} wide, where {of.rows} rows, {of.width} wide, were computed: no part of a boundary"
    return Block(index, "other", None, said)
