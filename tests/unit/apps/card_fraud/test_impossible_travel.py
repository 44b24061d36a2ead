"""Impossible travel: examples worked out by hand, and the fold against the oracle, epoch by epoch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from holdfast.apps.card_fraud import generator, oracle
from holdfast.apps.card_fraud.impossible_travel import KEY, ORDER, build_fold
from holdfast.apps.input_flaws import InputFlaws
from holdfast.apps.keyed_fold import _from_bytes, _to_bytes

START = pd.Timestamp("2026-01-01")
BERLIN, PARIS, SYDNEY = (52.52, 13.40), (48.86, 2.35), (-33.87, 151.21)
BERLIN_PARIS_M = 877_550


def rows(*events: tuple[int, float, tuple[float, float]], card: str = "a") -> pd.DataFrame:
    """Transactions of one card as (epoch, hour, place), numbered."""
    return pd.DataFrame(
        {
            "epoch": [epoch for epoch, _, _ in events],
            "transaction_id": range(len(events)),
            "event_time": pd.to_datetime(
                [START + pd.Timedelta(hours=hour) for _, hour, _ in events]
            ),
            "issuer": "bank",
            "card": card,
            "amount_cents": 100,
            "present": True,
            "latitude": [place[0] for _, _, place in events],
            "longitude": [place[1] for _, _, place in events],
        }
    )


def streamed(come: pd.DataFrame, params: Mapping[str, Any]) -> tuple[list[pd.DataFrame], list[int]]:
    """The output of each epoch, and how many cards are kept after it."""
    fold, state, outputs, sizes = build_fold(params), None, [], []
    for _, epoch in come[come["present"]].groupby("epoch"):
        ordered = epoch[[*KEY, *ORDER]].sort_values(list(ORDER), ignore_index=True)
        output, kept = fold(ordered, None if state is None else _from_bytes(state))
        state = _to_bytes(kept)
        outputs.append(output)
        sizes.append(len(kept))
    return outputs, sizes


def alarms(come: pd.DataFrame, **params: Any) -> list[tuple[int, int]]:
    """Each transaction that was found, and the one it was compared with; the oracle agrees."""
    outputs, _ = streamed(come, params)
    alarms = pd.concat(outputs)[["transaction_id", "previous_id"]]
    wanted = oracle.impossible_travel(come, params, last_epoch=int(come["epoch"].max()))
    expected = pd.concat(wanted.values())[["transaction_id", "previous_id"]]
    assert sorted(alarms.to_numpy().tolist()) == sorted(expected.to_numpy().tolist())
    return [(int(row), int(other)) for row, other in alarms.to_numpy()]


def comparable(output: pd.DataFrame) -> list[list[Any]]:
    moments = {
        column: pd.to_datetime(output[column], utc=True)
        for column in ("event_time", "previous_time")
    }
    ordered = output.assign(**moments).sort_values(["transaction_id", "previous_id"])
    return ordered.to_numpy(dtype=object).tolist()


def test_berlin_to_paris_takes_an_hour_at_best() -> None:
    assert alarms(rows((0, 0, BERLIN), (0, 0.9, PARIS))) == [(1, 0)]
    assert alarms(rows((0, 0, BERLIN), (0, 1.0, PARIS))) == []
    assert alarms(rows((0, 0, BERLIN), (0, 1.0, PARIS)), max_kmh=800) == [(1, 0)]


def test_the_distance_is_that_of_a_great_circle() -> None:
    [output], _ = streamed(rows((0, 0, BERLIN), (0, 0.1, PARIS)), {})
    assert output["distance_m"].tolist() == pytest.approx([BERLIN_PARIS_M], rel=0.005)


def test_the_newest_transaction_of_a_card_is_remembered_from_epoch_to_epoch() -> None:
    assert alarms(rows((0, 0, SYDNEY), (0, 23, BERLIN), (1, 23.5, PARIS))) == [(2, 1)]


def test_cards_have_nothing_to_do_with_each_other() -> None:
    both = [rows((0, 0, BERLIN), card="a"), rows((0, 0.1, PARIS), card="b")]
    assert alarms(pd.concat(both)) == []


def test_banks_may_give_the_same_number_to_different_cards() -> None:
    both = [rows((0, 0, BERLIN)), rows((0, 0.1, PARIS)).assign(issuer="other")]
    assert alarms(pd.concat(both)) == []


def test_the_same_transaction_twice_is_one_place() -> None:
    single = rows((0, 0, BERLIN))
    assert alarms(pd.concat([single, single])) == []


def test_shops_that_are_near_each_other_are_one_place() -> None:
    beside = (BERLIN[0] + 0.01, BERLIN[1])
    assert alarms(rows((0, 0, BERLIN), (0, 0, beside))) == []
    assert alarms(rows((0, 0, BERLIN), (0, 0, beside)), near_km=1) == [(1, 0)]


def test_a_late_transaction_is_compared_and_not_remembered() -> None:
    come = rows((0, 1.0, BERLIN), (1, 0.9, PARIS), (2, 1.1, BERLIN))
    assert alarms(come, lateness="1 hour") == [(1, 0)]


def test_one_that_is_too_late_is_left_out() -> None:
    come = rows((0, 1.0, BERLIN), (1, 0.9, PARIS), (2, 1.1, BERLIN))
    assert alarms(come, lateness="5 minutes") == []


def test_a_card_is_forgotten_once_it_could_be_anywhere() -> None:
    old, new = rows((0, 0, BERLIN), card="a"), rows((1, 30, BERLIN), card="b")
    _, sizes = streamed(pd.concat([old, new]), {})
    assert sizes == [1, 1]


places = st.tuples(
    st.integers(0, 3),
    st.sampled_from([0.0, 0.5, 1.0, 2.0, 23.0, 50.0]),
    st.sampled_from([BERLIN, PARIS, SYDNEY]),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(places, min_size=1, max_size=12), st.sampled_from(["0 hours", "1 hour", "9 days"]))
def test_the_fold_does_what_the_oracle_does(events: list[Any], lateness: str) -> None:
    alarms(rows(*sorted(events, key=lambda event: event[0])), lateness=lateness)


def test_it_equals_the_oracle_on_flawed_input_in_every_epoch_with_a_bounded_state() -> None:
    random = np.random.default_rng(5)
    come = InputFlaws(late=0.1).distort_records(generator.records(20_000, 5), random)
    come["event_time"] = pd.to_datetime(come["event_time"]).dt.tz_localize(None)
    come["epoch"] = np.sort(random.integers(0, 30, len(come)))
    come = come[oracle.accepted(come)]
    params = {"lateness": "2 minutes", "max_kmh": 40_000}
    outputs, sizes = streamed(come, params)
    wanted = oracle.impossible_travel(come, params, last_epoch=29)
    assert [comparable(output) for output in outputs] == [
        comparable(output) for output in wanted.values()
    ]
    assert sum(map(len, outputs)) > 20
    assert max(sizes) < come["card"].nunique() / 2
