"""Reports with rows: tables, plots and files, checked by Great Expectations as they are made."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.reports import costs, decisions, model, what_if
from ft_policies.tiers import Tier
from tests.fakes.decisions import a_decision, a_decision_row, simulated_what_if
from tests.fakes.worlds import CLICKS, SimulatedWorlds, simulated_worlds
from tests.support.control_builders import wait_for_the_clock
from tests.support.reports import a_stream_that_runs, taken_over

pytestmark = pytest.mark.integration
STREAMS = [CLICKS, "beta"]


@pytest.fixture
def worlds(tmp_path: Path) -> SimulatedWorlds:
    """A stream that runs and was decided on and has recovered, and one that nobody wants to run."""
    worlds = simulated_worlds(tmp_path, *STREAMS)
    with worlds.open() as world:
        a_stream_that_runs(world)
        earlier = world.store.now() - 60.0
        world.store.decisions.write(a_decision_row(a_decision(at=earlier)))
        taken_over(world, 12.0)
    return worlds


def made(worlds: SimulatedWorlds, report: dg.AssetsDefinition) -> Any:
    """Materialise a report that passes its check; its metadata."""
    result = dg.materialize([report], resources={"worlds": worlds})
    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.passed, evaluation.metadata
    (materialised,) = result.asset_materializations_for_node(report.node_def.name)
    return materialised.metadata


def rows_of(metadata: Any, table: str) -> list[dict[str, Any]]:
    return [dict(record.data) for record in metadata[table].records]


def test_a_day_has_a_row_for_each_stream_that_ran_and_sums(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        today = datetime.fromtimestamp(world.store.now(), UTC).date()
        result = costs.report(world, STREAMS, today)
    assert result.metadata is not None
    (row,) = rows_of(result.metadata, "streams")
    assert (row["stream"], row["share_passive_replication"], row["misses"]) == (CLICKS, 1.0, 1)
    assert result.metadata["spent_USD"] == pytest.approx(row["money"], rel=1e-4)
    file = Path(result.metadata["file"].value)
    assert file.name == f"{today}.csv"
    assert file.with_suffix(".png").exists()
    (check,) = result.check_results
    assert check.passed
    assert check.metadata["rows_validated"].value == 1


def test_decisions_pass_their_check(worlds: SimulatedWorlds) -> None:
    (row,) = rows_of(made(worlds, decisions.definition(STREAMS)), "rows")
    assert row["tier"] == "passive_standby_hot"


def test_recoveries_are_summed_up_by_tier_and_step(worlds: SimulatedWorlds) -> None:
    with worlds.open() as world:
        world.store.tiers.desire(CLICKS, Tier.ACTIVE_STANDBY, why="test", run="")
        wait_for_the_clock(world.store)
        taken_over(world, 12.0, by="r3", at=world.store.now() + 100.0)
    found = made(worlds, model.definition(STREAMS))
    rows = rows_of(found, "recoveries")
    assert {row["step"]: row["held"] for row in rows} == dict.fromkeys(
        ("all", "detect", "wire_send", "replay"), True
    )
    summed = {row["step"]: row for row in rows_of(found, "by_tier_and_step")}
    assert (summed["all"]["tier"], summed["all"]["recoveries"]) == ("active_standby", 1)
    assert 12.0 < summed["all"]["median_predicted_seconds"] < 24.0
    assert found["plot"].value.startswith("![Recoveries")


def test_other_objectives_are_priced_for_streams_that_should_run(worlds: SimulatedWorlds) -> None:
    found = made(worlds, what_if.definition(STREAMS, simulated_what_if))
    rows = rows_of(found, "objectives")
    assert {row["stream"] for row in rows} == {CLICKS}
    assert [row["tier"] for row in rows if row["objective_seconds"] in (0.0, 60.0)] == [
        "active_replication",
        "passive_replication",
    ]
