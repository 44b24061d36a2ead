"""The recover playbook: bring a stream back. Starting a stream is the same thing."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ft_policies.errors import PermanentError, TransientError
from ft_policies.health import Health
from ft_policies.recovery import (
    AwaitEnd,
    AwaitLevel,
    Fence,
    GiveUp,
    Launch,
    Step,
    next_step,
)
from ft_policies.tiers import OFF
from orchestration.playbooks.performing import Journaled, Performed, perform
from resources.clock import SYSTEM_CLOCK
from resources.control.records import DesiredState, ReplicaState
from streaming.launching import declare, launch_primary
from streaming.observing import StreamSeen, observe
from streaming.world import World

LOOK_SECONDS = 0.25
STEP_SAMPLES = (
    "t_deploy_seconds",
    "t_read_snapshot_seconds",
    "t_wire_receive_seconds",
    "t_replay_seconds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One recovery of one stream."""

    world: World
    stream: str
    run: str
    incident: str | None = None
    beat: Callable[[], None] = lambda: None

    def steps(self) -> Iterator[Performed[Step]]:
        """Yield each step once it has been carried out, until the stream is well."""
        journal = Journaled(
            store=self.world.store,
            stream=self.stream,
            playbook="recover",
            run=self.run,
            incident=self.incident,
        )
        return perform(lambda: next_step(self._look().observed()), self._act, journal)

    def _look(self) -> StreamSeen:
        self.beat()
        return observe(self.world, self.stream)

    def _act(self, step: Step) -> Mapping[str, Any]:
        match step:
            case Fence():
                return self._fence(step)
            case Launch():
                return self._launch()
            case AwaitLevel():
                return self._await_level(step)
            case AwaitEnd():
                self.world.store.replicas.desire(step.primary, OFF)
                self._await(lambda seen: seen.verdict.health is not Health.STOPPING)
                return {}
            case GiveUp():
                self.world.store.streams.desire(self.stream, DesiredState.STOPPED)
                raise PermanentError(
                    f"{self.stream} is stopped: {step.reason}",
                    hint=f"mend the cause, then `holdfast start {self.stream}`",
                )

    def _fence(self, step: Fence) -> Mapping[str, Any]:
        store = self.world.store
        lease = store.leases.get(self.stream)
        fenced = (
            lease is not None
            and lease.holder == step.primary
            and store.leases.fence(self.stream, token=step.token)
        )
        store.replicas.end(step.primary, ReplicaState.FENCED, step.reason)
        return {"lease_taken": fenced}

    def _launch(self) -> Mapping[str, Any]:
        self.world.ensure_object_store()
        row = launch_primary(self.world.project, self.world.store, self.stream)
        return {"replica": None if row is None else row.id}

    def _await_level(self, step: AwaitLevel) -> Mapping[str, Any]:
        waits = (Health.STARTING, Health.REPLAYING, Health.WAITING)
        self._await(lambda seen: seen.verdict.health not in waits)
        latest = self.world.store.samples.latest(self.stream)
        return {
            name: latest[name].value
            for name in STEP_SAMPLES
            if name in latest and latest[name].replica == step.primary
        }

    def _await(self, over: Callable[[StreamSeen], bool]) -> None:
        supervision = self.world.project.stream(self.stream).supervision
        patience = supervision.start_within + supervision.stuck_after
        deadline = SYSTEM_CLOCK.monotonic() + patience
        while not over(self._look()):
            if SYSTEM_CLOCK.monotonic() > deadline:
                raise TransientError(
                    f"{self.stream} is not level after {patience:.0f} s",
                    hint="it may have much to replay: look again, or at `holdfast logs`",
                )
            SYSTEM_CLOCK.sleep(LOOK_SECONDS)


def start(world: World, stream: str, run: str) -> Iterator[Performed[Step]]:
    """Declare a stream, want it to run, and bring it up."""
    world.ensure_object_store()
    declare(world.project, world.store, stream)
    world.store.streams.desire(stream, DesiredState.RUNNING)
    return Recovery(world=world, stream=stream, run=run).steps()
