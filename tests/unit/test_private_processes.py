"""Every program of Holdfast keeps what it writes from other users, whatever starts it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.orchestration.cli import main as command_line
from holdfast.orchestration.services import supervisor, web
from holdfast.streaming.replica import __main__ as driver
from tests.private_files import is_private, usual_umask

PROGRAMS: dict[str, Callable[[], object]] = {
    "command line": command_line.main,
    "driver": driver.main,
    "supervisor": supervisor.main,
    "web server": web.main,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_writes_for_its_owner_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    monkeypatch.setattr(sys, "argv", ["program", "--help"])
    with usual_umask():
        with pytest.raises(SystemExit):
            PROGRAMS[name]()
        file.touch()
        folder.mkdir()
        assert os.umask(0o022) == 0o077  # children inherit it
    assert is_private(file)
    assert is_private(folder)
