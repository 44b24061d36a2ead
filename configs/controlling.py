"""Who chooses the tier of a stream, by what, and how far the intervals may be moved."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from configs.units import Duration, Flag, Section, Share, cannot_hold
from ft_policies.tiers import Mode

if TYPE_CHECKING:
    from ft_policies.tiering.controller import ControllerPolicy


class Bounds(Section):
    """The shortest and the longest interval that may be chosen."""

    min: Duration
    max: Duration

    @model_validator(mode="after")
    def _leaves_a_choice(self) -> Self:
        if self.min > self.max:
            raise cannot_hold(("min",), f"must not exceed max ({self.max:g} s)")
        return self

    def objection_to(self, seconds: float | None, *, declared_as: str) -> tuple[str, str] | None:
        """Which bound keeps out the interval that a stream begins with, and what to do."""
        if seconds is None:
            return "min", f"bounds {declared_as}, which is not set: say where the stream begins"
        begins = f"{declared_as} ({seconds:g} s), where the stream begins"
        if seconds < self.min:
            return "min", f"must not exceed {begins}"
        if seconds > self.max:
            return "max", f"must be at least {begins}"
        return None


class Controller(Section):
    """The one who keeps the cheapest tier that holds the objective.

    `mode` is `auto` (decide and switch), `advise` (decide and show) or `pinned` (leave the tier); a
    declaration that does not say it is `pinned` if it names a tier and `auto` if not.
    """

    mode: Mode = Mode.PINNED
    estimator: Literal["quantile", "thesis"] = "quantile"
    count_detection: Flag = True
    cool_down: Duration = 60.0
    dwell: Duration = 300.0
    min_saving: Share = 0.1
    margin: Share = 0.1
    weigh_by: Literal["money", "all_costs", "ec2"] = "money"
    snapshot_every: Bounds | None = None
    sync_every: Bounds | None = None

    @model_validator(mode="after")
    def _syncs_what_is_shipped(self) -> Self:
        snapshot, sync = self.snapshot_every, self.sync_every
        if snapshot is not None and sync is not None and sync.min > snapshot.max:
            raise cannot_hold(
                ("sync_every", "min"),
                f"must not exceed snapshot_every.max ({snapshot.max:g} s): "
                "a secondary that syncs takes every snapshot",
            )
        return self

    @model_validator(mode="after")
    def _predicts_what_it_chooses(self) -> Self:
        if self.estimator == "thesis" and (self.snapshot_every or self.sync_every):
            raise cannot_hold(
                ("estimator",),
                "predicts the same at any interval, so the longest would always be chosen: "
                "leave out snapshot_every and sync_every, or take quantile",
            )
        return self

    def demand_room(self, *, checkpoint_every: float | None, sync: float) -> None:
        """Refuse bounds that keep out what the stream begins with."""
        for field, bounds, seconds, declared_as in (
            ("snapshot_every", self.snapshot_every, checkpoint_every, "checkpoint.every"),
            ("sync_every", self.sync_every, sync, "secondary.sync"),
        ):
            found = bounds and bounds.objection_to(seconds, declared_as=declared_as)
            if found:
                bound, objection = found
                raise cannot_hold(("controller", field, bound), objection)

    def policy(self) -> "ControllerPolicy":
        """The policy that this section describes; NumPy is loaded here, not by every command."""
        from ft_policies.tiering.controller import ControllerPolicy

        return ControllerPolicy(
            cool_down_seconds=self.cool_down,
            dwell_seconds=self.dwell,
            min_relative_saving=self.min_saving,
            least_margin=self.margin,
        )


def with_mode(declaration: Any) -> Any:
    """A declaration that says its mode, also where people left it out: who names a tier means it."""
    if not isinstance(declaration, Mapping):
        return declaration
    section = declaration.get("controller", {})
    if not isinstance(section, Mapping) or "mode" in section:
        return declaration
    mode = Mode.PINNED if "tier" in declaration else Mode.AUTO
    return {**declaration, "controller": {**section, "mode": mode}}
