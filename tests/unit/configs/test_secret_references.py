"""Secrets are named in a declaration, and never written there."""

from pathlib import Path

import pytest

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.project import ProjectConfig, check
from holdfast.configs.secret_references import resolve_params, resolve_references
from holdfast.ft_policies.errors import PermanentError
from tests.builders.projects import a_declaration, a_project, stream_yaml

KEY = "spark.hadoop.fs.s3a.secret.key"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(
            (key, "hush")
            for key in (
                KEY,
                "spark.hadoop.fs.s3a.access.key",
                "spark.x.PASSWORD",
                "spark.my.token",
                "spark.kubernetes.authenticate.driver.oauthToken",
                "spark.hadoop.fs.azure.account.key.me.dfs.core.windows.net",
                "spark.hadoop.fs.azure.account.key.profile.dfs.core.windows.net",
                "spark.hadoop.fs.azure.sas.box.me.blob.core.windows.net",
                "spark.hadoop.fs.gs.auth.service.account.private.key",
                "spark.my.pwd",
                "spark.my.Authorization",
            )
        ),
        # pragma: allowlist nextline secret
        ("spark.my.url", "postgresql://user:hush@host/database"),
        # pragma: allowlist nextline secret
        ("spark.my.url", "jdbc:postgresql://host/database?user=me&password=hush"),
        # pragma: allowlist nextline secret
        ("spark.my.jaas", 'PlainLoginModule required username="me" password="hush";'),
    ],
)
def test_a_secret_in_clear_text_is_refused_and_not_shown(
    tmp_path: Path, key: str, value: str
) -> None:
    clear = a_project(tmp_path / "a", clicks=stream_yaml(resources={"spark_conf": {key: value}}))
    named = a_project(tmp_path / "b", clicks=stream_yaml(resources={"spark_conf": {key: "${K}"}}))

    [problem] = check(clear)

    assert "${VARIABLE}" in problem.message
    assert "hush" not in str(problem)
    assert check(named) == []


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.driver.extraJavaOptions": "-Xss4m -Djavax.net.ssl.trustStorePassword=hush"},
        {"spark.driver.defaultJavaOptions": "-Dmy.token=hush"},
        {"spark.driver.extraJavaOptions": "${HUSH}"},
    ],
)
def test_a_secret_is_no_option_of_java(tmp_path: Path, conf: dict[str, str]) -> None:
    """They are in `ps`, wherever they come from."""
    [problem] = check(a_project(tmp_path, clicks=stream_yaml(resources={"spark_conf": conf})))
    assert "visible to every user of the machine" in problem.message
    assert "hush" not in str(problem)


def test_settings_that_only_tell_about_a_secret_are_allowed(tmp_path: Path) -> None:
    conf = {
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.SimpleAWSCredentialsProvider",
        "spark.hadoop.fs.azure.account.keyprovider.me.dfs.core.windows.net": "org.apache.Shell",
        "spark.hadoop.fs.azure.sas.token.provider.type": "org.apache.Tokens",
        "spark.kafka.clusters.a.sasl.token.mechanism": "SCRAM-SHA-512",
        "spark.security.credentials.hive.enabled": "false",
        "spark.driver.extraJavaOptions": "-Dmy.secretFile=/run/secrets/x -Xss4m -XX:+UseG1GC",
    }
    assert check(a_project(tmp_path, clicks=stream_yaml(resources={"spark_conf": conf}))) == []


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
        {"password": 12345678},
        {"sink": {"pwd": 1.5}},
        # pragma: allowlist nextline secret
        {"sink": {"api_key": "hush"}},
        {"auth_token": "hush"},
        # pragma: allowlist nextline secret
        {"url": "postgresql://user:hush@host/database"},
        {"passwords": ["hush"]},
        {"token": {"value": "hush"}},
        {"credentials": [{"of": {"me": "hush"}}]},
        # pragma: allowlist nextline secret
        {"password": {"value": 12345678}},
        {"secret": {"pwd": 12345678}},
        # pragma: allowlist nextline secret
        {"sinks": [{"rows": 3}, {"password": "hush"}]},
        # pragma: allowlist nextline secret
        {"urls": [["http://host/x", "http://user:hush@host/x"]]},
    ],
)
def test_a_secret_of_params_in_clear_text_is_refused_and_not_shown(
    tmp_path: Path, params: dict[str, object]
) -> None:
    [problem] = check(a_project(tmp_path, clicks=stream_yaml(params=params)))
    assert "${VARIABLE}" in problem.message
    assert "hush" not in str(problem)


def test_params_that_only_sound_alike_are_allowed(tmp_path: Path) -> None:
    params = {
        "tokens": {"of": "words"},
        "password": "${PW}",
        "secret": {"value": "${PW}", "file": "/run/secrets/x", "type": "bearer", "rows": 3},
        "secret_rows": 3,
        "url": "http://host:80/x",
    }
    assert check(a_project(tmp_path, clicks=stream_yaml(params=params))) == []


def test_a_function_gets_the_values_of_its_params() -> None:
    params = {"db": {"password": "${PW}"}, "rows": 3, "all": ["a", ["${PW}"], {"b": "${PW}"}]}
    values = resolve_params(params, {"PW": "hush"})
    # pragma: allowlist nextline secret
    assert values == {"db": {"password": "hush"}, "rows": 3, "all": ["a", ["hush"], {"b": "hush"}]}
    with pytest.raises(PermanentError, match=r"PW is not set: params\.db\.password"):
        resolve_params(params, {})
    with pytest.raises(PermanentError, match=r"PW is not set: params\.all\.1\.0"):
        resolve_params({"all": params["all"]}, {})


@pytest.mark.parametrize(
    ("deployment", "line", "field"),
    [
        # pragma: allowlist nextline secret
        ("control_store:\n  url: postgresql://me:hush@db/x", 2, "control_store.url"),
        # pragma: allowlist nextline secret
        ("control_store:\n  url: postgresql://me@db/x?password=hush", 2, "control_store.url"),
        # pragma: allowlist nextline secret
        ("control_store: {url: 'postgresql://me:${HUSH}@db/x'}", 1, "control_store.url"),
        (
            # pragma: allowlist nextline secret
            "object_store:\n  kind: s3\n  bucket: abc\n  endpoint_url: http://me:hush@s3.example",
            4,
            "object_store.endpoint_url",
        ),
        (
            # pragma: allowlist nextline secret
            "places:\n  other:\n    bucket: abc\n    endpoint_url: https://me:hush@s3.example",
            4,
            "places.other.endpoint_url",
        ),
    ],
)
def test_a_password_in_a_url_of_the_deployment_is_refused_and_not_shown(
    tmp_path: Path, deployment: str, line: int, field: str
) -> None:
    root = a_project(tmp_path, clicks=stream_yaml(), holdfast=f"{deployment}\n")
    [problem] = check(root)
    assert (problem.file, problem.line, problem.field) == ("configs/holdfast.yaml", line, field)
    assert problem.message.startswith("is a secret in clear text")
    assert "hush" not in str(problem).lower()
    assert ProjectConfig.load(root).streams, "a project that has one is still recovered"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@db/x?sslmode=verify-full&passfile=/run/secrets/pgpass",
        "postgresql://me:@/x?host=/run/postgresql",
        "postgresql://me@db1:5432,db2:5432/x",
    ],
)
def test_a_url_of_the_control_store_without_a_password_is_allowed(tmp_path: Path, url: str) -> None:
    holdfast = f"control_store: {{url: '{url}'}}\n"
    assert check(a_project(tmp_path, clicks=stream_yaml(), holdfast=holdfast)) == []
