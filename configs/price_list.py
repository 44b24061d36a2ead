"""What a cloud charges: `configs/prices/*.yaml`."""

from datetime import date
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from configs.units import Flag, Section, cannot_hold, written_as

if TYPE_CHECKING:
    from ft_policies.costs.prices import Prices

Amount = Annotated[float, Field(strict=True, ge=0)]


class PriceList(Section):
    """Prices of one offer on one day, in one currency."""

    currency: Annotated[str, written_as("[A-Z]{3}", "a currency code such as USD")]
    date: date
    instance_hour: Amount
    cpu_core_hour: Amount = 0.0
    memory_gb_hour: Amount = 0.0
    put_per_thousand: Amount
    get_per_thousand: Amount
    storage_gb_month: Amount
    traffic_gb: Amount
    started_hours: Flag = False

    @model_validator(mode="after")
    def _hours_of_something(self) -> Self:
        if self.started_hours and not self.instance_hour:
            raise cannot_hold(
                ("started_hours",),
                "started hours are those of instances, and instance_hour is 0: "
                "give it a price, or leave started_hours out",
            )
        return self

    def prices(self) -> "Prices":
        """What the cost model reckons with; NumPy is loaded here, not by every command."""
        from ft_policies.costs.prices import Prices

        return Prices(**self.model_dump(exclude={"date"}))
