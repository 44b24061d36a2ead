"""Who chooses the tier: what a declaration says, and what it means where it says nothing."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast.configs.declarations.stream import StreamDeclaration
from holdfast.configs.loading import load_file
from holdfast.ft_policies.tiering.controller import ControllerPolicy
from holdfast.ft_policies.tiers import Mode, Tier
from tests.builders.projects import STREAM, a_declaration, stream_yaml

NARROW = {"min": "20s", "max": "1m"}


def without_tier(**changes: object) -> StreamDeclaration:
    fields = {name: value for name, value in STREAM.items() if name != "tier"}
    return StreamDeclaration.model_validate(fields | changes)


def test_who_names_a_tier_means_it_and_who_names_none_leaves_the_choice() -> None:
    assert a_declaration().controller.mode is Mode.PINNED
    left = without_tier(controller={"cool_down": "2m"})
    assert (left.controller.mode, left.controller.cool_down) == (Mode.AUTO, 120.0)
    assert left.tier is Tier.PASSIVE_REPLICATION


@pytest.mark.parametrize("mode", Mode)
def test_a_mode_that_is_named_counts(mode: Mode) -> None:
    assert a_declaration(controller={"mode": mode.value}).controller.mode is mode
    assert without_tier(controller={"mode": mode.value}).controller.mode is mode


def test_what_is_stored_says_the_mode() -> None:
    for declared in (a_declaration(), without_tier()):
        stored = declared.model_dump(mode="json", by_alias=True)
        assert stored["controller"]["mode"] == declared.controller.mode.value
        assert StreamDeclaration.model_validate(stored) == declared
        assert StreamDeclaration.model_validate_json(json.dumps(stored)) == declared


def test_a_declaration_that_was_stored_before_there_were_modes_is_pinned() -> None:
    stored = without_tier().model_dump(mode="json", by_alias=True)
    del stored["controller"]
    assert StreamDeclaration.model_validate(stored).controller.mode is Mode.PINNED


def test_what_is_not_said_has_a_default() -> None:
    controller = without_tier().controller
    assert (controller.cool_down, controller.dwell, controller.min_saving) == (60.0, 300.0, 0.1)
    assert (controller.estimator, controller.weigh_by) == ("quantile", "money")
    assert controller.count_detection
    assert controller.snapshot_every is controller.sync_every is None
    assert controller.policy() == ControllerPolicy(least_margin=0.1)


def test_the_section_hands_out_the_policy_that_it_describes() -> None:
    section = {"cool_down": "2m", "dwell": "10m", "min_saving": 0.25, "margin": 0.2}
    assert a_declaration(controller=section).controller.policy() == ControllerPolicy(
        cool_down_seconds=120.0,
        dwell_seconds=600.0,
        min_relative_saving=0.25,
        least_margin=0.2,
    )


def test_intervals_may_be_moved_around_where_the_stream_begins() -> None:
    controller = a_declaration(
        controller={
            "snapshot_every": {"min": "2s", "max": "2m"},
            "sync_every": {"min": "5s", "max": "5s"},
        }
    ).controller
    assert controller.snapshot_every is not None
    assert (controller.snapshot_every.min, controller.snapshot_every.max) == (2.0, 120.0)
    assert controller.sync_every is not None


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        (
            {"controller": {"mode": "manual"}},
            'controller.mode: "manual": must be one of auto, advise, pinned',
        ),
        (
            {"controller": {"estimator": "best"}},
            'controller.estimator: "best": must be one of quantile, thesis',
        ),
        (
            {"controller": {"weigh_by": "cpu"}},
            'controller.weigh_by: "cpu": must be one of money, all_costs, ec2',
        ),
        (
            {"controller": {"cooldown": "1m"}},
            'controller.cooldown: "1m": is not a field here: did you mean cool_down?',
        ),
        ({"controller": {"min_saving": 2.0}}, "controller.min_saving: 2.0: must be at most 1"),
        ({"controller": "auto"}, 'controller: "auto": must be a mapping of fields'),
        (
            {"controller": {"snapshot_every": {"min": "5s"}}},
            "controller.snapshot_every.max: is required",
        ),
        (
            {"controller": {"estimator": "thesis", "snapshot_every": {"min": "2s", "max": "2m"}}},
            'controller.estimator: "thesis": predicts the same at any interval, so the controller would'
            " always choose the longest: remove snapshot_every and sync_every, or set estimator: quantile",
        ),
        (
            {"controller": {"snapshot_every": {"min": "2m", "max": "1m"}}},
            'controller.snapshot_every.min: "2m": must not exceed max (60 s)',
        ),
        (
            {"controller": {"snapshot_every": NARROW}},
            'controller.snapshot_every.min: "20s": must not exceed checkpoint.every (10 s),'
            " which the stream starts with",
        ),
        (
            {"controller": {"snapshot_every": NARROW}, "checkpoint": {"every": "2m"}},
            'controller.snapshot_every.max: "1m": must be at least checkpoint.every (120 s),'
            " which the stream starts with",
        ),
        (
            {"controller": {"snapshot_every": NARROW}, "checkpoint": {"epochs": 5}},
            'controller.snapshot_every.min: "20s": bounds checkpoint.every, which is not set:'
            " set it, since the stream starts with it",
        ),
        (
            {"controller": {"sync_every": {"min": "1s", "max": "2s"}}},
            'controller.sync_every.max: "2s": must be at least secondary.sync (5 s),'
            " which the stream starts with",
        ),
        (
            {
                "controller": {"snapshot_every": {"min": "1s", "max": "10s"}, "sync_every": NARROW},
                "secondary": {"sync": "30s"},
            },
            'controller.sync_every.min: "20s": must not exceed snapshot_every.max (10 s):'
            " a secondary that syncs takes every snapshot",
        ),
    ],
)
def test_a_mistake_is_shown_where_it_is(
    tmp_path: Path, changes: Mapping[str, object], shown: str
) -> None:
    path = tmp_path / "clicks.yaml"
    path.write_text(stream_yaml(**changes))
    [problem] = load_file(path, StreamDeclaration, file="clicks.yaml").problems
    assert str(problem).partition(": ")[2] == shown
    assert problem.line > 1


def test_a_controller_never_changes() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        a_declaration().controller.mode = Mode.AUTO  # type: ignore[misc]
