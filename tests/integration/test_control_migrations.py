"""The migrations are the truth for DDL, and the code's tables match them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from ft_policies.errors import PermanentError
from ft_policies.tiers import Tier
from resources.control_store.database import Database
from resources.control_store.schema import HEAD, metadata
from resources.control_store.store import ControlStore
from resources.control_store.upgrade import MIGRATIONS
from tests.support.control_builders import an_entry
from tests.support.postgres import fresh_database

pytestmark = pytest.mark.integration


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        opened = Database(f"sqlite:///{tmp_path}/with%20space/control.db")
        yield opened
        opened.close()
    else:
        with fresh_database() as url:
            opened = Database(url)
            yield opened
            opened.close()


def opened(database: Database) -> ControlStore:
    return ControlStore.open(database.address.render_as_string(hide_password=False))


def test_the_migrated_schema_is_the_one_that_queries_use(database: Database) -> None:
    opened(database).close()
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_only_live_replicas_hold_a_slot(database: Database) -> None:
    opened(database).close()
    with database.engine.connect() as connection:
        indexes = {i["name"]: i for i in sa.inspect(connection).get_indexes("replicas")}
    slot = indexes["one_live_replica_per_slot"]
    assert slot["unique"]
    where = slot["dialect_options"][f"{database.engine.name}_where"]
    assert "ended_at IS NULL" in str(where)


def test_the_code_expects_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_current_head() == HEAD


def test_opening_again_keeps_what_is_there(database: Database) -> None:
    with opened(database) as store:
        row = store.streams.declare("words", {}, "deployed")
    with opened(database) as store:
        assert store.streams.all() == [row]


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    return config


def rows_of_all_tables(database: Database) -> dict[str, list[dict[str, Any]]]:
    """All rows, whatever the schema says they are made of."""
    found = sa.MetaData()
    with database.engine.connect() as connection:
        found.reflect(connection)
        return {
            table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            for table in found.sorted_tables
            if table.name != "alembic_version"
        }


def fill_all_tables(connection: sa.Connection) -> None:
    """A row in each table there is, made of whatever its columns take."""
    found = sa.MetaData()
    found.reflect(connection)
    for table in found.sorted_tables:
        row: dict[str, Any] = {}
        for column in table.c:
            if isinstance(column.type, sa.JSON):
                row[column.name] = {"kept": True}
            else:
                row[column.name] = "deployed" if isinstance(column.type, sa.Text) else 7
        if table.name != "alembic_version":
            connection.execute(sa.insert(table).values(row))


def test_a_store_of_the_first_schema_keeps_its_rows(database: Database) -> None:
    config = alembic_config()
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        fill_all_tables(connection)
        connection.execute(sa.text("UPDATE streams SET name = 'words', desired = 'running'"))
    before = rows_of_all_tables(database)
    assert len(before) == 10
    with opened(database) as store:
        after = rows_of_all_tables(database)
        [row] = store.streams.all()
        [change] = store.tiers.history("words")
        assert store.streams.declare("words", {"kept": True}, "deployed") == row
    [change_row] = after.pop("tier_changes")
    for table in ("decisions", "gaps", "histories", "ledger_superseded", "rollouts"):
        assert after.pop(table) == []
    stream, replica = after["streams"][0], after["replicas"][0]
    assert stream.pop("rollout") == replica.pop("rollout") == 0
    assert stream.pop("declared_tier") == "deployed"
    assert stream.pop("snapshot_every") is stream.pop("sync_every") is None
    snapshot = after["snapshots"][0]
    assert snapshot.pop("proven_at") is snapshot.pop("proven_seconds") is None
    assert snapshot.pop("history") == 0
    assert after == before
    assert row.tier is row.declared_tier is change.tier_to is Tier.DEPLOYED
    assert (change.tier_from, change.why, change.reached_at) == (None, "declared", row.declared_at)
    assert change_row["at"] == row.declared_at


def test_a_store_of_the_first_schema_can_be_switched(database: Database) -> None:
    config = alembic_config()
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    with opened(database) as store:
        store.streams.declare("words", {}, "deployed")
        assert store.tiers.desire("words", "active_standby", why="asked", run="r") is not None
        assert len(store.tiers.history("words")) == 2


def test_a_store_from_before_restores_is_of_the_first_history(database: Database) -> None:
    config = alembic_config()
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
        fill_all_tables(connection)
        known = {"stream": "words", "epoch": 7, "state": "available"}
        connection.execute(
            sa.text("UPDATE snapshots SET stream = :stream, epoch = :epoch, state = :state"), known
        )
        connection.execute(sa.text("UPDATE leases SET stream = 'words'"))
    with opened(database) as store:
        assert store.restores.current_history("words") == 0
        [snapshot] = store.snapshots.of("words")
        assert (snapshot.epoch, snapshot.history) == (7, 0)
        store.ledger.commit(an_entry(5), history=0)
        wish = store.restores.want("words", epoch=5, snapshot=None, why="", run="")
        assert store.restores.begin(wish) == 0
        assert store.snapshots.of("words") == []


def test_a_store_of_a_newer_holdfast_is_refused(database: Database) -> None:
    opened(database).close()
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(PermanentError, match="newer") as refused:
        opened(database)
    assert "version" in refused.value.hint


def test_a_migration_that_fails_leaves_nothing_behind(database: Database) -> None:
    with database.write() as connection:
        connection.execute(sa.text("CREATE TABLE journal (id INTEGER)"))
    with pytest.raises(PermanentError, match="journal"):
        opened(database)
    with database.engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["journal"]
