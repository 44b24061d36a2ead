"""The controller of a stream: whether and how it chooses the tier, and the bounds of the intervals that it may set."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from holdfast.configs.units import Duration, Flag, Section, Share, relation_error
from holdfast.ft_policies.tiers import Mode

if TYPE_CHECKING:
    from holdfast.ft_policies.prediction.model import RecoveryModel
    from holdfast.ft_policies.tiering.controller import ControllerPolicy


class Bounds(Section):
    """The shortest and the longest interval that the controller may choose."""

    min: Duration
    max: Duration

    @model_validator(mode="after")
    def _leaves_a_choice(self) -> Self:
        if self.min > self.max:
            raise relation_error(("min",), f"must not exceed max ({self.max:g} s)")
        return self

    def find_conflict(self, seconds: float | None, *, declared_as: str) -> tuple[str, str] | None:
        """The bound that excludes the interval that a stream starts with, and a message; `None` if none does."""
        if seconds is None:
            return (
                "min",
                f"bounds {declared_as}, which is not set: set it, since the stream starts with it",
            )
        initial = f"{declared_as} ({seconds:g} s), which the stream starts with"
        if seconds < self.min:
            return "min", f"must not exceed {initial}"
        if seconds > self.max:
            return "max", f"must be at least {initial}"
        return None


class Controller(Section):
    """Keeps the stream in the cheapest tier that meets the objective.

    `mode` is `auto` (decide and switch), `advise` (decide and show) or `pinned` (keep the tier). Without it, a
    declaration with a tier is `pinned` and one without is `auto`.
    """

    mode: Mode = Mode.PINNED
    estimator: Literal["quantile", "thesis"] = "quantile"
    count_detection: Flag = True
    cool_down: Duration = 60.0
    dwell: Duration = 300.0
    min_saving: Share = 0.1
    margin: Share = 0.1
    uncalibrated_margin: Share = 0.2
    weigh_by: Literal["money", "all_costs", "ec2"] = "money"
    snapshot_every: Bounds | None = None
    sync_every: Bounds | None = None

    @model_validator(mode="after")
    def _syncs_what_is_shipped(self) -> Self:
        snapshot, sync = self.snapshot_every, self.sync_every
        if snapshot is not None and sync is not None and sync.min > snapshot.max:
            raise relation_error(
                ("sync_every", "min"),
                f"must not exceed snapshot_every.max ({snapshot.max:g} s): "
                "a secondary that syncs takes every snapshot",
            )
        return self

    @model_validator(mode="after")
    def _predicts_what_it_chooses(self) -> Self:
        if self.estimator == "thesis" and (self.snapshot_every or self.sync_every):
            raise relation_error(
                ("estimator",),
                "predicts the same at any interval, so the controller would always choose the longest: "
                "remove snapshot_every and sync_every, or set estimator: quantile",
            )
        return self

    def require_initial_intervals(self, *, checkpoint_every: float | None, sync: float) -> None:
        """Raise a validation error if the bounds exclude an interval that the stream starts with."""
        for field, bounds, seconds, declared_as in (
            ("snapshot_every", self.snapshot_every, checkpoint_every, "checkpoint.every"),
            ("sync_every", self.sync_every, sync, "secondary.sync"),
        ):
            conflict = bounds and bounds.find_conflict(seconds, declared_as=declared_as)
            if conflict:
                bound, message = conflict
                raise relation_error(("controller", field, bound), message)

    def policy(self) -> "ControllerPolicy":
        """The policy that this section describes; NumPy is imported here, so that not every command loads it."""
        from holdfast.ft_policies.tiering.controller import ControllerPolicy

        return ControllerPolicy(
            cool_down_seconds=self.cool_down,
            dwell_seconds=self.dwell,
            min_relative_saving=self.min_saving,
            least_margin=self.margin,
        )

    def model(self) -> "RecoveryModel":
        """The recovery model that this section describes."""
        from holdfast.ft_policies.prediction.model import RecoveryModel

        return RecoveryModel(
            count_detection=self.count_detection, uncalibrated_margin=self.uncalibrated_margin
        )


def fill_in_mode(declaration: Any) -> Any:
    """The declaration with `controller.mode` filled in: a declared tier means `pinned`, none means `auto`."""
    if not isinstance(declaration, Mapping):
        return declaration
    section = declaration.get("controller", {})
    if not isinstance(section, Mapping) or "mode" in section:
        return declaration
    mode = Mode.PINNED if "tier" in declaration else Mode.AUTO
    return {**declaration, "controller": {**section, "mode": mode}}
