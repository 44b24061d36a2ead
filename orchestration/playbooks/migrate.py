"""The migrate playbook: what is declared now for a stream that runs by an older declaration.

The request is a row. This run, or after its death the recovery sensor's, does the same steps towards it:
they are the recover playbook's.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from holdfast.configs.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.playbooks.recover.compatibility import needs_trial
from holdfast.ft_policies.playbooks.recover.migration import MigrationFacts, Protocol
from holdfast.ft_policies.playbooks.recover.steps import RecoverFacts, RecoverStep
from holdfast.orchestration.playbooks.declaration import require_survivable
from holdfast.orchestration.playbooks.launch import demand_folder, written
from holdfast.orchestration.playbooks.migrate_trial import require_compatible_state
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.resources.control_store.records import DesiredState, Rollout, StreamRow
from holdfast.resources.project import Project

WITHIN_SECONDS = 300.0
UNCHANGED = "nothing was changed; the stream goes on as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRequest:
    """How a stream is to be migrated, within what time, and why."""

    protocol: Protocol = Protocol.INTERRUPTION_FREE
    within_seconds: float = WITHIN_SECONDS
    may_differ: bool = False
    """Whether the new code may put out something else for the same input."""
    again: bool = False
    """Whether to migrate though the declaration is the same: its code is not."""
    why: str = "asked for"


@dataclass(kw_only=True)
class Migrate(Recover):
    """Bring what is declared now to a running stream; an error says why it was rolled back.

    A migration that is under way with the same target is gone on with.
    """

    name: ClassVar = "migrate"
    request: MigrationRequest = MigrationRequest()
    _nothing_to_do: bool = field(default=False, init=False)
    _rollout: Rollout | None = field(default=None, init=False)

    def begin(self) -> None:
        known, target = self._declarations()
        rollout = self.world.store.rollouts.open(self.stream)
        self._nothing_to_do = rollout is None and self._is_applied(known, target)
        if self._nothing_to_do:
            return
        self._rollout = rollout or self._record(known, target)
        self._require_same(self._rollout, target)
        super().begin()

    def preview(self) -> RecoverFacts:
        """The target is tried, too, unless the stream had to be asked for a snapshot first."""
        known, target = self._declarations()
        facts, rollout = super().preview(), self.world.store.rollouts.open(self.stream)
        facts = replace(facts, secondary_failures_in_a_row=0)
        if rollout is not None:
            self._require_same(rollout, target)
            return facts
        self._nothing_to_do = self._is_applied(known, target)
        if self._nothing_to_do:
            return facts
        self._preflight(known, target, may_ask=False)
        number, protocol = facts.rollout + 1, self.request.protocol
        migration = MigrationFacts(rollout=number, protocol=protocol, before=facts.rollout)
        return replace(facts, migration=migration, rollout=number)

    def decide(self, facts: RecoverFacts) -> RecoverStep | None:
        return None if self._nothing_to_do else super().decide(facts)

    def conclude(self) -> None:
        if self._rollout is not None:
            _require_done(self.world, self._rollout)

    def _record(self, known: StreamRow, target: StreamDeclaration) -> Rollout:
        """The request, recorded after a preflight, or another run's that was first."""
        self._preflight(known, target, may_ask=True)
        request, rollouts = self.request, self.world.store.rollouts
        begun = rollouts.begin(
            stream=target.name,
            target=written(target),
            tier=target.tier,
            protocol=request.protocol,
            within_seconds=request.within_seconds,
            may_differ=request.may_differ,
            why=request.why,
            run=self.run,
        )
        begun = begun or rollouts.open(target.name)
        if begun is None:
            raise TransientError(
                f"another migration of {target.name} has just ended",
                hint="look at it, and try again",
            )
        return begun

    def _require_same(self, rollout: Rollout, target: StreamDeclaration) -> None:
        """Refuse to go on with a migration that is not the requested one."""
        request = self.request
        same = rollout.target == written(target) and rollout.protocol is request.protocol
        if not same or rollout.may_differ is not request.may_differ:
            raise PermanentError(
                f"another migration of {target.name} is under way: {rollout.protocol}, {rollout.why}",
                hint=f"`holdfast recover {target.name}` sees it through; then migrate",
            )

    def _declarations(self) -> tuple[StreamRow, StreamDeclaration]:
        """What the stream runs by, and what is written now."""
        project, stream = self.world.config, self.stream
        target, known = project.stream(stream), self.world.store.streams.get(stream)
        if known is None or known.desired is not DesiredState.RUNNING:
            raise PermanentError(
                f"{stream} does not run, so there is nothing to migrate",
                hint=f"`holdfast start {stream}` starts it by what is declared now",
            )
        return known, project.resolve_paths(target)

    def _is_applied(self, known: StreamRow, target: StreamDeclaration) -> bool:
        """Whether the stream runs by what is written, and its code is not said to be other."""
        same = StreamDeclaration.model_validate(known.declaration) == target
        return same and not self.request.again

    def _preflight(self, known: StreamRow, target: StreamDeclaration, *, may_ask: bool) -> None:
        """Refuse what the stream would not survive, before anything of it is touched."""
        request = self.request
        require_survivable(known, target, done="migrated", hint=UNCHANGED)
        demand_folder(self.world.config, target)
        if request.again or needs_trial(known.declaration, written(target)):
            require_compatible_state(
                self.world, target, self.run, may_differ=request.may_differ, may_ask=may_ask
            )


def _require_done(world: Project, rollout: Rollout) -> None:
    for row in world.store.rollouts.history(rollout.stream):
        if row.rollout == rollout.rollout and not row.done:
            raise PermanentError(
                f"{row.stream} was not migrated: {row.outcome or 'it was stopped meanwhile'}",
                hint="the stream goes on as it was declared before; "
                f"`holdfast logs {row.stream}` tells what kept the target",
            )
