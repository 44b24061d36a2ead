"""The sensors that act: failed streams are recovered, tiers reviewed, a dead object store brought back.

They look and ask; the work is in runs. What they write (incidents) they may write again, so ticks
may be lost or repeated and several daemons may look at once. They run side by side
(`sensors.use_threads` in `dagster.yaml`), so that neither a review nor an object store that answers
slowly delays a recovery.
"""

from collections.abc import Callable

import dagster as dg

from holdfast.assets.project_resource import Worlds
from holdfast.ft_policies.errors import TransientError
from holdfast.observation.review import Reviewer
from holdfast.orchestration.incidents import DueRecovery, due_recoveries
from holdfast.orchestration.jobs.base import CAUSE_TAG, INCIDENT_TAG, STREAM_TAG
from holdfast.orchestration.jobs.lifecycle import SwitchConfig, ensure_object_store, switch_tier
from holdfast.orchestration.jobs.recovery import RecoverConfig, recover_stream
from holdfast.orchestration.sensors.tier_review import DueSwitch, due_switches
from holdfast.resources.control_store.records import DesiredState, JsonObject
from holdfast.resources.project import Project

# Dagster's daemon looks every 5 s, at the sensors in any order. A sensor that asks for 5 s itself is
# passed over whenever its turn comes a moment earlier in the round than it did before.
TICK_SECONDS = 3
OBJECT_STORE_BUCKET_SECONDS = 20.0
REVIEW_SECONDS = 10
_REVIEWER = Reviewer()


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
    return _asked(worlds, _recoveries, otherwise="no recovery is due")


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
    return _asked(worlds, _object_store, otherwise="it serves, or is not needed")


@dg.sensor(
    job_name=switch_tier.name,
    minimum_interval_seconds=REVIEW_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reviews the tiers of all streams: predicts recovery times and costs, decides, and "
    "requests the switches of streams in mode `auto`. Each new decision is recorded with its reasons.",
)
def tier_review_sensor(worlds: dg.ResourceParam[Worlds]) -> dg.SensorResult:
    """Ask for the switches that are due."""
    return _asked(worlds, _switches, otherwise="no switch is due")


def _asked(
    worlds: Worlds, requests: Callable[[Project], list[dg.RunRequest]], *, otherwise: str
) -> dg.SensorResult:
    """The runs that are due, or why there are none; a control store that is away is a skipped tick."""
    try:
        with worlds.open() as world:
            found = requests(world)
    except TransientError as error:
        return dg.SensorResult(skip_reason=f"{error} ({error.hint})")
    return dg.SensorResult(run_requests=found, skip_reason=None if found else otherwise)


def _recoveries(world: Project) -> list[dg.RunRequest]:
    return [_recovery(due) for due in due_recoveries(world)]


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


def _object_store(world: Project) -> list[dg.RunRequest]:
    if not _is_down(world):
        return []
    bucket = int(world.store.now() // OBJECT_STORE_BUCKET_SECONDS)
    return [dg.RunRequest(run_key=f"object-store-{bucket}", tags={CAUSE_TAG: "object_store_down"})]


def _is_down(world: Project) -> bool:
    embedded = world.embedded_s3()
    wanted = any(row.desired is DesiredState.RUNNING for row in world.store.streams.all())
    return embedded is not None and wanted and not embedded.alive()


def _switches(world: Project) -> list[dg.RunRequest]:
    return [_switch(due) for due in due_switches(world, _REVIEWER)]


def _switch(due: DueSwitch) -> dg.RunRequest:
    decided = due.decision
    wanted = SwitchConfig(stream=decided.stream, tier=decided.chosen.value, why=decided.reason)
    return dg.RunRequest(
        run_key=due.run_key,
        run_config=dg.RunConfig(ops={"switch": wanted}),
        tags={STREAM_TAG: decided.stream, CAUSE_TAG: "tier_review"},
    )
