"""Every mistake in a file is shown where it is, with the value and what is allowed."""

from pathlib import Path

import pytest

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.loading import Problem, load_file

GOOD = """\
name: clicks
app: json:loads
source:
  kind: rate
  seed: 1
  keys: 10
  profile:
    kind: constant
    rows_per_second: 100
objective:
  recovery_time: 10s
"""


def problems_of(folder: Path, text: str | bytes) -> list[Problem]:
    path = folder / "clicks.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(load_file(path, StreamDeclaration, file="clicks.yaml").problems)


def test_a_good_file_has_no_problem(tmp_path: Path) -> None:
    assert problems_of(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("wrong", "right", "shown"),
    [
        ("keys: 10", "keys: 0", "6:3: source.keys: 0: must be at least 1"),
        ("keys: 10", "keys: many", '6:3: source.keys: "many": must be a whole number'),
        ("  keys: 10\n", "", "3:1: source.keys: is required"),
        ("kind: rate", "kind: rat", '4:3: source.kind: "rat": must be one of rate, files'),
        ("  kind: rate\n", "", "3:1: source.kind: must be one of rate, files"),
        (
            "keys: 10",
            "keys: 10\n  partition: 2",
            "7:3: source.partition: 2: is not a field here: did you mean partitions?",
        ),
        (
            "kind: constant",
            "kind: constnt",
            '8:5: source.profile.kind: "constnt": must be one of constant, step, spikes, diurnal',
        ),
        (
            "rows_per_second: 100",
            "rows_per_second: 100\n    rate: 1",
            "10:5: source.profile.rate: 1: is not a field here: choose one of kind, rows_per_second",
        ),
        (
            "recovery_time: 10s",
            "recovery_time: soon",
            '11:3: objective.recovery_time: "soon": must be a duration such as 10, 500ms, 10s,'
            " 5m, 1h or 7d",
        ),
        (
            "recovery_time: 10s",
            "recovery_time: 10s\n  guarantee: exact",
            '12:3: objective.guarantee: "exact": must be one of precise, rollback, gap',
        ),
        (
            "objective:",
            "supervision:\n  heartbeat: 2s\n  lease: 3s\nobjective:",
            '12:3: supervision.lease: "3s": must be at least two heartbeats (4 s):'
            " a single late heartbeat would lose the lease",
        ),
        (
            "objective:",
            "retention:\n  last: 0\nobjective:",
            "11:3: retention.last: 0: must be at least 1: 0 would delete the newest snapshot",
        ),
        (
            "seed: 1",
            "seed: 1\n  start: 2026-13-45",
            '6:3: source.start: "2026-13-45": must be a date and time such as 2026-01-31T12:00:00Z',
        ),
        (
            "objective:",
            "resources:\n  spark_conf:\n    spark.sql.streaming.checkpointLocation: x\nobjective:",
            '12:5: resources.spark_conf.spark.sql.streaming.checkpointLocation: "x": is set by'
            " Holdfast: each incarnation of a replica gets a folder of its own",
        ),
        (
            "objective:",
            "epoch: fast\nobjective:",
            '10:1: epoch: "fast": must be a mapping of fields',
        ),
    ],
)
def test_a_mistake_is_shown_where_it_is(tmp_path: Path, wrong: str, right: str, shown: str) -> None:
    assert [str(p) for p in problems_of(tmp_path, GOOD.replace(wrong, right, 1))] == [
        f"clicks.yaml:{shown}"
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "1:1: is empty: must be a mapping of fields"),
        ("# nothing\n", "1:1: is empty: must be a mapping of fields"),
        (GOOD + "name: other\n", "12:1: name is set twice: remove one of them"),
        ("name: [1\n", "2:1: is not valid YAML: expected ',' or ']', but got '<stream end>'"),
        (
            "name: a\n\tapp: b\n",
            "2:1: is not valid YAML: found character '\\t' that cannot start any token",
        ),
        ("a: 1\n---\nb: 2\n", "2:1: is not valid YAML: but found another document"),
        (
            "a: !!python/object:os.system 1\n",
            "1:4: is not valid YAML: could not determine a constructor",
        ),
        (b"name: \xff\n", "1:1: is not valid YAML: 'utf-8' codec can't decode"),
        ("a: \x07\n", "1:1: is not valid YAML: unacceptable character"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, text: str | bytes, shown: str) -> None:
    [problem] = problems_of(tmp_path, text)
    assert str(problem).startswith(f"clicks.yaml:{shown}")


def test_a_list_is_no_declaration(tmp_path: Path) -> None:
    [problem] = problems_of(tmp_path, "- a\n- b\n")
    assert problem.message == "must be a mapping of fields"


def test_all_mistakes_are_shown_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("keys: 10", "keys: 0").replace("10s", "never") + "extra: 1\n"
    assert [problem.line for problem in problems_of(tmp_path, text)] == [6, 11, 12]


def test_a_merged_mapping_keeps_its_lines(tmp_path: Path) -> None:
    text = GOOD.replace("source:", "source:\n  <<: {keys: 0}").replace("  keys: 10\n", "")
    assert [(p.field, p.line) for p in problems_of(tmp_path, text)] == [("source.keys", 4)]


def test_a_structure_that_holds_itself_is_a_problem(tmp_path: Path) -> None:
    assert problems_of(tmp_path, GOOD + "params: &p\n  again: *p\n")


def test_a_wrong_format_says_nothing_of_the_pattern_that_follows_from_it(tmp_path: Path) -> None:
    source = "source: {kind: files, path: in, format: xml, schema: a int}\n"
    text = f"name: a\napp: json:loads\n{source}objective: {{recovery_time: 1}}\n"
    assert [str(problem) for problem in problems_of(tmp_path, text)] == [
        'clicks.yaml:3:33: source.format: "xml": must be one of parquet, jsonl, csv'
    ]


def test_a_folder_in_place_of_a_file_is_a_problem(tmp_path: Path) -> None:
    [problem] = load_file(tmp_path, StreamDeclaration, file="x").problems
    assert problem.message.startswith("cannot be read")
