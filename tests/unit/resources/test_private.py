"""What a project writes is its owner's."""

import stat
from pathlib import Path

from holdfast.resources.private import tighten, write_private, write_private_once


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_file_replaces_one_that_others_could_read(tmp_path: Path) -> None:
    file = tmp_path / "run" / "token"
    write_private(file, "old")
    file.chmod(0o644)
    write_private(file, "new")

    assert file.read_text() == "new"
    assert mode(file) == 0o600
    assert mode(file.parent) == 0o700


def test_a_private_file_that_is_written_once_stays_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "run" / "id"
    for text in ("first", "second"):
        write_private_once(file, text)

    assert file.read_text() == "first"
    assert mode(file) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_a_home_of_an_older_version_loses_the_rights_of_others(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "replicas").mkdir(parents=True)
    for file in (home / "control.db", home / "replicas" / "python", elsewhere):
        file.touch()
    (home / "replicas" / "python").chmod(0o775)
    (home / "link").symlink_to(elsewhere)
    for path in (home, home / "replicas"):
        path.chmod(0o755)
    for path in (home / "control.db", elsewhere):
        path.chmod(0o664)

    assert tighten(home) == 4
    assert [mode(home), mode(home / "replicas")] == [0o700, 0o700]
    assert [mode(home / "control.db"), mode(home / "replicas" / "python")] == [0o600, 0o700]
    assert mode(elsewhere) == 0o664
    assert tighten(home) == 0
