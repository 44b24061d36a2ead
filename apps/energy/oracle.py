"""What the three queries must have put out, reading by reading from their definitions.

Readings are taken epoch by epoch, and within an epoch in order of time; no later reading changes what has been
put out. Loads are whole milliwatts and works whole watt-hours; what is divided is rounded, a half upwards.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import floor
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from holdfast.apps.energy.vocabulary import LOAD, PLUG

COMPLETION = {
    "timestamp": "int64",
    "house_id": "int32",
    "household_id": "int32",
    "plug_id": "int32",
    "load": "float64",
    "seconds": "int64",
    "synthetic": "bool",
}
PREDICTION = {
    "timestamp": "int64",
    "window_seconds": "int64",
    "slice_start": "int64",
    "level": "object",
    "house_id": "Int32",
    "household_id": "Int32",
    "plug_id": "Int32",
    "load": "float64",
}
OUTLIER = {
    "timestamp": "int64",
    "window_seconds": "int64",
    "house_id": "int32",
    "above": "int32",
    "plugs": "int32",
    "ratio": "float64",
}

Plug: TypeAlias = tuple[int, int, int]
Loads: TypeAlias = dict[int, list[tuple[int, Plug, int]]]
"""For each epoch, when which plug had which load."""


def accepted(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Whether a record can be a reading at all."""
    limits = {"timestamp": 2**32 - 1, "value": 1e6, "property": 1} | dict.fromkeys(PLUG, 2**20 - 1)
    return pd.DataFrame({of: rows[of].between(0, most) for of, most in limits.items()}).all(axis=1)


def completion(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """Readings of load as they came, and one for what the counter tells beyond them."""
    return _frames(_completed(rows, int(params.get("period", 1))), COMPLETION, last_epoch)


def prediction(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """At each gate that a house passes, what its plugs, and so the house, will draw."""
    windows = params.get("windows", (60, 300, 900, 3600, 7200))
    every, day = int(params.get("every", 30)), int(params.get("day", 86400))
    houses: dict[int, _House] = defaultdict(lambda: _House(windows, day, params.get("days", 7)))
    outputs: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for epoch, readings in _loads(rows, params).items():
        for at, plug, load in sorted(readings):
            house = houses[plug[0]]
            if at // every > house.gate:
                house.gate = at // every
                outputs[epoch] += house.predictions(plug[0], house.gate * every)
            house.read(at, plug, load)
    return _frames(outputs, PREDICTION, last_epoch)


def outlier(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """When a step is over, how many plugs of a house were above the median of all, if that is new."""
    every, unit = int(params.get("every", 1)), params.get("resolution", 0.1)
    readings = pd.DataFrame(
        [
            (epoch, at // every, plug, floor(load / (1000 * unit) + 0.5))
            for epoch, of_epoch in _loads(rows, params).items()
            for at, plug, load in sorted(of_epoch)
        ],
        columns=["epoch", "step", "plug", "load"],
    )
    outputs: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for window in params.get("windows", (3600, 86400)):
        said: dict[int, float] = {}
        for epoch, step, shares in _closings(readings, window // every):
            ratios = {house: sum(above) / len(above) for house, above in shares.items()}
            outputs[epoch] += [
                ((step + 1) * every, window, house, sum(above), len(above), ratios[house])
                for house, above in shares.items()
                if ratios[house] != said.get(house)
            ]
            said = ratios
    return _frames(outputs, OUTLIER, last_epoch)


def _completed(rows: pd.DataFrame, period: int) -> dict[int, list[tuple[Any, ...]]]:
    meters: dict[Plug, _Meter] = defaultdict(_Meter)
    outputs: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    readings = rows.assign(is_load=rows["property"] == LOAD).sort_values(
        ["epoch", "timestamp", "is_load", "id", "value"]
    )
    columns = ("epoch", "timestamp", "is_load", "value", *PLUG)
    for epoch, at, is_load, value, *ids in readings[list(columns)].itertuples(index=False):
        plug = (ids[0], ids[1], ids[2])
        meter, thousandths = meters[plug], round(value * 1000)
        if not meter.takes(at, is_load=is_load):
            continue
        if is_load:
            meter.begun = thousandths * period, period
            outputs[epoch].append((at, *plug, thousandths / 1000, period, False))
        elif gap := meter.moved(at, thousandths):
            outputs[epoch].append((at, *plug, gap[0] / 1000, gap[1], True))
    return outputs


@dataclass
class _Meter:
    """What is known of a plug since its counter last moved.

    `begun` is the load of the newest second, with the time that it stands for: it covers none of the time before.
    """

    now: int = -1
    had: frozenset[bool] = frozenset()
    since: int = 0
    work: int | None = None
    energy: int = 0
    covered: int = 0
    begun: tuple[int, int] = (0, 0)

    def takes(self, at: int, *, is_load: bool) -> bool:
        """Whether the reading is neither late nor the second of its kind in its second."""
        if at < self.now or (at == self.now and is_load in self.had):
            return False
        if at > self.now:
            self.energy, self.covered = self.energy + self.begun[0], self.covered + self.begun[1]
            self.now, self.had, self.begun = at, frozenset(), (0, 0)
        self.had |= {is_load}
        return True

    def moved(self, at: int, work: int) -> tuple[int, int] | None:
        """The mean load of the time without readings, and how long it was, if energy is missing."""
        if work == self.work:
            return None
        gap = None
        if self.work is not None and work > self.work:
            missing = (work - self.work) * 3600 * 1000 - self.energy
            uncovered = at - self.since - self.covered
            if missing > 0 and uncovered > 0:
                gap = (_divided(missing, uncovered), uncovered)
        self.since, self.work, self.energy, self.covered = at, work, 0, 0
        return gap


class _House:
    """The thesis' map of window, plug and slice to sum and count."""

    def __init__(self, windows: Iterable[int], day: int, days: int) -> None:
        self.gate = -1
        self._windows, self._day, self._days = tuple(windows), day, days
        self._sums: dict[tuple[int, Plug, int], list[int]] = defaultdict(lambda: [0, 0])
        self._plugs: set[Plug] = set()

    def read(self, at: int, plug: Plug, load: int) -> None:
        """Add a reading to the slices that it is in."""
        self._plugs.add(plug)
        for window in self._windows:
            total = self._sums[window, plug, at // window]
            total[0] += load
            total[1] += 1

    def predictions(self, house: int, gate: int) -> Iterator[tuple[Any, ...]]:
        """What is put out at a gate: the plugs, and their sum."""
        for window in self._windows:
            target = (gate - 1) // window + 2
            start, loads = target * window, []
            for plug in sorted(self._plugs):
                if (load := self._predicted(window, plug, target)) is not None:
                    yield gate, window, start, "plug", *plug, load / 1000
                    loads.append(load)
            if loads:
                yield gate, window, start, "house", house, None, None, sum(loads) / 1000

    def _predicted(self, window: int, plug: Plug, target: int) -> int | None:
        back = [target - day * (self._day // window) for day in range(1, self._days + 1)]
        averages = [self._average(window, plug, number) for number in back]
        past = [average for average in averages if average is not None]
        used = [] if not past else [median(past)]
        if (now := self._average(window, plug, target - 2)) is not None:
            used.append(now)
        return floor(sum(used) / len(used) + 0.5) if used else None

    def _average(self, window: int, plug: Plug, number: int) -> int | None:
        if (window, plug, number) not in self._sums:
            return None
        return _divided(*self._sums[window, plug, number])


def _closings(
    readings: pd.DataFrame, span: int
) -> Iterator[tuple[int, int, Mapping[int, list[bool]]]]:
    """Where the newest step becomes a later one: the epoch, the step, and the window up to it."""
    codes, plugs = pd.factorize(readings["plug"])
    readings, newest = readings.assign(plug=codes), readings["step"].cummax()
    for at in np.flatnonzero(newest.diff() > 0):
        step = int(newest.iloc[at - 1])
        before = readings.iloc[newest.searchsorted(step - span, side="right") : at]
        held = before[before["step"] > step - span]
        is_above = held.groupby("plug")["load"].median() > held["load"].median()
        shares: dict[int, list[bool]] = defaultdict(list)
        for code, above in zip(is_above.index.tolist(), is_above.tolist(), strict=True):
            shares[plugs[code][0]].append(above)
        yield int(readings["epoch"].iloc[at]), step, shares


def _loads(rows: pd.DataFrame, params: Mapping[str, Any]) -> Loads:
    """The readings that a query takes: as they came, or completed."""
    loads_by_epoch: Loads = defaultdict(list)
    if params.get("complete", True):
        for epoch, readings in _completed(rows, int(params.get("period", 1))).items():
            loads_by_epoch[epoch] = [
                (reading[0], reading[1:4], round(reading[4] * 1000)) for reading in readings
            ]
        return loads_by_epoch
    loads = rows.loc[rows["property"] == LOAD, ["epoch", "timestamp", "value", *PLUG]]
    for epoch, at, value, *ids in loads.sort_values("epoch").itertuples(index=False):
        loads_by_epoch[epoch].append((at, (ids[0], ids[1], ids[2]), round(value * 1000)))
    return loads_by_epoch


def _divided(total: int, by: int) -> int:
    return floor(total / by + 0.5)


def _frames(
    outputs: Mapping[int, list[tuple[Any, ...]]], types: Mapping[str, str], last_epoch: int
) -> dict[int, pd.DataFrame]:
    return {
        epoch: pd.DataFrame(outputs.get(epoch, []), columns=list(types)).astype(types)
        for epoch in range(last_epoch + 1)
    }
