"""What a cloud charges: `configs/prices/*.yaml`."""

from datetime import date
from typing import Annotated

from pydantic import Field

from configs.units import Section, written_as

Amount = Annotated[float, Field(strict=True, ge=0)]


class PriceList(Section):
    """Prices of one offer on one day, in one currency."""

    currency: Annotated[str, written_as("[A-Z]{3}", "a currency code such as USD")]
    date: date
    instance_hour: Amount
    put_per_thousand: Amount
    get_per_thousand: Amount
    storage_gb_month: Amount
    traffic_gb: Amount
