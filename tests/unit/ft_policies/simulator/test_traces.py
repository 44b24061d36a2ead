"""Loads over time: shapes, seeds, blocks, files' worth of lines, and the state of a sliding window."""

import numpy as np
import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.simulator import traces
from holdfast.ft_policies.simulator.state_size import SlidingWindow, Trend
from holdfast.ft_policies.simulator.traces import (
    DAY_SECONDS,
    Block,
    Generated,
    Recorded,
    Shape,
    Trace,
)

TEN_SECONDS = SlidingWindow(window_seconds=10.0, bytes_per_row=20.0)


def generated(shape: Shape, *, streams: int = 3, seed: int = 1) -> Generated:
    return Generated(
        shape=shape, rows_per_second=1000.0, state=TEN_SECONDS, streams=streams, seed=seed
    )


def whole(trace: Trace, ticks: int, tick_seconds: float = 5.0) -> Block:
    blocks = list(trace.blocks(ticks, tick_seconds))
    return Block(
        rows_per_second=np.concatenate([block.rows_per_second for block in blocks]),
        state_bytes=np.concatenate([block.state_bytes for block in blocks]),
    )


@pytest.mark.parametrize("shape", Shape)
def test_a_seed_gives_one_load_however_it_is_cut_into_blocks(
    shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = whole(generated(shape), 200)
    monkeypatch.setattr(traces, "BLOCK_TICKS", 7)
    other = whole(generated(shape), 200)
    np.testing.assert_allclose(first.rows_per_second, other.rows_per_second)
    np.testing.assert_allclose(first.state_bytes, other.state_bytes, atol=1e-6)
    assert first.rows_per_second.shape == (200, 3)


@pytest.mark.parametrize("shape", [Shape.SPIKES, Shape.DIURNAL, Shape.ERRATIC])
def test_another_seed_gives_another_load(shape: Shape) -> None:
    first, other = (whole(generated(shape, seed=seed), 50) for seed in (1, 2))
    assert not np.allclose(first.rows_per_second, other.rows_per_second)


@pytest.mark.parametrize("shape", Shape)
def test_loads_are_never_negative(shape: Shape) -> None:
    load = whole(generated(shape, streams=20), 2000)
    assert load.rows_per_second.min() >= 0
    assert load.state_bytes.min() >= 0


def test_a_step_comes_after_half_of_the_time() -> None:
    rates = whole(generated(Shape.STEP, streams=1), 100).rows_per_second[:, 0]
    assert set(rates[:50]) == {1000.0}
    assert set(rates[50:]) == {4500.0}


def test_a_day_has_its_high_and_its_low_and_comes_back() -> None:
    rates = whole(generated(Shape.DIURNAL, streams=1), 288, 600.0).rows_per_second[:, 0]
    day = int(DAY_SECONDS / 600)
    assert rates.max() > 5 * rates.min()
    np.testing.assert_allclose(rates[:day], rates[day : 2 * day], rtol=0.1)


def test_spikes_rise_at_once_and_fade() -> None:
    rates = whole(generated(Shape.SPIKES, streams=1), 3000).rows_per_second[:, 0]
    rises, falls = np.diff(rates).max(), -np.diff(rates).min()
    assert rates.max() > 3 * np.median(rates)
    assert rises > 5 * falls


def test_an_erratic_state_goes_from_kilobytes_to_hundreds_of_megabytes_within_seconds() -> None:
    trace = Generated(
        shape=Shape.ERRATIC,
        rows_per_second=2000.0,
        state=SlidingWindow(window_seconds=10.0, bytes_per_row=1500.0),
        seed=3,
    )
    states = whole(trace, 5000).state_bytes[:, 0]
    rises = states[6:] / np.maximum(states[:-6], 1.0)
    assert states.min() < 10e3
    assert states.max() > 200e6
    assert rises.max() > 1000


def test_a_windows_state_follows_the_rate_with_the_windows_lag() -> None:
    rates = np.array([[100.0]] * 10 + [[300.0]] * 30)
    states = TEN_SECONDS.fill(0.5).after(rates)[:, 0]
    assert states[0] == pytest.approx(100 * 10 * 20)
    assert states[19] == pytest.approx((100 + 300) / 2 * 10 * 20)
    assert states[-1] == pytest.approx(300 * 10 * 20)
    assert (np.diff(states) >= 0).all()


def test_a_window_shorter_than_a_tick_holds_what_arrives_within_it() -> None:
    states = SlidingWindow(window_seconds=1.0, bytes_per_row=10.0).fill(5.0)
    assert states.after(np.array([[7.0], [9.0]]))[:, 0].tolist() == [70.0, 90.0]


def test_a_recorded_load_holds_its_last_value_until_the_next() -> None:
    trace = Recorded(
        seconds=np.array([100.0, 110.0, 130.0]),
        rows_per_second=np.array([1.0, 2.0, 3.0]),
        state_bytes=np.array([10.0, 20.0, 30.0]),
        streams=2,
    )
    load = whole(trace, 9)
    assert load.rows_per_second[:, 1].tolist() == [1, 1, 2, 2, 2, 2, 3, 3, 3]
    assert load.state_bytes[:, 0].tolist() == [10, 10, 20, 20, 20, 20, 30, 30, 30]
    assert trace.span_seconds == 30


@pytest.mark.parametrize(
    ("seconds", "rates", "says"),
    [
        ([], [], "at least one"),
        ([0.0, 1.0], [1.0], "as many seconds as rates"),
        ([0.0, 0.0], [1.0, 1.0], "must increase"),
        ([0.0, 1.0], [1.0, -1.0], "must not be negative"),
        ([0.0, 1.0], [1.0, np.nan], "must be numbers"),
    ],
)
def test_what_is_no_load_over_time_is_refused(
    seconds: list[float], rates: list[float], says: str
) -> None:
    with pytest.raises(PermanentError, match=says):
        Recorded(
            seconds=np.array(seconds),
            rows_per_second=np.array(rates),
            state_bytes=np.array(rates),
        )


def test_the_load_ahead_is_as_far_above_as_it_has_risen_and_never_below() -> None:
    trend = Trend(40.0, 5.0)
    assert trend.ahead(np.array([10.0])).item() == 10
    assert trend.ahead(np.array([20.0])).item() == 30
    assert 20 < trend.ahead(np.array([20.0])).item() < 30
    for _ in range(100):
        trend.ahead(np.array([20.0]))
    assert trend.ahead(np.array([20.0])).item() == pytest.approx(20, rel=1e-4)
    assert trend.ahead(np.array([5.0])).item() == 5
