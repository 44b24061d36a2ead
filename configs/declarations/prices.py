"""What a cloud charges: `configs/prices/*.yaml`."""

from datetime import date
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from holdfast.configs.units import Flag, Section, matches_pattern, relation_error

if TYPE_CHECKING:
    from holdfast.ft_policies.costs.prices import Prices

Amount = Annotated[float, Field(strict=True, ge=0)]


class PriceList(Section):
    """Prices of one offer on one day, in one currency."""

    currency: Annotated[str, matches_pattern("[A-Z]{3}", "a currency code such as USD")]
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
    def _started_hours_have_a_price(self) -> Self:
        if self.started_hours and not self.instance_hour:
            raise relation_error(
                ("started_hours",),
                "needs a price of instances, but instance_hour is 0: "
                "set instance_hour, or remove started_hours",
            )
        return self

    def prices(self) -> "Prices":
        """The prices as the cost model takes them; NumPy is imported here, so that not every command loads it."""
        from holdfast.ft_policies.costs.prices import Prices

        return Prices(**self.model_dump(exclude={"date"}))
