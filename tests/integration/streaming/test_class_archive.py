"""The class archive: written by a JVM that goes on, used by the next one."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow]

RUN = textwrap.dedent("""
    import sys
    from pathlib import Path
    from pyspark.sql import SparkSession
    from holdfast.streaming.spark.class_archive import ClassArchive
    from holdfast.streaming.spark.session import end_session

    archive = ClassArchive.here("r")
    loaded = f"-Xlog:class+load:file={sys.argv[1]}"
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "1g")
    builder = builder.config("spark.driver.extraJavaOptions", f"{archive.java_options()} {loaded}")
    builder = builder.config("spark.driver.extraClassPath", sys.argv[2])
    spark = builder.getOrCreate()
    archive.write(spark)
    assert spark.range(3).count() == 3, "Java goes on"
    end_session(spark)
    print(archive.path)
""")
FROM_ARCHIVE = "source: shared objects file (top)"


def run(
    cache: Path, loaded: Path, says: str | None = None, other_classes: Path | None = None
) -> Path:
    """Start Spark, write the archive if there is none, and end; where the archive is.

    Java tells that it writes; else the standard output is the command's own.
    """
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(loaded), str(other_classes or "")],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert says is None or done.stdout == f"{says}\n"
    return Path(done.stdout.strip().splitlines()[-1])


def test_a_driver_writes_the_archive_while_it_runs_and_the_next_one_maps_it(tmp_path: Path) -> None:
    stale = tmp_path / "holdfast" / "spark.killed.new"
    stale.parent.mkdir()
    stale.touch()
    os.utime(stale, (0, 0))
    archive = run(tmp_path, tmp_path / "first.log")
    assert list(archive.parent.iterdir()) == [archive], "no draft is left, not even a killed one's"
    assert FROM_ARCHIVE not in (tmp_path / "first.log").read_text()
    made = archive.stat()
    run(tmp_path, tmp_path / "second.log", says=str(archive))
    assert archive.stat().st_mtime_ns == made.st_mtime_ns, "one archive is enough"
    loaded = (tmp_path / "second.log").read_text()
    assert loaded.count(FROM_ARCHIVE) > 1000
    run(tmp_path, tmp_path / "third.log", says=str(archive), other_classes=tmp_path)
    assert FROM_ARCHIVE not in (tmp_path / "third.log").read_text(), "it does not fit any more"
