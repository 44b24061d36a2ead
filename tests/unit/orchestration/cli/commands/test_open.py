"""`holdfast open` signs a browser in, and keeps the token out of sight."""

import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from holdfast.configs.project import ProjectConfig
from holdfast.orchestration.services.access import ensure_token
from holdfast.orchestration.services.dagster import DagsterServer, RunningDagster
from holdfast.resources.process import ProcessHandle
from tests.builders.projects import a_project
from tests.cli import holdfast_json, run_holdfast
from tests.fakes.browser import RecordedBrowser, only_browser

URL = "http://127.0.0.1:3999"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return a_project(tmp_path)


@pytest.fixture
def token(root: Path) -> str:
    """That of a Dagster that runs: here it is this process."""
    project, process = ProjectConfig.load(root), ProcessHandle.this()
    running = RunningDagster(
        pid=process.pid, started_at=process.started_at, host="127.0.0.1", port=3999
    )
    record = DagsterServer(project)._record
    with record.hold_lock():
        record.write(running)
    return ensure_token(project.home, None)


def test_a_browser_is_started_with_a_private_page_and_without_the_token(
    root: Path, token: str
) -> None:
    with only_browser(RecordedBrowser()) as browser:
        result = run_holdfast(root, "open")

    [argument] = browser.opened
    page = Path(unquote(urlsplit(argument).path))
    assert token not in argument
    assert f"url={URL}/?token={token}" in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert f"opened {URL}" in result.output
    assert token not in result.output


def test_the_address_is_printed_where_no_browser_starts(root: Path, token: str) -> None:
    with only_browser(RecordedBrowser(starts=False)):
        result = run_holdfast(root, "open")

    assert result.output.strip() == f"{URL}/?token={token}"


def test_the_address_can_be_printed_instead(root: Path, token: str) -> None:
    with only_browser(RecordedBrowser()) as browser:
        printed, facts = run_holdfast(root, "open", "--print"), holdfast_json(root, "open")

    assert printed.output.strip() == facts["url"] == f"{URL}/?token={token}"
    assert browser.opened == []


def test_without_a_dagster_that_runs_no_browser_is_started(root: Path) -> None:
    with only_browser(RecordedBrowser()) as browser:
        result = run_holdfast(root, "open")

    assert result.exit_code == 1
    assert browser.opened == []
