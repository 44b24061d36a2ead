"""What several integration tests share: one Spark session a run, one S3 server a module."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.configs.declarations.stream import FIXED_SPARK_CONF
from holdfast.resources.object_store.embedded import EmbeddedS3
from holdfast.resources.object_store.s3 import S3ObjectStore
from holdfast.streaming.spark.session import DEFAULTS
from holdfast.streaming.workers import start_workers_with, worker_python

# As a replica's, in a Java that has no time to compile well.
SMALL = {
    **DEFAULTS,
    **FIXED_SPARK_CONF,
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
# pragma: allowlist nextline secret
S3_CREDENTIALS = {"TABLES_KEY": "key", "TABLES_SECRET": "secret"}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small local session; tests stop their queries and leave the session running."""
    start_workers_with(worker_python(tmp_path_factory.mktemp("spark")))
    os.environ.update(S3_CREDENTIALS)  # Spark's Python workers see what the JVM was started with
    builder = SparkSession.builder.master("local[1]").appName("holdfast-integration")
    session = builder.config(map=SMALL).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def embedded_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedS3]:
    """A running S3 server over a folder of its own."""
    server = EmbeddedS3(Path(tmp_path_factory.mktemp("embedded-s3")))
    server.ensure()
    yield server
    server.stop()


@pytest.fixture
def s3_store(embedded_s3: EmbeddedS3) -> S3ObjectStore:
    """An empty bucket on the module's S3 server."""
    store = S3ObjectStore(embedded_s3.connection)
    store.delete([item.key for item in store.list("")])
    return store
