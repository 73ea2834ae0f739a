"""Price and emissions of energy."""

from typing import Annotated

from msgspec import Meta

from wire.settings import Section


class EnergyConfig(Section, frozen=True):
    """Price and emissions, shown next to energy. Each is a number, or the result of a PromQL query."""

    price_per_kwh: Annotated[
        float, Meta(ge=0, le=1e6, description="Price of a kilowatt-hour, such as 0.32. 0 shows no price.")
    ] = 0.0
    currency: Annotated[
        str, Meta(max_length=12, description="Currency of the price, such as EUR, for display only.")
    ] = ""
    price_query: Annotated[
        str,
        Meta(
            description="PromQL query for the price of a kilowatt-hour, such as"
            ' avg(electricity_price{area="AT"}). It overrides `price_per_kwh`. It is sent to the server in'
            " `[store]`, or else to the one in `[pull]`; a period has the mean price over its time."
        ),
    ] = ""
    co2_grams_per_kwh: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="Grams of CO2 that a kilowatt-hour emits, such as 380. 0 shows no emissions.",
        ),
    ] = 0.0
    co2_query: Annotated[
        str,
        Meta(
            description="PromQL query for the grams of CO2 of a kilowatt-hour, sent to the same server as"
            " `price_query`. It overrides `co2_grams_per_kwh`."
        ),
    ] = ""
