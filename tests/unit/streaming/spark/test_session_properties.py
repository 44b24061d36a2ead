"""The settings of a driver's JVM go through a file that only its owner can read."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.resources.control_store.store import ControlStore
from holdfast.streaming.spark.session import (
    JAVA_OPTIONS,
    SUBMIT_ARGUMENTS,
    _conf,
    launch_java,
    place_temporary_files,
    to_properties,
)
from tests.builders.replicas import a_spec


def test_a_setting_is_one_line_whatever_is_in_it() -> None:
    conf = {"spark.a": "b=c:d e", "spark.with space": "two\nlines\\ é"}

    assert to_properties(conf) == "spark.a=b=c:d e\nspark.with\\ space=two\\nlines\\\\ é\n"


def test_the_file_is_private_and_gone_once_java_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a folder" / "spark.properties"
    properties: list[str] = []

    def start() -> None:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "spark.password=hush" in file.read_text()
        properties.append(os.environ[SUBMIT_ARGUMENTS])

    monkeypatch.setenv(SUBMIT_ARGUMENTS, "--packages a:b:1 pyspark-shell")
    # pragma: allowlist nextline secret
    launch_java(file, {"spark.password": "hush"}, start)

    [arguments] = properties
    assert (
        arguments
        == f"--properties-file '{file}' --load-spark-defaults --packages a:b:1 pyspark-shell"
    )
    assert os.environ[SUBMIT_ARGUMENTS] == "--packages a:b:1 pyspark-shell"
    assert not file.exists()


def test_java_keeps_its_temporary_files_where_they_go_with_the_replica(tmp_path: Path) -> None:
    """A killed Java deletes none of them; `/tmp` would keep them until the next boot of the host."""
    assert place_temporary_files(tmp_path) == f'"-Djava.io.tmpdir={tmp_path}/tmp"'  # noqa: S108
    assert (tmp_path / "tmp").is_dir()
    assert place_temporary_files(tmp_path), "Java is started a second time if the first start fails"


def test_a_folder_that_forbids_execution_gets_no_temporary_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = os.statvfs_result((0,) * 8 + (os.ST_NOEXEC, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: flags)
    assert place_temporary_files(tmp_path) == ""


def test_java_has_the_option(tmp_path: Path) -> None:
    with ControlStore.open(f"sqlite:///{tmp_path}/control.db") as store:
        spec = a_spec(tmp_path, store)
    assert place_temporary_files(spec.folder) in _conf(spec, "")[JAVA_OPTIONS]
