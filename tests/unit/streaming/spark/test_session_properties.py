"""The settings of a driver's JVM go through a file that only its owner can read."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.streaming.spark.session import SUBMIT_ARGUMENTS, launch_java, to_properties


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
