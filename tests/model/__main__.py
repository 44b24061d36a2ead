# ruff: noqa: T201 (it prints its result)
"""`python -m tests.model`: search all interleavings within the full bound; exit code 1 on a violation."""

import argparse
import gc
import sys

from holdfast.resources.clock import SYSTEM_CLOCK
from tests.model.scenarios import FULL, SMALL
from tests.model.search import Result, search
from tests.model.state import Bound


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--small", action="store_true", help="the bound of the tests")
    parser.add_argument("--only", default="", help="only the searches whose name contains this")
    given = parser.parse_args()
    gc.disable()  # millions of states, and no cycles among them
    chosen = {
        name: bound
        for name, bound in (SMALL if given.small else FULL).items()
        if given.only in name
    }
    results = [_run(name, bound) for name, bound in chosen.items()]
    print(f"{sum(result.states for result in results)} states in all")
    return 1 if any(result.violation for result in results) else 0


def _run(name: str, bound: Bound) -> Result:
    began = SYSTEM_CLOCK.monotonic()
    result = search(bound)
    seconds = SYSTEM_CLOCK.monotonic() - began
    verdict = result.violation or "no violation"
    print(f"{name}: {result.states} states, {result.at_rest} at rest, {seconds:.0f} s: {verdict}")
    for number, label in enumerate(result.trace, 1):
        print(f"  {number:3} {label}")
    sys.stdout.flush()
    return result


if __name__ == "__main__":
    sys.exit(main())
