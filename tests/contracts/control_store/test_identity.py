from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa

from holdfast.resources.control_store.database import Database
from holdfast.resources.control_store.schema import identity
from holdfast.resources.control_store.store import ControlStore
from holdfast.resources.control_store.upgrade import upgrade_schema


def test_of_many_processes_that_ask_at_once_one_makes_the_id(url: str) -> None:
    ControlStore.open(url).close()

    def ask(_: int) -> str:
        with ControlStore.open(url) as store:
            return store.identity.project_id()

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(ask, range(8)))
    assert len(ids) == 1


def test_a_store_of_the_last_version_gets_an_id(url: str) -> None:
    with ControlStore.open(url) as store:
        row = store.streams.declare("words", {}, "deployed")
    database = Database(url)
    with database.write() as connection:  # as the last version left it
        identity.drop(connection)
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0001'"))
    upgrade_schema(database)
    database.close()
    with ControlStore.open(url) as store:
        assert len(store.identity.project_id()) == 32
        assert store.streams.all() == [row]
