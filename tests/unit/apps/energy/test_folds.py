"""The energy queries give what the oracle says, on flawed input and however it is cut into epochs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from holdfast.apps.energy import completion, generator, oracle, outlier, prediction
from holdfast.apps.energy.vocabulary import LOAD, PLUG, WORK
from holdfast.apps.input_flaws import InputFlaws
from holdfast.apps.keyed_fold import Fold, _from_bytes, _to_bytes

Epochs = dict[int, pd.DataFrame]

FIELDS = ["timestamp", "value", "property", "plug_id", "house_id"]

PREDICTION = {"period": 60, "windows": [60, 300, 1800], "every": 90, "days": 3, "day": 3600}
OUTLIER = {"period": 60, "windows": [600, 5400], "every": 60, "resolution": 1.0}


def arrived(events: int, seed: int, epochs: int) -> pd.DataFrame:
    """Flawed input, cut into epochs at random; some of them are empty."""
    random = np.random.default_rng(seed)
    rows = InputFlaws().distort_records(generator.records(events, seed), random)
    cuts = np.sort(random.integers(0, len(rows), epochs - 1))
    return rows.assign(epoch=np.searchsorted(cuts, np.arange(len(rows)), side="right"))


def folded(fold: Fold, order: tuple[str, ...], epochs: Epochs) -> tuple[Epochs, list[int]]:
    """The output of each epoch, and how large the state is after it."""
    kept: bytes | None = None
    output, sizes = {}, []
    for epoch, rows in epochs.items():
        ordered = rows.sort_values(list(order), ignore_index=True)
        output[epoch], keep = fold(ordered, None if kept is None else _from_bytes(kept))
        kept = _to_bytes(keep)
        sizes.append(len(kept))
    return output, sizes


def completed(rows: pd.DataFrame, params: Mapping[str, Any]) -> Epochs:
    epochs = dict(iter(rows.groupby("epoch")))
    return folded(completion.build_fold(params), completion.ORDER, epochs)[0]


def loads(rows: pd.DataFrame, params: Mapping[str, Any]) -> Epochs:
    """What a query takes, as `readings.loads` makes it."""
    if params["complete"]:
        outputs = completed(rows, params)
    else:
        taken = rows[rows["property"] == LOAD].rename(columns={"value": "load"})
        outputs = dict(iter(taken.groupby("epoch")))
    return {epoch: come[["timestamp", *PLUG, "load"]] for epoch, come in outputs.items()}


def assert_same(output: Epochs, expected: Epochs, *, at_least: int = 20) -> None:
    assert sum(map(len, expected.values())) >= at_least
    for epoch, frame in expected.items():
        part = output.get(epoch, frame.iloc[:0])
        columns = list(frame.columns)
        assert list(part.columns) == columns
        pd.testing.assert_frame_equal(
            part.sort_values(columns, ignore_index=True),
            frame.sort_values(columns, ignore_index=True),
        )


@pytest.mark.parametrize("epochs", [1, 15])
def test_completion_is_what_the_oracle_says(epochs: int) -> None:
    rows = arrived(8_000, seed=epochs, epochs=epochs)
    expected = oracle.completion(rows, {"period": 60}, last_epoch=epochs)
    assert_same(completed(rows, {"period": 60}), expected)
    assert pd.concat(expected).groupby("synthetic").size().min() > 20


@pytest.mark.parametrize("load_first", [True, False])
def test_completion_does_not_depend_on_where_the_input_is_cut(*, load_first: bool) -> None:
    """The cuts are between the two readings that a plug sends in one second."""
    rows = generator.records(4_000, seed=3).sort_values(
        ["timestamp", *PLUG, "property"], ascending=[True] * 4 + [not load_first]
    )
    rows = rows.assign(id=range(len(rows)))
    same = rows[["timestamp", *PLUG]].eq(rows[["timestamp", *PLUG]].shift()).all(axis=1)
    cut = same & (same.cumsum() % 40 == 0)
    assert cut.sum() > 40
    whole = pd.concat(completed(rows.assign(epoch=0), {"period": 60}))
    pieces = pd.concat(completed(rows.assign(epoch=cut.cumsum()), {"period": 60}))
    columns = list(whole.columns)
    assert whole["synthetic"].sum() > 20
    pd.testing.assert_frame_equal(
        pieces.sort_values(columns, ignore_index=True),
        whole.sort_values(columns, ignore_index=True),
    )


@pytest.mark.parametrize("epochs", [1, 15])
@pytest.mark.parametrize("complete", [True, False])
def test_prediction_is_what_the_oracle_says(epochs: int, *, complete: bool) -> None:
    rows, params = arrived(6_000, seed=epochs, epochs=epochs), {**PREDICTION, "complete": complete}
    output, _ = folded(prediction.build_fold(params), prediction.ORDER, loads(rows, params))
    assert_same(output, oracle.prediction(rows, params, last_epoch=epochs))


@pytest.mark.parametrize("epochs", [1, 15])
@pytest.mark.parametrize("complete", [True, False])
def test_outliers_are_what_the_oracle_says(epochs: int, *, complete: bool) -> None:
    rows, params = arrived(6_000, seed=epochs, epochs=epochs), {**OUTLIER, "complete": complete}
    output, _ = folded(outlier.build_fold(params), outlier.ORDER, loads(rows, params))
    assert_same(output, oracle.outlier(rows, params, last_epoch=epochs))


def test_outliers_are_what_the_oracle_says_at_every_second() -> None:
    rows = arrived(600, seed=5, epochs=6)
    params = {**OUTLIER, "every": 1, "complete": False}
    output, _ = folded(outlier.build_fold(params), outlier.ORDER, loads(rows, params))
    assert_same(output, oracle.outlier(rows, params, last_epoch=6))


@settings(max_examples=8, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),  # epoch
            st.integers(0, 200),  # second
            st.integers(0, 9),  # value
            st.sampled_from([WORK, LOAD]),
            st.integers(0, 1),  # plug
            st.integers(0, 2),  # house
        ),
        min_size=1,
    )
)
def test_few_readings_in_any_order_are_folded_as_the_oracle_says(readings: list[Any]) -> None:
    rows = pd.DataFrame(readings, columns=["epoch", *FIELDS]).sort_values("epoch", kind="stable")
    rows = rows.assign(id=range(len(rows)), household_id=0)
    params = {"period": 5, "windows": [20, 60], "every": 5, "day": 60, "days": 2, "complete": True}
    taken = {epoch: come for epoch, come in loads(rows, params).items() if len(come)}
    for query in (prediction, outlier):
        output, _ = folded(query.build_fold(params), query.ORDER, taken)
        expected = getattr(oracle, query.__name__.rpartition(".")[2])
        assert_same(output, expected(rows, params, last_epoch=4), at_least=0)


def test_state_stays_as_large_as_its_windows_and_history_ask_for() -> None:
    rows = arrived(15_000, seed=2, epochs=1)
    rows["epoch"] = np.arange(len(rows)) // 1_000
    taken = loads(rows, {"complete": False})
    for fold, order in (
        (prediction.build_fold(PREDICTION), prediction.ORDER),
        (outlier.build_fold(OUTLIER), outlier.ORDER),
    ):
        _, sizes = folded(fold, order, taken)
        assert max(sizes[10:]) < 1.1 * sizes[9]
    whole = dict(iter(rows.groupby("epoch")))
    _, sizes = folded(completion.build_fold({}), completion.ORDER, whole)
    assert max(sizes) < 1.5 * sizes[0]
