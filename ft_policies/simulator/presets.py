"""Two systems to simulate: StreamMine3G as in the thesis, and Holdfast as measured."""

from dataclasses import fields, replace

import numpy as np

from holdfast.ft_policies.costs.prices import ASSUMED_SHARES
from holdfast.ft_policies.prediction.estimators import Observation
from holdfast.ft_policies.prediction.model import PROCESSES, Bounds, RecoveryModel, StepTimings
from holdfast.ft_policies.prediction.steps import STEPS, TIERS, RecoveryStep
from holdfast.ft_policies.prediction.thesis import ThesisModel
from holdfast.ft_policies.simulator.state_size import SlidingWindow
from holdfast.ft_policies.simulator.system import (
    MeasuredOverheads,
    MeasuredRecoveries,
    System,
    ThesisOverheads,
    ThesisRecoveries,
    Work,
)
from holdfast.ft_policies.tiering.candidates import StreamInputs
from holdfast.ft_policies.tiering.controller import ControllerPolicy

MB = 1e6


def _thesis_timings() -> StepTimings:
    longest = {
        RecoveryStep.DEPLOY: 0.5,
        RecoveryStep.WIRE_RECEIVE: 0.7,
        RecoveryStep.WIRE_SEND: 0.3,
    }
    return StepTimings(
        steps={step: (Observation(seconds=seconds),) for step, seconds in longest.items()},
        writes=(Observation(seconds=1.0, size=32 * MB),),
    )


THESIS = System(
    tick_seconds=0.5,
    policy=ControllerPolicy(
        cool_down_seconds=5.0, dwell_seconds=0.0, min_relative_saving=0.0, margin_per_miss=0.0
    ),
    recoveries=ThesisRecoveries(step_timings=_thesis_timings()),
    overheads=ThesisOverheads(receive_share=0.8, deserialise_share=0.25, code_bytes=50 * MB),
    work=Work(
        cpu_seconds_per_row=2e-5,
        memory_bytes=300 * MB,
        memory_per_state_byte=2.0,
        network_bytes_per_row=100.0,
        capacity_rows_per_second=500_000.0,
    ),
    usual_rows_per_second=100_000.0,
    state=SlidingWindow(window_seconds=10.0, bytes_per_row=20.0),
    snapshot_every=(3.5,),
    sync_every=(3.5,),
    ship_seconds=0.0,
    sync_seconds=0.0,
    epoch_seconds=0.0,
    change_seconds=1.0,
    learns_seconds=3.5,
    spread=0.1,
)
"""StreamMine3G. Published: a decision every 0.5 s, a cool-down of 5 s, snapshots and syncs every 3.5 s, a
window of 10 s, 100,000 rows/s with 20 MB of state, the start in `active_replication`, the formulas. Ours, and
chosen so that the published behaviour comes out: the seconds of deploying and wiring, the throughput of
writing, what a row takes, the memory of a node, the shares of receiving and deserialising, the spread."""


def _usual_bounds() -> Bounds:
    """Seconds by step (lines) and tier (columns, the fastest first), and what a byte or a row adds."""
    base = {
        RecoveryStep.DETECT: (0.0, 0.6, 0.6, 0.6, 0.6, 8.0),
        RecoveryStep.DEPLOY: (0.0, 0.0, 0.0, 0.0, 0.0, 13.0),
        RecoveryStep.READ_SNAPSHOT: (0.0, 0.0, 0.0, 0.0, 0.3, 0.3),
        RecoveryStep.WIRE_RECEIVE: (0.0, 0.0, 0.0, 2.5, 3.0, 6.0),
        RecoveryStep.WIRE_SEND: (0.25,) * len(TIERS),
        RecoveryStep.REPLAY: (0.0, 1.0, 3.5, 4.5, 4.5, 15.0),
        RecoveryStep.FIRST_COMMIT: (0.0,) * len(TIERS),  # in the replay
    }
    per_size = {RecoveryStep.READ_SNAPSHOT: 1.5e-8, RecoveryStep.REPLAY: 5e-5}
    slope = np.array([[per_size.get(step, 0.0) for step in STEPS]] * len(TIERS))
    none = np.zeros_like(slope)
    base_by_tier = np.array([base[step] for step in STEPS]).T
    return Bounds(
        base=base_by_tier,
        slope=slope,
        largest=np.full_like(slope, np.inf),
        beyond=none,
        unsure=none,
        samples=np.ones_like(slope),
    )


_WINDOW_SECONDS = 600.0
_REQUESTS_PER_SNAPSHOT, _REQUESTS_PER_SYNC = 2.0, 4.0

MEASURED = System(
    tick_seconds=5.0,
    policy=ControllerPolicy(least_margin=0.1),
    recoveries=MeasuredRecoveries(bounds=_usual_bounds()),
    overheads=MeasuredOverheads(
        shares=ASSUMED_SHARES,
        new_share_per_second=1 / _WINDOW_SECONDS,
        requests_per_snapshot=_REQUESTS_PER_SNAPSHOT,
        requests_per_sync=_REQUESTS_PER_SYNC,
    ),
    work=Work(
        cpu_cores=0.5,
        cpu_seconds_per_row=1e-4,
        memory_bytes=1.2e9,
        memory_per_state_byte=3.0,
        network_bytes_per_row=1500.0,
        capacity_rows_per_second=20_000.0,
    ),
    usual_rows_per_second=2_000.0,
    state=SlidingWindow(window_seconds=_WINDOW_SECONDS, bytes_per_row=100.0),
    snapshot_every=(10.0,),
    sync_every=(10.0,),
    ship_seconds=1.0,
    sync_seconds=0.5,
    epoch_seconds=1.0,
    change_seconds=40.0,
    learns_seconds=60.0,
    spread=0.25,
    looks_ahead=True,
)
"""Holdfast on a machine with two cores: round figures near the results of its failover benchmark, and the
fallback for what was never measured in a project."""


def build_measured_system(inputs: StreamInputs, model: RecoveryModel) -> System:
    """Holdfast as measured on one stream; values of 0 (not measured) are taken from `MEASURED`."""
    rows = float(inputs.load.rows_per_second) or MEASURED.usual_rows_per_second
    window = MEASURED.state.window_seconds
    state_bytes = float(inputs.load.state_bytes) or rows * MEASURED.state.bytes_per_rate
    state = SlidingWindow(window_seconds=window, bytes_per_row=state_bytes / rows / window)
    return replace(
        MEASURED,
        recoveries=MeasuredRecoveries(
            bounds=_complete_bounds(inputs.fit.bounds),
            model=model,
            calibration=inputs.fit.calibration,
        ),
        overheads=MeasuredOverheads(
            shares=inputs.shares,
            new_share_per_second=inputs.new_state_bytes_per_second / state_bytes or 1 / window,
            requests_per_snapshot=inputs.requests_per_snapshot or _REQUESTS_PER_SNAPSHOT,
            requests_per_sync=inputs.requests_per_sync or _REQUESTS_PER_SYNC,
        ),
        work=MEASURED.work.scale_to(
            inputs.primary,
            rows_per_second=rows,
            state_bytes=state_bytes,
            capacity_rows_per_second=float(inputs.load.capacity_rows_per_second),
        ),
        usual_rows_per_second=rows,
        state=state,
        snapshot_every=tuple(inputs.snapshot_every),
        sync_every=tuple(inputs.sync_every),
        ship_seconds=inputs.ship_seconds or MEASURED.ship_seconds,
        sync_seconds=inputs.sync_seconds or MEASURED.sync_seconds,
        epoch_seconds=float(inputs.load.epoch_seconds),
        batch_seconds=float(inputs.load.batch_seconds),
        longest_batch_seconds=float(inputs.load.longest_batch_seconds),
    )


def thesis_recoveries(step_timings: StepTimings, *, count_detection: bool) -> ThesisRecoveries:
    """Recoveries of one stream by the thesis' model; a step that was never measured takes its usual time."""
    usual, at = _usual_bounds(), STEPS.index(RecoveryStep.READ_SNAPSHOT)
    unmeasured = {
        step: (Observation(seconds=seconds),)
        for step, seconds in zip(STEPS, usual.base.max(axis=0).tolist(), strict=True)
    }
    read = Observation(seconds=1.0, size=1.0 / float(usual.slope[-1, at]))
    return ThesisRecoveries(
        step_timings=StepTimings(
            steps={step: step_timings.steps.get(step) or unmeasured[step] for step in STEPS},
            writes=step_timings.writes or (read,),
        ),
        model=ThesisModel(count_detection=count_detection),
    )


def _complete_bounds(measured: Bounds) -> Bounds:
    usual, is_measured = _usual_bounds(), measured.samples > 0
    has_sent = is_measured[:, STEPS.index(RecoveryStep.WIRE_SEND)]
    is_processed = (measured.base == 0) & (PROCESSES & has_sent)[:, np.newaxis]
    is_measured = is_measured | is_processed
    return Bounds(
        **{
            bound.name: np.where(
                is_measured, getattr(measured, bound.name), getattr(usual, bound.name)
            )
            for bound in fields(Bounds)
        }
    )
