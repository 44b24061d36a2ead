"""Projects as past versions left them: each archive in `tests/kept_projects` is one, named by its schema.

    python -m tests.live.kept_project tests/kept_projects/0006.tar.gz

makes one with the code at hand: a stream that ran, was killed, recovered and stopped, with its control
store, journal, table and snapshots. A version that changes the schema or a stored format keeps one more;
an archive that is there is never made again.
"""

import os
import sqlite3
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

from holdfast.ft_policies.tiers import Tier
from holdfast.resources.process import HOST
from tests.live.stream import a_live_stream

ARCHIVES = Path(__file__).parents[1] / "kept_projects"
ORIGIN, ORIGINAL_HOST = "/srv/kept-project", "kept-host"
KEPT = ("configs", ".holdfast/control.db", ".holdfast/objects", ".holdfast/tables")
EPOCHS, MORE_EPOCHS = 10, 6


def unpack(archive: Path, root: Path) -> None:
    """Put a kept project into an empty folder, as if it had always been there."""
    with tarfile.open(archive) as packed:
        packed.extractall(root, filter="data")
    _replace_text(root / ".holdfast" / "control.db", ORIGIN, str(root))


def make(archive: Path) -> None:
    """Run a stream through a failure, stop it, and keep its project."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        root = Path(folder) / "project"
        with a_live_stream(root, tier=Tier.PASSIVE_REPLICATION) as stream:
            stream.start()
            stream.await_epoch(EPOCHS)
            stream.hit(stream.primary())
            stream.await_failure()
            stream.recover()
            stream.await_epoch(EPOCHS + MORE_EPOCHS)
            stream.stop()
        database = root / ".holdfast" / "control.db"
        _replace_text(database, str(root), ORIGIN)
        _replace_text(database, HOST, ORIGINAL_HOST)
        with tarfile.open(archive, "x:gz") as packed:
            for name in KEPT:
                packed.add(root / name, name)


def _replace_text(database: Path, old: str, new: str) -> None:
    """Replace a text in every text column, and leave one file without a write-ahead log."""
    with closing(sqlite3.connect(database)) as connection:
        tables = [
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for column in columns:
                connection.execute(
                    f"UPDATE {table} SET {column} = replace({column}, ?, ?) "  # noqa: S608 - its own names
                    f"WHERE typeof({column}) = 'text' AND instr({column}, ?)",
                    (old, new, old),
                )
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(ARCHIVES.parents[1])  # drivers import the stream from `tests`
    make(Path(sys.argv[1]))
