"""``flowcheck rules`` and ``flowcheck explain``: what is checked, why it matters, how to mend it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from flowcheck.cli.errors import InputError
from flowcheck.cli.output import write

if TYPE_CHECKING:
    from flowcheck.checks.rules import RuleBook

__all__ = ["RulesDir", "explain", "read_rules", "rules"]

WIDTH = 80

RulesDir = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads this at run time
    typer.Option("--rules", metavar="DIR", help="A folder of TOML files that change rules by their id."),
]


def read_rules(overlay: Path | None) -> RuleBook:
    """The rules with a team's own on top; a file that cannot be used is the user's to mend."""
    from flowcheck.checks.rules import RuleError, load_rules

    try:
        return load_rules(overlay)
    except RuleError as error:
        raise InputError(str(error)) from None


def rules(rules_dir: RulesDir = None) -> None:
    """List the rules."""
    lines = []
    for rule in read_rules(rules_dir):
        lead = f"{rule.id}  {rule.severity.value:<7}  "
        lines.append(textwrap.fill(rule.title, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead)))
    _print(lines)


def explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="The id of a rule, or its name.")],
    rules_dir: RulesDir = None,
) -> None:
    """Explain a rule: why it matters, what it looks like at run time, how to mend it."""
    book = read_rules(rules_dir)
    wanted = next((each for each in book if rule.strip().lower() in (each.id.lower(), each.name)), None)
    if wanted is None:
        raise InputError(f"no rule is called {rule!r}; known are {', '.join(each.id for each in book)}")
    lines = [
        f"{wanted.id} {wanted.name}  ({wanted.severity.value}, {wanted.family})",
        textwrap.fill(wanted.title, WIDTH),
    ]
    for label, text in (("Why", wanted.why), ("At run time", wanted.runtime_symptom), ("Fix", wanted.fix)):
        lines.append(f"\n{label}")
        lines.append(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  "))
    if wanted.parameters:
        lines.append("\nParameters")
        for key, value in wanted.parameters.items():
            lines.append(f"  {key} = {value!r}")
    _print(lines)


def _print(lines: list[str]) -> None:
    write("".join(f"{line}\n" for line in lines))
