"""A Spark cluster of one worker on this machine, from the same PySpark as everything else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from holdfast.resources.process import ProcessHandle, launch
from holdfast.resources.service import find_free_port
from tests.waiting import wait_until

SPARK = Path(pyspark.__file__).parent
START_SECONDS = 60.0


@contextmanager
def a_spark_cluster(folder: Path, *, cores: int = 1) -> Iterator[str]:
    """The URL of its master."""
    url = f"spark://127.0.0.1:{find_free_port()}"
    log = folder / "master.log"
    master = _started("master.Master", "--port", url.rsplit(":", 1)[1], log=log)
    started = [master]
    try:
        _await(log, "I have been elected leader")
        options = ("--cores", str(cores), "--memory", "2g", "--work-dir", str(folder / "work"), url)
        started.append(_started("worker.Worker", *options, log=folder / "worker.log"))
        _await(log, "Registering worker")
        yield url
    finally:
        for process in reversed(started):
            process.kill()


def _started(kind: str, *options: str, log: Path) -> ProcessHandle:
    return launch(
        [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1",
         "--webui-port", "0", *options],
        folder=log.parent,
        output=log,
        environment={"SPARK_HOME": str(SPARK), "SPARK_NO_DAEMONIZE": "1"},
    )  # fmt: skip


def _await(log: Path, words: str) -> None:
    def read() -> str:
        return log.read_text(errors="replace") if log.exists() else ""

    wait_until(
        lambda: words in read(),
        within_seconds=START_SECONDS,
        every_seconds=0.1,
        story=lambda: read()[-2000:],
    )
