"""Java's garbage collector, for a driver with a heap of moderate size.

In a small heap Java's usual one (G1) takes the large arrays of a streaming query, such as the map that Spark copies
for each version of its state, for exceptions. It cleans up all the time on account of them, and stands still for
tenths of a second in the middle of an epoch. The parallel one takes less CPU, and hardly stands still but for a
whole collection once in a while: on two cores about a second for each GB that is alive. So large heaps keep G1, and
so does whoever has chosen a collector.
"""

import os
import re

PARALLEL = "-XX:+UseParallelGC"
MODERATE_BYTES = 4 * 2**30
# Java and Spark read these by themselves.
ENVIRONMENT = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")

_CHOSEN = re.compile(r"-XX:[+-]Use\w*GC\b")
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def collector(driver_memory: str, *options: str) -> str:
    """The option that chooses it, next to a user's own; none where Java's choice or the user's stands."""
    if any(_CHOSEN.search(each) for each in (*options, *map(_of_environment, ENVIRONMENT))):
        return ""
    return PARALLEL if _bytes(driver_memory) <= MODERATE_BYTES else ""


def _of_environment(name: str) -> str:
    return os.environ.get(name, "")


def _bytes(written: str) -> int:
    """A size as Spark writes it: 512m, 2g."""
    return int(written[:-1]) * _UNITS[written[-1].lower()]
