"""The recent runs of playbooks that change a stream, read from the journal, and the step under way."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.ft_policies.playbooks.recover.steps import switch_change
from holdfast.ft_policies.timings import BETWEEN_STEPS_SECONDS
from holdfast.resources.control_store.records import JournalLine, Phase
from holdfast.resources.control_store.store import ControlStore

CHANGING = ("switch", "recover", "migrate")
LINES = 200
ABOUT = ("secondary", "primary", "replica")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step of a playbook: under way, done or failed, since `at`."""

    step: str
    about: str
    phase: Phase
    at: float
    seconds: float | None
    failure: str = ""

    @property
    def outcome(self) -> Phase:
        """The phase to show: a step that failed is failed, also if the run went on."""
        return Phase.FAILED if self.failure else self.phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One run of a playbook that changes the replicas of a stream."""

    playbook: str
    run: str
    began_at: float
    steps: list[StepRecord] = field(default_factory=list)

    @property
    def current_step(self) -> StepRecord | None:
        """The step that has an intent in the journal and no result yet."""
        return self.steps[-1] if self.steps and self.steps[-1].phase is Phase.INTENT else None


def recent_changes(store: ControlStore, stream: str) -> list[Change]:
    """The newest runs of the playbooks in `CHANGING`; the run that wrote last comes last."""
    return _group_by_run(store.journal.of(stream, limit=LINES))


def find_current_change(changes: list[Change], *, at: float) -> Change | None:
    """Find the change whose last step is under way or was done just now.

    The run may be dead or have no step left: the age of the step shows it, and whether the stream is
    settled.
    """
    if not changes:
        return None
    last = changes[-1].steps[-1]
    between = last.phase is Phase.DONE and at - last.at < BETWEEN_STEPS_SECONDS
    return changes[-1] if between or last.phase is Phase.INTENT else None


def step_subject(step: Mapping[str, Any]) -> str:
    """`receive on` for a step that turns a switch, otherwise the replica that it is about."""
    change = switch_change(step)
    if change is not None:
        return str(change)
    return str(next((step[key] for key in ABOUT if step.get(key)), ""))


def _group_by_run(lines: Iterable[JournalLine]) -> list[Change]:
    """Group journal lines by run; the runs are in the order of their last lines."""
    runs: dict[str, Change] = {}
    for line in lines:
        if line.playbook not in CHANGING:
            continue
        change = runs.pop(line.run, None) or Change(
            playbook=line.playbook, run=line.run, began_at=line.at
        )
        if line.phase is not Phase.INTENT and change.current_step is not None:
            change.steps.pop()
        change.steps.append(_step(line))
        runs[line.run] = change
    return list(runs.values())


def _step(line: JournalLine) -> StepRecord:
    return StepRecord(
        step=line.step,
        about=step_subject(line.detail),
        phase=line.phase,
        at=line.at,
        seconds=line.seconds,
        failure=line.failure,
    )
