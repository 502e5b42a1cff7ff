"""The pair on a page: a few rows above a scan's flows, or all that is known of it where no tree was asked."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from flowcheck.report.model import FindingCounts, Pairing, PairModel, Reading, Report
from flowcheck.report.terminal.findings import finding_lines
from flowcheck.report.terminal.text import VERDICT_STYLE, counted, labelled, wrapped

__all__ = ["LABEL_STYLES", "needs_rows", "pair_blocks", "pair_rows"]

MEANING = {
    "output": "outputs of layers (id k is boundary k+1)",
    "boundary": "inputs of layers (id k is boundary k)",
    "postnorm": "the state after the final norm",
}
FIRMNESS = {"firm": "by the key", "stated": "as a rule by the key", "presumed": "presumably, by the key"}

LABEL_STYLES = {"unproved": VERDICT_STYLE["unproved"]}
"""Labels that are verdicts."""

MOST = 12

Row = tuple[str, str]


def pair_rows(report: Report, pair: Pairing) -> list[Row]:
    """The pair in a few rows: the draft, the target, what the draft needs, and what nobody asked about them."""
    return [
        ("pair", pair.name),
        ("draft", f"{_named(pair.draft)}, {pair.algorithm}{_projection(pair, brief=True)}"),
        ("target", _target(pair.target)),
        *_needs(pair, brief=True),
        *_unproved(report),
    ]


def needs_rows(pair: Pairing) -> list[Row]:
    """What the draft needs, in one row or one for each reading."""
    return list(_needs(pair, brief=True))


def pair_blocks(report: Report, pair: Pairing, width: int, *, quiet: bool, verbose: bool) -> list[list[Text]]:
    """The whole page about a pair: what it is, the findings, one line that sums up."""
    rows = [*_all_rows(pair), *_unproved(report)]
    blocks = [] if quiet else [labelled(rows, width, indent=0, styles=LABEL_STYLES)]
    blocks += [finding_lines(finding, width, verbose=verbose) for finding in report.findings]
    return [*blocks, _summary(report, width)]


def _unproved(report: Report) -> Iterator[Row]:
    """The open questions about the pair that are no finding's: without these rows a page would be silent on them."""
    for number, reason in enumerate(_left_open(report)):
        yield "" if number else "unproved", reason


def _left_open(report: Report) -> list[str]:
    return [each.reason for each in report.unproved if each.about == "pair" and not each.rule]


def _all_rows(pair: Pairing) -> Iterator[Row]:
    draft, target = pair.draft, pair.target
    yield "pair", pair.name
    yield "draft", f"{_named(draft)}, {', '.join(draft.architectures) or 'no architecture'}"
    *others, last = pair.producers or ["an unknown producer"]
    made = f"{', '.join(others)} or {last}" if others else last
    yield "made by", f"{made}, for {pair.algorithm}{f' ({_list(pair.evidence)})' if pair.evidence else ''}"
    yield "target", f"{_target(target)}, {', '.join(target.architectures) or 'no architecture'}"
    for each in pair.ids:
        yield "ids", f"{each.key} [{_numbers(each.ids, ', ')}]: {FIRMNESS[each.firmness]}, {MEANING[each.convention]}"
    if not pair.ids:
        yield "ids", "none are written"
    yield from _needs(pair, brief=False)
    yield "fc", _projection(pair, brief=False)
    yield "depth", _depth(pair)
    yield "tokens", _of(pair.vocabulary.draft, pair.vocabulary.target)
    yield "positions", _of(draft.positions, target.positions)
    header = pair.header
    if header is not None:
        files = f" in {counted(header.files, 'file')}" if header.files > 1 else ""
        yield "header", f"{counted(header.tensors, 'tensor')}{files}"


def _named(model: PairModel) -> str:
    if not model.repository:
        return model.label
    short = model.revision[:12] if len(model.revision) == 40 else model.revision
    return f"{model.repository}{f'@{short}' if short else ''}"


def _target(target: PairModel) -> str:
    return f"{_named(target)}, {counted(target.layers or 0, 'layer')} x {target.hidden_size}"


def _needs(pair: Pairing, *, brief: bool) -> Iterator[Row]:
    trained = pair.trained
    if trained.question is None:
        for each in trained.readings[:1]:
            yield "needs", f"{_states(each)} ({_why(each, brief=True)})" if brief else f"{_states(each)}: {_why(each)}"
    else:
        only = "open: one of these" if len(trained.readings) > 1 else "open: this is a guess"
        yield "needs", f"{only}; --trained-boundaries says what it is"
        for each in trained.readings:
            yield "", _states(each) if brief else f"{_states(each)}: {_why(each)}"
    if brief:
        return
    for each in trained.set_aside:
        yield "not", f"{_states(each)}: {_why(each)}"
    for remark in trained.remarks:
        yield "note", remark


def _states(reading: Reading) -> str:
    if not reading.boundaries:
        return "the state after the final norm"
    after = " and the state after the final norm" if reading.post_norm else ""
    return f"boundaries {_numbers(reading.boundaries, ' ')}{after}"


def _numbers(numbers: list[int], between: str) -> str:
    """Ids as people write them; a list, or a number, that nobody can read is cut."""
    shown = [str(each) if abs(each) < 10**15 else "…" for each in numbers[:MOST]]
    return between.join([*shown, "…"] if len(numbers) > MOST else shown)


def _why(reading: Reading, *, brief: bool = False) -> str:
    if reading.basis == "key" and reading.key:
        return f"by the convention of {reading.key}" if not brief else f"by {reading.key}"
    if brief and reading.basis in ("declared", "computed", "default"):
        return "the default, as no ids are written" if reading.basis == "default" else reading.basis
    return reading.reason


def _projection(pair: Pairing, *, brief: bool) -> str:
    fc = pair.fc
    if brief:
        source = "header" if fc.found is not None else "configuration"
        width = fc.found if fc.found is not None else fc.wanted
        return f", fc {width} -> {fc.output} ({source})" if width is not None else ""
    terms = "an embedding and one state" if fc.with_embedding else f"{fc.states} x {fc.state_width}"
    wanted = f"{terms} = {fc.wanted} by the configuration" if fc.wanted is not None else ""
    if fc.found is not None:
        return f"{fc.found} -> {fc.output} in the checkpoint{f', {wanted}' if wanted else ''}"
    if pair.header is None:
        return wanted or "none by the configuration"
    missing = "its shape in the checkpoint is packed" if pair.header.fc else "none in the checkpoint"
    return f"{missing}{f', {wanted}' if wanted else ''}"


def _depth(pair: Pairing) -> str:
    written = counted(pair.draft.layers, "layer") if pair.draft.layers is not None else "none written"
    if pair.header is None:
        return written
    called = f" ({pair.header.layer_naming})" if pair.header.layer_naming else ""
    return f"{written}; {counted(pair.header.layers, 'layer')} in the checkpoint{called}"


def _of(part: int | None, whole: int | None) -> str:
    draft = f"{part}" if part is not None else "not written"
    return f"{draft} of the target's {whole}" if whole is not None else draft


def _list(texts: list[str]) -> str:
    return "; ".join(texts)


def _summary(report: Report, width: int) -> list[Text]:
    summary = report.summary
    line = Text(_counted_findings(summary.findings))
    if left := len(_left_open(report)):
        line.append(f", {counted(left, 'open question')}")
    if summary.hidden:
        line.append(f", {summary.hidden} hidden by --select or --ignore")
    line.append("; no tree was asked (flowcheck scan does)")
    return wrapped(line, width)


def _counted_findings(found: FindingCounts) -> str:
    parts = [counted(number, noun) for noun, number in found if number]
    return ", ".join(parts) or "no findings"
