"""Java's class archive: a JVM that maps Spark's classes from a file starts in about half the time.

The first driver on a machine that has caught up writes the archive, and every later one uses it. Java pauses
for some seconds meanwhile, once. The archive depends on the Java and the Spark that made it, and on where
they are installed, so its name has all of that, and a JVM that it does not fit starts without it.
Only speed depends on it.
"""

import hashlib
import logging
import os
import shutil
import threading
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from holdfast.ft_policies import quantities
from holdfast.resources.clock import SYSTEM_CLOCK

STALE_SECONDS = 600.0
# Java logs to its standard error: the standard output of a command belongs to the command.
QUIET = "-Xlog:disable -Xlog:all=warning:stderr -Xlog:cds*=off:stderr"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassArchive:
    """The archive of this machine's Java and Spark, and where this replica would write it."""

    path: Path
    replica: str
    _writing: threading.Lock = field(default_factory=threading.Lock, compare=False)

    @classmethod
    def here(cls, replica: str) -> "ClassArchive":
        """The archive in this user's cache folder."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        name = f"spark-{metadata.version('pyspark')}-{_fingerprint(_java(), _spark_jars())}.jsa"
        return cls(cache / "holdfast" / name, replica)

    def java_options(self) -> str:
        """Options to use the archive if there is one, else to record what is needed to write it."""
        if self.path.exists():
            return f'-Xshare:auto "-XX:SharedArchiveFile={self.path}" {QUIET}'
        return f"-XX:+RecordDynamicDumpInfo {QUIET}"

    def discard(self) -> bool:
        """Remove an archive that may have kept a JVM from starting; `True` if there was one."""
        existed = self.path.exists()
        self.path.unlink(missing_ok=True)
        return existed

    def write_after(self, event: threading.Event, spark: SparkSession) -> None:
        """Write the archive in the background, once the event is set."""

        def run() -> None:
            event.wait()
            self.write(spark)

        threading.Thread(target=run, name="class-archive", daemon=True).start()

    def write(self, spark: SparkSession) -> None:
        """Write the classes that are loaded by now, atomically, unless there is an archive."""
        with self._writing:
            if self.path.exists():
                return
            try:
                self._write(spark)
            except (OSError, Py4JError) as error:
                log.info("class archive not written: %s", error)

    def _write(self, spark: SparkSession) -> None:
        began = SYSTEM_CLOCK.monotonic()
        draft = self.path.with_suffix(f".{self.replica}.new")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._remove_stale_drafts()
        answer = _diagnose(spark, "vmCds", "dynamic_dump", str(draft))
        if not draft.exists():
            log.info("class archive not written: Java answered %s", answer)
            return
        draft.rename(self.path)
        seconds = SYSTEM_CLOCK.monotonic() - began
        took = quantities.seconds(seconds)
        log.info("class archive written to %s in %s: drivers start faster", self.path, took)

    def _remove_stale_drafts(self) -> None:
        """Remove the drafts of drivers that were killed while they wrote."""
        for draft in self.path.parent.glob("*.new"):
            if SYSTEM_CLOCK.now() - draft.stat().st_mtime > STALE_SECONDS:
                draft.unlink(missing_ok=True)


def _diagnose(spark: SparkSession, command: str, *arguments: str) -> str:
    """Run a diagnostic command in the JVM, as `jcmd` would, which a JRE does not have.

    Through reflection, because the class of the MBean server is hidden and only its interface is not.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - there is no public way to the JVM
    jvm = gateway.jvm

    def array(of: Any, *items: Any) -> Any:
        filled = gateway.new_array(of, len(items))
        for index, item in enumerate(items):
            filled[index] = item
        return filled

    strings = "[Ljava.lang.String;"
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    methods = jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
    [invoke] = [method for method in methods if method.getName() == "invoke"]
    bean = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    given = array(jvm.Object, array(jvm.String, *arguments))
    signature = array(jvm.String, strings)
    return str(invoke.invoke(server, array(jvm.Object, bean, command, given, signature)))


def _java() -> Path:
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    return java.resolve()


def _spark_jars() -> Path:
    home = os.environ.get("SPARK_HOME")
    return (Path(home) if home else Path(pyspark.__file__).parent).resolve() / "jars"


def _fingerprint(*installed: Path) -> str:
    """Hash paths and times of installations: one that is replaced counts as another."""
    births = [(str(path), path.stat().st_mtime_ns if path.exists() else 0) for path in installed]
    return hashlib.sha256(repr(births).encode()).hexdigest()[:12]
