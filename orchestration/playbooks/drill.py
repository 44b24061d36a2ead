"""The drill, performed: the primary of a live stream is struck on purpose, and timed until it is back."""

import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from assets.reports.drills import reports_of
from ft_policies.drill import (
    CUT_OFF_SECONDS,
    PLAYBOOK,
    AwaitBack,
    Blow,
    Decline,
    Observed,
    Predicted,
    Recover,
    Release,
    Report,
    Step,
    Strike,
    Struck,
    foreseen,
    next_step,
)
from ft_policies.errors import PermanentError, TransientError
from ft_policies.health import Health
from orchestration.incidents import open_recovery
from orchestration.playbooks.drill_journal import (
    Begun,
    disturbed_at,
    unfinished,
    waited,
)
from orchestration.playbooks.drill_outcome import DrillOutcome, close_incident, outcome_of
from orchestration.playbooks.leaving import await_leave
from orchestration.playbooks.performing import Journaled, Performed, perform
from orchestration.playbooks.recover import Recovery
from orchestration.playbooks.watching import Watch
from orchestration.reviewing import decide_now
from resources.control.records import ReplicaRow
from streaming.observing import StreamSeen
from streaming.processes import process_of
from streaming.replica.fault_injection import block_object_store
from streaming.world import World

BY_ITSELF_SECONDS = 30.0  # a sensor's tick and the start of a run, if there is no secondary
HEALED_SECONDS = 120.0  # from the end of a cut until a snapshot is in the object store again


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """One drill on one stream; one that somebody else left half done is finished first."""

    world: World
    stream: str
    run: str
    blow: Blow = Blow.KILL
    cut_off_seconds: float = CUT_OFF_SECONDS
    beyond_budget: bool = False
    beat: Callable[[], None] = lambda: None

    def steps(self) -> Iterator[Performed[Step]]:
        """Yield each step once it has been carried out, until the drill is reported."""
        journal = Journaled(
            store=self.world.store, stream=self.stream, playbook=PLAYBOOK, run=self.run
        )
        return perform(lambda: next_step(self.observed()), self._act, journal)

    def plan(self) -> list[Step]:
        """What it would do, as far as one look can tell."""
        return foreseen(self.observed())

    def observed(self) -> Observed:
        """The stream, and how far its drill has come."""
        seen = self._watch.look()
        drill = unfinished(self.world, self.stream, at=seen.at)
        incident, primary = open_recovery(self.world, self.stream), seen.primary
        elsewhere = primary is not None and process_of(primary) is None
        return Observed(
            blow=self.blow,
            wanted=seen.wanted,
            verdict=seen.verdict,
            primary=None if primary is None else primary.id,
            host=primary.host if primary is not None and elsewhere else None,
            tier=seen.tier,
            covered=seen.covered,
            needs_nothing=seen.needs_nothing,
            incident=None if incident is None else incident.id,
            overdrawn=None if self.beyond_budget else self._overdrawn(seen.at),
            predicted=self._predicted(seen) if drill is None else Predicted(),
            struck=None if drill is None else self._struck(drill),
            back=drill is not None and self._is_back(seen, drill),
            reported=self._is_reported(),
        )

    def _act(self, step: Step) -> Mapping[str, Any]:
        match step:
            case Decline():
                raise PermanentError(
                    f"{self.stream} is left alone: {step.reason}",
                    hint="a drill is for a stream that is well; `holdfast status` tells how it is, "
                    "and `drills` in its declaration how often it may be disturbed",
                )
            case Strike():
                return self._strike(step)
            case AwaitBack():
                return self._await_back()
            case Recover():
                done = Recovery(
                    world=self.world, stream=self.stream, run=self.run, beat=self.beat
                ).steps()
                return {"did": ", ".join(f"{one.name} {one.seconds:.2f} s" for one in done)}
            case Release():
                return self._release(step)
            case Report():
                return self._report().facts()

    def _strike(self, step: Strike) -> Mapping[str, Any]:
        row, last = self._row(step.primary), self.world.store.ledger.last(self.stream)
        process = process_of(row)
        epoch = -1 if last is None else last.epoch
        match step.blow:
            case Blow.CUT_OFF:
                until = block_object_store(Path(row.folder), seconds=self.cut_off_seconds)
                return {"epoch": epoch, "blocked_until": until}
            case Blow.KILL if process is not None:
                process.kill()
            case Blow.PAUSE if process is not None:
                process.send(signal.SIGSTOP)
        return {"epoch": epoch}

    def _await_back(self) -> Mapping[str, Any]:
        drill = self._drill()
        if drill.blow is Blow.CUT_OFF:
            return self._await_healed(drill)
        lease = self.world.project.stream(self.stream).supervision.lease
        patience = BY_ITSELF_SECONDS + 2 * lease
        back = self._watch.until(
            lambda seen: not seen.wanted or self._is_back(seen, drill),
            patience_seconds=patience,
            progress=lambda seen: seen.primary and (seen.primary.id, seen.primary.progressed_at),
        )
        return {"by_itself": back}

    def _await_healed(self, drill: Begun) -> Mapping[str, Any]:
        now = self._watch.look().at
        patience = max(_cut_until(drill) - now, 0.0) + HEALED_SECONDS
        if self._watch.until(
            lambda seen: not seen.wanted or self._is_back(seen, drill), patience_seconds=patience
        ):
            return {"by_itself": True}
        raise TransientError(
            f"no snapshot of {self.stream} is {HEALED_SECONDS:.0f} s younger than the cut",
            hint=f"does the object store answer? See `holdfast logs {self.stream}`, then run the "
            "drill again: it goes on from here",
        )

    def _release(self, step: Release) -> Mapping[str, Any]:
        process = process_of(self._row(step.primary))
        if process is not None:
            process.send(signal.SIGCONT)
        return await_leave(self.world, step.primary, beat=self.beat)

    def _report(self) -> DrillOutcome:
        drill = self._drill()
        told = outcome_of(self._watch, drill, blocked_until=_cut_until(drill))
        close_incident(self.world, self.stream, told, since_at=drill.at)
        return told

    def _is_back(self, seen: StreamSeen, drill: Begun) -> bool:
        """Whether another primary is level; after a cut, whether snapshots are shipped again."""
        if seen.primary is None or seen.verdict.health is not Health.HEALTHY:
            return False
        if drill.blow is not Blow.CUT_OFF:
            return seen.primary.id != drill.primary
        newest = self.world.store.snapshots.newest(self.stream)
        return newest is not None and (newest.created_at or 0.0) > _cut_until(drill)

    def _struck(self, drill: Begun) -> Struck:
        row = self._row(drill.primary)
        process = process_of(row)
        alive = process is not None and process.is_alive()
        return Struck(
            primary=drill.primary,
            blow=drill.blow,
            landed=drill.found(Strike) is not None or row.state.ended,
            waited=waited(drill),
            lingers=drill.blow is Blow.PAUSE and alive,
        )

    def _predicted(self, seen: StreamSeen) -> Predicted:
        decision = decide_now(self.world, self.stream)
        tier = next(one for one in decision.tiers if one.tier is seen.covered)
        steps = {step.value: took for step, took in tier.steps.items() if isfinite(took)}
        return Predicted(seconds=tier.seconds if isfinite(tier.seconds) else None, steps=steps)

    def _overdrawn(self, at: float) -> str | None:
        budget = self.world.project.stream(self.stream).drills.budget()
        since = at - budget.period_seconds
        ages = [at - one for one in disturbed_at(self.world, self.stream, since_at=since)]
        return budget.objection(ages)

    def _is_reported(self) -> bool:
        return any(one.run == self.run for one in reports_of(self.world, self.stream))

    def _drill(self) -> Begun:
        drill = unfinished(self.world, self.stream, at=self.world.store.now())
        if drill is None:
            raise TransientError(
                f"somebody else has finished the drill of {self.stream}",
                hint="run it again for another one",
            )
        return drill

    def _row(self, replica: str) -> ReplicaRow:
        row = self.world.store.replicas.get(replica)
        assert row is not None, "a replica that was struck is known"  # noqa: S101
        return row

    @property
    def _watch(self) -> Watch:
        return Watch(world=self.world, stream=self.stream, began_at=0.0, beat=self.beat)


def _cut_until(drill: Begun) -> float:
    return float((drill.found(Strike) or {}).get("blocked_until", 0.0))
