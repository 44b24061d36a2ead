"""A process of Dagster that ends is started again."""

import socket
from dataclasses import dataclass, field
from time import monotonic

import pytest
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._grpc.client import DagsterGrpcClient

from holdfast.ft_policies.errors import PermanentError
from holdfast.ft_policies.services import RestartPolicy
from holdfast.orchestration.services.supervisor import (
    PING_SECONDS,
    UNANSWERED_PINGS,
    CodeServer,
    Member,
)
from tests.fakes.clocks import SteppedClock


@dataclass
class FakeProcess:
    code: int | None = None

    def poll(self) -> int | None:
        return self.code


@dataclass
class Starts:
    """Every process that was started."""

    processes: list[FakeProcess] = field(default_factory=list)

    def start(self) -> FakeProcess:
        self.processes.append(FakeProcess())
        return self.processes[-1]


def a_member(clock: SteppedClock, starts: Starts) -> Member:
    return Member("daemon", starts.start, policy=RestartPolicy(), clock=clock)


def test_a_process_that_dies_is_started_again_after_a_pause() -> None:
    clock, starts = SteppedClock(), Starts()
    member = a_member(clock, starts)
    clock.step(600)
    starts.processes[-1].code = -9

    member.keep_running()
    assert len(starts.processes) == 1
    clock.step(1)
    member.keep_running()

    assert len(starts.processes) == 2


def test_the_pause_doubles_up_to_a_minute_and_begins_again_after_a_steady_run() -> None:
    policy = RestartPolicy()

    assert [policy.pause(ends) for ends in (1, 2, 3, 7, 1000)] == [1, 2, 4, 60, 60]
    assert policy.count(5, ran_seconds=3) == 6
    assert policy.count(5, ran_seconds=3600) == 1


def test_a_process_that_dies_again_and_again_is_started_ever_more_slowly() -> None:
    clock, starts = SteppedClock(), Starts()
    member = a_member(clock, starts)
    clock.step(600)
    for _ in range(600):
        starts.processes[-1].code = 1
        member.keep_running()
        clock.step(1)

    assert 10 < len(starts.processes) < 20


def test_a_first_start_that_fails_ends_the_service() -> None:
    clock, starts = SteppedClock(), Starts()
    member = a_member(clock, starts)
    clock.step(3)
    starts.processes[-1].code = 1

    with pytest.raises(PermanentError, match="daemon ended with code 1"):
        member.keep_running()


@dataclass
class FakeCodeServer:
    """A code server behind a proxy, which can start it again."""

    answers: bool = True
    reloads: int = 0
    hung_seconds: float = 0.0

    def get_server_id(self, timeout: int) -> str:
        if not self.answers:
            self.hung_seconds += timeout
            raise DagsterUserCodeUnreachableError("no answer")
        return "id"

    def reload_code(self, timeout: int) -> None:
        self.reloads += 1
        self.answers = True
        raise DagsterUserCodeUnreachableError("the old one cannot be asked to end")


def test_a_code_server_that_is_killed_is_started_again() -> None:
    client = FakeCodeServer()
    server = CodeServer("holdfast", client)
    server.keep_answering()
    client.answers = False
    for _ in range(UNANSWERED_PINGS - 1):
        server.keep_answering()
    assert client.reloads == 0
    server.keep_answering()
    assert client.reloads == 1
    for _ in range(2 * UNANSWERED_PINGS):
        server.keep_answering()
    assert client.reloads == 1


def test_a_code_server_that_hangs_is_started_again_within_the_time_that_operators_read() -> None:
    client = FakeCodeServer(answers=False)
    server = CodeServer("holdfast", client)
    for _ in range(UNANSWERED_PINGS):
        server.keep_answering()
    assert client.reloads == 1
    assert client.hung_seconds + UNANSWERED_PINGS * PING_SECONDS == 45.0, "docs/operations.md"


def test_dagsters_client_gives_up_on_a_server_that_accepts_and_never_answers() -> None:
    with socket.create_server(("localhost", 0)) as hung:
        client = DagsterGrpcClient(port=hung.getsockname()[1])
        began = monotonic()
        with pytest.raises(DagsterUserCodeUnreachableError):
            client.get_server_id(1)
    assert monotonic() - began < 60.0, "it waits for ever without a limit"


def test_single_pings_without_an_answer_start_nothing() -> None:
    client = FakeCodeServer()
    server = CodeServer("holdfast", client)
    for _ in range(2 * UNANSWERED_PINGS):
        client.answers = False
        server.keep_answering()
        client.answers = True
        server.keep_answering()
    assert client.reloads == 0
