"""What must hold of a live stream after whatever was done to it."""

from holdfast.observation.tables import open_table
from tests.support.live_stream import NAME, LiveStream


def demand_exact_output(stream: LiveStream, *, both_send: bool = False) -> None:
    """Stop the stream and hold everything it left behind against what it must have left.

    Unless two replicas were to send at a time, one replica has committed under each token.
    """
    stream.stop()
    proof = stream.prove()
    assert proof.holds, (proof.faults(), stream.story())
    audit = stream.world.store.ledger.audit(NAME)
    assert not audit.holes, audit
    assert not audit.disagreements, audit
    senders = senders_by_token(stream)
    assert both_send or all(len(replicas) == 1 for replicas in senders.values()), senders
    stream.wait(lambda: not stream.left(), "end of all its processes", 30)


def senders_by_token(stream: LiveStream) -> dict[int, set[str]]:
    """Which replicas have committed epochs to the table, by the token that they had."""
    table = open_table(stream.world, NAME)
    assert table is not None
    senders: dict[int, set[str]] = {}
    for commit in table.history():
        if "holdfast.token" in commit:
            senders.setdefault(int(commit["holdfast.token"]), set()).add(commit["holdfast.replica"])
    return senders
