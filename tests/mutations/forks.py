"""Forks that renamed files, classes and the package: quiet as they are, caught when a site is lowered too."""

from __future__ import annotations

from collections.abc import Iterator

from tests.mutations.harmful import deciding, lower
from tests.mutations.operators import Maker, changes_of, edit
from tests.mutations.overlay import Changes, Rename
from tests.mutations.runner import Expect, Mutant
from tests.mutations.sites import WORDS, Code
from tests.mutations.text import Draft

__all__ = ["FORKS"]


def _renames(code: Code) -> dict[str, tuple[Rename, ...]]:
    """What a fork may rename, by a name for it."""
    workers = code.facts.workers
    enum = code.enum[1].name
    scheduler = _owner_of(code, WORDS.entry.dispatch)
    runner = [call.qualname.partition(".")[0] for call in code.calls if call.left <= 2 and "." in call.qualname]
    classes = {
        "workers": tuple(Rename("name", name, f"Acme{name}Plus") for name in workers),
        "enum": (Rename("name", enum, "RowsKept"),),
        "carriers": tuple(Rename("name", name, f"Acme{name}") for name in code.carriers),
        "scheduler": tuple(Rename("name", name, "BatchLoop") for name in scheduler[:1]),
        "runners": tuple(Rename("name", name, f"Acme{name}") for name in dict.fromkeys(runner)),
    }
    files = tuple(
        Rename("file", stem, f"acme_{stem}")
        for stem in dict.fromkeys(site.path.rpartition("/")[2].removesuffix(".py") for site in code.sites)
        if stem != "__init__"
    )
    package = (Rename("package", code.release.tree.package, "acme_engine"),)
    everything = tuple(rename for group in classes.values() for rename in group)
    return {
        **{f"class of the {name}" if name == "scheduler" else f"classes: {name}": r for name, r in classes.items()},
        "files": files,
        "package": package,
        "classes and files": (*everything, *files),
        "classes, files and package": (*everything, *files, *package),
    }


def _owner_of(code: Code, method: str) -> list[str]:
    import ast

    found: list[str] = []
    for path in dict.fromkeys(path for path, _ in code.grep(rf"^    def {method}\(")):
        for node in code.source(path).tree.body:
            if isinstance(node, ast.ClassDef) and any(getattr(s, "name", "") == method for s in node.body):
                found.append(node.name)
    return found


def renamed(code: Code) -> Iterator[Mutant]:
    path = code.enum[0].path
    for name, renames in _renames(code).items():
        if renames:
            yield Mutant(f"fork, renamed {name}", Expect.QUIET, path, 1, _text(renames), Changes({}, renames))


def renamed_and_lowered(code: Code) -> Iterator[Mutant]:
    renames = _renames(code)["classes and files"]
    for site in deciding(code, "origin"):
        with edit() as made:
            draft = Draft(code.release)
            draft.replace(site.source, site.value, lower(code, site.source))
            made.append(changes_of(draft))
        for changes, snippet in made:
            yield Mutant(
                "fork, renamed classes and files, lowered", Expect.CAUGHT, site.path, site.line,
                f"{snippet}\n{_text(renames)}", Changes(changes.files, renames), site.settings,
            )  # fmt: skip


def _text(renames: tuple[Rename, ...]) -> str:
    return "\n".join(f"{rename.kind} {rename.old} -> {rename.new}" for rename in renames)


FORKS: dict[str, Maker] = {"fork, renamed": renamed, "fork, renamed and lowered": renamed_and_lowered}
