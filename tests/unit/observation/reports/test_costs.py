"""A stream's day as the control store has it, counted."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.tiers import SECONDARY, Tier
from holdfast.observation.reports.costs import (
    REPORT,
    count_costs,
    day_bounds,
    read_costs,
    read_tier_spans,
    streams_measured_between,
)
from holdfast.observation.reports.files import write_report
from holdfast.resources.control_store.records import ReplicaState, Sample
from holdfast.resources.control_store.schema import replicas, tier_changes
from holdfast.resources.project import Project
from tests.builders.reports import a_cost_row, record_outage
from tests.builders.streams import CLICKS, a_primary, a_secondary, a_wanted_stream
from tests.fakes.projects import simulated_projects

GB = 2.0**30


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A stream that has just been started, and one that never was."""
    with simulated_projects(tmp_path, CLICKS, "beta").open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
        yield project


def today(project: Project) -> date:
    return datetime.fromtimestamp(project.store.now(), UTC).date()


def measured(project: Project, at: float = 0.0, **values: float) -> None:
    project.store.samples.write(
        [
            Sample(stream=CLICKS, replica="r1", name=name, value=value, at=at)
            for name, value in values.items()
        ]
    )


def test_a_day_is_from_midnight_to_midnight() -> None:
    since, until = day_bounds(date(2026, 3, 1))
    assert datetime.fromtimestamp(since, UTC).isoformat() == "2026-03-01T00:00:00+00:00"
    assert until - since == 86_400.0


def test_only_streams_that_ran_are_counted(project: Project) -> None:
    since, until = day_bounds(today(project))
    assert count_costs(project, [CLICKS], since - 86_400.0, since) == []
    assert [row.stream for row in count_costs(project, [CLICKS, "beta"], since, until)] == [CLICKS]
    assert count_costs(project, ["beta"], since, until) == []


def test_who_has_measured_ran_and_only_then(project: Project) -> None:
    now = project.store.now()
    measured(project, cpu_cores=2.0)
    streams = [CLICKS, "beta"]
    assert streams_measured_between(project, streams, now - 60.0, now + 60.0) == [CLICKS]
    assert streams_measured_between(project, streams, now - 120.0, now - 60.0) == []


def test_the_tier_and_what_the_primary_used_make_the_cost(project: Project) -> None:
    now = project.store.now()
    measured(project, cpu_cores=2.0, rss_bytes=4 * GB)
    measured(project, at=now - 100 * 86_400.0, cpu_cores=50.0)
    project.store.tiers.desire(CLICKS, Tier.ACTIVE_REPLICATION, why="test", run="")
    (row,) = count_costs(project, [CLICKS], now - 60.0, now + 60.0)
    assert row.tier_seconds[Tier.ACTIVE_REPLICATION] == row.instance_hours == row.switches == 0
    project.store.tiers.record_reached(CLICKS, tier=Tier.ACTIVE_REPLICATION)
    a_secondary(project, "r2")
    (row,) = count_costs(project, [CLICKS], now - 60.0, now + 60.0)
    hours = row.ran_seconds / 3600.0
    assert 0.0 < row.ran_seconds < 60.0
    assert row.share(Tier.ACTIVE_REPLICATION) > 0.0
    active_hours = row.tier_seconds[Tier.ACTIVE_REPLICATION] / 3600.0
    assert row.cpu_core_hours == pytest.approx(2.0 * active_hours)
    assert row.memory_gb_hours == pytest.approx(4.0 * active_hours)
    assert row.instance_hours == pytest.approx(active_hours)
    assert row.unit_hours_if_active == pytest.approx(3.0 * hours), "it has no traffic of its own"
    assert 0.0 < row.money <= row.money_if_active
    assert (row.currency, row.objective_seconds) == ("USD", 10.0)


def test_a_recovery_counts_on_its_day(project: Project) -> None:
    now = project.store.now()
    record_outage(project, 12.0)
    (row,) = count_costs(project, [CLICKS], now - 60.0, now + 60.0)
    (before,) = count_costs(project, [CLICKS], now - 60.0, now)
    assert (before.recoveries, before.misses, before.slowest_seconds) == (0, 0, None)
    assert (row.recoveries, row.misses, row.slowest_seconds) == (1, 1, 12.0)


def test_who_does_not_count_detection_misses_less(tmp_path: Path) -> None:
    uncounted = {"mode": "pinned", "count_detection": False}
    with simulated_projects(tmp_path, controller=uncounted).open() as project:
        a_wanted_stream(project)
        a_primary(project, "r1")
        now = project.store.now()
        record_outage(project, 12.0, detect_seconds=5.0)
        (row,) = count_costs(project, [CLICKS], now - 60.0, now + 60.0)
    assert (row.recoveries, row.misses, row.slowest_seconds) == (1, 0, 7.0)


def test_who_was_sending_already_has_missed_nothing(project: Project) -> None:
    now = project.store.now()
    record_outage(project, 0.0, detect_seconds=30.0)
    (row,) = count_costs(project, [CLICKS], now - 60.0, now + 60.0)
    assert (row.recoveries, row.misses, row.slowest_seconds) == (1, 0, 0.0)


def test_the_past_ends_now(project: Project) -> None:
    now = project.store.now()
    (row,) = count_costs(project, [CLICKS], now - 60.0, now + 86_400.0)
    assert row.ran_seconds < 60.0
    (span,) = read_tier_spans(project.store, CLICKS, project.timings(CLICKS), until=now + 1.0)
    assert span.tier is Tier.PASSIVE_REPLICATION
    assert span.to_at == now + 1.0


def test_a_replica_that_was_fenced_late_is_billed_until_its_lease_was_over(
    project: Project,
) -> None:
    """A host that was off overnight: its replicas are fenced in the morning."""
    now = project.store.now()
    off = {"registered_at": now - 40_000.0, "heartbeat_at": now - 36_000.0}
    fenced = {"state": ReplicaState.FENCED, "ended_at": now}
    project.store._database.execute(tier_changes.update().values(at=now - 40_000.0))
    for late in ({}, fenced):
        project.store._database.execute(replicas.update().values(**off, **late))
        rows = count_costs(project, [CLICKS], now - 86_400.0, now + 60.0)
        lease = project.timings(CLICKS).lease_seconds
        assert sum(row.ran_seconds for row in rows) == pytest.approx(4_000.0 + lease)


def test_a_silent_secondary_is_billed_until_its_own_lease_was_over(project: Project) -> None:
    now = project.store.now()
    project.store.tiers.desire(CLICKS, Tier.DEPLOYED, why="test", run="")
    project.store.tiers.record_reached(CLICKS, tier=Tier.DEPLOYED)
    a_secondary(project, "r2", observed=SECONDARY[Tier.DEPLOYED])
    spans = read_tier_spans(project.store, CLICKS, project.timings(CLICKS), until=now + 3600.0)
    ended = {span.tier: span.to_at - now for span in spans}
    timings = project.timings(CLICKS)
    assert ended[Tier.DEPLOYED] == pytest.approx(timings.lease_seconds, abs=1.0)
    assert ended[Tier.PASSIVE_REPLICATION] == pytest.approx(
        timings.secondary_lease_seconds, abs=1.0
    )


def test_a_day_that_was_reported_is_read_and_any_other_is_counted(project: Project) -> None:
    day = date(2026, 2, 3)
    assert read_costs(project, day, [CLICKS]) == []
    row = a_cost_row()
    write_report(project.config.home, REPORT, [row.cells()], part=str(day))
    assert read_costs(project, day, [CLICKS]) == [row]
    assert read_costs(project, day, ["beta"]) == []
    assert [row.stream for row in read_costs(project, today(project), [CLICKS])] == [CLICKS]


def test_a_day_that_has_not_begun_has_no_costs_yet(project: Project) -> None:
    tomorrow = today(project) + timedelta(days=1)
    with pytest.raises(PermanentError, match=f"{tomorrow} has not begun"):
        read_costs(project, tomorrow, [CLICKS])


def test_who_ended_as_it_began_did_not_run(project: Project) -> None:
    ended = replicas.update().values(ended_at=replicas.c.registered_at)
    project.store._database.execute(ended)
    assert count_costs(project, [CLICKS], *day_bounds(today(project))) == []


def test_a_day_whose_measurements_are_gone_is_not_counted_as_if_they_were_none(
    project: Project,
) -> None:
    day = today(project) - timedelta(days=30)
    since, _ = day_bounds(day)
    lived = {"registered_at": since, "heartbeat_at": project.store.now()}
    project.store._database.execute(replicas.update().values(**lived))
    project.store._database.execute(tier_changes.update().values(at=since, reached_at=since))
    with pytest.raises(PermanentError, match=f"the costs of {day} cannot be counted") as refused:
        read_costs(project, day, [CLICKS])
    assert "samples.keep" in refused.value.hint
    assert read_costs(project, day, ["beta"]) == [], "it did not run"
    kept = today(project) - timedelta(days=2)
    assert [row.ran_seconds for row in read_costs(project, kept, [CLICKS])] == [86_400.0]
