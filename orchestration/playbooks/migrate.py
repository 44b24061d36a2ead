"""The migrate playbook: brings a running stream to its current declaration.

The request is a row. This run, or if it dies a run of the recovery sensor, carries out the same steps: those
of the recover playbook.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.ft_policies.errors import PermanentError, TransientError
from holdfast.ft_policies.playbooks.recover.compatibility import needs_trial
from holdfast.ft_policies.playbooks.recover.migration import MigrationFacts, Protocol
from holdfast.ft_policies.playbooks.recover.steps import RecoverFacts, RecoverStep
from holdfast.orchestration.playbooks.declaration import require_survivable
from holdfast.orchestration.playbooks.launch import require_folder, to_json
from holdfast.orchestration.playbooks.migrate_trial import require_compatible_state
from holdfast.orchestration.playbooks.recover import Recover
from holdfast.resources.control_store.records import Migration, StreamRow
from holdfast.resources.project import Project

WITHIN_SECONDS = 300.0
UNCHANGED = "correct the declaration, and try again; nothing was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRequest:
    """How to migrate a stream, within which time, and why."""

    protocol: Protocol = Protocol.INTERRUPTION_FREE
    within_seconds: float = WITHIN_SECONDS
    may_differ: bool = False
    """Whether the new code may compute another output for the same input."""
    again: bool = False
    """Whether to migrate although the declaration is the same: its code has changed."""
    why: str = "requested"


@dataclass(kw_only=True)
class Migrate(Recover):
    """Migrate a running stream to its current declaration; raises if the migration was rolled back.

    It continues an open migration to the same target.
    """

    name: ClassVar = "migrate"
    request: MigrationRequest = MigrationRequest()
    _nothing_to_do: bool = field(default=False, init=False)
    _migration: Migration | None = field(default=None, init=False)

    def begin(self) -> None:
        row, target = self._declarations()
        migration = self.project.store.migrations.open(self.stream)
        self._nothing_to_do = migration is None and self._is_applied(row, target)
        if self._nothing_to_do:
            return
        self._migration = migration or self._record(row, target)
        self._require_same(self._migration, target)
        super().begin()

    def preview(self) -> RecoverFacts:
        """The facts of the migration; the trial of the target is included if there is a snapshot for it."""
        row, target = self._declarations()
        facts, migration = super().preview(), self.project.store.migrations.open(self.stream)
        facts = replace(facts, secondary_failures_in_a_row=0)
        if migration is not None:
            self._require_same(migration, target)
            return facts
        self._nothing_to_do = self._is_applied(row, target)
        if self._nothing_to_do:
            return facts
        self._preflight(row, target, may_request_snapshot=False)
        number, protocol = facts.desired_migration + 1, self.request.protocol
        planned = MigrationFacts(number=number, protocol=protocol, before=facts.desired_migration)
        return replace(facts, migration=planned, desired_migration=number)

    def decide(self, facts: RecoverFacts) -> RecoverStep | None:
        return None if self._nothing_to_do else super().decide(facts)

    def conclude(self) -> None:
        if self._migration is not None:
            _require_done(self.project, self._migration)

    def _record(self, row: StreamRow, target: StreamDeclaration) -> Migration:
        """Record the request after a preflight; another run may have been first."""
        self._preflight(row, target, may_request_snapshot=True)
        request, migrations = self.request, self.project.store.migrations
        begun = migrations.begin(
            stream=target.name,
            target=to_json(target),
            tier=target.tier,
            protocol=request.protocol,
            within_seconds=request.within_seconds,
            may_differ=request.may_differ,
            why=request.why,
            run=self.run,
        )
        begun = begun or migrations.open(target.name)
        if begun is None:
            raise TransientError(
                f"another migration of {target.name} has just ended",
                hint="check its outcome, and try again",
            )
        return begun

    def _require_same(self, migration: Migration, target: StreamDeclaration) -> None:
        """Refuse to continue a migration that is not the requested one."""
        request = self.request
        same = migration.target == to_json(target) and migration.protocol is request.protocol
        if not same or migration.may_differ is not request.may_differ:
            raise PermanentError(
                f"another migration of {target.name} is under way: {migration.protocol}, {migration.why}",
                hint=f"run `holdfast recover {target.name}` to finish it, then migrate",
            )

    def _declarations(self) -> tuple[StreamRow, StreamDeclaration]:
        """The declaration that the stream runs, and the current one; raises if the stream does not run."""
        config, stream = self.project.config, self.stream
        target, row = config.stream(stream), self.project.store.streams.get(stream)
        if row is None or not row.is_desired:
            raise PermanentError(
                f"{stream} cannot be migrated: it does not run",
                hint=f"run `holdfast start {stream}`: it starts with the current declaration",
            )
        return row, config.resolve_paths(target)

    def _is_applied(self, row: StreamRow, target: StreamDeclaration) -> bool:
        """Whether the stream runs its current declaration, and its code was not reported as changed."""
        same = StreamDeclaration.model_validate(row.declaration) == target
        return same and not self.request.again

    def _preflight(
        self, row: StreamRow, target: StreamDeclaration, *, may_request_snapshot: bool
    ) -> None:
        """Refuse a target that the stream would not survive, before anything is changed."""
        request = self.request
        require_survivable(row, target, done="migrated", hint=UNCHANGED)
        require_folder(self.project.config, target)
        if request.again or needs_trial(row.declaration, to_json(target)):
            require_compatible_state(
                self.project,
                target,
                self.run,
                may_differ=request.may_differ,
                may_request_snapshot=may_request_snapshot,
            )


def _require_done(project: Project, migration: Migration) -> None:
    for row in project.store.migrations.history(migration.stream):
        if row.rollout == migration.rollout and not row.done:
            raise PermanentError(
                f"{row.stream} was not migrated: {row.outcome or 'it was stopped meanwhile'}",
                hint=f"run `holdfast logs {row.stream}` for the cause; the stream still runs its former declaration",
            )
