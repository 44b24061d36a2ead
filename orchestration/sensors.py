"""The sensors that act: failed streams are recovered, a dead object store is brought back.

They look and ask; the work is in runs. What they write (incidents) they may write again, so ticks
may be lost or repeated and several daemons may look at once. There are two of them, side by side
(`sensors.use_threads` in `dagster.yaml`), so that an object store that answers slowly never delays a
recovery.
"""

import dagster as dg

from assets.worlds import Worlds
from ft_policies.errors import TransientError
from orchestration.incidents import DueRecovery, due_recoveries
from orchestration.jobs import ensure_object_store
from orchestration.recovering import RecoverConfig, recover_stream
from orchestration.reporting import CAUSE_TAG, INCIDENT_TAG, STREAM_TAG
from resources.control.records import DesiredState, JsonObject
from streaming.world import World

# Dagster's daemon looks every 5 s, at the sensors in any order. A sensor that asks for 5 s itself is
# passed over whenever its turn comes a moment earlier in the round than it did before.
TICK_SECONDS = 3
OBJECT_STORE_BUCKET_SECONDS = 20.0


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
