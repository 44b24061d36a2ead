"""Java's class archive: a JVM that maps Spark's classes from a file starts in about half the time.

The first replica on a machine that stops in good order leaves the archive behind; every later one
uses it. It depends on the Java and the Spark that made it, so both are in its name, and a JVM that
it does not fit starts without it. Nothing depends on it but speed.
"""

import hashlib
import logging
import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

WRITE_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of this machine's Java and Spark, and where this replica would write it."""

    path: Path
    replica: str

    @classmethod
    def here(cls, replica: str) -> "ClassArchive":
        """The archive in this user's cache folder."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        spark, java = metadata.version("pyspark"), _java_fingerprint()
        return cls(cache / "holdfast" / f"spark-{spark}-java-{java}.jsa", replica)

    def java_options(self) -> str:
        """Use the archive if there is one, else record what it takes to write it at the end."""
        if self.path.exists():
            return f'-Xshare:auto "-XX:SharedArchiveFile={self.path}" -Xlog:cds=off'
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            log.info("drivers start without a class archive: %s", error)
            return ""
        return f'"-XX:ArchiveClassesAtExit={self._draft}" -Xlog:cds=off -Xlog:cds+dynamic=off'

    def discard(self) -> bool:
        """Remove an archive that may have kept a JVM from starting; whether there was one."""
        there = self.path.exists()
        self.path.unlink(missing_ok=True)
        return there

    def end(self, spark: SparkSession) -> None:
        """Stop Spark and its JVM; the archive counts only if the JVM came to its proper end."""
        gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - there is no public way to the JVM
        spark.stop()
        gateway.shutdown()
        jvm: subprocess.Popen[bytes] = gateway.proc
        if jvm.stdin is not None:
            jvm.stdin.close()
        try:
            ended = jvm.wait(WRITE_SECONDS)
        except subprocess.TimeoutExpired:
            jvm.kill()
            ended = jvm.wait()
        if ended == 0 and self._draft.exists():
            self._draft.rename(self.path)
            log.info("the next driver on this machine starts faster: wrote %s", self.path)
        self._draft.unlink(missing_ok=True)

    @property
    def _draft(self) -> Path:
        return self.path.with_suffix(f".{self.replica}.new")


def _java_fingerprint() -> str:
    home = os.environ.get("JAVA_HOME")
    found = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    java = found.resolve()
    birth = java.stat().st_mtime_ns if java.exists() else 0
    return hashlib.sha256(f"{java} {birth}".encode()).hexdigest()[:12]
