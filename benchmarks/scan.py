"""What a scan of a released SGLang costs, cold and warm, beside what libcst needs to parse the same tree.

    python benchmarks/scan.py [VERSION ...]

Each number is taken in a process of its own. README.md in this folder says how to read them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("0.5.6", "0.5.23")
MEGA = 1_000_000

# What runs in other processes: this one stays small, since what a child has needed at most starts from its parent's.
LOCATE = """
import sys
from flowcheck.source.release import fetch, parse_release
print(fetch(parse_release(sys.argv[1]), progress=lambda line: print(line, file=sys.stderr)))
"""

PARSE = """
import json, sys, time
import libcst
from flowcheck.source import open_source

tree = open_source(sys.argv[1], include_all=True)
with open_source(sys.argv[1]) as scanned:
    in_scope = set(scanned.paths())
out = {"all": [0, 0, 0.0], "scope": [0, 0, 0.0], "failed": 0}
for path in tree.paths():
    data = tree.read(path)
    before = time.process_time()
    try:
        libcst.parse_module(data)
    except (libcst.ParserSyntaxError, RecursionError, UnicodeError):
        out["failed"] += 1
    spent = time.process_time() - before
    for row in [out["all"]] + [out["scope"]] * (path in in_scope):
        row[0] += 1
        row[1] += len(data)
        row[2] += spent
print(json.dumps(out))
"""


@dataclass(frozen=True)
class Run:
    """One scan in a process of its own."""

    wall: float
    cpu: float
    peak: float
    """Megabytes of resident memory at most."""
    report: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Parsed:
    """What libcst needed for some files."""

    files: int
    size: int
    cpu: float


def archive_of(version: str) -> str:
    """The release's archive in the ordinary cache, fetched if it is not there."""
    done = subprocess.run(
        [sys.executable, "-c", LOCATE, f"sglang=={version}"], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


def scan(archive: str, cache: Path) -> Run:
    """Runs the command line on an archive, with a cache folder."""
    report = cache / "report.json"
    command = [sys.executable, "-m", "flowcheck", "scan", archive, "--quiet", "--format", "json", "-o", str(report)]
    started = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "FLOWCHECK_CACHE_DIR": str(cache)})
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    if code not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit code {code}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(
        wall=wall,
        cpu=usage.ru_utime + usage.ru_stime,
        peak=usage.ru_maxrss * unit / MEGA,
        report=json.loads(report.read_text("utf-8")),
    )


def parse(archive: str) -> tuple[Parsed, Parsed, int]:
    """What libcst needs for all files, for those that a scan looks at, and how many it cannot parse."""
    done = subprocess.run([sys.executable, "-c", PARSE, archive], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    return Parsed(*found["all"]), Parsed(*found["scope"]), found["failed"]


def show(version: str, runs: Sequence[tuple[str, Run]], parsed: tuple[Parsed, Parsed, int] | None) -> None:
    print(f"sglang {version}")
    print(f"  {'':<24}" + "".join(f"{name:>12}" for name, _ in runs))
    rows = {
        "wall": [f"{run.wall:.2f} s" for _, run in runs],
        "CPU": [f"{run.cpu:.2f} s" for _, run in runs],
        "peak memory": [f"{run.peak:.0f} MB" for _, run in runs],
        "files indexed": [f"{run.report['stats']['files_indexed']:,}" for _, run in runs],
        "definitions indexed": [f"{run.report['stats']['definitions_indexed']:,}" for _, run in runs],
        "definitions parsed": [f"{run.report['stats']['definitions_parsed']:,}" for _, run in runs],
        "proved": [str(run.report["summary"]["proved"]) for _, run in runs],
        "violated": [str(run.report["summary"]["violated"]) for _, run in runs],
        "unproved": [str(run.report["summary"]["unproved"]) for _, run in runs],
    }
    for label, cells in rows.items():
        print(f"  {label:<24}" + "".join(f"{cell:>12}" for cell in cells))
    if parsed is None:
        return
    *sides, failed = parsed
    for label, side in zip(("all of the tree", "what a scan looks at"), sides, strict=True):
        share = ", ".join(f"{name} 1/{side.cpu / run.cpu:.1f}" for name, run in runs)
        size = f"{side.files:,} files, {side.size / MEGA:.1f} MB"
        print(f"  libcst, {label} ({size}): {side.cpu:.1f} s CPU; the scan's share of it: {share}")
    if failed:
        print(f"  libcst cannot parse {failed} of them")


def main() -> None:
    parser = argparse.ArgumentParser(description="What a scan costs, cold and warm, beside a parse by libcst.")
    parser.add_argument("versions", nargs="*", metavar="VERSION", default=VERSIONS, help="released versions of SGLang")
    parser.add_argument("--no-libcst", action="store_true", help="leave out the parse, which takes most of the time")
    options = parser.parse_args()
    for version in options.versions:
        archive = archive_of(version)
        with tempfile.TemporaryDirectory(prefix="flowcheck-benchmark-") as folder:
            runs = [(name, scan(archive, Path(folder))) for name in ("cold", "warm")]
        show(version, runs, None if options.no_libcst else parse(archive))


if __name__ == "__main__":
    main()
