"""The searches: what the operator does in each, and how many epochs, launches and faults it allows.

A restore or a migration meets one fault of each kind, in a search of its own, while the third epoch is processed.
"""

from tests.model.rules import Rules
from tests.model.state import Bound

FAULTS = ("kill", "lose", "read_only", "jump")
REQUESTS = (
    "restore",
    "migrate interruption_free",
    "migrate replay",
    "migrate legacy",
)

SMALL = {
    "each fault": Bound(epochs=2, done=1, launches=2, faults=1),
    "lost commit of a dead primary": Bound(
        epochs=1, launches=2, faults=2, kinds=("kill the first", "lose")
    ),
    "lost commit and a kill": Bound(epochs=2, done=1, launches=2, faults=2, kinds=("kill", "lose")),
    "two hosts": Bound(epochs=2, launches=2, faults=1, kinds=("kill", "pause"), one_host=False),
    "stuck": Bound(epochs=1, launches=2, faults=1, kinds=("hang",)),
    "stuck, jump": Bound(epochs=1, launches=2, faults=1, kinds=("hang", "jump")),
    "switch": Bound(epochs=2, launches=2, faults=0, request="switch active_replication"),
    "migrate": Bound(epochs=1, launches=3, faults=0, request="migrate interruption_free"),
    "migrate legacy, kill": Bound(
        epochs=1, done=1, launches=2, faults=1, kinds=("kill",), request="migrate legacy"
    ),
    "restore": Bound(epochs=2, launches=2, faults=0, request="restore"),
    "restore, lose": Bound(
        epochs=1, done=1, launches=2, faults=1, kinds=("lose",), request="restore"
    ),
}
FULL = {
    "each fault": Bound(epochs=3, done=1, launches=2, faults=1),
    "lost commit of a dead primary": Bound(
        epochs=3, done=1, launches=2, faults=2, kinds=("kill the first", "lose")
    ),
    "lost commit and a kill": Bound(epochs=3, done=1, launches=2, faults=2, kinds=("kill", "lose")),
    "pause and kill": Bound(epochs=3, done=1, launches=2, faults=2, kinds=("kill", "pause")),
    "stuck": Bound(epochs=3, done=1, launches=2, faults=1, kinds=("hang",)),
    "two hosts": Bound(epochs=3, done=1, launches=2, faults=1, one_host=False),
    "relaunch": Bound(epochs=3, done=1, launches=3, faults=1, kinds=("kill",)),
    **{
        f"{request}, kill or pause": Bound(
            epochs=3, done=1, launches=2, faults=1, kinds=("kill", "pause"), request=request
        )
        for request in ("switch active_replication", "switch deployed")
    },
    **{
        request: Bound(epochs=3, done=1, launches=3, faults=0, request=request)
        for request in REQUESTS
    },
    **{
        f"{request}, {fault}": Bound(
            epochs=3,
            done=2,
            launches=2 if request == "restore" else 3,
            faults=1,
            kinds=(fault,),
            request=request,
        )
        for request in REQUESTS
        for fault in FAULTS
    },
}

PLANTED = {
    "an epoch is adopted without comparing its input": Bound(
        epochs=2,
        launches=2,
        faults=2,
        kinds=("kill the first", "lose"),
        rules=Rules(adopt_compares_input=False),
    ),
    "an entry without comparing its input": Bound(
        epochs=2,
        launches=2,
        faults=2,
        kinds=("kill", "lose"),
        rules=Rules(entry_compares_input=False),
    ),
    "an epoch that is continued from without comparing its input": Bound(
        epochs=2,
        launches=2,
        faults=2,
        kinds=("kill", "lose"),
        rules=Rules(reader_compares_input=False),
    ),
    "a ledger that takes an epoch before the one before it": Bound(
        epochs=2, launches=2, faults=1, kinds=("lose",), rules=Rules(ledger_in_order=False)
    ),
    "a commit without application transaction": Bound(
        epochs=1, launches=2, kinds=("pause",), rules=Rules(table_has_transactions=False)
    ),
    "a table rolled back that accepts the older history": Bound(
        epochs=2,
        launches=3,
        faults=0,
        request="restore",
        rules=Rules(rollback_closes_history=False),
    ),
    "an epoch log that takes the last proposal": Bound(
        epochs=1, launches=2, faults=0, rules=Rules(first_proposal_wins=False)
    ),
    "a snapshot with epochs that are not out": Bound(
        epochs=2,
        launches=3,
        faults=2,
        kinds=("kill",),
        rules=Rules(ships_only_what_was_sent=False),
    ),
}
"""Product rules turned off, one at a time, each within a bound that is wide enough to show it."""
