"""What must hold: no epoch is lost, doubled or computed from other input.

No fault excuses a doubled, lost or reordered row in the table, or an entry in the ledger of other input than is decided.
A control store that has lost a commit may excuse one thing: that the stream stands still. Then the incident
`input_differs` is open, the recovery runs have given the stream up, and nothing was written since the incident but what was under way.
"""

from itertools import pairwise

from tests.model.orchestration import gives_up
from tests.model.state import Bound, State

EXCUSED = "input_differs"


def find_violation(state: State) -> str | None:
    """What is wrong in this state; `None` if nothing is."""
    wrong = _find_doubled(state) or _find_lost_rows(state) or _find_hole(state)
    wrong = wrong or _find_wrong_entry(state)
    return wrong if wrong or state.losses else _find_other_input(state)


def find_violation_at_rest(state: State, bound: Bound) -> str | None:
    """What is wrong once nothing more happens."""
    if state.losses and _has_stopped(state, bound):
        return None
    kinds = [
        incident.kind
        for incident in state.incidents
        if not (state.losses and incident.kind == EXCUSED)
    ]
    if kinds:
        return f"incidents {', '.join(kinds)}"
    return _find_incomplete(state, bound) or _find_other_input(state)


def _has_stopped(state: State, bound: Bound) -> bool:
    """Whether the stream stands still with the one incident that excuses it, and has written nothing since."""
    if {incident.kind for incident in state.incidents} != {EXCUSED} or state.stop is None:
        return False
    commits, entries = len(state.table.commits), len(state.store.ledger)
    silent = commits <= state.stop.commits and entries <= state.stop.entries
    return silent and not state.replicas and gives_up(state, bound)


def _find_doubled(state: State) -> str | None:
    epochs = [commit.epoch for commit in state.table.commits]
    return next(
        (
            f"epoch {epoch} is in the table twice"
            for epoch, following in pairwise(epochs)
            if epoch == following
        ),
        None,
    )


def _find_other_input(state: State) -> str | None:
    log = state.store.log
    for epoch, _, output in state.table.commits:
        if output != log[: epoch + 1]:
            return f"epoch {epoch} was computed from {output}, the epoch log has {log}"
    return None


def _find_wrong_entry(state: State) -> str | None:
    for epoch, entry in enumerate(state.store.ledger):
        if entry is None:
            return f"the ledger goes on without epoch {epoch}"
        if entry[-1] != state.store.decided(epoch):
            return f"the entry of epoch {epoch} was computed from {entry[-1]}"
    return None


def _find_lost_rows(state: State) -> str | None:
    slices = [commit.output[-1] for commit in state.table.commits]
    for (_, end), (start, _) in pairwise([(0, 0), *slices]):
        if start != end:
            return f"after row {end} the table continues with row {start}: {slices}"
    return None


def _find_hole(state: State) -> str | None:
    log = state.store.log
    for number, (entry, following) in enumerate(pairwise(log)):
        if entry[1] != following[0]:
            return f"epoch {number + 1} starts at row {following[0]}, epoch {number} ends at {entry[1]}"
    return None


def _find_incomplete(state: State, bound: Bound) -> str | None:
    store = state.store
    if not any(replica.leading for replica in state.replicas):
        return "the stream should run, and no replica leads it"
    if len(store.log) < bound.epochs_of(state):
        return f"epoch {len(store.log)} was never decided"
    committed = {commit.epoch for commit in state.table.commits}
    for epoch, (first, end) in enumerate(store.log):
        if store.entry(epoch) != store.log[: epoch + 1]:
            return f"epoch {epoch} is not in the ledger as it was decided"
        if first < end and epoch not in committed:
            return f"epoch {epoch} is not in the table"
    return None
