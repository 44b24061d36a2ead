"""What a declaration may say, and the relations between its parts."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from configs.sources import FilesSource, RateSource
from configs.stream import StreamDeclaration
from ft_policies.epochs import Pace
from ft_policies.tiers import Guarantee, Tier
from tests.fakes.declared import a_declaration

FILES = {"kind": "files", "path": "in", "schema": "a int"}
RATE = {"kind": "rate", "seed": 1, "keys": 10}


def test_what_is_not_said_has_a_default() -> None:
    stream = a_declaration()
    assert stream.sink.kind == "delta"
    assert stream.tier is Tier.PASSIVE_REPLICATION
    assert stream.objective.guarantee is Guarantee.PRECISE
    assert stream.checkpoint.every == 10.0
    assert stream.prices == "on_demand"


def test_sections_hand_out_the_policies_that_they_describe() -> None:
    stream = a_declaration(
        epoch={"seconds": "2s", "rows": None, "silence": "9s"},
        checkpoint={"epochs": 5, "bytes": "1KB"},
        retention={"last": 3, "hourly": 2, "daily": 1},
    )
    assert stream.epoch.pace() == Pace(seconds=2.0, rows=None, silence_seconds=9.0)
    checkpoint = stream.checkpoint.policy()
    assert (checkpoint.epochs, checkpoint.seconds, checkpoint.bytes) == (5, None, 1024)
    retention = stream.retention.policy()
    assert (retention.last, retention.hourly, retention.daily) == (3, 2, 1)


def test_a_declaration_survives_json() -> None:
    stream = a_declaration(source={**FILES, "format": "csv"}, params={"window": [1, {"a": None}]})
    assert StreamDeclaration.model_validate_json(stream.model_dump_json(by_alias=True)) == stream
    assert StreamDeclaration.model_validate_json(stream.model_dump_json()) == stream


def test_a_declaration_never_changes() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        a_declaration().name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("extension", ["parquet", "jsonl", "csv"])
def test_files_are_chosen_by_their_format(extension: str) -> None:
    source = a_declaration(source={**FILES, "format": extension}).source
    assert isinstance(source, FilesSource)
    assert source.pattern == f"*.{extension}"
    assert source.columns == "a int"


@pytest.mark.parametrize(
    "profile",
    [
        {"kind": "step", "rows_per_second": 1, "then_rows_per_second": 9, "at": "1m"},
        {"kind": "spikes", "rows_per_second": 1, "spike_rows_per_second": 9}
        | {"length": "1s", "period": "1m"},
        {"kind": "diurnal", "low_rows_per_second": 0, "high_rows_per_second": 9, "period": "1d"},
    ],
)
def test_a_rate_follows_a_profile(profile: Mapping[str, object]) -> None:
    source = a_declaration(source={**RATE, "profile": profile}).source
    assert isinstance(source, RateSource)
    assert source.profile.kind == profile["kind"]


SPIKES = {"kind": "spikes", "rows_per_second": 1, "spike_rows_per_second": 9}
CALLABLE = {"kind": "callable", "function": "json:dumps"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"supervision": {"heartbeat": "2s", "lease": "3s"}}, "at least two heartbeats"),
        ({"supervision": {"stuck_after": "6s"}}, "is not stuck"),
        ({"epoch": {"seconds": None, "rows": None}}, "at least one of seconds and rows"),
        ({"checkpoint": {}}, "at least one of epochs, every and bytes"),
        ({"retention": {"last": 0}}, "would drop the newest snapshot"),
        ({"sink": CALLABLE}, "guarantee: rollback"),
        ({"source": {**RATE, "profile": {**SPIKES, "length": 9, "period": 9}}}, "shorter than"),
        ({"resources": {"master": "local"}}, r"must be local\[n\]"),
        ({"resources": {"driver_memory": "1 GB"}}, "512m or 2g"),
        ({"name": "Clicks"}, "lower-case"),
        ({"name": "c" * 64}, "at most 63"),
        ({"unknown": 1}, "unknown"),
        ({"params": {"when": object()}}, "params"),
        ({"source": {**RATE, "keys": True, "profile": SPIKES}}, "keys"),
    ],
)
def test_what_cannot_hold_is_refused(changes: Mapping[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        a_declaration(**changes)


def test_a_sink_that_may_be_called_twice_keeps_precise() -> None:
    assert a_declaration(sink={**CALLABLE, "idempotent": True}).sink.kind == "callable"
    rollback = {"recovery_time": 10, "guarantee": "rollback"}
    assert a_declaration(sink=CALLABLE, objective=rollback).objective.recovery_time == 10.0


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.streaming.noDataMicroBatches.enabled",
        "spark.sql.streaming.checkpointLocation",
        "spark.sql.streaming.stateStore.checkpointFormatVersion",
    ],
)
def test_spark_conf_leaves_what_holdfast_owns(key: str) -> None:
    with pytest.raises(ValidationError, match="is set by Holdfast"):
        a_declaration(resources={"spark_conf": {key: "x"}})


def test_a_tier_that_this_version_does_not_run_is_refused() -> None:
    with pytest.raises(ValidationError, match="this version runs no other tier yet"):
        a_declaration(tier="active_standby")
