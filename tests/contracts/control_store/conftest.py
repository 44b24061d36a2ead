"""Each test here runs on SQLite and, as an integration test, on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.resources.control_store.store import ControlStore
from tests.live.postgres import fresh_database

ENGINES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)]


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a control store that is not there yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/with%20space/control.db"
    else:
        with fresh_database() as address:
            yield address


@pytest.fixture
def store(url: str) -> Iterator[ControlStore]:
    with ControlStore.open(url) as opened:
        yield opened
