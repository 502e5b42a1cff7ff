"""``python -m tests.mutations VERSION [--only OPERATOR] [--limit N] [--jobs N] [--list]``"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

from tests.mutations.catalogue import chosen, mutants_of
from tests.mutations.runner import RESULTS, Laboratory, Outcome, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description="Mutants of released SGLang trees.")
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    parser.add_argument("--only", default="", help="operators whose name holds this")
    parser.add_argument("--per-operator", type=int, default=0, help="at most so many sites of each operator (0: all)")
    parser.add_argument("--limit", type=int, default=0, help="at most so many mutants (0: all)")
    parser.add_argument("--shuffle", type=int, default=None, metavar="SEED", help="in a random order")
    parser.add_argument("--jobs", type=int, default=None, help="worker processes")
    parser.add_argument("--cache", type=Path, default=None, help="keep the syntax cache here")
    parser.add_argument("--list", action="store_true", help="print the mutants, scan nothing but the release")
    options = parser.parse_args()
    failed = 0
    for version in options.versions:
        started = time.perf_counter()
        laboratory = Laboratory(version, options.cache, options.jobs)
        mutants = [m for m in mutants_of(laboratory) if options.only in m.operator]
        mutants = chosen(mutants, options.per_operator, options.limit)
        if options.shuffle is not None:
            random.Random(options.shuffle).shuffle(mutants)
        print(f"{version}: {len(mutants)} mutants, {laboratory.baseline.proved} proved unchanged", flush=True)
        if options.list:
            for mutant in mutants:
                print(f"{mutant.expect.value:8} {mutant.name}")
            continue
        for result in laboratory.run(mutants):
            print(f"{result.outcome.value:24} {result.scan.seconds:5.1f} s  {result.mutant.name}", flush=True)
            failed += result.failed
            if result.failed or result.outcome in (Outcome.WEAK, Outcome.UNNOTICED):
                print("\n".join("    " + line for line in result.mutant.snippet.splitlines()[:12]))
                print("\n".join("    -> " + line for line in result.said().splitlines()), flush=True)
        laboratory.close()
        print(f"{time.perf_counter() - started:.0f} s", flush=True)
    print("\n".join(table(RESULTS)))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
