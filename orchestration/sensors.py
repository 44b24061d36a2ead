"""The sensor that has failed streams recovered, and the object store under them brought back.

It looks and asks; the work is in runs. Anything it writes (incidents) it may write again, so ticks
may be lost or repeated and several daemons may look at once.
"""

import dagster as dg

from assets.worlds import Worlds
from ft_policies.errors import TransientError
from orchestration.incidents import DueRecovery, due_recoveries
from orchestration.jobs import ensure_object_store
from orchestration.recovering import RecoverConfig, recover_stream
from orchestration.reporting import CAUSE_TAG, INCIDENT_TAG, STREAM_TAG
from resources.control.records import DesiredState
from streaming.world import World

TICK_SECONDS = 5
OBJECT_STORE_BUCKET_SECONDS = 20.0


@dg.sensor(
    minimum_interval_seconds=TICK_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    jobs=[recover_stream, ensure_object_store],
    description="Has a stream recovered whose primary is dead, silent, stuck or missing: one run per "
    "incident. Also has the embedded object store restarted if it died under a running stream.",
)
def recovery_sensor(worlds: dg.ResourceParam[Worlds]) -> dg.SensorResult:
    """Ask for the runs that are due."""
    try:
        with worlds.open() as world:
            requests = [_recovery(due) for due in due_recoveries(world)]
            requests += _object_store(world)
    except TransientError as error:
        return dg.SensorResult(skip_reason=f"{error} ({error.hint})")
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else "nothing needs a run",
    )


def _recovery(due: DueRecovery) -> dg.RunRequest:
    incident = due.incident
    return dg.RunRequest(
        run_key=due.run_key,
        job_name=recover_stream.name,
        run_config=dg.RunConfig(
            ops={"recover": RecoverConfig(stream=incident.stream, incident=incident.id)}
        ),
        tags={
            STREAM_TAG: incident.stream,
            INCIDENT_TAG: incident.id,
            CAUSE_TAG: str(incident.detail.get("health", "unknown")),
        },
    )


def _object_store(world: World) -> list[dg.RunRequest]:
    """A run, and not the sensor, starts it: that may take longer than a tick has, and shows.

    Starting it twice is harmless (one file lock), so the key only keeps ticks from piling up runs.
    """
    embedded = world.embedded_s3()
    wanted = any(row.desired is DesiredState.RUNNING for row in world.store.streams.all())
    if embedded is None or not wanted or embedded.alive():
        return []
    bucket = int(world.store.now() // OBJECT_STORE_BUCKET_SECONDS)
    return [
        dg.RunRequest(
            run_key=f"object-store-{bucket}",
            job_name=ensure_object_store.name,
            tags={CAUSE_TAG: "object_store_down"},
        )
    ]
