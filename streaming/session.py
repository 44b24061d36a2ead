"""The Spark session of a replica."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from configs.stream import FIXED_SPARK_CONF
from ft_policies.errors import TransientError
from resources.control_store.records import Slot
from streaming.binding import BINDING, PROVIDER, SHUFFLE_PARTITIONS
from streaming.class_archive import ClassArchive
from streaming.collector import collector
from streaming.epoch_source import EpochSource
from streaming.spec import ReplicaSpec
from streaming.worker_python import start_workers_with, worker_python

log = logging.getLogger(__name__)

END_SECONDS = 20.0
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOGGING = Path(__file__).with_name("log4j2.properties")

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.sql.streaming.pollingDelay": "25ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    SHUFFLE_PARTITIONS: BINDING[SHUFFLE_PARTITIONS],
    # Spark's usual one starts a process (`readlink`) for each file of a checkpoint that it looks at.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# A snapshot has a digest of every file, so Hadoop's checksum files beside them only cost time.
RAW_FILES = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}


def start_session(spec: ReplicaSpec) -> SparkSession:
    """Start Spark as declared, with the epoch source registered."""
    start_workers_with(worker_python(spec.folder) if _is_local(spec) else sys.executable)
    archive = ClassArchive.here(spec.replica)
    chosen = _collector(spec)
    try:
        spark = _builder(spec, f"{archive.java_options()} {chosen}").getOrCreate()
    except PySparkRuntimeError:
        if not archive.discard() and not chosen:
            raise
        log.exception("Java did not start with what makes it faster: trying without")
        spark = _builder(spec, archive.java_options()).getOrCreate()
    if spec.slot is Slot.PRIMARY:
        from streaming.warming import warm_up  # what it imports, Java need not wait for

        threading.Thread(target=warm_up, args=(spark,), name="warm-up", daemon=True).start()
    spark.dataSource.register(EpochSource)
    return spark


def _collector(spec: ReplicaSpec) -> str:
    wanted = spec.stream.resources
    named = (JAVA_OPTIONS, "spark.driver.defaultJavaOptions")
    return collector(wanted.driver_memory, *(wanted.spark_conf.get(one, "") for one in named))


def _builder(spec: ReplicaSpec, faster: str) -> SparkSession.Builder:
    wanted = spec.stream.resources
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    elsewhere = {"spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    logs = f'"-Dlog4j2.configurationFile=file:{LOGGING}" "-Dholdfast.folder={spec.folder}"'
    theirs = wanted.spark_conf.get(JAVA_OPTIONS, "")
    conf = {
        **DEFAULTS,
        **files_conf(wanted.spark_conf),
        **(local if _is_local(spec) else elsewhere),
        "spark.local.dir": str(spec.folder / "spark"),
        "spark.sql.warehouse.dir": str(spec.folder / "warehouse"),
        "spark.driver.memory": wanted.driver_memory,
        **wanted.spark_conf,
        **FIXED_SPARK_CONF,
        JAVA_OPTIONS: f"{logs} {faster} {theirs}".strip(),
    }
    builder = SparkSession.builder.appName(f"holdfast-{spec.stream.name}").master(wanted.master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder


def _is_local(spec: ReplicaSpec) -> bool:
    return spec.stream.resources.master.startswith("local")


def files_conf(spark_conf: Mapping[str, str]) -> Mapping[str, str]:
    """How local files are written; RocksDB's state store insists on Hadoop's own way."""
    return {} if "rocksdb" in spark_conf.get(PROVIDER, "").lower() else RAW_FILES


def end_session(spark: SparkSession) -> None:
    """Stop Spark, and wait until its Java is gone, too."""
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


def demand_java(spark: SparkSession) -> None:
    """Notice a JVM that was killed: a replica that only stands by would not, until it is needed."""
    jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001
    if jvm.poll() is not None:
        raise TransientError(
            f"Java has ended by itself ({jvm.returncode})",
            hint="was the machine short of memory? Another replica is started",
        )


def binding_conf(spark: SparkSession) -> dict[str, str]:
    """The settings that a checkpoint made by this session depends on."""
    return {key: spark.conf.get(key, usual) or usual for key, usual in BINDING.items()}
