"""From the options of `holdfast simulate` to a scenario: its system, its load, its ranking."""

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
from holdfast.ft_policies.simulator.presets import (
    MEASURED,
    THESIS,
    build_measured_system,
    thesis_recoveries,
)
from holdfast.ft_policies.simulator.system import System
from holdfast.ft_policies.simulator.traces import DAY_SECONDS, Generated, Recorded, Shape, Trace
from holdfast.ft_policies.tiers import Guarantee, Tier
from holdfast.orchestration.cli import format as fmt

if TYPE_CHECKING:
    from holdfast.configs.declarations.stream import StreamDeclaration
    from holdfast.configs.project import ProjectConfig
    from holdfast.resources.control_store.records import StreamRow
    from holdfast.resources.project import Project

COLUMNS = ("seconds", "rows_per_second", "state_bytes")
PLOTS = (".png", ".svg", ".pdf")
MAX_SIMULATED = 100_000  # streams times objectives: they are simulated side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A system, and the load and objectives that it is simulated with by default."""

    system: System
    shape: Shape
    seconds: float
    objectives: str


PRESETS = {
    "thesis": Preset(
        system=THESIS,
        shape=Shape.STEP,
        seconds=200.0,
        objectives="0,2,3,4,4.5,5,5.5,6,8,10,20",
    ),
    "measured": Preset(
        system=MEASURED,
        shape=Shape.DIURNAL,
        seconds=DAY_SECONDS,
        objectives="0,2,5,8,10,15,20,30,45,60",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """The options of the command line; `None` for one that was not given."""

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

    def defaults(self) -> Preset:
        """The named preset."""
        return PRESETS[_require_name(self.preset, list(PRESETS), "--preset")]

    @property
    def uses_measurements(self) -> bool:
        """Whether the system is taken from the measurements of this project."""
        return self.defaults().system is MEASURED

    @property
    def ranked_by(self) -> str:
        """The name of the weights or of the price list that ranks the tiers."""
        return self.weights or "all_costs"

    def with_defaults_of(self, declared: "StreamDeclaration") -> "SimulationOptions":
        """These options, with the stream's declaration for those that were not given."""
        if not self.uses_measurements:
            raise typer.BadParameter(
                f"the preset {self.preset} has no stream {declared.name}: "
                "remove --preset or --stream"
            )
        by = declared.controller.weigh_by
        return replace(
            self,
            guarantee=self.guarantee or declared.objective.guarantee,
            weights=self.weights or (declared.prices if by == "money" else by),
        )

    def scenario(self, system: System, config: "ProjectConfig | None") -> Scenario:
        """The scenario to simulate; a wrong or too large option is wrong usage."""
        if self.intervals is not None:
            every = fmt.parse_seconds(self.intervals, "--intervals", least=0.1)
            system = replace(system, snapshot_every=every, sync_every=every)
        trace = self._trace(system)
        objectives = fmt.parse_seconds(self.objectives or self.defaults().objectives, "--objective")
        if self.streams * len(objectives) > MAX_SIMULATED:
            raise typer.BadParameter(
                f"{self.streams:,} streams with {len(objectives)} objectives are too many: at most "
                f"{MAX_SIMULATED:,} combinations; give fewer of them"
            )
        return Scenario(
            system=system,
            trace=trace,
            seconds=self._seconds(trace),
            objectives=objectives,
            guarantee=self.guarantee or Guarantee.PRECISE,
            rank_by=_ranking(self.ranked_by, config),
            failures_per_day=self.failures_per_day,
            seed=self.seed,
        )

    def _trace(self, system: System) -> Trace:
        if self.trace is not None:
            if self.load is not None:
                raise typer.BadParameter("give either --trace or --load")
            return read_trace(self.trace, streams=self.streams)
        shape = self.defaults().shape
        if self.load is not None:
            shape = Shape(_require_name(self.load, list(Shape), "--load"))
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
        return trace.span_seconds if isinstance(trace, Recorded) else self.defaults().seconds


def _ranking(weights: str, config: "ProjectConfig | None") -> Ranking:
    """The weights or the price list of this name."""
    if weights in WEIGHTS:
        return WEIGHTS[weights]
    lists = {} if config is None else config.prices
    name = _require_name(weights, [*WEIGHTS, *lists], "--weights")
    return lists[name].prices()


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSystem:
    """Holdfast as measured on a stream.

    `assumed` are the steps without a measurement, `allowed` the tiers that the stream's sink supports.
    """

    declared: "StreamDeclaration"
    system: System
    assumed: tuple[RecoveryStep, ...]
    allowed: tuple[Tier, ...]


def fit_system(project: "Project", stream: str) -> FittedSystem:
    """Fit a system to the measurements, intervals and controller of a stream, as the tier review does."""
    from holdfast.observation.measurements import measure
    from holdfast.observation.review import Reviewer

    declared = project.config.stream(stream)
    row = project.store.streams.get(stream) or _build_row(declared)
    inputs = Reviewer().gather_with_others(project, row)
    section = declared.controller
    system = build_measured_system(inputs, section.model())
    if section.estimator == "thesis":
        timings = measure(project.store, [declared])[stream].step_timings
        recoveries = thesis_recoveries(timings, count_detection=section.count_detection)
        system = replace(system, recoveries=recoveries)
    return FittedSystem(
        declared=declared,
        system=replace(system, policy=section.policy()),
        assumed=inputs.fit.missing,
        allowed=tuple(tier for tier in Tier if declared.objection_to(tier) is None),
    )


def find_only_started(project: "Project") -> str | None:
    """Find the stream that was started in this project, if there is exactly one."""
    started = [
        row.name for row in project.store.streams.all() if row.name in project.config.streams
    ]
    return started[0] if len(started) == 1 else None


def _build_row(declared: "StreamDeclaration") -> "StreamRow":
    """The row that the stream would have if it were declared now."""
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


def read_trace(path: Path, *, streams: int) -> Recorded:
    """Read a trace from a CSV file; fails if a column is missing or a value is not a number."""
    try:
        with path.open(newline="") as file:
            rows = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                raise PermanentError(
                    f"{path}: no column {', '.join(missing)}",
                    hint=f"begin the file with the line {','.join(COLUMNS)}",
                )
            lines = [_parse_row(row, path, rows.line_num) for row in rows]
    except OSError as error:
        raise PermanentError(f"cannot read {path}: {error.strerror}") from error
    seconds, rates, states = np.array(lines, dtype=np.float64).reshape(-1, len(COLUMNS)).T
    try:
        return Recorded(seconds=seconds, rows_per_second=rates, state_bytes=states, streams=streams)
    except PermanentError as error:
        raise PermanentError(f"{path}: {error}", hint=error.hint) from error


def _parse_row(row: dict[str, str], path: Path, number: int) -> tuple[float, ...]:
    try:
        return tuple(float(row[name]) for name in COLUMNS)
    except (TypeError, ValueError) as error:
        text = ",".join(str(row[name]) for name in COLUMNS)
        raise PermanentError(
            f"{path}:{number}: {text!r} is not three numbers",
            hint=f"write {','.join(COLUMNS)} in each line",
        ) from error


def _require_name(name: str, names: list[str], option: str) -> str:
    if name not in names:
        raise typer.BadParameter(f"{name!r}: {suggest_name(name, names)}", param_hint=option)
    return name
