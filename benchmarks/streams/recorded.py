"""Recorded runs of the failover benchmark: what was known before each kill, and how long the recovery took.

A file of each state has all runs, oldest first. A run is one stream; `steps` are its timings, each with its
time, so that a prediction can be made again from what had been measured at any moment.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS
from benchmarks.streams.forecast import PredictionInputs, steps_to_json
from benchmarks.streams.measurements import ContenderResult, Failover
from holdfast.ft_policies.tiers import Tier
from holdfast.observation.recovery_history import Recovery

STATES = ("small", "large")
FOLDER = RESULTS / "recoveries"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedKill:
    """One kill: the inputs of its prediction, the recovery as the stream measured it, and its parts as timed outside."""

    tier: Tier
    recovery: Recovery
    to_next_epoch: float
    parts: Mapping[str, float]
    known: PredictionInputs  # house: old word (recordings have it)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One stream with one state, killed in one tier after the other."""

    state: str
    steps: Mapping[str, Any]
    kills: Sequence[RecordedKill]

    @classmethod
    def of(cls, state: str, results: Sequence[ContenderResult]) -> "RecordedRun":
        """What the results have of the stream; plain Spark has nothing to predict."""
        tiers = [result for result in results if result.steps]
        return cls(
            state=state,
            steps=steps_to_json(tiers[-1].steps) if tiers else {},
            kills=[
                _record(result.contender, kill) for result in tiers for kill in result.failovers
            ],
        )


def _record(tier: str, kill: Failover) -> RecordedKill:
    assert kill.inputs is not None
    assert kill.recovery is not None
    return RecordedKill(
        tier=Tier(tier),
        recovery=kill.recovery,
        to_next_epoch=round(kill.seconds, 3),
        parts={name: round(seconds, 3) for name, seconds in kill.steps.items()},
        known=kill.inputs,
    )


def record_run(run: RecordedRun) -> None:
    """Add a run to those of its state, in place of its earlier record; a run without kills leaves nothing."""
    if not run.kills:
        return
    path, began_at = _path(run.state), run.kills[0].known.at
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else []
    others = [row for row in kept if row["kills"][0]["known"]["at"] != began_at]
    path.write_text(json.dumps([*others, asdict(run)]) + "\n")


def read_runs() -> Iterator[RecordedRun]:
    """All recorded runs, oldest first."""
    kept = [
        _run(row)
        for state in STATES
        if _path(state).exists()
        for row in json.loads(_path(state).read_text())
    ]
    yield from sorted(kept, key=lambda run: run.kills[0].known.at)


def _run(row: Mapping[str, Any]) -> RecordedRun:
    kills = [
        RecordedKill(
            **{
                **kill,
                "tier": Tier(kill["tier"]),
                "recovery": Recovery(**kill["recovery"]),
                "known": PredictionInputs(**kill["known"]),
            }
        )
        for kill in row["kills"]
    ]
    return RecordedRun(state=row["state"], steps=row["steps"], kills=kills)


def _path(state: str) -> Path:
    return FOLDER / f"{state}.json"
