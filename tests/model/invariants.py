"""What must hold: no epoch is lost, doubled or computed from other input.

After the control store has lost a commit, the epoch log may differ from what a replica has read before. The table has
each row once all the same, and a difference must have become an incident by the time the stream is at rest: a restore
closes it.
"""

from itertools import pairwise

from tests.model.state import Bound, State


def find_violation(state: State) -> str | None:
    """What is wrong in this state; `None` if nothing is."""
    wrong = _find_doubled(state) or _find_hole(state) or _find_wrong_entry(state)
    if wrong is not None:
        return wrong
    return _find_lost_rows(state) if state.losses else _find_other_input(state)


def find_violation_at_rest(state: State, bound: Bound) -> str | None:
    """What is wrong once nothing more happens."""
    if state.losses and state.incidents == ("input_differs",):
        return None
    if state.losses and not state.incidents:
        return _find_incomplete(state, bound)
    if state.incidents:
        return f"incidents {', '.join(state.incidents)}"
    return _find_incomplete(state, bound)


def _find_doubled(state: State) -> str | None:
    epochs = [commit.epoch for commit in state.table.commits]
    return next(
        (f"epoch {one} is in the table twice" for one, two in pairwise(epochs) if one == two), None
    )


def _find_other_input(state: State) -> str | None:
    log = state.store.log
    for epoch, _, output in state.table.commits:
        if epoch < len(log) and output != log[: epoch + 1]:
            return f"epoch {epoch} was computed from {output}, the epoch log has {log}"
    return None


def _find_wrong_entry(state: State) -> str | None:
    for epoch, entry in enumerate(state.store.ledger):
        if entry is None:
            return f"the ledger goes on without epoch {epoch}"
        if entry.output[-1] != state.store.decided(epoch):
            return f"the entry of epoch {epoch} was computed from {entry.output[-1]}"
    return None


def _find_lost_rows(state: State) -> str | None:
    slices = [commit.output[-1] for commit in state.table.commits]
    for (_, end), (start, _) in pairwise([(0, 0), *slices]):
        if start != end:
            return f"after row {end} the table continues with row {start}: {slices}"
    return None


def _find_hole(state: State) -> str | None:
    log = state.store.log
    for number, (one, two) in enumerate(pairwise(log)):
        if one[1] != two[0]:
            return f"epoch {number + 1} starts at row {two[0]}, epoch {number} ends at {one[1]}"
    return None


def _find_incomplete(state: State, bound: Bound) -> str | None:
    store = state.store
    leads = any(replica.leading for replica in state.replicas)
    if not leads:
        given_up = state.launched >= bound.launches or not store.wanted
        return None if given_up else "the stream should run, and no replica leads it"
    if len(store.log) < bound.epochs and not state.losses:
        return f"epoch {len(store.log)} was never decided"
    for epoch, (first, end) in enumerate(store.log):
        if store.entry(epoch) is None and not state.losses:
            return f"epoch {epoch} is not in the ledger"
        if first < end and state.table.commit_of(epoch) is None:
            return f"epoch {epoch} is not in the table"
    return None
