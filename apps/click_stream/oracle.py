"""What the click stream must have put out, recomputed from the definition without Spark.

After epoch k every second before the newest request of epochs 0 to k, less `delay`, is settled. A
request of a second that was settled before its epoch is ignored. All others are put in the order of
their times, so that the patterns of a visitor do not depend on when the requests came. At every
slide the patterns of the window before it are counted again; the first epoch that settles all of
them puts the slide's ranking out.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from heapq import nsmallest
from typing import Any, TypeAlias

import pandas as pd

Request: TypeAlias = tuple[int, str, str]
Place: TypeAlias = tuple[str | None, int]

COLUMNS: dict[str, Any] = {
    "at": "datetime64[us, UTC]",
    "rank": "int32",
    "pattern": object,
    "count": "int64",
}
TEXT = r'"(?:\\.|[^\\"])*"'
LOGGED = re.compile(
    r"(?P<host>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "
    r'"(?:-|[A-Z]+ (?P<path>[^\s"?]+)(?:\\.|[^\\"])*)" '
    rf"\d\d\d (?:-|\d+)(?: {TEXT} {TEXT})?",
    re.ASCII,
)
TIME = re.compile(r"\d\d/[A-Z][a-z]{2}/[12]\d{3}(:\d\d){3} [+-](0\d|1[0-4])[0-5]\d", re.ASCII)


def accepted(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Whether a line is one of an access log, at a time that exists."""
    return pd.Series([_is_logged(line) for line in rows["line"]], index=rows.index, dtype=bool)


def top_patterns(
    rows: pd.DataFrame, params: Mapping[str, Any], *, last_epoch: int
) -> dict[int, pd.DataFrame]:
    """The exact output of every epoch from 0 to `last_epoch`; `rows` are `line` and `epoch`."""
    requests = [
        (epoch, request)
        for epoch, line in zip(rows["epoch"], rows["line"], strict=True)
        if (request := _request(line))
    ]
    settled = _settled(requests, _seconds(params.get("delay", "10 seconds")), last_epoch)
    in_time = sorted(request for epoch, request in requests if request[0] >= settled[epoch])
    patterns = sorted(_patterns(in_time, params))
    output: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for at, ranking in _changes(patterns, params, until=settled[-1]):
        epoch = bisect_left(settled, at) - 1
        output[epoch] += [(at, rank, *place) for rank, place in enumerate(ranking, start=1)]
    return {epoch: _frame(output[epoch]) for epoch in range(last_epoch + 1)}


def _is_logged(line: str | None) -> bool:
    logged = LOGGED.fullmatch(line or "")
    if not logged or not TIME.fullmatch(logged["time"]):
        return False
    try:
        _instant(logged["time"])
    except ValueError:
        return False
    return True


def _request(line: str) -> Request | None:
    """When who asked for what; nothing if the client hung up before it asked."""
    logged = LOGGED.fullmatch(line)
    if not logged or not logged["path"]:
        return None
    who = logged["host"] if logged["user"] == "-" else logged["user"]
    return _instant(logged["time"]), who, logged["path"]


@cache
def _instant(time: str) -> int:
    return int(datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z").timestamp())


def _settled(
    requests: Iterable[tuple[int, Request]], delay: int, last_epoch: int
) -> Sequence[float]:
    """Before each epoch, and after the last: the time before which nothing is accepted."""
    bounds = [float("-inf")] * (last_epoch + 2)
    for epoch, (at, _, _) in requests:
        bounds[epoch + 1] = max(bounds[epoch + 1], at - delay)
    for epoch in range(last_epoch + 1):
        bounds[epoch + 1] = max(bounds[epoch], bounds[epoch + 1])
    return bounds


def _patterns(requests: Iterable[Request], params: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """When a visitor's last requests made a pattern, and which."""
    length, within = params.get("length", 3), _seconds(params.get("within", "10 minutes"))
    last: dict[str, deque[tuple[int, str]]] = defaultdict(lambda: deque(maxlen=length))
    for at, who, path in requests:
        of_visitor = last[who]
        of_visitor.append((at, path))
        if len(of_visitor) == length and at - of_visitor[0][0] <= within:
            yield at, " > ".join(asked for _, asked in of_visitor)


def _changes(
    patterns: Sequence[tuple[int, str]], params: Mapping[str, Any], *, until: float
) -> Iterator[tuple[int, Sequence[Place]]]:
    """The slides at which others rank first than at the slide before, or in another order."""
    if not patterns:
        return
    window = _seconds(params.get("window", "15 minutes"))
    slide, k = _seconds(params.get("slide", "10 seconds")), params.get("k", 10)
    shown: list[str | None] = [None] * k
    times, names = [at for at, _ in patterns], [name for _, name in patterns]
    for at in range(times[0] // slide * slide, int(until) + 1, slide):
        counts = Counter(names[bisect_left(times, at - window) : bisect_left(times, at)])
        ranked = nsmallest(k, counts.items(), key=lambda counted: (-counted[1], counted[0]))
        ranking = [*ranked, *[(None, 0)] * (k - len(ranked))]
        if (now := [name for name, _ in ranking]) != shown:
            yield at, ranking
        shown = now


def _frame(places: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    frame = pd.DataFrame(places, columns=list(COLUMNS))
    return frame.assign(at=pd.to_datetime(frame["at"], unit="s", utc=True)).astype(COLUMNS)


def _seconds(interval: str) -> int:
    return int(pd.Timedelta(interval).total_seconds())
