"""The operator: one switch, migration or restore in a run, at any time; a restore a step at a time."""

from collections.abc import Iterator

from holdfast.ft_policies.playbooks import restore as restoring, stop as stopping
from holdfast.streaming.sinks.ledger_writer import CLOSED_BY_RESTORE
from tests.model import store as rule
from tests.model.replica import Step
from tests.model.rules import Rules
from tests.model.state import CLOSED, Bound, State, Table
from tests.model.store import PRIMARY


def operator_steps(state: State, bound: Bound) -> Iterator[Step]:
    """The one thing that the operator does in a run: switch, migrate or restore, at any time."""
    kind, _, what = state.request.partition(" ")
    match kind:
        case "switch":
            store = state.store._replace(tier=what)
            yield f"the operator switches to {what}", state._replace(store=store, request="")
        case "migrate":
            begun = rule.Migration(state.store.rollout + 1, what)
            store = state.store._replace(migration=begun)
            yield "the operator migrates", state._replace(store=store, request="deadline")
        case "deadline" if state.store.migration is not None:
            late = state.store.migration._replace(overdue=True)
            store = state.store._replace(migration=late)
            yield "the migration is overdue", state._replace(store=store, request="")
        case "restore" if what:
            yield from _restore(state, bound.rules)
        case "restore":
            for epoch in range(len(state.store.ledger)):
                store = rule.request_restore(state.store, epoch)
                yield (
                    f"the operator restores to epoch {epoch}",
                    state._replace(store=store, request="restore begun"),
                )


def _restore(state: State, rules: Rules) -> Iterator[Step]:
    store, table = state.store, state.table
    restore, lease, primary = store.restore, store.lease, store.live(PRIMARY)
    if restore is None:
        yield "the operator finds the request lost", state._replace(request="")
        return
    facts = restoring.RestoreFacts(
        history=restore.history,
        epoch=restore.epoch,
        was_running=restore.was_running,
        wanted=store.wanted,
        lives=bool(store.rows),
        begun=restore.begun,
        marked=restore.begun and len(state.snapshot) <= restore.epoch + 1,
        rolled=restore.begun and restore.history < len(table.versions),
        finished=restore.finished,
        caught_up=primary is not None and lease is not None and lease.holder == primary.id,
    )
    step = restoring.next_step(facts)
    if step is None:
        yield "the restore ends", state._replace(request="")
    elif not isinstance(step, restoring.StartStream):  # the recovery runs do that
        yield f"a restore does: {step.name}", _act_restore(state, step, restore, rules)


def _act_restore(
    state: State, step: restoring.RestoreStep, restore: rule.Restore, rules: Rules
) -> State:
    store = state.store
    match step:
        case restoring.StopStream():
            return state._replace(
                store=rule.stop_for_restore(store) if store.wanted else _stop(store)
            )
        case restoring.BeginHistory() if not restore.closed:
            return state._replace(store=rule.close_history(store)[0])
        case restoring.BeginHistory():
            return state._replace(store=rule.begin_history(store)[0])
        case restoring.MarkSnapshots():
            return state._replace(snapshot=state.snapshot[: restore.epoch + 1])
        case restoring.RollOutput():
            return state._replace(table=roll_output(state.table, restore, rules))
        case _:
            return _close_incidents(state._replace(store=rule.finish_restore(store)), restore.epoch)


def _stop(store: rule.Store) -> rule.Store:
    """One step of the stop playbook; a replica that does not leave is ended by force, its process may live on."""
    live = tuple(
        stopping.LiveReplica(id=row.id, primary=row.slot == PRIMARY, asked=not row.desired)
        for row in store.rows
    )
    match stopping.next_step(stopping.StopFacts(wanted=store.wanted, live=live)):
        case stopping.RequestExit(name):
            return store._replace(
                rows=tuple(
                    row._replace(desired=()) if row.id == name else row for row in store.rows
                )
            )
        case stopping.AwaitExit(name):
            return rule.end(store, name)
        case None:
            return store


def _close_incidents(state: State, epoch: int) -> State:
    """Those about an epoch that is computed again from here on."""
    left = tuple(
        incident
        for incident in state.incidents
        if incident.kind not in CLOSED_BY_RESTORE or incident.epoch <= epoch
    )
    return state._replace(incidents=left, stop=state.stop if left else None)


def roll_output(table: Table, restore: rule.Restore, rules: Rules) -> Table:
    """One commit undoes the later epochs, closes the older history and opens the new one."""
    kept = tuple(commit for commit in table.commits if commit.epoch <= restore.epoch)
    older = CLOSED if rules.rollback_closes_history else table.versions[-1]
    return Table((*table.versions[:-1], older, restore.epoch), kept)
