"""SQLite is refused on network file systems, where its locks do not hold; one that is away delays no other stream."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.configs import places
from holdfast.configs.places import find_network_file_system, resolve_path
from holdfast.configs.project import ProjectConfig, check
from holdfast.ft_policies.errors import PermanentError
from holdfast.resources.control_store.store import ControlStore
from tests.builders.projects import a_project, stream_yaml

MOUNTS = """\
1 0 8:1 / / rw - ext4 /dev/vda rw
2 1 0:9 / {root}/far rw,relatime shared:1 master:2 - {kind} server:/x rw
3 2 8:2 / {root}/far/disk rw - xfs /dev/vdb rw
4 1 0:9 / {root}/with\\040blank rw - cifs //server/x rw
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return mounted(tmp_path, monkeypatch, "nfs4")


def mounted(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> Path:
    file = folder / "mountinfo"
    file.write_text(MOUNTS.format(root=folder, kind=kind))
    monkeypatch.setattr(places, "MOUNTS", file)
    return folder


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("far/home/control.db", "nfs4"),
        ("far", "nfs4"),
        ("far/disk/control.db", None),
        ("farther/control.db", None),
        ("with blank/x", "cifs"),
        ("link/control.db", "nfs4"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_nearest_mount(
    root: Path, path: str, kind: str | None
) -> None:
    (root / "link").symlink_to(root / "far")
    assert find_network_file_system(root / path) == kind


@pytest.mark.parametrize(
    ("kind", "network"), [("fuse.sshfs", "sshfs"), ("9p", None), ("overlay", None)]
)
def test_only_what_several_hosts_mount_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, network: str | None
) -> None:
    assert find_network_file_system(mounted(tmp_path, monkeypatch, kind) / "far/x") == network


def test_a_control_store_on_a_network_file_system_is_not_opened(root: Path) -> None:
    with pytest.raises(PermanentError, match=r"on a network file system \(nfs4\)") as raised:
        ControlStore.open(f"sqlite:///{root}/far/home/control.db")
    assert "use PostgreSQL" in raised.value.hint
    assert not (root / "far").exists()


@pytest.mark.parametrize(
    ("deployment", "field"),
    [
        ("home: {root}/far/home", "home"),
        ("control_store: {{url: 'sqlite:///{root}/far/x.db'}}", "control_store.url"),
    ],
)
def test_check_finds_it_at_its_place(root: Path, deployment: str, field: str) -> None:
    project = a_project(
        root / "project", clicks=stream_yaml(), holdfast=deployment.format(root=root)
    )
    [problem] = check(project)
    assert problem.field == field
    assert "network file system (nfs4)" in problem.message


def test_a_home_folder_on_a_network_file_system_needs_postgresql(root: Path) -> None:
    deployment = f"home: {root}/far/home\ncontrol_store: {{url: 'postgresql://db/x'}}"
    assert check(a_project(root / "project", clicks=stream_yaml(), holdfast=deployment)) == []


def test_without_a_list_of_mounts_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MOUNTS", tmp_path / "nowhere")
    assert find_network_file_system(tmp_path) is None


@pytest.fixture
def asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The server of the network file system is away: who asks it waits; the paths that it was asked for."""
    paths, answers, resolve = list[str](), threading.Event(), Path.resolve

    def wait_below(path: Path, *, strict: bool = False) -> Path:
        if path.is_relative_to(root / "far"):
            paths.append(str(path))
            answers.wait(30.0)
        return resolve(path, strict)

    monkeypatch.setattr(places, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(Path, "resolve", wait_below)
    yield paths
    answers.set()


def test_a_file_system_that_never_answers_keeps_no_stream_from_being_loaded(
    root: Path, asked: list[str]
) -> None:
    """It is asked for one path at a time, however many streams read from there and however often they are loaded."""
    source = {"kind": "files", "format": "jsonl", "schema": "id bigint"}
    streams = {
        name: stream_yaml(name=name, source={**source, "path": f"{root}/far/in/{name}"})
        for name in ("a", "b")
    }
    project = a_project(root / "project", near=stream_yaml(name="near"), **streams)
    for _ in range(3):
        config = ProjectConfig.load(project, tolerant=True)
    assert set(config.streams) == {"a", "b", "near"}
    assert config.resolve_path(f"{root}/far/in/a") == f"{root}/far/in/a"
    assert len(asked) == 1


def test_links_on_a_network_file_system_that_answers_are_followed(root: Path) -> None:
    (root / "far" / "in").mkdir(parents=True)
    (root / "far" / "link").symlink_to(root / "far" / "in")
    assert resolve_path(root, "far/link/x") == root / "far" / "in" / "x"
    (root / "far" / "round").symlink_to(root / "far" / "round")
    assert resolve_path(root, "far/round") == root / "far" / "round"
