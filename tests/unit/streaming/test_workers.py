import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.streaming.workers import worker_python

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['PYTHONPATH']]))"


def run(command: str, *arguments: str, path: str) -> Any:
    completed = subprocess.run(
        [command, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(completed.stdout)


def test_it_is_this_python_without_the_zip_files_of_spark(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    lib = "/opt/my spark/python/lib"
    path = (
        f"{lib}/pyspark.zip:{lib}/py4j-0.10.9.9-src.zip:/own/code *:/own/pyspark.zip:/jars/core.jar"
    )
    arguments, kept = run(worker_python(folder), "-c", SHOW, "a b", "*", path=path)
    assert arguments == ["a b", "*"]
    assert kept == "/own/code *:/own/pyspark.zip:/jars/core.jar"


def test_it_needs_no_path(tmp_path: Path) -> None:
    own = "import json, sys; print(json.dumps(sys.executable))"
    assert run(worker_python(tmp_path), "-c", own, path="") == sys.executable


def test_where_nothing_can_be_run_it_is_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert worker_python(tmp_path) == sys.executable
