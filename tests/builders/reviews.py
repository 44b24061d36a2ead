"""A stream under review, and what its driver has measured."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from holdfast.ft_policies.tiering.candidates import Candidates, StreamInputs
from holdfast.ft_policies.tiering.controller import Choice
from holdfast.ft_policies.tiers import Mode, Tier
from holdfast.observation.review import Reviewer
from holdfast.resources.control_store.records import DecisionRow, LedgerEntry, Sample
from holdfast.resources.control_store.sample_names import SampleName
from holdfast.resources.control_store.schema import streams, tier_changes
from holdfast.resources.project import Project
from tests.builders.streams import CLICKS, PATIENT, a_primary, a_wanted_stream
from tests.fakes.projects import SimulatedProject, simulated_projects

AT_ONCE = {"mode": "auto", "cool_down": "1ms", "dwell": "1ms"}
QUICK = {"heartbeat": "0.1s", "lease": "0.2s"}
STEPS = {
    SampleName.DEPLOY_SECONDS: 8.0,
    SampleName.READ_SNAPSHOT_SECONDS: 1.0,
    SampleName.READ_SNAPSHOT_BYTES: 300.0,
    SampleName.WIRE_RECEIVE_SECONDS: 3.0,
    SampleName.WIRE_SEND_SECONDS: 0.1,
    SampleName.REPLAY_SECONDS: 2.0,
    SampleName.REPLAY_ROWS: 100.0,
}
REVIEWER = Reviewer()
"""One for all tests, as in the sensor: what it keeps must not change a decision."""
USE = {SampleName.CPU_CORES: 0.8, SampleName.RSS_BYTES: 2e9}


@contextmanager
def a_reviewed_project(
    root: Path, *, objective: str, **changes: object
) -> Iterator[SimulatedProject]:
    """A stream that runs and has committed an epoch, of which nothing was measured yet."""
    changes = {"controller": AT_ONCE, "supervision": PATIENT, **changes}
    projects = simulated_projects(root, objective={"recovery_time": objective}, **changes)
    with projects.open() as project:
        a_wanted_stream(project)
        a_primary(project, "p")
        project.store.ledger.commit(
            LedgerEntry(stream=CLICKS, epoch=0, replica="p", token=1, rows=1, digest="d")
        )
        yield project


def record_measurements(
    project: Project,
    stream: str = CLICKS,
    *,
    by: str = "p",
    samples: dict[str, float] | None = None,
) -> None:
    """Each step once, in a driver that was launched for it; or what is given."""
    at = project.store.now() - 1.0
    project.store.samples.write(
        [
            Sample(stream=stream, replica=by, name=name, value=value, epoch=9, at=at)
            for name, value in (samples or {**STEPS, **USE}).items()
        ]
    )


def review_streams(project: Project) -> list[tuple[Candidates, Choice]]:
    """What the reviewer makes of the streams now."""
    return REVIEWER.review(project, project.store.decisions.latest_of_all())


def stream_inputs_of(project: Project) -> StreamInputs:
    """The only stream, as the review sees it now."""
    [(candidates, _)] = review_streams(project)
    [inputs] = candidates.streams
    return inputs


def age_last_change(project: Project) -> None:
    """All streams have been as they are since the beginning of time."""
    with project.store._database.write() as connection:
        connection.execute(sa.update(streams).values(changed_at=0.0))
        connection.execute(sa.update(tier_changes).values(at=0.0))


def record_decision_by_hand(project: Project, tier: Tier) -> None:
    """A decision with a record that cannot be read."""
    project.store.decisions.write(
        DecisionRow(stream=CLICKS, mode=Mode.AUTO, chosen=tier, reason="by hand", record={})
    )
