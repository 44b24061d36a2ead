"""Nonsense is refused at its place in the file, in bounded time and memory."""

import os
import resource
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.configs import references
from holdfast.configs.project import ProjectConfig, check, list_warnings
from tests.builders.projects import STREAM, a_project, stream_yaml
from tests.waiting import wait_until

RATE: dict[str, Any] = dict(STREAM["source"])  # type: ignore[call-overload]
ABSURD_PATHS = [
    "gs://a/b",
    "s3a://bucket/b",
    "http://a/b",
    "S3://bucket/b",
    "s3://bucket/x/../other",
    "s3://bucket/./x",
    "s3://bucket//x",
    "s3://bucket/x#other",
    "a\0b",
]
ENDPOINT = "object_store.endpoint_url"


def files(**changes: object) -> dict[str, object]:
    usual = {"kind": "files", "path": "in", "format": "jsonl", "schema": "id bigint"}
    return {"source": {**usual, **changes}}


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        *(({"sink": {"kind": "delta", "path": path}}, "sink.path") for path in ABSURD_PATHS),
        *((files(path=path), "source.path") for path in ABSURD_PATHS),
        ({"resources": {"folder": "s3://bucket/b"}}, "resources.folder"),
        ({"resources": {"driver_memory": "99999t"}}, "resources.driver_memory"),
        ({"resources": {"driver_memory": "1k"}}, "resources.driver_memory"),
        ({"resources": {"master": "local[999999]"}}, "resources.master"),
        ({"source": RATE | {"keys": 5_000_000_000}}, "source.keys"),
        ({"source": RATE | {"start": "9999-12-31T23:59:59-12:00"}}, "source.start"),
        ({"source": RATE | {"start": "0001-01-01T00:00:00+12:00"}}, "source.start"),
        ({"epoch": {"seconds": 1e-6}}, "epoch.seconds"),
        ({"secondary": {"sync": 1e-6}}, "secondary.sync"),
        ({"supervision": {"heartbeat": 1e-6}}, "supervision.heartbeat"),
        ({"supervision": {"lease": "3650d"}}, "supervision.lease"),
        ({"sink": {"kind": "delta", "partition_by": ["a", "a"]}}, "sink.partition_by"),
        ({"checkpoint": {"every": "1" + " " * 100_000 + "!"}}, "checkpoint.every"),
        ({"app": "@" + "://a:" * 40_000}, "app"),
        ({"code": "a" * 300}, "code"),
        ({"code": "a/" * 5000}, "code"),
        ({"resources": {"folder": "~no-such-user/x"}}, "resources.folder"),
        (files(schema="this is not ; ddl"), "source.schema"),
        *((files(pattern=pattern), "source.pattern") for pattern in ("a/*.csv", "_*", ".x", "")),
        (files(schema="id bigint, ID string"), "source.schema"),
        (files(schema="id bignumber"), "source.schema"),
        (files(schema="id array<int"), "source.schema"),
        (files(schema="id"), "source.schema"),
        (files(schema="a " + "array<" * 500 + "int"), "source.schema"),
        (files(schema="id decimal(99,200)"), "source.schema"),
        (files(schema="id decimal(3,4)"), "source.schema"),
        (files(schema="id decimal(,)"), "source.schema"),
        (files(schema="id decimal()"), "source.schema"),
        (files(schema="id varchar(1,2)"), "source.schema"),
        (files(schema="id char(0)"), "source.schema"),
        (files(schema="s struct<a: int, b: struct<x: int, X: int>>"), "source.schema"),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(
    tmp_path: Path, declared: dict[str, object], field: str
) -> None:
    [problem] = check(a_project(tmp_path, clicks=stream_yaml(**declared)))
    assert problem.field == field


@pytest.mark.parametrize(
    "schema",
    [
        "id bigint, word string",
        "`a b` INT NOT NULL COMMENT 'of it; all', t timestamp",
        "m map<string, array<struct<x: decimal(10,2), y: varchar(3)>>>, b BOOLEAN",
        "x int, s struct<x: numeric(38, 38), s: decimal(5)>, c decimal",
    ],
)
def test_a_schema_as_spark_reads_it_is_allowed(tmp_path: Path, schema: str) -> None:
    assert check(a_project(tmp_path, clicks=stream_yaml(**files(schema=schema)))) == []


@pytest.mark.parametrize(
    ("deployment", "field"),
    [
        ('home: "a\\0b"', "home"),
        ("home: s3://bucket/home", "home"),
        ("control_store: {url: 'postgresql://u:p@h:notaport/db'}", "control_store.url"),
        ("control_store: {url: 'postgresql://u:p@h:99999/db'}", "control_store.url"),
        ("control_store: {url: 'postgresql+asyncpg://h/db'}", "control_store.url"),
        ("control_store: {url: 'sqlite+aiosqlite:////tmp/x.db'}", "control_store.url"),
        *(
            (f"control_store: {{url: '{url}'}}", "control_store.url")
            for url in ("sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///x.db")
        ),
        (
            "object_store: {kind: s3, bucket: abc, endpoint_url: 'http://h:notaport'}",
            ENDPOINT,
        ),
        ("object_store: {kind: s3, bucket: abc, prefix: ../x}", "object_store.prefix"),
        (
            "object_store: {kind: s3, bucket: abc, access_key_id_env: KEY}",
            "object_store.access_key_id_env",
        ),
        (
            "object_store: {kind: s3, bucket: abc, secret_access_key_env: KEY}",
            "object_store.secret_access_key_env",
        ),
        (
            "places: {there: {bucket: abc, access_key_id_env: KEY}}",
            "places.there.access_key_id_env",
        ),
        (
            "places: {there: {bucket: abc, secret_access_key_env: KEY}}",
            "places.there.secret_access_key_env",
        ),
        ("home: ~no-such-user/x", "home"),
        ("object_store: {kind: s3, bucket: abc, endpoint_url: 'http://a b?c'}", ENDPOINT),
        ("samples: {keep: 1ms}", "samples.keep"),
    ],
)
def test_a_deployment_that_makes_no_sense_is_refused(
    tmp_path: Path, deployment: str, field: str
) -> None:
    [problem] = check(a_project(tmp_path, clicks=stream_yaml(), holdfast=deployment))
    assert problem.field == field


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////var/lib/holdfast/control.db",
        "sqlite:///~/control.db?timeout=20",
        "postgresql:///holdfast",
        "postgresql+psycopg://me@db:5433,other:5434/holdfast",
        "postgres://me@db/holdfast?sslmode=require",
    ],
)
def test_a_control_store_that_can_be_opened_is_allowed(tmp_path: Path, url: str) -> None:
    deployment = f"control_store: {{url: '{url}'}}"
    assert check(a_project(tmp_path, clicks=stream_yaml(), holdfast=deployment)) == []


def test_a_file_that_would_be_ignored_is_a_problem_at_its_place(tmp_path: Path) -> None:
    root = a_project(tmp_path, clicks=stream_yaml(), holdfast="home: .holdfast")
    (root / "configs" / "holdfast.yml").write_text("home: .other")
    (root / "configs" / "streams" / "more").mkdir()
    (root / "configs" / "streams" / "more" / "lost.yaml").write_text("nonsense")
    assert [(problem.file, problem.message) for problem in check(root)] == [
        ("configs/holdfast.yml", "is ignored: holdfast.yaml is beside it"),
        (
            "configs/streams/more",
            "is ignored: move what it holds into configs/streams",
        ),
    ]
    project = ProjectConfig.load(root, tolerant=True)
    assert (project.home.name, list(project.streams)) == (".holdfast", ["clicks"])


@pytest.mark.parametrize("leads_to", ["/dev/zero", "pipe", "nowhere"])
def test_a_file_without_an_end_is_refused_soon(tmp_path: Path, leads_to: str) -> None:
    root = a_project(tmp_path, clicks=stream_yaml())
    os.mkfifo(root / "configs" / "pipe")
    (root / "configs" / "holdfast.yaml").symlink_to(leads_to)
    (root / "configs" / "streams" / "more.yaml").symlink_to(Path("..") / leads_to)
    assert [problem.file for problem in check(root)] == [
        "configs/holdfast.yaml",
        "configs/streams/more.yaml",
    ]
    (root / "configs" / "holdfast.yaml").unlink()
    assert ProjectConfig.load(root, tolerant=True).broken == {"more"}


@pytest.mark.parametrize("password", ["hush/hush", "hush@hush", "hush:hush/@"])
def test_no_password_is_shown(tmp_path: Path, password: str) -> None:
    url = f"control_store: {{url: 'mysql://me:{password}@db/x'}}\n"
    [problem] = check(a_project(tmp_path, holdfast=url))
    assert "hush" not in str(problem)


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("epoch: {seconds: 0x" + "f" * 6000 + "}", "epoch.seconds"),
        ("epoch: {rows: 0x" + "f" * 6000 + "}", "epoch.rows"),
        ("epoch: {rows: 1" + ":1" * 5000 + "}", "epoch.rows"),
        ("epoch: {nothing: 0x" + "f" * 6000 + "}", "epoch.nothing"),
        ('params: {a: "\\ud800"}', ""),
    ],
)
def test_a_value_that_no_machine_can_hold_is_a_problem_at_its_place(
    tmp_path: Path, written: str, field: str
) -> None:
    [problem] = check(a_project(tmp_path, clicks=stream_yaml() + written))
    assert (problem.field, problem.line) == (field, stream_yaml().count("\n") + 1)


def test_a_file_that_stands_for_too_much_is_refused_soon(tmp_path: Path) -> None:
    lines = ["a: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    long = "params: {list: [" + "1," * 100_000 + "1]}\n"
    root = a_project(tmp_path, bomb="\n".join(lines), long=stream_yaml(params={}) + long)
    assert ["has more than 5000 values" in problem.message for problem in check(root)] == [
        True,
        True,
    ]
    (root / "configs" / "streams" / "bomb.yaml").write_text("#" * 2_000_000)
    assert "is larger than" in check(root)[0].message


def test_an_alias_that_stands_for_little_is_allowed(tmp_path: Path) -> None:
    text = stream_yaml(params={}).replace("params: {}", "params: {a: &a [1, 2], b: *a}")
    assert check(a_project(tmp_path, clicks=text)) == []


def test_a_module_that_ends_or_hangs_is_a_problem_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "IMPORT_SECONDS", 3.0)
    root = a_project(
        tmp_path,
        a=stream_yaml(name="a", app="exits:build"),
        b=stream_yaml(name="b", app="dies:build", expectations="json:nothing"),
        c=stream_yaml(name="c", app="hangs:build"),
    )
    (root / "exits.py").write_text("import sys\nsys.exit()\n")
    (root / "dies.py").write_text("import os\nos._exit(0)\n")
    (root / "hangs.py").write_text("import time\ntime.sleep(600)\n")
    problems = [(problem.file[-6:], problem.field, problem.message) for problem in check(root)]
    assert [(file, field) for file, field, _ in problems] == [
        ("a.yaml", "app"),
        ("b.yaml", "app"),
        ("b.yaml", "expectations"),
        ("c.yaml", "app"),
    ]
    assert "SystemExit" in problems[0][2]
    assert "ends the process on import (exit code 0)" in problems[1][2]
    assert "is not imported within 3 s" in problems[3][2]


def test_a_module_that_hangs_is_tried_once_and_all_imports_together_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "IMPORT_SECONDS", 1.0)
    root = a_project(
        tmp_path,
        a=stream_yaml(name="a", app="hangs:build", expectations="hangs:expect"),
        b=stream_yaml(name="b", app="hangs:other"),
        c=stream_yaml(name="c", app="late:build"),
    )
    (root / "hangs.py").write_text("import time\nopen('tries', 'a').write('1')\ntime.sleep(600)\n")
    (root / "late.py").write_text("def build(): ...\n")
    clock = iter([0.0, 100.0, 200.0])  # at the start, and before each module
    problems = [
        (problem.file[-6:], problem.message) for problem in check(root, lambda: next(clock))
    ]
    assert [file for file, _ in problems] == ["a.yaml", "a.yaml", "b.yaml", "c.yaml"]
    assert all("hangs is not imported within 1 s" in message for _, message in problems[:3])
    assert "late is not imported: the modules before it took 180 s" in problems[3][1]
    assert (root / "tries").read_text() == "1"


def test_a_module_that_floods_leaves_a_process_or_takes_all_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that a module leaves behind holds its output open: a check that reads it waits for ever."""
    monkeypatch.setattr(references, "IMPORT_SECONDS", 5.0)
    root = a_project(
        tmp_path,
        a=stream_yaml(name="a", app="floods:build"),
        b=stream_yaml(name="b", app="leaves:build"),
        c=stream_yaml(name="c", app="takes:build"),
    )
    pid_file = tmp_path / "left.pid"
    (root / "floods.py").write_text("while True:\n    print('x' * 65536)\n")
    (root / "leaves.py").write_text(
        "import pathlib, subprocess, time\n"
        "left = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(left.pid))\n"
        "time.sleep(600)\n"
    )
    (root / "takes.py").write_text("taken = bytearray(1 << 45)\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problems = {problem.file[-6:]: problem.message for problem in check(root)}
    grown_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert "is not imported within 5 s" in problems["a.yaml"]
    assert "is not imported within 5 s" in problems["b.yaml"]
    assert "MemoryError" in problems["c.yaml"]
    assert grown_kilobytes < 50_000
    wait_until(lambda: not runs(int(pid_file.read_text())))


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_looks_like_a_mistake_is_a_warning(tmp_path: Path) -> None:
    declared = {
        "objective": {"recovery_time": "100ms"},
        "resources": {"driver_memory": "15t"},
        **files(path="nowhere"),
    }
    root = a_project(tmp_path, clicks=stream_yaml(**declared))
    assert check(root) == []
    assert {problem.field for problem in list_warnings(root)} == {
        "objective.recovery_time",
        "resources.driver_memory",
        "source.path",
    }
