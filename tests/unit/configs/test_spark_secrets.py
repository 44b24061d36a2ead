"""Secrets of Spark are named in a declaration, and never written there."""

from pathlib import Path

import pytest

from holdfast.configs.project import check
from holdfast.configs.spark_secrets import resolve_references
from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError
from tests.builders.projects import a_declaration, a_project, stream_yaml

KEY = "spark.hadoop.fs.s3a.secret.key"


@pytest.mark.parametrize(
    "key", [KEY, "spark.hadoop.fs.s3a.access.key", "spark.x.PASSWORD", "spark.my.token"]
)
def test_a_secret_in_clear_text_is_refused_and_not_shown(tmp_path: Path, key: str) -> None:
    clear = a_project(tmp_path / "a", clicks=stream_yaml(resources={"spark_conf": {key: "hush"}}))
    named = a_project(tmp_path / "b", clicks=stream_yaml(resources={"spark_conf": {key: "${K}"}}))

    [problem] = check(clear)

    assert "${VARIABLE}" in problem.message
    assert "hush" not in str(problem)
    assert check(named) == []


def test_a_stream_that_was_started_with_one_can_still_be_read() -> None:
    stored = a_declaration(resources={"spark_conf": {KEY: "hush"}}).model_dump(mode="json")

    assert StreamDeclaration.model_validate(stored).resources.spark_conf == {KEY: "hush"}


def test_a_driver_gets_the_values_and_an_unset_variable_is_named() -> None:
    conf = {KEY: "${SECRET}", "spark.other": "${not closed"}

    assert resolve_references(conf, {"SECRET": "hush"}) == {**conf, KEY: "hush"}
    with pytest.raises(PermanentError, match=f"SECRET is not set: {KEY}"):
        resolve_references(conf, {})
