"""The Python that Spark starts its workers with.

Spark puts its own Python code first on their path, as zip files, and Python compiles again whatever it
imports from a zip: a second for each of the processes that the start of a query waits for, one after
the other. The same code is installed beside it, compiled.

After each task Spark has its workers collect garbage, in all that they ever imported. That takes longer than most
tasks of a stream. What is imported stays for good, so it is left out.
"""

import gc
import os
import shlex
import sys
from functools import cache
from pathlib import Path

SCRIPT = """\
#!/bin/sh
# {python}, without Spark's zip files on its path: PySpark is installed there, and compiled.
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
    case $entry in
        */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
        *) kept=$kept${{kept:+:}}$entry ;;
    esac
done
PYTHONPATH=$kept exec {python} "$@"
"""


def start_workers_with(python: str) -> None:
    """Set the Python that Spark, started by this process, uses for its workers in tasks and on the driver."""
    os.environ.update(PYSPARK_PYTHON=python, PYSPARK_DRIVER_PYTHON=python)


def worker_python(folder: Path) -> str:
    """Write a command that runs this Python without Spark's zip files; this Python if the folder forbids execution."""
    script = folder / "python"
    script.write_text(SCRIPT.format(python=shlex.quote(sys.executable)))
    script.chmod(0o700)
    return str(script) if os.access(script, os.X_OK) else sys.executable


@cache
def freeze_imports() -> None:
    """Exclude all objects of this process from later garbage collections; only the first call does it."""
    gc.collect()
    gc.freeze()
