"""Conformance: examples worked out by hand, and the fold against the oracle, epoch by epoch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given, settings, strategies as st

from holdfast.apps.input_flaws import InputFlaws
from holdfast.apps.keyed_fold import _from_bytes, _to_bytes
from holdfast.apps.sla import generator, oracle
from holdfast.apps.sla.conformance import ORDER, build_fold
from holdfast.apps.sla.vocabulary import STAGES

START = pd.Timestamp("2026-01-01")
A, B, C = STAGES


def rows(*events: tuple[int, float, str, str], service: str = "shop") -> pd.DataFrame:
    """Events of one service as (epoch, second, request, stage)."""
    return pd.DataFrame(
        {
            "epoch": [epoch for epoch, _, _, _ in events],
            "event_time": pd.to_datetime(
                [START + pd.Timedelta(seconds=at) for _, at, _, _ in events]
            ),
            "service": service,
            "request_id": [request for _, _, request, _ in events],
            "stage": [stage for _, _, _, stage in events],
        }
    )


def streamed(come: pd.DataFrame, params: Mapping[str, Any]) -> tuple[dict[int, Any], list[int]]:
    """The output of each epoch that has rows, and how many requests are kept after it."""
    fold, state, outputs, sizes = build_fold(params), None, {}, []
    for epoch, events in come.groupby("epoch"):
        ordered = events[list(ORDER)].sort_values(list(ORDER), ignore_index=True)
        output, kept = fold(ordered, None if state is None else _from_bytes(state))
        state = _to_bytes(kept)
        outputs[int(str(epoch))] = output
        sizes.append(len(kept))
    return outputs, sizes


def comparable(output: pd.DataFrame) -> list[tuple[Any, ...]]:
    return sorted(
        (service, request, verdict, started.value, ended.value)
        for service, request, verdict, started, ended in output.itertuples(index=False)
    )


def verdicts(come: pd.DataFrame, **params: Any) -> list[tuple[int, str, str]]:
    """The verdict on each request, as (epoch, request, verdict); the oracle agrees."""
    outputs, _ = streamed(come, params)
    wanted = oracle.conformance(come, params, last_epoch=int(come["epoch"].max()))
    for epoch, expected in wanted.items():
        output = outputs.get(epoch, expected.iloc[:0])
        assert comparable(output) == comparable(expected), f"epoch {epoch}"
    return [
        (epoch, request, verdict)
        for epoch, output in outputs.items()
        for request, verdict in output[["request_id", "verdict"]].to_numpy().tolist()
    ]


def test_a_request_conforms_if_its_last_stage_is_within_the_limit() -> None:
    quick = rows((0, 0, "x", A), (0, 2, "x", B), (0, 5, "x", C))
    assert verdicts(quick) == [(0, "x", "conforming")]
    slow = rows((0, 0, "x", A), (0, 2, "x", B), (0, 5.001, "x", C))
    assert verdicts(slow) == [(0, "x", "late")]


def test_stages_may_come_in_any_order_and_in_different_epochs() -> None:
    come = rows((0, 4, "x", C), (1, 0, "x", A), (2, 2, "x", B))
    assert verdicts(come) == [(2, "x", "conforming")]


def test_stages_must_have_happened_in_their_order() -> None:
    come = rows((0, 0, "x", A), (0, 3, "x", B), (0, 2, "x", C), (1, 26, "y", A))
    assert verdicts(come) == [(1, "x", "missing")]


def test_a_request_is_missing_once_its_service_has_gone_on_for_long_enough() -> None:
    come = rows((0, 0, "x", A), (1, 25, "y", A), (2, 25.001, "z", A))
    assert verdicts(come) == [(2, "x", "missing")]


def test_time_does_not_pass_for_a_service_when_it_does_for_another() -> None:
    silent = rows((0, 0, "x", A))
    assert verdicts(pd.concat([silent, rows((1, 900, "y", A), service="pay")])) == []


def test_an_end_after_the_time_to_give_up_is_none() -> None:
    come = rows((0, 0, "x", A), (0, 1, "x", B), (0, 20.001, "x", C), (1, 30, "y", A))
    assert verdicts(come) == [(1, "x", "missing")]


def test_an_event_that_is_too_late_is_left_out() -> None:
    events = [(0, 0.0, "x", A), (0, 1.0, "x", B), (0, 10.0, "y", A)]
    assert verdicts(rows(*events, (1, 5, "x", C))) == [(1, "x", "conforming")]
    assert verdicts(rows(*events, (1, 4.999, "x", C))) == []


def test_a_second_copy_changes_nothing() -> None:
    once = [(0, 0.0, "x", A), (0, 1.0, "x", B), (0, 2.0, "x", C)]
    assert verdicts(rows(*once, *once)) == [(0, "x", "conforming")]
    assert verdicts(rows(*once, (1, 0, "x", A), (2, 90, "y", A))) == [(0, "x", "conforming")]


def test_an_end_without_a_start_is_not_reported_and_is_forgotten() -> None:
    _, sizes = streamed(rows((0, 0, "x", C), (1, 90, "y", A)), {})
    assert sizes == [1, 1]
    assert verdicts(rows((0, 0, "x", C), (1, 90, "y", A))) == []


def test_the_stages_are_those_that_are_asked_for() -> None:
    come = rows((0, 0, "x", A), (0, 1, "x", C))
    assert verdicts(come, stages=[A, C]) == [(0, "x", "conforming")]


events = st.tuples(
    st.integers(0, 4),
    st.sampled_from([0.0, 1.0, 4.0, 6.0, 19.0, 22.0, 30.0]),
    st.sampled_from(["x", "y"]),
    st.sampled_from(STAGES),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(events, min_size=1, max_size=15), st.sampled_from(["0 s", "3 s", "1 hour"]))
def test_the_fold_does_what_the_oracle_does(stages: list[Any], lateness: str) -> None:
    verdicts(rows(*sorted(stages)), lateness=lateness, give_up="30 s")


def test_it_equals_the_oracle_on_flawed_input_in_every_epoch_with_a_bounded_state() -> None:
    random = np.random.default_rng(5)
    come = InputFlaws(late=0.1).distort_records(generator.records(20_000, 5), random)
    come["event_time"] = pd.to_datetime(come["event_time"]).dt.tz_localize(None)
    come["epoch"] = np.sort(random.integers(0, 40, len(come)))
    table = pd.DataFrame(verdicts(come), columns=["epoch", "request", "verdict"])
    assert table["request"].is_unique
    assert (table["verdict"].value_counts() > 20).all()
    assert table["verdict"].nunique() == 3
    _, sizes = streamed(come, {})
    assert max(sizes) < 1_000
