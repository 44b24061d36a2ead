"""The Spark session of a replica.

It chooses Java's garbage collector for a driver with a heap of moderate size. In a small heap Java's usual one (G1)
treats the large arrays of a streaming query, such as the map that Spark copies for each version of its state, as
exceptions. It collects all the time because of them, and pauses for tenths of a second in the middle of an
epoch. The parallel collector takes less CPU, and hardly pauses except for a rare full collection: on two
cores about a second for each live GB. So large heaps keep G1, and so does a stream whose declaration
chooses a collector.
"""

import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from holdfast.configs.declarations.stream import FIXED_SPARK_CONF
from holdfast.configs.secret_references import resolve_references
from holdfast.ft_policies.errors import TransientError
from holdfast.resources.private import write_private
from holdfast.streaming.spark.checkpoint import CHECKPOINT_CONF, PROVIDER, SHUFFLE_PARTITIONS
from holdfast.streaming.spark.class_archive import ClassArchive
from holdfast.streaming.spark.epoch_source import EpochSource
from holdfast.streaming.spec import ReplicaSpec
from holdfast.streaming.workers import start_workers_with, worker_python

PARALLEL = "-XX:+UseParallelGC"
MODERATE_BYTES = 4 * 2**30
# Java and Spark read these by themselves.
ENVIRONMENT = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_CHOSEN = re.compile(r"-XX:[+-]Use\w*GC\b")
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
END_SECONDS = 20.0
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOGGING = Path(__file__).with_name("log4j2.properties")
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.sql.streaming.pollingDelay": "25ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    SHUFFLE_PARTITIONS: CHECKPOINT_CONF[SHUFFLE_PARTITIONS],
    # Spark's usual one starts a process (`readlink`) for each file of a checkpoint that it looks at.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Hadoop sets the rights of each file itself, by an umask of its own.
    "spark.hadoop.fs.permissions.umask-mode": "077",
}
# A snapshot has a digest of every file, so Hadoop's checksum files beside them only cost time.
RAW_FILES = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}

log = logging.getLogger(__name__)


def choose_collector(driver_memory: str, *options: str) -> str:
    """The option that chooses a garbage collector; empty if Java's or the user's choice stands."""
    if any(_CHOSEN.search(option) for option in (*options, *map(_of_environment, ENVIRONMENT))):
        return ""
    return PARALLEL if _bytes(driver_memory) <= MODERATE_BYTES else ""


def _of_environment(name: str) -> str:
    return os.environ.get(name, "")


def _bytes(written: str) -> int:
    """A size as Spark writes it: 512m, 2g."""
    return int(written[:-1]) * _UNITS[written[-1].lower()]


def start_session(spec: ReplicaSpec) -> SparkSession:
    """Start Spark as declared, with the epoch source registered."""
    start_workers_with(worker_python(spec.folder) if _is_local(spec) else sys.executable)
    archive = ClassArchive.here(spec.replica)
    chosen = _collector_option(spec)
    try:
        spark = _start(spec, f"{archive.java_options()} {chosen}")
    except PySparkRuntimeError:
        if not archive.discard() and not chosen:
            raise
        log.exception(
            "Java did not start: trying without the class archive and the chosen collector"
        )
        spark = _start(spec, archive.java_options())
    spark.dataSource.register(EpochSource)
    return spark


def _collector_option(spec: ReplicaSpec) -> str:
    resources = spec.stream.resources
    keys = (JAVA_OPTIONS, "spark.driver.defaultJavaOptions")
    return choose_collector(
        resources.driver_memory, *(resources.spark_conf.get(key, "") for key in keys)
    )


def _start(spec: ReplicaSpec, faster: str) -> SparkSession:
    conf = _conf(spec, faster)
    # The builder itself would pass the settings as arguments.
    start_java = SparkContext._ensure_initialized  # noqa: SLF001
    launch_java(settings_file(spec), conf, start_java)
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def settings_file(spec: ReplicaSpec) -> Path:
    """Where the settings are while Java starts; they may have secrets."""
    return spec.folder / "spark.properties"


def launch_java(file: Path, conf: Mapping[str, str], start: Callable[[], None]) -> None:
    """Start the JVM with its settings in a private file: every user of the host can read its arguments."""
    submit = os.environ.get(SUBMIT_ARGUMENTS)
    options = f"--properties-file {shlex.quote(str(file))} --load-spark-defaults"
    write_private(file, to_properties(conf))
    os.environ[SUBMIT_ARGUMENTS] = f"{options} {submit or 'pyspark-shell'}"
    try:
        start()
    finally:
        del os.environ[SUBMIT_ARGUMENTS]
        if submit is not None:
            os.environ[SUBMIT_ARGUMENTS] = submit
        file.unlink()


def to_properties(conf: Mapping[str, str]) -> str:
    """The settings as a file of Java properties."""
    return "".join(f"{_escape(key, ' :=#!')}={_escape(value)}\n" for key, value in conf.items())


def _escape(text: str, special: str = "") -> str:
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    escapes |= {character: f"\\{character}" for character in special}
    return "".join(escapes.get(character, character) for character in text)


def _conf(spec: ReplicaSpec, faster: str) -> dict[str, str]:
    resources = spec.stream.resources
    local = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Other users of the host reach these ports, too. Spark makes the secret itself for a local master.
        "spark.authenticate": "true",
    }
    elsewhere = {"spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    logs = f'"-Dlog4j2.configurationFile=file:{LOGGING}" "-Dholdfast.folder={spec.folder}"'
    temporary = place_temporary_files(spec.folder)
    declared_options = resources.spark_conf.get(JAVA_OPTIONS, "")
    return {
        "spark.app.name": f"holdfast-{spec.stream.name}",
        "spark.master": resources.master,
        **DEFAULTS,
        **files_conf(resources.spark_conf),
        **(local if _is_local(spec) else elsewhere),
        "spark.local.dir": str(spec.folder / "spark"),
        "spark.sql.warehouse.dir": str(spec.folder / "warehouse"),
        "spark.driver.memory": resources.driver_memory,
        **resolve_references(resources.spark_conf, os.environ),
        **FIXED_SPARK_CONF,
        JAVA_OPTIONS: f"{logs} {temporary} {faster} {declared_options}".strip(),
    }


def place_temporary_files(folder: Path) -> str:
    """The option that lets Java keep its temporary files in the folder of the replica, which goes with it.

    Java deletes them when it ends, and not when it is killed: with RocksDB's library 15 MB for each lost driver. As
    there are libraries among them, a folder that forbids execution has none.
    """
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return ""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return f'"-Djava.io.tmpdir={temporary}"'


def _is_local(spec: ReplicaSpec) -> bool:
    return spec.stream.resources.master.startswith("local")


def files_conf(spark_conf: Mapping[str, str]) -> Mapping[str, str]:
    """Settings for local files; RocksDB's state store needs Hadoop's default."""
    return {} if "rocksdb" in spark_conf.get(PROVIDER, "").lower() else RAW_FILES


def end_session(spark: SparkSession) -> None:
    """Stop Spark, and wait until its JVM has ended."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - there is no public way to the JVM
    spark.stop()
    gateway.shutdown()
    jvm: subprocess.Popen[bytes] = gateway.proc
    if jvm.stdin is not None:
        jvm.stdin.close()
    try:
        jvm.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def require_java(spark: SparkSession) -> None:
    """Raise if the JVM has ended: a replica on standby would not notice until it is needed."""
    jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001
    if jvm.poll() is not None:
        raise TransientError(
            f"the JVM of this driver ended unexpectedly: exit code {jvm.returncode}",
            hint="check the free memory of the machine; another replica is started",
        )


def checkpoint_conf(spark: SparkSession) -> dict[str, str]:
    """The settings that a checkpoint made by this session depends on."""
    return {key: spark.conf.get(key, usual) or usual for key, usual in CHECKPOINT_CONF.items()}
