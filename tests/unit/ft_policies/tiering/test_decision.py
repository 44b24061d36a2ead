import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.prediction.calibration import UNCALIBRATED, Calibration
from holdfast.ft_policies.prediction.model import RecoveryModel
from holdfast.ft_policies.prediction.steps import Load, RecoveryStep
from holdfast.ft_policies.tiering.candidates import Candidates, evaluate
from holdfast.ft_policies.tiering.controller import ControllerPolicy, Why
from holdfast.ft_policies.tiering.decision import Decision
from holdfast.ft_policies.tiers import Mode, Tier
from tests.builders.simulations import ON_DEMAND
from tests.builders.tiering import stream_inputs
from tests.waiting import cpu_seconds_at_most

AR, AS, PSH, PSC, DEP, PR = range(6)
SECONDS = (0.0, 1.0, 2.0, 4.0, 6.2, 16.0)
MONEY = (0.1, 0.09, 0.07, 0.065, 0.059, 0.01)
POLICY = ControllerPolicy()
CALIBRATED = Calibration.of_typical_times()
LOAD = Load(
    rows_per_second=100.0, capacity_rows_per_second=900.0, state_bytes=2e7, epoch_seconds=0.5
)


def decided(
    mode: Mode = Mode.AUTO,
    *,
    missing: Any = (),
    money: Any = None,
    calibration: Any = CALIBRATED,
    **different: Any,
) -> Decision:
    """The decision for a stream that has been in active standby for long, objective 10 s."""
    facts: dict[str, Any] = {
        "predicted": [SECONDS] * 2,
        "cost": [MONEY] * 2,
        "objective": 10.0,
        "allowed": [True] * 6,
        "enough": True,
        "current": AS,
        "current_interval": 1,
        "since_change": 1000.0,
        "recent_misses": 0,
    } | different
    facts.setdefault("predicted_ahead", facts["predicted"])
    steps = np.zeros((1, 2, 6, 7))
    steps[..., 1:, 0] = 1.0
    steps[..., DEP, 2] = 5.2
    inputs = stream_inputs(mode=mode, load=LOAD, snapshot_every=(10.0, 60.0), sync_every=(1.0, 2.5))
    candidates = Candidates(
        **{name: np.array([value]) for name, value in facts.items()},
        streams=[
            replace(inputs, fit=replace(inputs.fit, missing=missing, calibration=calibration))
        ],
        at=1234.5,
        currency="USD",
        money_per_hour=np.array([[MONEY] * 2 if money is None else money]),
        steps=steps,
        snapshot_every=np.array([inputs.snapshot_every]),
        sync_every=np.array([inputs.sync_every]),
    )
    return Decision.of(candidates, POLICY.choose(candidates), 0)


def test_a_record_holds_what_led_to_the_choice() -> None:
    made = decided()
    assert (made.stream, made.at, made.objective_seconds) == ("orders", 1234.5, 10.0)
    assert (made.current, made.chosen) == (Tier.ACTIVE_STANDBY, Tier.DEPLOYED)
    assert (made.snapshot_every, made.sync_every) == (60.0, 2.5)
    assert made.acts
    assert [option.tier for option in made.tiers] == list(Tier)
    assert [option.seconds for option in made.tiers] == list(SECONDS)
    assert made.tiers[AR].steps == {}
    assert made.tiers[DEP].steps == {RecoveryStep.DETECT: 1.0, RecoveryStep.READ_SNAPSHOT: 5.2}


def test_every_tier_but_the_chosen_one_is_rejected_for_a_reason() -> None:
    made = decided(allowed=[True, True, True, False, True, True])
    assert [option.rejected for option in made.tiers] == [
        "costs more than deployed",
        "costs more than deployed",
        "costs more than deployed",
        "not allowed",
        None,
        "takes 16 s, more than 10 s",
    ]


def test_what_is_rejected_because_of_the_load_to_come_says_so() -> None:
    made = decided(predicted_ahead=[(0.0, 1.0, 2.0, 4.0, 12.0, np.inf)] * 2)
    assert made.tiers[DEP].rejected == "would soon take 12 s, more than 10 s"
    assert made.tiers[PR].rejected == "cannot be predicted"
    assert made.tiers[DEP].seconds_ahead == 12.0


def test_ties_misses_and_unknown_costs_are_kept_apart() -> None:
    tied = decided(cost=[(0.5, 1.0, 0.5, 0.5, np.inf, 0.1)] * 2)
    assert tied.chosen is Tier.ACTIVE_REPLICATION
    assert tied.tiers[PSH].rejected == "costs as much as active_replication, which is faster"
    assert tied.tiers[DEP].rejected == "its cost is unknown"
    wary = decided(recent_misses=4)
    assert wary.chosen is Tier.PASSIVE_STANDBY_COLD
    assert (
        wary.tiers[DEP].rejected
        == "meets the objective with too small a margin after 4 recent misses"
    )


@pytest.mark.parametrize(
    ("facts", "why", "sentence"),
    [
        (
            {},
            Why.SAVES,
            "deployed is the cheapest that recovers within 10 s (predicted 6.2 s);"
            " saves 0.031 USD/h over active_standby",
        ),
        (
            {"money": [(0.1,) * 6] * 2},
            Why.SAVES,
            "deployed is the cheapest that recovers within 10 s (predicted 6.2 s);"
            " saves 34% of the cost of active_standby",
        ),
        (
            {"current": DEP, "cost": [MONEY, tuple(2 * money for money in MONEY)]},
            Why.SAVES,
            "deployed with snapshots every 10 s and syncs every 1 s is the cheapest that recovers"
            " within 10 s (predicted 6.2 s); saves 50% of the cost of its current intervals",
        ),
        (
            {"current": PR},
            Why.NEEDED,
            "passive_replication no longer meets the objective: it takes 16 s, more than 10 s; deployed is the"
            " cheapest that recovers within 10 s (predicted 6.2 s)",
        ),
        (
            {"current": PR, "allowed": [True] * 5 + [False]},
            Why.NEEDED,
            "passive_replication is not allowed; deployed is the cheapest that recovers within 10 s"
            " (predicted 6.2 s)",
        ),
        (
            {"cost": [MONEY, (np.inf,) * 6]},
            Why.NEEDED,
            "active_standby is not allowed at its current intervals; deployed is the cheapest that"
            " recovers within 10 s (predicted 6.2 s)",
        ),
        (
            {"current": DEP},
            Why.CHEAPEST,
            "deployed is still the cheapest that recovers within 10 s (predicted 6.2 s)",
        ),
        (
            {"current": PSC, "recent_misses": 4},
            Why.CHEAPEST,
            "passive_standby_cold is still the cheapest that recovers within 10 s (predicted 4 s);"
            " deployed meets the objective with too small a margin after 4 recent misses",
        ),
        (
            {"current": PSC},
            Why.SMALL_SAVING,
            "stays in passive_standby_cold: no change saves at least 10% of the cost",
        ),
        (
            {"since_change": 120.0},
            Why.DWELLING,
            "stays in active_standby: the last change was 120 s ago, and one that only saves cost"
            " must wait 300 s; deployed would be cheaper",
        ),
        (
            {"since_change": 12.0, "objective": 0.5},
            Why.COOLING_DOWN,
            "stays in active_standby: the last change was 12 s ago, and the cool-down is 60 s;"
            " active_replication would be better",
        ),
        (
            {"enough": False, "missing": (RecoveryStep.DEPLOY, RecoveryStep.REPLAY)},
            Why.TOO_LITTLE_DATA,
            "active_replication until there is enough data to predict a recovery"
            " (never measured: deploy, replay)",
        ),
        (
            {"objective": 0.5, "allowed": [False] + [True] * 5},
            Why.CANNOT_HOLD,
            "no allowed tier is predicted to recover within 0.5 s;"
            " active_standby is the fastest (predicted 1 s)",
        ),
    ],
)
def test_the_reason_is_one_sentence(facts: dict[str, Any], why: Why, sentence: str) -> None:
    made = decided(**facts)
    assert (made.why, made.reason) == (why, sentence)


def test_a_tier_that_is_uncalibrated_says_so() -> None:
    made = decided(calibration=UNCALIBRATED)
    assert "(predicted 6.2 s, uncalibrated)" in made.reason
    worth = made.tiers[AR].calibration
    assert worth is not None
    assert worth.startswith("uncalibrated (0 of the 5 recoveries")
    assert decided().tiers[AR].calibration == "calibrated by 5 recoveries"
    assert Decision.from_json(made.to_json()) == made


def test_what_is_put_off_says_so_at_the_tier() -> None:
    cooling = decided(since_change=12.0, objective=0.5)
    assert cooling.tiers[AR].rejected == "the stream is cooling down after its last change"
    dwelling = decided(since_change=120.0)
    assert (
        dwelling.tiers[DEP].rejected
        == "too soon after the last change for one that only saves cost"
    )
    assert (
        dwelling.tiers[PSH].rejected
        == "too soon after the last change for one that only saves cost"
    )
    assert dwelling.tiers[AR].rejected == "costs more than active_standby"


def test_only_the_automatic_mode_acts() -> None:
    assert decided(Mode.AUTO).acts
    advice, pinned = decided(Mode.ADVISE), decided(Mode.PINNED)
    assert not advice.acts
    assert advice.reason.startswith("advice only: deployed is the cheapest")
    assert advice.chosen is Tier.DEPLOYED
    assert not pinned.acts
    assert pinned.reason.startswith("pinned to active_standby; otherwise: deployed is the cheapest")


def test_a_decision_to_stay_acts_in_no_mode() -> None:
    for mode in Mode:
        assert not decided(mode, current=DEP).acts


def test_a_change_of_the_interval_alone_acts() -> None:
    made = decided(current=DEP, cost=[MONEY, tuple(2 * money for money in MONEY)])
    assert made.acts
    assert made.chosen is made.current


def test_a_tier_is_never_shown_at_intervals_that_only_another_stream_has() -> None:
    few = stream_inputs(allowed=[False] + [True] * 5)
    many = stream_inputs(snapshot_every=(5.0, 9.0), sync_every=(2.0, 2.0))
    candidates = evaluate([few, many], RecoveryModel(), ON_DEMAND, None)
    made = Decision.of(candidates, POLICY.choose(candidates), 0)
    assert {option.snapshot_every for option in made.tiers} == {5.0}


numbers = st.floats(0, 1e9) | st.just(float("inf")) | st.just(float("nan"))
rows = st.tuples(*[numbers] * 6)


@given(
    st.sampled_from(Mode),
    st.lists(rows, min_size=2, max_size=2),
    st.lists(rows, min_size=2, max_size=2),
    st.floats(0, 1e6),
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.booleans(),
    st.integers(0, 5),
    st.sampled_from([0.0, 60.0, 1000.0, float("inf")]),
    st.integers(0, 5),
)
def test_any_decision_survives_json(
    mode: Mode,
    predicted: Any,
    cost: Any,
    objective: float,
    allowed: list[bool],
    enough: bool,  # noqa: FBT001 (hypothesis fills it)
    current: int,
    since: float,
    misses: int,
) -> None:
    made = decided(
        mode,
        predicted=predicted,
        cost=cost,
        money=cost,
        objective=objective,
        allowed=allowed,
        enough=enough,
        current=current,
        since_change=since,
        recent_misses=misses,
    )
    written = json.dumps(made.to_json(), allow_nan=False)
    assert Decision.from_json(json.loads(written)) == made


def test_what_is_no_record_is_refused() -> None:
    record = decided().to_json()
    with pytest.raises(PermanentError, match="not a decision record"):
        Decision.from_json(record | {"chosen": "fastest"})
    with pytest.raises(PermanentError, match="not a decision record"):
        Decision.from_json({name: record[name] for name in record if name != "why"})
    for missing in ("why", "load", "tiers"):
        with pytest.raises(PermanentError, match="not a decision record"):
            Decision.from_json(record | {missing: None})


def test_a_thousand_records_are_written_within_a_second() -> None:
    with cpu_seconds_at_most(1.0):
        for _ in range(1000):
            decided()
