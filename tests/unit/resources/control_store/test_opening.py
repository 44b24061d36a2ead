"""Opening a control store: addresses, folders, and files that are none."""

from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.clock import SYSTEM_CLOCK
from holdfast.resources.control_store.store import ControlStore


def test_the_folder_of_a_sqlite_store_is_made(tmp_path: Path) -> None:
    with ControlStore.open(f"sqlite:///{tmp_path}/a/b/control.db"):
        assert (tmp_path / "a/b/control.db").is_file()


def test_a_relative_address_becomes_one_that_any_process_can_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ControlStore.open("sqlite:///control.db") as store:
        store.streams.declare("words", {}, "deployed")
        url = store.url
    monkeypatch.chdir("/")
    with ControlStore.open(url) as store:
        assert [row.name for row in store.streams.all()] == ["words"]


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://x/y", "control.db"])
def test_an_address_that_cannot_work_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(PermanentError) as refused:
        ControlStore.open(url)
    assert "sqlite:///" in refused.value.hint


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "control.db").write_text("this is a text file, long enough to be looked at" * 50)
    with pytest.raises(PermanentError, match="not a database"):
        ControlStore.open(f"sqlite:///{tmp_path}/control.db")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PermanentError, match="folder"):
        ControlStore.open(f"sqlite:///{tmp_path}/file/control.db")


def test_commits_survive_a_power_cut(tmp_path: Path) -> None:
    full, wal = 2, "wal"
    with (
        ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store,
        store._database.write() as connection,
    ):
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == full
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == wal
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_the_store_shows_no_password(tmp_path: Path) -> None:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        assert "control.db" in repr(store)
        assert store.now() == pytest.approx(SYSTEM_CLOCK.now(), abs=2.0)
