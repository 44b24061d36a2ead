"""The scripts of benchmarks: asked for help, or with a mistake, none of them measures."""

import importlib
import sys
from pathlib import Path

import pytest

import benchmarks.harness

FOLDER = Path(benchmarks.harness.__file__).parent
SCRIPTS = sorted(
    script.stem
    for script in FOLDER.glob("*.py")
    if "__main__" in script.read_text() and script.stem != "render"
)


@pytest.mark.parametrize("option", ["--help", "--no-such-option"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_question_about_a_benchmark_measures_nothing(
    script: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"benchmarks.{script}")
    monkeypatch.setattr(sys, "argv", [script, option])
    with pytest.raises(SystemExit) as exited:
        module.main()
    assert exited.value.code == (0 if option == "--help" else 2)
