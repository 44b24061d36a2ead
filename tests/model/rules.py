"""The rules that a planted bug turns off, one at a time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the product does; each rule that is `False` is a planted bug."""

    adopt_compares_input: bool = True
    """A replica that finds its epoch in the table compares the input, and enters it as the table has it."""
    entry_compares_input: bool = True
    """The ledger refuses an epoch that was computed from other input than the epoch log has now."""
    reader_compares_input: bool = True
    """A replica continues only from the decision that it has read."""
    ledger_in_order: bool = True
    """The ledger takes no epoch before the one before it."""
    table_has_transactions: bool = True
    """The table refuses an epoch that it has."""
    rollback_closes_history: bool = True
    """A table that was rolled back refuses the older history."""
    first_proposal_wins: bool = True
    """The epoch log keeps its first decision."""
    ships_only_what_was_sent: bool = True
    """A new primary ships no snapshot before all epochs that it held back are out."""


PRODUCT = Rules()
