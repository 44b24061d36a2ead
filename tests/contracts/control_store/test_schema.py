"""A new store is made from the schema; an older one is upgraded by scripts; a newer one is refused."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.database import Database
from holdfast.resources.control_store.records import Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import HEAD, metadata
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.upgrade import VERSIONS, upgrade_schema
from tests.builders.control_rows import a_proposal

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"


def upgrade():
    op.add_column("streams", sa.Column("{column}", sa.Text))
"""


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url)
    if opened.is_sqlite:
        Path(str(opened.address.database)).parent.mkdir()
    yield opened
    opened.close()


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """The scripts there are, and two of later releases."""
    folder = tmp_path / "later" / "versions"
    folder.mkdir(parents=True)
    for script in VERSIONS.glob("0*.py"):
        (folder / script.name).write_text(script.read_text())
    scripts = [("8001", HEAD, "owner"), ("8002", "8001", "team")]
    for revision, before, column in scripts:
        text = NEXT.format(revision=revision, before=before, column=column)
        (folder / f"{revision}_{column}.py").write_text(text)
    return folder


def columns_of(database: Database, table: str) -> set[str]:
    with database.engine.connect() as connection:
        return {column["name"] for column in sa.inspect(connection).get_columns(table)}


def test_a_new_store_has_the_schema_that_queries_use(url: str, database: Database) -> None:
    ControlStore.open(url).close()
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_only_live_replicas_hold_a_slot(url: str, database: Database) -> None:
    ControlStore.open(url).close()
    with database.engine.connect() as connection:
        indexes = {i["name"]: i for i in sa.inspect(connection).get_indexes("replicas")}
    slot = indexes["one_live_replica_per_slot"]
    assert slot["unique"]
    where = slot["dialect_options"][f"{database.engine.name}_where"]
    assert "ended_at IS NULL" in str(where)


def test_the_schema_is_that_of_the_newest_script() -> None:
    assert ScriptDirectory(VERSIONS.parent).get_current_head() == HEAD


def test_opening_again_keeps_what_is_there(url: str) -> None:
    with ControlStore.open(url) as store:
        row = store.streams.declare("words", {}, "deployed")
    with ControlStore.open(url) as store:
        assert store.streams.all() == [row]


def test_an_older_store_is_brought_up_script_by_script_and_keeps_its_rows(
    url: str, database: Database, versions: Path
) -> None:
    with ControlStore.open(url) as store:
        row = store.streams.declare("words", {"kept": True}, "deployed")
    upgrade_schema(database, versions=versions, head="8001")
    assert {"owner", "team"} & columns_of(database, "streams") == {"owner"}
    upgrade_schema(database, versions=versions, head="8002")
    upgrade_schema(database, versions=versions, head="8002")
    [kept] = database.fetch(sa.text("SELECT * FROM streams"))
    assert (kept["name"], kept["tier"], kept["owner"], kept["team"]) == (
        row.name, row.tier, None, None
    )  # fmt: skip


def go_back_to_first_schema(database: Database) -> None:
    """Undo what all versions after the first have added."""
    with database.write() as connection:
        for statement in (
            "DROP TABLE epoch_files",
            "DROP TABLE epoch_floors",
            "DROP TABLE identity",
            "DROP TABLE outputs",
            "DROP TABLE sample_values",
            "DROP TABLE sample_series",
            "ALTER TABLE replicas DROP COLUMN boot",
            "DROP INDEX snapshots_by_state",
            "ALTER TABLE restores DROP COLUMN closed_at",
            "UPDATE alembic_version SET version_num = '0001'",
        ):
            connection.execute(sa.text(statement))
        FIRST_SAMPLES.create(connection)


FIRST_SAMPLES = sa.Table(
    "samples",
    sa.MetaData(),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("stream", "replica", "name")),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("epoch", sa.BigInteger),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    sa.Index("samples_by_name", "stream", "name", "at", "id"),
    sa.Index("samples_by_age", "at"),
)


def test_a_restore_of_the_first_schema_counts_as_closed(url: str, database: Database) -> None:
    with ControlStore.open(url) as store:
        store.streams.declare("words", {}, "deployed")
        request = store.restores.request("words", epoch=2, snapshot=None, why="", run="")
        store.restores.begin(request)
    go_back_to_first_schema(database)
    with ControlStore.open(url) as store:
        newest = store.restores.newest("words")
        assert newest is not None
        assert newest.closed_at == newest.begun_at
        assert newest.half_done


def test_a_store_of_the_first_schema_gets_an_id(url: str, database: Database) -> None:
    with ControlStore.open(url) as store:
        row = store.streams.declare("words", {}, "deployed")
    go_back_to_first_schema(database)
    with ControlStore.open(url) as store:
        assert len(store.identity.project_id()) == 32
        assert store.streams.all() == [row]


def test_an_upgrade_that_fails_leaves_the_store_as_it_was(
    url: str, database: Database, versions: Path
) -> None:
    ControlStore.open(url).close()
    (versions / "8002_team.py").write_text(
        NEXT.format(revision="8002", before="8001", column="name")
    )
    with pytest.raises(PermanentError, match="name"):
        upgrade_schema(database, versions=versions, head="8002")
    assert "owner" not in columns_of(database, "streams")
    ControlStore.open(url).close()


def test_a_store_of_a_newer_holdfast_is_refused(url: str, database: Database) -> None:
    ControlStore.open(url).close()
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(PermanentError, match="newer") as refused:
        ControlStore.open(url)
    assert "version" in refused.value.hint


def test_a_store_that_cannot_be_made_leaves_nothing_behind(url: str, database: Database) -> None:
    with database.write() as connection:
        connection.execute(sa.text("CREATE TABLE journal (id INTEGER)"))
    with pytest.raises(PermanentError, match="journal"):
        ControlStore.open(url)
    with database.engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["journal"]


def test_a_store_of_the_first_schema_gets_the_index_of_its_files(
    url: str, database: Database
) -> None:
    with ControlStore.open(url) as store:
        for epoch, names in enumerate(("ab", "", "c")):
            files = [{"name": name, "size": 1, "changed_ns": 2} for name in names]
            store.epochs.propose(replace(a_proposal(epoch), input={"files": files}))
        store.epochs.propose(a_proposal(3))  # of a source without files
    go_back_to_first_schema(database)
    with ControlStore.open(url) as store:
        files = store.epoch_files.find("words", ["a", "b", "c", "d"])
    assert {(file.name, file.epoch, file.size, file.changed_ns) for file in files} == {
        ("a", 0, 1, 2), ("b", 0, 1, 2), ("c", 2, 1, 2)
    }  # fmt: skip
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_a_store_of_the_first_schema_keeps_its_samples(url: str, database: Database) -> None:
    samples = [
        Sample(stream=stream, replica=replica, name=name, value=float(n), at=at, epoch=epoch)
        for n, (stream, replica, name, at, epoch) in enumerate(
            [
                ("words", "r1", SampleName.LAG_ROWS, 1.5, 1),
                ("words", "r1", SampleName.LAG_ROWS, 2.5, None),
                ("words", "r2", SampleName.LAG_ROWS, 2.0, 2),
                ("words", "", SampleName.TABLE_FILES, 2.0, None),
                ("others", "r3", SampleName.LAG_ROWS, 2.0, 7),
            ]
        )
    ]
    ControlStore.open(url).close()
    go_back_to_first_schema(database)
    with database.write() as connection:
        replaced = {**asdict(samples[0]), "value": 99.0}
        for row in (replaced, *map(asdict, samples)):
            connection.execute(sa.insert(FIRST_SAMPLES), row)
    with ControlStore.open(url) as store:
        words, others = samples[:3], samples[4:]
        kept = store.samples.series("words", SampleName.LAG_ROWS)
        assert kept == sorted(words, key=lambda sample: sample.at)
        assert store.samples.series("words", SampleName.TABLE_FILES) == samples[3:4]
        assert store.samples.series("others", SampleName.LAG_ROWS) == others
        store.samples.write([replace(others[0], at=3.0)])
        assert len(store.samples.series("others", SampleName.LAG_ROWS)) == 2
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
