"""The Java of a replica: what makes it faster, what a site has chosen, who may talk to it, and what others see of it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.resources.control_store.store import ControlStore
from tests.builders.replicas import a_spec

pytestmark = pytest.mark.integration
SECRET = "as-quiet-as-a-mouse"  # noqa: S105  # pragma: allowlist secret
SPARK_CONF = {
    "spark.hadoop.tables.password": "${HUSH}",
    # Spark logs all its settings.
    "spark.logConf": "true",
    "spark.log.level": "INFO",
}
RUN = textwrap.dedent("""
    import os, socket, struct, sys
    from pathlib import Path
    import psutil
    from holdfast.streaming.spark.session import checkpoint_conf, end_session, start_session
    from holdfast.streaming.spark.checkpoint import CHECKPOINT_CONF
    from holdfast.streaming.spec import ReplicaSpec

    def ask_as_a_stranger(port):
        # Without authentication Spark hands what follows the header to Java's deserialisation.
        header, body = struct.pack(">bqi", 3, 1, 1), b"x"
        with socket.create_connection(("127.0.0.1", port), 20) as connection:
            connection.sendall(struct.pack(">q", 8 + len(header) + len(body)) + header + body)
            return connection.recv(4096)

    def arguments_of(pid):
        return Path(f"/proc/{pid}/cmdline").read_text()

    spark = start_session(ReplicaSpec.load(Path(sys.argv[1])))
    secret = os.environ["HUSH"]
    assert spark.sparkContext.getConf().get("spark.hadoop.tables.password") == secret
    java = spark.sparkContext._gateway.proc.pid
    assert "--properties-file" in arguments_of(java)
    started = [child.pid for child in psutil.Process().children(recursive=True)]
    assert not any(secret in arguments_of(pid) for pid in {java, *started})
    assert spark._jvm.System.getProperty("java.io.tmpdir") == f"{sys.argv[1]}/tmp"
    beans = spark._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    names = [bean.getName() for bean in beans]
    assert checkpoint_conf(spark) == CHECKPOINT_CONF
    assert b"Expected SaslMessage" in ask_as_a_stranger(int(spark.conf.get("spark.driver.port")))
    end_session(spark)
    print(*names, sep=",")
""")


def collectors(folder: Path, **environment: str) -> str:
    """What a driver with usual memory collects its garbage with."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder)],
        env={**os.environ, "HUSH": SECRET, **environment}, check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("site", "names"),
    [
        ("", "PS MarkSweep,PS Scavenge"),
        pytest.param("-XX:+UseSerialGC", "Copy,MarkSweepCompact", marks=pytest.mark.slow),
    ],
)
def test_a_site_s_choice_of_a_collector_stands(tmp_path: Path, site: str, names: str) -> None:
    (tmp_path / "conf").mkdir()
    defaults = f"spark.driver.defaultJavaOptions {site}\n" if site else ""
    (tmp_path / "conf" / "spark-defaults.conf").write_text(defaults)
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        spec = a_spec(tmp_path, store, resources={"spark_conf": SPARK_CONF})
        spec.save()
    used = collectors(spec.folder, SPARK_CONF_DIR=str(tmp_path / "conf"))
    assert sorted(used.split(",")) == sorted(names.split(","))
    require_secret_in_no_file(tmp_path, spec.folder)


def require_secret_in_no_file(project: Path, replica: Path) -> None:
    """The settings were logged, but not this one; neither is it in the spec or the control store."""
    assert "spark.hadoop.tables.password" in (replica / "spark.log").read_text()
    files = [path for path in project.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
