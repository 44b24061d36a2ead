"""An estimator stays above nearly all that comes, and not far above."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, strategies as st

from holdfast.ft_policies.prediction.estimators import (
    UNKNOWN,
    Estimator,
    LeastThroughput,
    MaxOfHistory,
    Observation,
    UpperQuantile,
)

COVERAGE, RATIO = 0.95, 1.6
SEEDS, LENGTH = 12, 40
Family = Callable[[np.random.Generator, int], list[Observation]]


def observed(*seconds: float, size: float = 0.0) -> list[Observation]:
    return [Observation(seconds=value, size=size, at=at) for at, value in enumerate(seconds)]


def bound(estimator: Estimator, history: Sequence[Observation], *, size: float = 0.0) -> float:
    return float(estimator.line(history).at(size))


def lognormal(spread: float) -> Family:
    def family(random: np.random.Generator, count: int) -> list[Observation]:
        return observed(*(2.0 * np.exp(random.normal(0.0, spread, count))))

    return family


def by_size(spread: float) -> Family:
    """A third of a second, and fifty megabytes a second; from 1 to 200 MB."""

    def family(random: np.random.Generator, count: int) -> list[Observation]:
        sizes = np.exp(random.uniform(np.log(1e6), np.log(2e8), count))
        seconds = (0.3 + sizes / 5e7) * np.exp(random.normal(0.0, spread, count))
        return [
            Observation(seconds=float(took), size=float(size), at=at)
            for at, (took, size) in enumerate(zip(seconds, sizes, strict=True))
        ]

    return family


def drifting(spread: float, by: float) -> Family:
    def family(random: np.random.Generator, count: int) -> list[Observation]:
        levels = 2.0 * by ** (np.arange(count) / LENGTH)
        return observed(*(levels * np.exp(random.normal(0.0, spread, count))))

    return family


def calibration(
    estimator: Estimator, family: Family, *, seeds: int = SEEDS, lengths: range = range(1, LENGTH)
) -> tuple[float, float]:
    """Coverage and median of predicted/observed, each predicted from those before it."""
    ratios = []
    for seed in range(seeds):
        history = family(np.random.default_rng(seed), lengths.stop)
        for count in lengths:
            new = history[count]
            ratios.append(bound(estimator, history[:count], size=new.size) / new.seconds)
    return float(np.mean(np.array(ratios) >= 1.0)), float(np.median(ratios))


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(lognormal(0.05), id="steady"),
        pytest.param(lognormal(0.15), id="noisy"),
        pytest.param(lognormal(0.25), id="very noisy"),
        pytest.param(by_size(0.1), id="by size"),
        pytest.param(by_size(0.2), id="by size, noisy"),
        pytest.param(drifting(0.1, by=2.0), id="rising"),
        pytest.param(drifting(0.15, by=1.3), id="rising, noisy"),
        pytest.param(drifting(0.1, by=0.6), id="falling"),
    ],
)
def test_the_default_is_calibrated(family: Family) -> None:
    coverage, ratio = calibration(UpperQuantile(), family)
    assert coverage >= COVERAGE
    assert ratio <= RATIO


@pytest.mark.parametrize("family", [lognormal(0.1), lognormal(0.2)])
def test_it_is_calibrated_from_the_second_time_on(family: Family) -> None:
    coverage, ratio = calibration(UpperQuantile(), family, seeds=100, lengths=range(1, 5))
    assert coverage >= COVERAGE
    assert ratio <= 1.7


def test_the_baseline_is_not() -> None:
    """A maximum covers n of n + 1, whatever is wanted; and knows nothing of sizes."""
    assert calibration(MaxOfHistory(), lognormal(0.2))[0] < COVERAGE
    assert calibration(MaxOfHistory(), by_size(0.1))[1] > 3.0


def test_more_confidence_means_a_higher_bound() -> None:
    history = lognormal(0.2)(np.random.default_rng(1), 30)
    bounds = [bound(UpperQuantile(confidence=c), history) for c in (0.5, 0.9, 0.95, 0.99)]
    assert bounds == sorted(bounds)
    assert bounds[0] == pytest.approx(2.0, rel=0.15)


def test_one_observation_is_trusted_to_a_factor_and_many_are_trusted_more() -> None:
    factors = [bound(UpperQuantile(), observed(*[10.0] * n)) / 10 for n in (1, 2, 5, 20)]
    assert factors == sorted(factors, reverse=True)
    assert 1.4 < factors[0] < 1.8
    assert factors[-1] < 1.2


@pytest.mark.parametrize("estimator", [MaxOfHistory(), LeastThroughput(), UpperQuantile()])
def test_nothing_follows_from_nothing(estimator: Estimator) -> None:
    assert bound(estimator, []) == inf
    assert estimator.line([]) is UNKNOWN


def test_an_outlier_is_forgotten_by_the_default_and_never_by_the_baseline() -> None:
    after = observed(100.0, *[2.0] * 25)
    assert bound(UpperQuantile(), after) < 3.0
    assert bound(MaxOfHistory(), after) == 100.0


def test_what_is_slow_from_now_on_is_believed_soon() -> None:
    after = observed(*[2.0] * 20, *[6.0] * 3)
    assert bound(UpperQuantile(), after) >= 5.99


def test_the_newest_are_known_by_their_time_not_by_their_place() -> None:
    history = drifting(0.05, by=3.0)(np.random.default_rng(2), 30)
    assert UpperQuantile().line(history[::-1]) == UpperQuantile().line(history)


def test_a_line_is_found_through_noise_and_outliers() -> None:
    history = by_size(0.05)(np.random.default_rng(3), 30)
    history[10] = replace(history[10], seconds=history[10].seconds * 20)
    for size in (2e6, 5e7, 2e8):
        assert 1.0 < bound(UpperQuantile(), history, size=size) / (0.3 + size / 5e7) < 1.5


def test_beyond_the_largest_size_the_bound_grows_in_proportion() -> None:
    alike = observed(2.0, 2.1, 1.9, 2.0, size=1e7)
    at_seen = bound(UpperQuantile(), alike, size=1e7)
    assert bound(UpperQuantile(), alike, size=1e6) == at_seen
    assert bound(UpperQuantile(), alike, size=2e7) == pytest.approx(2 * at_seen)


def test_where_a_slope_was_seen_it_goes_on_beyond_the_largest_size() -> None:
    history = by_size(0.01)(np.random.default_rng(4), 30)
    largest = max(observation.size for observation in history)
    at_largest = bound(UpperQuantile(), history, size=largest)
    assert bound(UpperQuantile(), history, size=2 * largest) < 2 * at_largest


def test_the_least_throughput_of_the_past_counts() -> None:
    writes = [Observation(seconds=1.0, size=100.0), Observation(seconds=1.0, size=50.0)]
    assert bound(LeastThroughput(), [*writes, *observed(9.0)], size=200.0) == 4.0


HISTORIES = st.lists(
    st.builds(
        Observation,
        seconds=st.floats(0, 1e4),
        size=st.one_of(st.just(0.0), st.floats(1.0, 1e9)),
        at=st.floats(0, 1e6),
    ),
    min_size=1,
    max_size=60,
)


@given(HISTORIES, st.lists(st.floats(0, 1e10), min_size=2, max_size=5))
def test_a_bound_never_falls_with_the_size_and_is_always_a_number(
    history: Sequence[Observation], sizes: list[float]
) -> None:
    bounds = UpperQuantile().line(history).at(np.sort(sizes))
    assert np.isfinite(bounds).all()
    assert (bounds >= 0).all()
    assert (np.diff(bounds) >= -1e-9 * bounds.max()).all()


@given(st.lists(st.floats(0.0, 1e3), min_size=1, max_size=10))
def test_a_short_history_lies_under_its_bound(seconds: list[float]) -> None:
    assert bound(UpperQuantile(), observed(*seconds)) >= max(seconds) * (1.0 - 1e-9)
