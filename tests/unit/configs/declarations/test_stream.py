"""What a declaration may say, and the relations between its parts."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from holdfast.configs.declarations.sources import FilesSource, RateSource
from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.driver import SpareCapacityPolicy
from holdfast.ft_policies.epochs import Pace
from holdfast.ft_policies.playbooks.drill import Fault
from holdfast.ft_policies.tiers import Guarantee, Tier
from tests.builders.projects import a_declaration

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


def test_the_old_name_of_the_drills_fault_is_still_read() -> None:
    assert a_declaration(drills={"blow": "pause"}).drills.fault is Fault.PAUSE  # house: old word
    assert a_declaration(drills={"fault": "cut_off"}).drills.fault is Fault.CUT_OFF
    with pytest.raises(ValidationError, match="blow"):  # house: old word
        a_declaration(drills={"fault": "kill", "blow": "pause"})  # house: old word


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
        ({"supervision": {"stuck_after": "6s"}}, "must not count as stuck"),
        ({"epoch": {"seconds": None, "rows": None}}, "at least one of seconds and rows"),
        ({"checkpoint": {}}, "at least one of epochs, every and bytes"),
        ({"retention": {"last": 0}}, "would delete the newest snapshot"),
        ({"sink": CALLABLE}, "guarantee: rollback"),
        ({"source": {**RATE, "profile": {**SPIKES, "length": 9, "period": 9}}}, "shorter than"),
        ({"resources": {"master": "local"}}, r"must be local\[n\]"),
        ({"resources": {"driver_memory": "1 GB"}}, "512m or 2g"),
        ({"secondary": {"spare_capacity": {"nice": 20}}}, "nice"),
        ({"secondary": {"spare_capacity": {"pause_above": 1.5}}}, "pause_above"),
        ({"secondary": {"spare_capacity": {"pause_above": 0.7}}}, "pause and resume without end"),
        ({"tier": "hot"}, "tier"),
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


@pytest.mark.parametrize("tier", Tier)
def test_every_tier_can_be_declared(tier: Tier) -> None:
    assert a_declaration(tier=tier.value).tier is tier


def test_a_sink_that_both_replicas_would_call_must_bear_it() -> None:
    rollback = {"recovery_time": 10, "guarantee": "rollback"}
    with pytest.raises(ValidationError, match="needs an idempotent sink, which both replicas call"):
        a_declaration(sink=CALLABLE, objective=rollback, tier="active_replication")
    idempotent = {**CALLABLE, "idempotent": True}
    assert (
        a_declaration(sink=idempotent, tier="active_replication").objection_to(
            Tier.ACTIVE_REPLICATION
        )
        is None
    )
    standby = a_declaration(sink=CALLABLE, objective=rollback, tier="active_standby")
    assert "idempotent" in str(standby.objection_to(Tier.ACTIVE_REPLICATION))
    assert standby.objection_to(Tier.PASSIVE_STANDBY_HOT) is None


def test_a_secondary_may_run_on_spare_capacity() -> None:
    assert a_declaration().secondary.spare_capacity is None
    assert a_declaration().secondary.sync == 5.0
    spare = {"nice": 5, "pause_above": 0.8, "resume_below": 0.5, "after": "2s", "queue_epochs": 9}
    secondary = a_declaration(secondary={"sync": "1s", "spare_capacity": spare}).secondary
    assert secondary.spare_capacity is not None
    assert secondary.spare_capacity.nice == 5
    assert secondary.spare_capacity.policy() == SpareCapacityPolicy(
        pause_above=0.8, resume_below=0.5, after_seconds=2.0, queue_epochs=9
    )
