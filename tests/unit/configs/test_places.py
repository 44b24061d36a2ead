"""What Holdfast writes lies apart from everything else that a project names."""

from pathlib import Path

import pytest

from holdfast.configs.project import ProjectConfig, check
from tests.builders.projects import a_project, stream_yaml

S3 = "object_store: {kind: s3, bucket: streams, prefix: prod/}\n"


def delta(path: str) -> dict[str, str]:
    return {"kind": "delta", "path": path}


def files(path: str, **more: object) -> dict[str, object]:
    return {"kind": "files", "path": path, "format": "jsonl", "schema": "id bigint"} | more


def faults(root: Path) -> list[tuple[str, str]]:
    return [(problem.field, problem.message) for problem in check(root)]


def test_the_usual_places_and_those_side_by_side_are_legal(tmp_path: Path) -> None:
    for folder in ("in", "release"):
        (tmp_path / folder).mkdir()
    source, shared = files("in", dead_letters={}), {"folder": "fast"}
    root = a_project(
        tmp_path,
        a=stream_yaml(name="a", source=source, resources=shared, code="release"),
        b=stream_yaml(name="b", source=source, resources=shared, sink=delta("out/b")),
        c=stream_yaml(name="c", source=files("in"), sink=delta(".holdfast/tables/other")),
        d=stream_yaml(name="d", sink=delta("out/bb")),
    )
    assert check(root) == []
    assert set(ProjectConfig.load(root).streams) == {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("declared", "field", "says"),
    [
        ({"sink": delta(".")}, "sink.path", "is the folder of the project"),
        ({"sink": delta("..")}, "sink.path", "a folder above it"),
        ({"sink": delta("/")}, "sink.path", "a folder above it"),
        ({"sink": delta("/proc/x")}, "sink.path", "a folder of the operating system"),
        ({"sink": delta(".holdfast")}, "sink.path", "already used by the home folder"),
        ({"sink": delta(".holdfast/x")}, "sink.path", "lies in the home folder"),
        ({"sink": delta("configs/streams")}, "sink.path", "the folder of the declarations"),
        ({"sink": delta("data"), "source": files("data/in")}, "source.path", "lies in the table"),
        ({"sink": delta("data/out"), "source": files("data")}, "source.path", "contains the table"),
        ({"sink": delta("link/x"), "source": files("in")}, "source.path", "contains the table"),
        (
            {"source": files("in", dead_letters={"path": "in/bad"})},
            "source.path",
            "contains the dead letters",
        ),
        ({"resources": {"folder": "/proc"}}, "resources.folder", "operating system"),
        ({"code": "in", "resources": {"folder": "in/x"}}, "resources.folder", "lies in the code"),
    ],
)
def test_places_that_overlap_are_refused(
    tmp_path: Path, declared: dict[str, object], field: str, says: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")
    [(at, message)] = faults(a_project(tmp_path, clicks=stream_yaml(**declared)))
    assert at == field
    assert says in message


def test_a_table_of_another_stream_is_not_a_place_for_output(tmp_path: Path) -> None:
    root = a_project(
        tmp_path,
        a=stream_yaml(name="a", sink=delta("data")),
        b=stream_yaml(name="b", sink=delta("data/tables/b")),
    )
    [(_, at_a), (field, at_b)] = faults(root)
    assert field == "sink.path"
    assert "contains the table of b (configs/streams/b.yaml)" in at_a
    assert "lies in the table of a (configs/streams/a.yaml)" in at_b


def test_a_stream_is_not_called_like_the_dead_letters_of_another(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    root = a_project(
        tmp_path,
        a=stream_yaml(name="x", source=files("in", dead_letters={})),
        b=stream_yaml(name="x_dead_letters"),
    )
    [_, (field, message)] = faults(root)
    assert field == "name"
    assert "is already used by the dead letters of x" in message


@pytest.mark.parametrize("path", ["s3://streams/prod/clicks", "s3://streams/prod", "s3://streams"])
def test_a_table_does_not_lie_among_snapshots(tmp_path: Path, path: str) -> None:
    root = a_project(tmp_path, clicks=stream_yaml(sink=delta(path)), holdfast=S3)
    [(field, message), (other_field, other)] = faults(root)
    assert (field, other_field) == ("object_store.prefix", "sink.path")
    assert "the table of clicks" in message
    assert "the snapshots of clicks" in other


def test_a_table_may_lie_beside_snapshots(tmp_path: Path) -> None:
    sink = delta("s3://streams/tables/clicks")
    assert check(a_project(tmp_path, clicks=stream_yaml(sink=sink), holdfast=S3)) == []


@pytest.mark.parametrize("home", [".", "/", "configs", "/sys/x"])
def test_the_home_folder_is_a_folder_of_its_own(tmp_path: Path, home: str) -> None:
    [(field, _)] = faults(a_project(tmp_path, clicks=stream_yaml(), holdfast=f"home: {home}\n"))
    assert field == "home"


@pytest.mark.parametrize(
    ("file", "declared", "says"),
    [
        ("out/control.db", {"sink": delta("out")}, "contains the file of the control store"),
        ("in/control.db", {"source": files("in")}, "contains the file of the control store"),
        ("in/control.db", {"source": files("in/control.db")}, "already used by the file"),
        (".holdfast/tables/clicks/c.db", {}, "contains the file of the control store"),
        ("lib/c.db", {"code": "lib"}, "contains the file of the control store"),
        ("fast/c.db", {"resources": {"folder": "fast"}}, "contains the file of the control store"),
    ],
)
def test_the_file_of_the_control_store_lies_apart(
    tmp_path: Path, file: str, declared: dict[str, object], says: str
) -> None:
    (tmp_path / "lib").mkdir()
    url = f"control_store: {{url: 'sqlite:///{tmp_path}/{file}?timeout=20'}}\n"
    problems = check(a_project(tmp_path, clicks=stream_yaml(**declared), holdfast=url))
    assert {problem.file for problem in problems} == {
        "configs/holdfast.yaml",
        "configs/streams/clicks.yaml",
    }
    assert any(says in problem.message for problem in problems)


@pytest.mark.parametrize(
    ("file", "is_refused"),
    [
        (".holdfast/control.db", False),
        (".holdfast/db/control.db", False),
        ("db/control.db", False),
        (".holdfast", True),
        ("configs/control.db", True),
    ],
)
def test_the_file_of_the_control_store_may_lie_in_the_home_folder(
    tmp_path: Path, *, file: str, is_refused: bool
) -> None:
    url = f"control_store: {{url: 'sqlite:///{tmp_path}/{file}'}}\n"
    refused = faults(a_project(tmp_path, clicks=stream_yaml(), holdfast=url))
    assert ("control_store.url" in dict(refused), bool(refused)) == (is_refused, is_refused)


@pytest.mark.parametrize("path", ["s3://copies/old/clicks", "s3://copies/old", "s3://copies"])
def test_nothing_is_written_into_a_place_of_copies(tmp_path: Path, path: str) -> None:
    places = S3 + "places: {backup: {bucket: copies, prefix: old/}}\n"
    root = a_project(tmp_path, clicks=stream_yaml(sink=delta(path)), holdfast=places)
    [(field, message), (other_field, _)] = faults(root)
    assert (field, other_field) == ("places.backup", "sink.path")
    assert "the table of clicks" in message


def test_a_place_of_copies_may_be_elsewhere_or_hold_the_snapshots_of_the_project(
    tmp_path: Path,
) -> None:
    places = (
        S3 + "places: {same: {bucket: streams, prefix: prod/}, all: {bucket: streams},\n"
        "  other: {bucket: tables, endpoint_url: 'http://elsewhere'}}\n"
    )
    sink = delta("s3://tables/clicks")
    assert check(a_project(tmp_path, clicks=stream_yaml(sink=sink), holdfast=places)) == []


@pytest.mark.parametrize(
    ("path", "says"), [("out", "is a file: name a folder"), ("out/a/b", "lies below the file ")]
)
def test_a_table_is_no_file(tmp_path: Path, path: str, says: str) -> None:
    source = files("in", dead_letters={"path": f"rejected/{path}"})
    root = a_project(tmp_path, clicks=stream_yaml(source=source, sink=delta(path)))
    (root / "rejected").mkdir()
    assert check(root) == []
    for folder in (root, root / "rejected"):
        (folder / "out").write_text("")
    lines = (root / "configs/streams/clicks.yaml").read_text().splitlines()
    problems = {problem.field: problem for problem in check(root)}
    assert problems.keys() == {"sink.path", "source.dead_letters.path"}
    for problem in problems.values():
        assert problem.file == "configs/streams/clicks.yaml"
        assert path in lines[problem.line - 1]
        assert problem.message.startswith(says)
