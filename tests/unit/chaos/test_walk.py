"""What a chaos run does with its options, and how it tells when a fault fell; no stream is started."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.ft_policies.tiers import Tier
from holdfast.resources.control_store.records import JournalLine, Phase
from tests.chaos import walk
from tests.chaos.chaos_run import ChaosRun
from tests.chaos.faults import describe_moment


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[tuple[str, str]]]:
    """Run chaos without streams; the value is which faults fell in which part."""
    fell: list[tuple[str, str]] = []

    def on_a_stream(
        _: ChaosRun, part: str, tier: Tier, body: Callable[[Any], None], *, both_send: bool
    ) -> None:
        body(None)

    def fault(_: walk.Chaos, stream: None, tier: Tier, struck: Any, *rest: Any) -> None:
        fell.append((rest[-1], struck.__name__))

    monkeypatch.setenv("PYTHONPATH", "")  # a run sets it
    monkeypatch.setattr(ChaosRun, "on_a_stream", on_a_stream)
    monkeypatch.setattr(walk.Chaos, "_inject", fault)

    def chaos(*options: str) -> list[tuple[str, str]]:
        assert walk.main(["--folder", str(tmp_path / "chaos"), "--changes", "0", *options]) == 0
        return fell

    return chaos


def test_without_kills_the_other_faults_are_still_injected(run: Callable[..., Any]) -> None:
    assert run("--kills", "0", "--tiers", "deployed") == [
        ("deployed", "pause_primary"),
        ("deployed", "kill_secondary"),
        ("deployed", "kill_both"),
    ]


def test_kills_come_first(run: Callable[..., Any]) -> None:
    faults = run("--kills", "2", "--tiers", "deployed")
    assert [name for _, name in faults[:3]] == ["kill_primary", "kill_primary", "pause_primary"]


def test_without_tiers_there_is_none_of_it(run: Callable[..., Any]) -> None:
    assert run("--tiers") == []


@pytest.mark.parametrize(
    ("phase", "sentence"),
    [
        (Phase.INTENT, "in TurnSwitch"),
        (Phase.DONE, "after TurnSwitch"),
        (Phase.FAILED, "after TurnSwitch"),
    ],
)
def test_a_fault_that_came_too_late_is_described_as_such(phase: Phase, sentence: str) -> None:
    line = JournalLine(
        id=1,
        stream="words",
        playbook="switch",
        run="r",
        incident=None,
        step="TurnSwitch",
        phase=phase,
        at=0.0,
        seconds=None,
    )
    assert describe_moment(line) == sentence
