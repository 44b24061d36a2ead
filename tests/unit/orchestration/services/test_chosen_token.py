"""The token that an operator chooses for the UI: from the environment, and not a short one."""

from pathlib import Path

import pytest

from holdfast.configs.project import ProjectConfig
from holdfast.ft_policies.errors import PermanentError
from holdfast.orchestration.services.access import token_file
from holdfast.orchestration.services.dagster import DagsterServer, _chosen_token
from holdfast.resources.service import find_free_port
from tests.builders.projects import a_project

VARIABLE = "UI_TOKEN"


def test_a_token_has_sixteen_characters_or_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, 16 * "x")
    assert _chosen_token(VARIABLE) == 16 * "x"


def test_without_a_declared_variable_no_token_is_chosen() -> None:
    assert _chosen_token(None) is None


@pytest.mark.parametrize("token", [None, "", 15 * "x"])
def test_dagster_does_not_start_with_a_variable_that_has_no_such_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if token is not None:
        monkeypatch.setenv(VARIABLE, token)
    declared = f"dagster: {{port: {find_free_port()}, token_env: {VARIABLE}}}\n"
    project = ProjectConfig.load(a_project(tmp_path, holdfast=declared))

    with pytest.raises(PermanentError, match=f"{VARIABLE} has no token of 16 characters"):
        DagsterServer(project).ensure()

    assert DagsterServer(project).find() is None
    assert not token_file(project.home).exists()
