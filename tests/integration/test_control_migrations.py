"""The migrations are the truth for DDL, and the code's tables match them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from ft_policies.errors import PermanentError
from resources.control.database import Database
from resources.control.migrate import MIGRATIONS
from resources.control.schema import HEAD, metadata
from resources.control.store import ControlStore
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
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_opening_again_keeps_what_is_there(database: Database) -> None:
    with opened(database) as store:
        row = store.streams.declare("words", {}, "deployed")
    with opened(database) as store:
        assert store.streams.all() == [row]


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
