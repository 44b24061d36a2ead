"""The guard of spare capacity: it gives way to a busy host, and comes back to a calm one."""

from holdfast.ft_policies.driver import SpareCapacityPolicy
from holdfast.streaming.replica.host import SpareCapacityGuard
from tests.fakes.clocks import SteppedClock

POLICY = SpareCapacityPolicy(pause_above=0.9, resume_below=0.7, after_seconds=5, queue_epochs=10)


class Host:
    """A guard on a host whose load a test sets."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.load = 0.0
        self.queue = 0
        self.guard = SpareCapacityGuard(POLICY, load=lambda: self.load, clock=self.clock)

    def after(self, seconds: int) -> bool:
        for _ in range(seconds):
            self.clock.step(1.0)
            self.guard.is_paused(lambda: self.queue)
        return self.guard.paused


def test_it_pauses_only_on_a_host_that_stays_busy() -> None:
    host = Host()
    host.load = 1.0
    assert not host.after(4)
    host.load = 0.8
    assert not host.after(2)
    host.load = 1.0
    assert not host.after(5)
    assert host.after(2)


def test_it_resumes_only_on_a_host_that_stays_calm() -> None:
    host = Host()
    host.load = 1.0
    assert host.after(7)
    host.load = 0.8  # between the two: as it was
    assert host.after(20)
    host.load = 0.1
    assert host.after(4)
    assert not host.after(4)


def test_it_pauses_at_once_when_too_much_queues() -> None:
    host = Host()
    host.queue = 11
    assert host.after(1)


def test_it_does_not_look_more_often_than_it_has_to() -> None:
    host = Host()
    looks = 0

    def queued() -> int:
        nonlocal looks
        looks += 1
        return 0

    for _ in range(100):
        host.clock.step(0.01)
        host.guard.is_paused(queued)
    assert looks <= 2
