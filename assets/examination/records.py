"""Reading epoch log, ledger and output table side by side.

An epoch is in the table before it is in the ledger. So the ledger is read before the table, to tell
what is entered and not written, and again after it, to tell what is written and not entered.
"""

from collections.abc import Sequence

from assets.examination.table import Written, examine_table
from assets.tables import AUDITED_EPOCHS
from configs.stream import StreamDeclaration
from ft_policies.doctor.facts import NOTHING, RecordFacts
from resources.control.records import Epoch, LedgerEntry
from resources.project import Project


def examine_records(world: Project, declared: StreamDeclaration) -> RecordFacts:
    """Hold epoch log, ledger and table against each other, as far back as audits do."""
    store, stream = world.store, declared.name
    last = _number(store.ledger.last(stream))
    entries = store.ledger.between(stream, max(0, last - AUDITED_EPOCHS), last)
    written = examine_table(world, declared)
    last_decided = _number(store.epochs.last(stream))
    found = store.ledger.audit(stream)
    undecided, unknown = store.auditing.undecided(stream), store.auditing.unknown(stream)
    commits = {} if written is None else written.commits
    without_entry = {*found.holes, *found.uncommitted}
    beyond = [epoch for epoch in commits if epoch > last_decided]
    return RecordFacts(
        last_decided=last_decided,
        last_entered=_number(store.ledger.last(stream)),
        newest_written=NOTHING if written is None else written.newest,
        undecided=tuple(undecided),
        unknown=tuple(sorted({*unknown, *beyond})),
        missing=tuple(epoch for epoch in found.holes if epoch not in commits),
        unentered=tuple(commits[epoch] for epoch in sorted(commits) if epoch in without_entry),
        unwritten=() if written is None else _unwritten(entries, written),
    )


def _unwritten(entries: Sequence[LedgerEntry], written: Written) -> tuple[int, ...]:
    known = [entry for entry in entries if entry.rows and entry.epoch >= written.first]
    return tuple(entry.epoch for entry in known if entry.epoch not in written.commits)


def _number(last: Epoch | LedgerEntry | None) -> int:
    return NOTHING if last is None else last.epoch
