"""A project is a folder; loading it is fast and names every mistake."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.configs.loading import InvalidConfig
from holdfast.configs.project import ProjectConfig, check
from holdfast.ft_policies.errors import PermanentError
from tests.builders.projects import a_declaration, a_project, stream_yaml

REPOSITORY = Path(__file__).parents[3]


def test_the_declarations_of_this_repository_are_valid() -> None:
    project = ProjectConfig.load(REPOSITORY)
    assert "word_count" in project.streams
    assert project.prices["on_demand"].currency == "USD"


def test_a_project_needs_nothing_but_streams(tmp_path: Path) -> None:
    project = ProjectConfig.load(a_project(tmp_path, clicks=stream_yaml()))
    assert project.home == tmp_path.resolve() / ".holdfast"
    assert project.control_url == f"sqlite:///{project.home}/control.db"
    assert project.table_path("clicks") == str(project.home / "tables" / "clicks")
    assert project.stream("clicks").prices in project.prices


def test_the_deployment_names_the_home_and_the_stores(tmp_path: Path) -> None:
    deployment = """
home: ../elsewhere
control_store: {url: "postgresql://me@db/holdfast"}
object_store: {kind: s3, bucket: snapshots, access_key_id_env: KEY, secret_access_key_env: SECRET}
"""
    root = a_project(tmp_path / "project", clicks=stream_yaml(), holdfast=deployment)
    project = ProjectConfig.load(root)
    assert project.home == tmp_path.resolve() / "elsewhere"
    assert project.control_url == "postgresql://me@db/holdfast"
    assert project.deployment.object_store.kind == "s3"


def test_a_secret_has_no_place_in_the_deployment(tmp_path: Path) -> None:
    deployment = "object_store: {kind: s3, bucket: snapshots, secret_access_key: hush}\n"
    [problem] = check(a_project(tmp_path, holdfast=deployment))
    assert problem.message.endswith("did you mean secret_access_key_env?")
    assert "hush" not in str(problem)


def test_a_password_in_a_url_is_not_shown(tmp_path: Path) -> None:
    [problem] = check(
        # pragma: allowlist nextline secret
        a_project(tmp_path, holdfast="control_store: {url: 'mysql://me:hush@db/x'}\n")
    )
    assert problem.value == '"mysql://me:***@db/x"'


@pytest.mark.parametrize("host", ["192.168.1.7", "streams.example"])
def test_a_ui_that_other_machines_reach_needs_a_token_of_the_operator(
    tmp_path: Path, host: str
) -> None:
    [problem] = check(a_project(tmp_path / "open", holdfast=f"dagster: {{host: {host}}}\n"))
    guarded = a_project(
        tmp_path / "guarded", holdfast=f"dagster: {{host: {host}, token_env: UI_TOKEN}}\n"
    )

    assert "token_env" in problem.message
    assert check(guarded) == []


def test_a_table_may_be_elsewhere(tmp_path: Path) -> None:
    project = ProjectConfig.load(a_project(tmp_path, clicks=stream_yaml()))
    local = a_declaration(sink={"kind": "delta", "path": "out/clicks"})
    remote = a_declaration(sink={"kind": "delta", "path": "s3://bucket/clicks"})
    assert project.table_path(local) == str(tmp_path.resolve() / "out" / "clicks")
    assert project.table_path(remote) == "s3://bucket/clicks"


def test_a_callable_sink_has_no_table(tmp_path: Path) -> None:
    sink = {"kind": "callable", "function": "json:dumps", "idempotent": True}
    project = ProjectConfig.load(a_project(tmp_path, clicks=stream_yaml(sink=sink)))
    with pytest.raises(PermanentError, match="writes no table"):
        project.table_path("clicks")


def test_an_unknown_stream_gets_a_suggestion(tmp_path: Path) -> None:
    project = ProjectConfig.load(a_project(tmp_path, clicks=stream_yaml()))
    with pytest.raises(PermanentError, match="declared are clicks") as raised:
        project.stream("click")
    assert raised.value.hint == "did you mean clicks?"


def test_loading_raises_with_all_problems_of_all_files(tmp_path: Path) -> None:
    root = a_project(tmp_path, a=stream_yaml(name="A"), b=stream_yaml(extra=1), holdfast="hom: x\n")
    with pytest.raises(InvalidConfig, match="3 problems in the configuration") as raised:
        ProjectConfig.load(root)
    assert [problem.file for problem in raised.value.problems] == [
        "configs/holdfast.yaml",
        "configs/streams/a.yaml",
        "configs/streams/b.yaml",
    ]


def test_two_streams_cannot_share_a_name_or_a_table(tmp_path: Path) -> None:
    sink = {"kind": "delta", "path": "out"}
    root = a_project(tmp_path, a=stream_yaml(sink=sink), b=stream_yaml(sink=sink))
    assert [(p.file, p.field, p.message) for p in check(root)] == [
        (
            "configs/streams/a.yaml",
            "name",
            "is already used in configs/streams/b.yaml: choose another",
        ),
        (
            "configs/streams/a.yaml",
            "sink.path",
            "is already used by the table of clicks (configs/streams/b.yaml): choose another path",
        ),
        (
            "configs/streams/b.yaml",
            "name",
            "is already used in configs/streams/a.yaml: choose another",
        ),
        (
            "configs/streams/b.yaml",
            "sink.path",
            "is already used by the table of clicks (configs/streams/a.yaml): choose another path",
        ),
    ]


def test_a_price_list_must_exist_and_a_project_may_bring_its_own(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml(prices="our_cloud"))
    [problem] = check(root)
    assert "choose one of kubernetes_share, on_demand, " in problem.message
    (root / "configs" / "prices").mkdir()
    text = (REPOSITORY / "configs" / "price_lists" / "on_demand.yaml").read_text()
    (root / "configs" / "prices" / "our_cloud.yml").write_text(text)
    assert check(root) == []


def test_a_file_that_would_not_be_read_is_a_problem(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    for name in ("clicks.json", "ignored.md", ".hidden"):
        (root / "configs" / "streams" / name).write_text("{}")
    assert [problem.file for problem in check(root)] == ["configs/streams/clicks.json"]


def test_yml_is_read_too(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    (root / "configs" / "streams" / "clicks.yml").write_text(stream_yaml())
    assert list(ProjectConfig.load(root).streams) == ["clicks"]


def test_each_stream_is_checked_with_its_own_code(tmp_path: Path) -> None:
    for release, function in (("one", "first"), ("two", "second")):
        (tmp_path / release).mkdir()
        (tmp_path / release / "releases_of_it.py").write_text(f"def {function}(df, params): ...")
    root = a_project(
        tmp_path,
        clicks=stream_yaml(app="releases_of_it:first", code="one"),
        views=stream_yaml(name="views", app="releases_of_it:second", code="two"),
        orders=stream_yaml(name="orders", code="three"),
    )
    [problem] = check(root)
    assert (problem.field, problem.value) == ("code", '"three"')


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("no_such_module_here:build", "module no_such_module_here not found: "),
        ("user_of_check:bild", "has no function bild: did you mean build?"),
        ("user_of_check:NUMBER", "NUMBER is not a function"),
        ("broken_of_check:build", "fails on import: ZeroDivisionError"),
    ],
)
def test_check_finds_functions_that_do_not_exist(tmp_path: Path, reference: str, says: str) -> None:
    root = a_project(tmp_path, clicks=stream_yaml(app=reference))
    (root / "user_of_check.py").write_text("NUMBER = 1\ndef build(df, params): return df\n")
    (root / "broken_of_check.py").write_text("1 / 0\n")
    [problem] = check(root)
    assert (problem.field, problem.value) == ("app", f'"{reference}"')
    assert says in problem.message
    assert ProjectConfig.load(root).stream("clicks").app == reference


def test_check_looks_at_sinks_and_expectations_too(tmp_path: Path) -> None:
    sink = {"kind": "callable", "function": "json:write", "idempotent": True}
    root = a_project(tmp_path, clicks=stream_yaml(sink=sink, expectations="json:suite"))
    assert sorted(problem.field for problem in check(root)) == ["expectations", "sink.function"]


def test_check_looks_at_functions_of_alerts(tmp_path: Path) -> None:
    notify = "notify: [{kind: log}, {kind: function, function: 'json:tell'}]"
    root = a_project(tmp_path, clicks=stream_yaml(), holdfast=notify)
    [problem] = check(root)
    assert (problem.file, problem.field) == ("configs/holdfast.yaml", "notify.1.function")
    assert "module json has no function tell" in problem.message
    assert ProjectConfig.load(root).deployment.notify[1].kind == "function"


def test_the_root_is_found_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_project(tmp_path / "project")
    (root / "deep" / "down").mkdir(parents=True)
    monkeypatch.delenv("HOLDFAST_PROJECT", raising=False)
    monkeypatch.chdir(root / "deep" / "down")
    assert ProjectConfig.find_root() == root.resolve()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        PermanentError, match="no project found: no folder configs/streams"
    ) as raised:
        ProjectConfig.find_root()
    assert "HOLDFAST_PROJECT" in raised.value.hint


def test_the_environment_names_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_project(tmp_path / "project")
    monkeypatch.setenv("HOLDFAST_PROJECT", str(root))
    assert ProjectConfig.find_root() == root.resolve()
    (root / "configs").rename(root / "away")
    (root / ".holdfast").mkdir()  # as a project that has lived
    assert ProjectConfig.find_root() == root.resolve()
    monkeypatch.setenv("HOLDFAST_PROJECT", str(tmp_path / "nowhere"))
    with pytest.raises(PermanentError, match="nowhere"):
        ProjectConfig.find_root()


def test_a_folder_without_streams_is_a_problem(tmp_path: Path) -> None:
    assert [problem.file for problem in check(tmp_path)] == ["configs/streams"]


def test_loading_imports_no_spark_no_dagster_and_no_pandas() -> None:
    code = (
        "import sys, holdfast.configs.project\n"
        "print(*{'pyspark', 'dagster', 'pandas', 'numpy', 'boto3'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_a_table_on_s3_needs_more_than_the_embedded_object_store(tmp_path: Path) -> None:
    root = a_project(tmp_path, a=stream_yaml(sink={"kind": "delta", "path": "s3://tables/a"}))
    (problem,) = check(root)
    assert (problem.field, problem.value) == ("sink.path", '"s3://tables/a"')
    assert "embedded object store stores snapshots only" in problem.message
    (root / "configs" / "holdfast.yaml").write_text("object_store: {kind: s3, bucket: tables}\n")
    assert check(root) == []


def test_dead_letters_on_s3_need_more_than_the_embedded_object_store(tmp_path: Path) -> None:
    source = {"kind": "files", "path": "in", "format": "jsonl", "schema": "a long"}
    source |= {"dead_letters": {"path": "s3://tables/bad"}}
    (problem,) = check(a_project(tmp_path, a=stream_yaml(source=source)))
    assert problem.field == "source.dead_letters.path"
    assert "embedded object store stores snapshots only" in problem.message
