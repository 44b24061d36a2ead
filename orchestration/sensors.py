"""The sensors that act: failed streams are recovered, tiers reviewed, a dead object store brought back.

They look and ask; the work is in runs. What they write (incidents) they may write again, so ticks
may be lost or repeated and several daemons may look at once. They run side by side
(`sensors.use_threads` in `dagster.yaml`), so that neither a review nor an object store that answers
slowly delays a recovery.
"""

import dagster as dg

from assets.worlds import Worlds
from ft_policies.errors import TransientError
from orchestration.incidents import DueRecovery, due_recoveries
from orchestration.jobs import SwitchConfig, ensure_object_store, switch_tier
from orchestration.minding import due_switches
from orchestration.recovering import RecoverConfig, recover_stream
from orchestration.reporting import CAUSE_TAG, INCIDENT_TAG, STREAM_TAG
from resources.control.decisions import DecisionRow
from resources.control.records import DesiredState, JsonObject
from streaming.world import World

# Dagster's daemon looks every 5 s, at the sensors in any order. A sensor that asks for 5 s itself is
# passed over whenever its turn comes a moment earlier in the round than it did before.
TICK_SECONDS = 3
OBJECT_STORE_BUCKET_SECONDS = 20.0
REVIEW_SECONDS = 10


# Jobs are targeted by name: for a job itself Dagster would rebuild the sensor and warn of itself.
@dg.sensor(
    job_name=recover_stream.name,
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Has a stream recovered whose primary is dead, silent, stuck or missing, and its tier "
    "restored when the secondary is lost: one run per incident, no matter how many ticks or daemons.",
)
def recovery_sensor(worlds: dg.ResourceParam[Worlds]) -> dg.SensorResult:
    """Ask for the recoveries that are due."""
    try:
        with worlds.open() as world:
            requests = [_recovery(due) for due in due_recoveries(world)]
    except TransientError as error:
        return dg.SensorResult(skip_reason=f"{error} ({error.hint})")
    skipped = None if requests else "no recovery is due"
    return dg.SensorResult(run_requests=requests, skip_reason=skipped)


@dg.sensor(
    job_name=ensure_object_store.name,
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Has the embedded object store restarted if it died while streams should run.",
)
def object_store_sensor(worlds: dg.ResourceParam[Worlds]) -> dg.SensorResult:
    """Ask for the object store to be brought back.

    A run, and not the sensor, starts it: that may take longer than a tick has, and shows. Starting
    it twice is harmless (one file lock), so the key only keeps ticks from piling up runs.
    """
    try:
        with worlds.open() as world:
            down, bucket = _is_down(world), int(world.store.now() // OBJECT_STORE_BUCKET_SECONDS)
    except TransientError as error:
        return dg.SensorResult(skip_reason=f"{error} ({error.hint})")
    if not down:
        return dg.SensorResult(skip_reason="it serves, or is not needed")
    request = dg.RunRequest(run_key=f"object-store-{bucket}", tags={CAUSE_TAG: "object_store_down"})
    return dg.SensorResult(run_requests=[request])


@dg.sensor(
    job_name=switch_tier.name,
    minimum_interval_seconds=REVIEW_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reviews the tiers of all streams: predicts, prices, decides, and has those in mode "
    "`auto` switched. Each change of mind is kept with its reasons.",
)
def tier_review_sensor(worlds: dg.ResourceParam[Worlds]) -> dg.SensorResult:
    """Ask for the switches that are due."""
    try:
        with worlds.open() as world:
            requests = [_switch(due.decision, due.run_key) for due in due_switches(world)]
    except TransientError as error:
        return dg.SensorResult(skip_reason=f"{error} ({error.hint})")
    skipped = None if requests else "every stream has what it should have"
    return dg.SensorResult(run_requests=requests, skip_reason=skipped)


def _switch(decided: DecisionRow, run_key: str) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=run_key,
        run_config=dg.RunConfig(
            ops={
                "switch": SwitchConfig(
                    stream=decided.stream, tier=decided.chosen.value, why=decided.reason
                )
            }
        ),
        tags={STREAM_TAG: decided.stream, CAUSE_TAG: "tier_review"},
    )


def _recovery(due: DueRecovery) -> dg.RunRequest:
    incident = due.incident
    return dg.RunRequest(
        run_key=due.run_key,
        run_config=dg.RunConfig(
            ops={"recover": RecoverConfig(stream=incident.stream, incident=incident.id)}
        ),
        tags={
            STREAM_TAG: incident.stream,
            INCIDENT_TAG: incident.id,
            CAUSE_TAG: _cause(incident.detail),
        },
    )


def _cause(detail: JsonObject) -> str:
    return str(detail.get("cause") or detail.get("health") or "unknown")


def _is_down(world: World) -> bool:
    embedded = world.embedded_s3()
    wanted = any(row.desired is DesiredState.RUNNING for row in world.store.streams.all())
    return embedded is not None and wanted and not embedded.alive()
