import pytest

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.snapshots import CheckpointPolicy, Hold, Ship

EITHER = CheckpointPolicy(epochs=10, seconds=60.0, bytes=1000)


@pytest.mark.parametrize(
    ("epochs", "seconds", "size", "reason"),
    [(10, 0.0, 0, "10 epochs"), (1, 60.0, 0, "60 s"), (1, 0.0, 1000, "1 kB")],
)
def test_the_first_limit_reached_ships(epochs: int, seconds: float, size: int, reason: str) -> None:
    decision = EITHER.decide(epochs_since=epochs, seconds_since=seconds, bytes_since=size)
    assert isinstance(decision, Ship)
    assert reason in decision.reason


def test_below_all_limits_it_holds() -> None:
    assert isinstance(EITHER.decide(epochs_since=9, seconds_since=59.9, bytes_since=999), Hold)


def test_without_a_new_epoch_there_is_nothing_to_ship() -> None:
    assert isinstance(EITHER.decide(epochs_since=0, seconds_since=1e9, bytes_since=10**9), Hold)


def test_a_limit_left_out_is_never_reached() -> None:
    policy = CheckpointPolicy(bytes=10)
    assert isinstance(policy.decide(epochs_since=10**6, seconds_since=1e9, bytes_since=9), Hold)


def test_a_policy_without_any_limit_is_refused() -> None:
    with pytest.raises(PermanentError, match="at least one"):
        CheckpointPolicy()


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(PermanentError, match="positive"):
        CheckpointPolicy(epochs=0)
