"""Formulas as planes: the same values as the models give, asked once; and systems fitted to what was seen."""

from dataclasses import replace

import numpy as np
import pytest

from ft_policies.costs import ALL_COSTS, ASSUMED_SHARES, EC2, Usage, weighted
from ft_policies.estimators import Observation, Readiness
from ft_policies.prediction import Histories
from ft_policies.recovery_model import Load, RecoveryStep
from ft_policies.simulator.formulas import Ranking, costs, predictions
from ft_policies.simulator.planes import Plane, quick
from ft_policies.simulator.presets import MEASURED, THESIS, Seen, measured
from ft_policies.simulator.states import FloatArray
from ft_policies.simulator.systems import System
from tests.support.simulations import ON_DEMAND

CHANCE = np.random.default_rng(4)
RATES, STATES = CHANCE.lognormal(8.0, 2.0, 40), CHANCE.lognormal(17.0, 2.0, 40)
MANY = replace(MEASURED, snapshot_every=(5.0, 10.0, 30.0), sync_every=(5.0, 10.0, 30.0))


@pytest.mark.parametrize("system", [THESIS, MEASURED, MANY])
@pytest.mark.parametrize("precise", [True, False])
def test_predictions_are_the_models(system: System, precise: bool) -> None:  # noqa: FBT001
    formula = predictions(system, precise=precise)
    assert isinstance(formula, Plane)
    load = system.load(RATES[:, np.newaxis], STATES[:, np.newaxis])
    ages = system.ages(np.arange(len(system.snapshot_every)))
    np.testing.assert_allclose(
        formula(RATES, STATES), system.recoveries.seconds(load, ages, precise=precise), rtol=1e-9
    )


@pytest.mark.parametrize("system", [THESIS, MEASURED, MANY])
@pytest.mark.parametrize("rank_by", [ON_DEMAND, ALL_COSTS, EC2])
def test_costs_are_the_models(system: System, rank_by: Ranking) -> None:
    rates, states = RATES[:, np.newaxis], STATES[:, np.newaxis]
    overhead, primary = system.overhead(rates, states), system.work.usage(rates, states)
    asked = ON_DEMAND.per_hour(overhead) if rank_by is ON_DEMAND else None
    expected = weighted(overhead, primary, rank_by) if asked is None else asked  # type: ignore[arg-type]
    found = costs(system, rank_by)(RATES, STATES)
    assert found.shape == (40, len(system.snapshot_every), 6)
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-9)


def test_what_is_no_plane_is_asked_each_time() -> None:
    def curved(rates: FloatArray, states: FloatArray) -> FloatArray:
        return np.sqrt(rates * states)[:, np.newaxis, np.newaxis] * np.ones(6)

    assert quick(curved, rate=10.0, state=10.0) is curved


def test_what_is_not_known_is_no_plane() -> None:
    def unknown(rates: FloatArray, states: FloatArray) -> FloatArray:
        return np.full((len(rates), 1, 6), np.inf)

    assert quick(unknown, rate=10.0, state=10.0) is unknown


def seen(**differently: object) -> Seen:
    usual = Seen(
        histories=Histories(steps={}),
        load=Load(
            rows_per_second=500.0,
            capacity_rows_per_second=8000.0,
            state_bytes=30e6,
            epoch_seconds=2.0,
        ),
        primary=Usage(cpu_cores=1.5, memory_bytes=2e9, network_bytes_per_second=4e5),
        shares=ASSUMED_SHARES,
        ship_seconds=0.2,
        new_state_bytes_per_second=1e6,
        requests_per_snapshot=3.0,
        requests_per_sync=5.0,
    )
    return replace(usual, **differently)  # type: ignore[arg-type]


def fitted(found: Seen) -> System:
    return measured(found, snapshot_every=5.0, sync_every=2.0)


def test_a_fitted_system_takes_what_was_seen_at_the_load_that_was_seen() -> None:
    system = fitted(seen())
    usage = system.work.usage(np.array(500.0), np.array(30e6))
    assert np.asarray(usage.cpu_cores).item() == pytest.approx(1.5)
    assert np.asarray(usage.memory_bytes).item() == pytest.approx(2e9)
    assert np.asarray(usage.network_bytes_per_second).item() == pytest.approx(4e5)
    assert system.state.bytes_per_rate * 500 == pytest.approx(30e6)
    assert (system.snapshot_every, system.sync_every) == ((5.0,), (2.0,))
    added = system.overhead(np.array([500.0]), np.array([30e6]))
    assert np.asarray(added.network_bytes_per_second)[..., -1].item() == pytest.approx(1e6)


def test_of_what_was_never_seen_a_fitted_system_takes_what_is_usual() -> None:
    system = fitted(
        seen(
            load=Load(
                rows_per_second=0.0,
                capacity_rows_per_second=0.0,
                state_bytes=0.0,
                epoch_seconds=1.0,
            ),
            primary=Usage(),
            new_state_bytes_per_second=0.0,
            ship_seconds=MEASURED.ship_seconds,
        )
    )
    assert system.work == MEASURED.work
    assert system.usual_rows_per_second == MEASURED.usual_rows_per_second
    assert system.state.bytes_per_rate == pytest.approx(MEASURED.state.bytes_per_rate)
    alike = replace(system, snapshot_every=(10.0,), sync_every=(10.0,))
    found, usual = (predictions(one, precise=True)(RATES, STATES) for one in (alike, MEASURED))
    np.testing.assert_allclose(found, usual)


def test_a_step_that_was_measured_replaces_the_usual_one() -> None:
    slow = {RecoveryStep.DEPLOY: [Observation(seconds=100.0, readiness=Readiness.COLD)] * 20}
    system = fitted(seen(histories=Histories(steps=slow)))
    usual = fitted(seen())
    found, before = (predictions(one, precise=True)(RATES, STATES) for one in (system, usual))
    np.testing.assert_allclose(found[..., :5], before[..., :5])
    assert (found[..., 5] > before[..., 5] + 80).all()
