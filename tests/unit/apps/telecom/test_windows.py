"""What windows and lists must put out, by hand: examples of StreamCloud, as corrected."""

from typing import Any

import pandas as pd

from holdfast.apps.telecom.oracle import blacklist, calls_histogram, consumption_control


def calls(*events: tuple[int, str, int, float]) -> pd.DataFrame:
    """Calls as (epoch, caller, time, price), all of them to `z`."""
    rows = pd.DataFrame(events, columns=["epoch", "caller", "time", "price"])
    places = dict.fromkeys(["caller_x", "caller_y", "callee_x", "callee_y"], 0.0)
    return rows.assign(callee="z", duration=10, **places)


def plain(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Rows with the start and the end of their window as seconds."""
    seconds = {
        name: frame[name].astype("int64") // 1_000_000 for name in ("window_start", "window_end")
    }
    return list(frame.assign(**seconds).itertuples(index=False, name=None))


def test_windows_count_as_in_figure_2_2_with_its_last_window_corrected() -> None:
    times = [25, 2400, 4500, 4600, 5700]
    rows = calls(*((epoch, "a", time, 1) for epoch, time in enumerate(times)))
    params = {"window": "1 hour", "slide": "10 minutes", "delay": "0 seconds", "least_calls": 1}
    output = consumption_control(rows, params, last_epoch=5)
    assert plain(output[3])[-2:] == [(0, 3600, "a", 2), (600, 4200, "a", 1)]
    assert plain(output[5]) == [(1200, 4800, "a", 3), (1800, 5400, "a", 3)]


def test_windows_that_begin_before_the_first_call_have_it_too() -> None:
    params = {"window": "1 hour", "slide": "10 minutes", "least_calls": 1}
    output = consumption_control(
        calls((0, "a", 7225, 1), (1, "a", 99_999, 1)), params, last_epoch=2
    )
    assert [start for start, *_ in plain(output[2])] == [4200, 4800, 5400, 6000, 6600, 7200]


def test_a_caller_with_twenty_calls_within_five_minutes_is_found() -> None:
    few, many = ([(0, who, 300 + 15 * n, 1) for n in range(k)] for who, k in (("a", 19), ("b", 20)))
    output = consumption_control(calls(*few, *many, (0, "c", 1000, 1)), {}, last_epoch=1)
    assert plain(output[1]) == [(300, 600, "b", 20)]


def test_a_call_still_counts_in_the_epoch_that_closes_its_window_and_not_after() -> None:
    late = [(2, "a", 10, 1), (3, "a", 20, 1)]
    rows = calls((0, "a", 0, 1), (1, "b", 360, 1), *late)
    params = {"slide": "5 minutes", "least_calls": 1}
    output = consumption_control(rows, params, last_epoch=3)
    assert plain(output[2]) == [(0, 300, "a", 2)]
    assert plain(output[3]) == []


def test_the_histogram_counts_callers_of_expensive_calls_by_their_number_of_calls() -> None:
    numbers = {"a": 5, "b": 5, "c": 4, "d": 10, "e": 11}
    dear = [(0, who, 7200 + n, 5.01) for who, number in numbers.items() for n in range(number)]
    cheap = [(0, "f", 7200 + n, 5.0) for n in range(6)]
    rows = calls(*dear, *cheap, (1, "z", 90_000, 9.0))
    output = calls_histogram(rows, {"slide": "1 hour"}, last_epoch=2)
    assert plain(output[2]) == [(7200, 10_800, 5, 2), (7200, 10_800, 10, 1)]


def test_a_call_is_listed_once_for_each_of_its_listed_phones() -> None:
    rows = calls((0, "a", 1, 1), (0, "b", 2, 1), (1, "c", 3, 1))
    output = blacklist(rows, {"phones": ["a", "z"]}, last_epoch=1)
    sides = [frame[["phone", "side", "time"]].to_numpy().tolist() for frame in output.values()]
    assert sides == [
        [["a", "caller", 1], ["z", "callee", 1], ["z", "callee", 2]],
        [["z", "callee", 3]],
    ]


def test_no_phones_are_listed_unless_they_are_given() -> None:
    assert blacklist(calls((0, "a", 1, 1)), {}, last_epoch=0)[0].empty
