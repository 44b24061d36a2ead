"""Formulas as planes: the same values as the models give, asked once; and systems fitted to what was seen."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.ft_policies.costs.prices import ALL_COSTS, EC2, Usage, weigh_cost
from holdfast.ft_policies.prediction.calibration import Calibration
from holdfast.ft_policies.prediction.estimators import Observation, Readiness
from holdfast.ft_policies.prediction.model import RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.steps import STEPS, Load, RecoveryStep
from holdfast.ft_policies.simulator.formulas import Plane, Ranking, costs, predictions, simplify
from holdfast.ft_policies.simulator.presets import (
    MEASURED,
    THESIS,
    build_measured_system,
    thesis_recoveries,
)
from holdfast.ft_policies.simulator.state_size import FloatArray
from holdfast.ft_policies.simulator.system import System
from holdfast.ft_policies.tiering.candidates import evaluate
from tests.builders.simulations import ON_DEMAND
from tests.builders.tiering import stream_inputs

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
    expected = weigh_cost(overhead, primary, rank_by) if asked is None else asked  # type: ignore[arg-type]
    computed = costs(system, rank_by)(RATES, STATES)
    assert computed.shape == (40, len(system.snapshot_every), 6)
    np.testing.assert_allclose(computed, np.broadcast_to(expected, computed.shape), rtol=1e-9)


def test_what_is_no_plane_is_asked_each_time() -> None:
    def curved(rates: FloatArray, states: FloatArray) -> FloatArray:
        return np.sqrt(rates * states)[:, np.newaxis, np.newaxis] * np.ones(6)

    assert simplify(curved, rate=10.0, state=10.0) is curved


def test_what_is_not_known_is_no_plane() -> None:
    def unknown(rates: FloatArray, states: FloatArray) -> FloatArray:
        return np.full((len(rates), 1, 6), np.inf)

    assert simplify(unknown, rate=10.0, state=10.0) is unknown


EVERY_STEP = StepTimings(
    steps={
        step: [
            Observation(seconds=at + by, size=1e5 * by, readiness=readiness)
            for by in (1.0, 2.0, 4.0)
            for readiness in Readiness
        ]
        for at, step in enumerate(STEPS)
    },
    writes=[Observation(seconds=2.0, size=60e6)],
)


@pytest.mark.parametrize("count_detection", [True, False])
def test_a_fitted_system_says_what_the_live_review_says(count_detection: bool) -> None:  # noqa: FBT001
    model = RecoveryModel(count_detection=count_detection)
    every = {"snapshot_every": (5.0, 5.0, 20.0), "sync_every": (2.0, 4.0, 30.0)}
    inputs = stream_inputs(fit=model.fit(EVERY_STEP), **every)
    live = evaluate([inputs], model, ON_DEMAND, None)
    system = build_measured_system(inputs, RecoveryModel(count_detection=count_detection))
    now = np.array([500.0]), np.array([30e6])
    np.testing.assert_allclose(predictions(system, precise=True)(*now), live.predicted)
    np.testing.assert_allclose(costs(system, ON_DEMAND)(*now), live.cost)


def test_a_failure_finds_state_of_any_age_but_never_older_than_was_predicted() -> None:
    young, old = (MEASURED.ages(np.array([0]), np.array([phase])) for phase in (0.0, 1.0))
    assert (young.snapshot, young.sync) == (1.0, 1.5)  # shipped, and synced
    assert (old.snapshot, old.sync) == (12.0, 12.5)  # 10 s and an epoch later


def test_the_thesis_estimator_takes_the_longest_that_was_seen() -> None:
    load, ages = MEASURED.load(np.array([500.0]), np.array([30e6])), MEASURED.ages(np.array([0]))
    blind = thesis_recoveries(EVERY_STEP, count_detection=False)
    counted = thesis_recoveries(EVERY_STEP, count_detection=True)
    predicted = counted.seconds(load, ages, precise=False)[0]
    assert predicted[-1] == pytest.approx(
        4.0 + 5.0 + 1.0 + 8.0
    )  # detect, deploy, read, the longer wire
    assert (predicted - blind.seconds(load, ages, precise=False))[0, 1:] == pytest.approx(4.0)


def test_the_thesis_estimator_takes_what_is_usual_for_what_was_never_seen() -> None:
    load, ages = MEASURED.load(np.array([500.0]), np.array([30e6])), MEASURED.ages(np.array([0]))
    nothing = thesis_recoveries(StepTimings(steps={}), count_detection=True)
    predicted = nothing.seconds(load, ages, precise=True)
    assert np.isfinite(predicted).all()
    assert predicted[0, -1] > MEASURED.recoveries.seconds(load, ages, precise=False)[0, -1]


def test_a_fitted_system_takes_what_was_seen_at_the_load_that_was_seen() -> None:
    system = build_measured_system(stream_inputs(), RecoveryModel())
    usage = system.work.usage(np.array(500.0), np.array(30e6))
    assert np.asarray(usage.cpu_cores).item() == pytest.approx(1.5)
    assert np.asarray(usage.memory_bytes).item() == pytest.approx(2e9)
    assert np.asarray(usage.network_bytes_per_second).item() == pytest.approx(4e5)
    assert system.state.bytes_per_rate * 500 == pytest.approx(30e6)
    assert (system.snapshot_every, system.sync_every) == ((5.0,), (2.0,))
    added = system.overhead(np.array([500.0]), np.array([30e6]))
    assert np.asarray(added.network_bytes_per_second)[..., -1].item() == pytest.approx(1e6)


def test_of_what_was_never_seen_a_fitted_system_takes_what_is_usual() -> None:
    nothing = Load(
        rows_per_second=0.0, capacity_rows_per_second=0.0, state_bytes=0.0, epoch_seconds=1.0
    )
    system = build_measured_system(
        stream_inputs(
            load=nothing,
            primary=Usage(),
            new_state_bytes_per_second=0.0,
            ship_seconds=0.0,
            sync_seconds=0.0,
            snapshot_every=MEASURED.snapshot_every,
            sync_every=MEASURED.sync_every,
        ),
        RecoveryModel(),
    )
    assert system.work == MEASURED.work
    assert system.usual_rows_per_second == MEASURED.usual_rows_per_second
    assert system.state.bytes_per_rate == pytest.approx(MEASURED.state.bytes_per_rate)
    fitted, usual = (
        predictions(variant, precise=True)(RATES, STATES) for variant in (system, MEASURED)
    )
    np.testing.assert_allclose(fitted, usual)


def test_a_step_that_was_measured_replaces_the_usual_one() -> None:
    slow = {RecoveryStep.DEPLOY: [Observation(seconds=100.0, readiness=Readiness.COLD)] * 20}
    fit = RecoveryModel().fit(StepTimings(steps=slow))
    system = build_measured_system(
        stream_inputs(fit=replace(fit, calibration=Calibration.of_typical_times())), RecoveryModel()
    )
    usual = build_measured_system(stream_inputs(), RecoveryModel())
    fitted, before = (
        predictions(variant, precise=True)(RATES, STATES) for variant in (system, usual)
    )
    np.testing.assert_allclose(fitted[..., :5], before[..., :5])
    assert (fitted[..., 5] > before[..., 5] + 80).all()
