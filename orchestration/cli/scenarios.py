"""From what people write on the command line to a simulation: its system, its load, its ranking."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from holdfast.configs.loading import suggest_name
from holdfast.ft_policies.costs.prices import WEIGHTS
from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.prediction.steps import RecoveryStep
from holdfast.ft_policies.simulator.engine import Scenario
from holdfast.ft_policies.simulator.formulas import Ranking
from holdfast.ft_policies.simulator.presets import MEASURED, THESIS, as_the_thesis_reckons, measured
from holdfast.ft_policies.simulator.system import System
from holdfast.ft_policies.simulator.traces import DAY_SECONDS, Generated, Recorded, Shape, Trace
from holdfast.ft_policies.tiers import Guarantee, Tier
from holdfast.orchestration.cli import reading

if TYPE_CHECKING:
    from holdfast.configs.project import ProjectConfig
    from holdfast.configs.stream import StreamDeclaration
    from holdfast.resources.control_store.records import StreamRow
    from holdfast.resources.project import Project

COLUMNS = ("seconds", "rows_per_second", "state_bytes")
PLOTS = (".png", ".svg", ".pdf")
MOST_AT_ONCE = 100_000  # streams times objectives: they are simulated side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What a preset is simulated with unless something else is asked for."""

    system: System
    shape: Shape
    seconds: float
    objectives: str


PRESETS = {
    "thesis": Usual(
        system=THESIS,
        shape=Shape.STEP,
        seconds=200.0,
        objectives="0,2,3,4,4.5,5,5.5,6,8,10,20",
    ),
    "measured": Usual(
        system=MEASURED,
        shape=Shape.DIURNAL,
        seconds=DAY_SECONDS,
        objectives="0,2,5,8,10,15,20,30,45,60",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The words of the command line; `None` is what nobody wrote."""

    preset: str
    trace: Path | None
    load: str | None
    streams: int
    days: float | None
    objectives: str | None
    guarantee: Guarantee | None
    weights: str | None
    failures_per_day: float
    intervals: str | None
    seed: int

    def usual(self) -> Usual:
        """The preset that was named."""
        return PRESETS[_known(self.preset, list(PRESETS), "--preset")]

    @property
    def asks_the_store(self) -> bool:
        """Whether what was measured in this project is what is wanted."""
        return self.usual().system is MEASURED

    @property
    def ranked_by(self) -> str:
        """The name of what tiers are ranked by."""
        return self.weights or "all_costs"

    def of(self, declared: "StreamDeclaration") -> "Asked":
        """The same, with what a stream declares for what nobody wrote."""
        if not self.asks_the_store:
            raise typer.BadParameter(
                f"{declared.name} is no stream of the preset {self.preset}: "
                "leave out --preset or --stream"
            )
        by = declared.controller.weigh_by
        return replace(
            self,
            guarantee=self.guarantee or declared.objective.guarantee,
            weights=self.weights or (declared.prices if by == "money" else by),
        )

    def scenario(self, system: System, project: "ProjectConfig | None") -> Scenario:
        """What is to be simulated."""
        if self.intervals is not None:
            every = reading.seconds(self.intervals, "--intervals", least=0.1)
            system = replace(system, snapshot_every=every, sync_every=every)
        trace = self._trace(system)
        objectives = reading.seconds(self.objectives or self.usual().objectives, "--objective")
        if self.streams * len(objectives) > MOST_AT_ONCE:
            raise typer.BadParameter(
                f"{self.streams:,} streams with {len(objectives)} objectives are too many at once: "
                f"together they may be {MOST_AT_ONCE:,}, so ask for fewer objectives"
            )
        return Scenario(
            system=system,
            trace=trace,
            seconds=self._seconds(trace),
            objectives=objectives,
            guarantee=self.guarantee or Guarantee.PRECISE,
            rank_by=_ranking(self.ranked_by, project),
            failures_per_day=self.failures_per_day,
            seed=self.seed,
        )

    def _trace(self, system: System) -> Trace:
        if self.trace is not None:
            if self.load is not None:
                raise typer.BadParameter("say either --trace or --load")
            return recorded(self.trace, streams=self.streams)
        shape = self.usual().shape
        if self.load is not None:
            shape = Shape(_known(self.load, list(Shape), "--load"))
        return Generated(
            shape=shape,
            rows_per_second=system.usual_rows_per_second,
            state=system.state,
            streams=self.streams,
            seed=self.seed,
        )

    def _seconds(self, trace: Trace) -> float:
        if self.days is not None:
            return self.days * DAY_SECONDS
        return trace.span_seconds if isinstance(trace, Recorded) else self.usual().seconds


def _ranking(weights: str, project: "ProjectConfig | None") -> Ranking:
    """Weights, or the price list of this name."""
    if weights in WEIGHTS:
        return WEIGHTS[weights]
    lists = {} if project is None else project.prices
    name = _known(weights, [*WEIGHTS, *lists], "--weights")
    return lists[name].prices()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Holdfast as the control store knows it from a stream, and the steps that it does not know.

    `allowed` are the tiers that the stream's sink bears.
    """

    declared: "StreamDeclaration"
    system: System
    assumed: tuple[RecoveryStep, ...]
    allowed: tuple[Tier, ...]


def fitted(world: "Project", stream: str) -> Fitted:
    """What the live review knows of a stream, with the intervals that it has or may have, and its controller."""
    from holdfast.observation.measurements import measure
    from holdfast.observation.review import Reviewer

    declared = world.config.stream(stream)
    row = world.store.streams.get(stream) or _unstarted(declared)
    [inputs] = Reviewer().gather(world, [row], world.store.decisions.latest_of_all())
    section = declared.controller
    system = measured(inputs, count_detection=section.count_detection)
    if section.estimator == "thesis":
        timings = measure(world.store, [declared])[stream].step_timings
        recoveries = as_the_thesis_reckons(timings, count_detection=section.count_detection)
        system = replace(system, recoveries=recoveries)
    return Fitted(
        declared=declared,
        system=replace(system, policy=section.policy()),
        assumed=inputs.fit.missing,
        allowed=tuple(tier for tier in Tier if declared.objection_to(tier) is None),
    )


def only_started(world: "Project") -> str | None:
    """The stream that was started in this project, if there is exactly one."""
    started = [row.name for row in world.store.streams.all() if row.name in world.config.streams]
    return started[0] if len(started) == 1 else None


def _unstarted(declared: "StreamDeclaration") -> "StreamRow":
    """The row that a stream would have if it were started now."""
    from holdfast.resources.control_store.records import DesiredState, StreamRow

    return StreamRow(
        name=declared.name,
        declaration={},
        declared_tier=declared.tier,
        tier=declared.tier,
        desired=DesiredState.STOPPED,
        declared_at=0.0,
        changed_at=0.0,
        snapshot_every=None,
        sync_every=None,
    )


def recorded(path: Path, *, streams: int) -> Recorded:
    """A trace out of a file of comma-separated values."""
    try:
        with path.open(newline="") as file:
            rows = csv.DictReader(file)
            lacking = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if lacking:
                raise PermanentError(
                    f"{path}: no column {', '.join(lacking)}",
                    hint=f"its first line must be {','.join(COLUMNS)}",
                )
            lines = [_line(row, path, rows.line_num) for row in rows]
    except OSError as error:
        raise PermanentError(f"cannot read {path}: {error.strerror}") from error
    seconds, rates, states = np.array(lines, dtype=np.float64).reshape(-1, len(COLUMNS)).T
    try:
        return Recorded(seconds=seconds, rows_per_second=rates, state_bytes=states, streams=streams)
    except PermanentError as error:
        raise PermanentError(f"{path}: {error}", hint=error.hint) from error


def _line(row: dict[str, str], path: Path, number: int) -> tuple[float, ...]:
    try:
        return tuple(float(row[name]) for name in COLUMNS)
    except (TypeError, ValueError) as error:
        written = ",".join(str(row[name]) for name in COLUMNS)
        raise PermanentError(
            f"{path}:{number}: {written!r} is not three numbers",
            hint=f"each line has {','.join(COLUMNS)}",
        ) from error


def _known(word: str, known: list[str], option: str) -> str:
    if word not in known:
        raise typer.BadParameter(f"{word!r}: {suggest_name(word, known)}", param_hint=option)
    return word
