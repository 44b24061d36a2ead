"""Secrets are named in a declaration, and never written there."""

from pathlib import Path

import pytest

from holdfast.configs.project import check
from holdfast.configs.secret_references import resolve_params, resolve_references
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

    # pragma: allowlist nextline secret
    assert resolve_references(conf, {"SECRET": "hush"}) == {**conf, KEY: "hush"}
    with pytest.raises(PermanentError, match=f"SECRET is not set: spark_conf.{KEY}"):
        resolve_references(conf, {})


@pytest.mark.parametrize(
    "params",
    [
        # pragma: allowlist nextline secret
        {"password": "hush"},
        # pragma: allowlist nextline secret
        {"sink": {"api_key": "hush"}},
        {"auth_token": "hush"},
        # pragma: allowlist nextline secret
        {"url": "postgresql://user:hush@host/database"},
    ],
)
def test_a_secret_of_params_in_clear_text_is_refused_and_not_shown(
    tmp_path: Path, params: dict[str, object]
) -> None:
    [problem] = check(a_project(tmp_path, clicks=stream_yaml(params=params)))
    assert "${VARIABLE}" in problem.message
    assert "hush" not in str(problem)


def test_params_that_only_sound_alike_are_allowed(tmp_path: Path) -> None:
    params = {"tokens": "words", "password": "${PW}", "secret_rows": 3, "url": "http://host:80/x"}
    assert check(a_project(tmp_path, clicks=stream_yaml(params=params))) == []


def test_a_function_gets_the_values_of_its_params() -> None:
    params = {"db": {"password": "${PW}"}, "rows": 3}
    # pragma: allowlist nextline secret
    assert resolve_params(params, {"PW": "hush"}) == {"db": {"password": "hush"}, "rows": 3}
    with pytest.raises(PermanentError, match=r"PW is not set: params\.db\.password"):
        resolve_params(params, {})
