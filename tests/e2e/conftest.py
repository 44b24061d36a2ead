"""Drivers under test must find the tests' own applications."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def repository_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
