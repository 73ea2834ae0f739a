import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.observe.entries import ServiceEnergy, ServicePower
from tests.collector.builders import START, Client, container, report
from tests.collector.serve.api.test_metrics import scraped

watts = st.dictionaries(st.sampled_from(["shop", "mail"]), st.floats(0, 1000))


def test_energy_is_power_over_time_and_goes_on_after_a_pause() -> None:
    energy = ServiceEnergy()
    assert energy.update({"shop": 10.0}, 100.0) == [ServicePower("shop", 10.0, 0.0)]
    assert energy.update({"shop": 20.0}, 105.0) == [ServicePower("shop", 20.0, 50.0)]
    assert energy.update({}, 110.0) == []
    assert energy.update({"shop": 1.0}, 200.0) == [ServicePower("shop", 1.0, 150.0)]


@given(st.lists(st.tuples(watts, st.floats(-10, 100)), min_size=1))
def test_energy_never_decreases(changes: list[tuple[dict[str, float], float]]) -> None:
    energy, now, last = ServiceEnergy(), 0.0, dict[str, float]()
    for power, seconds in changes:
        now += seconds
        for each in energy.update(power, now):
            assert each.joules_total >= last.get(each.service, 0.0)
            last[each.service] = each.joules_total


async def test_service_power_and_energy_are_scraped(collector: Client) -> None:
    await collector.send(report(at=START, containers=[container("a"), container("b")]))
    before = await values(collector)
    collector.clock.now += 2
    after = await values(collector)
    power, energy = (
        f'wattpack_service_{each}{{service="shop"}}' for each in ("power_watts", "energy_joules_total")
    )
    assert after[power] == 5.0
    assert after[energy] - before[energy] == pytest.approx(10.0)


async def values(collector: Client) -> dict[str, float]:
    lines = (await scraped(collector)).splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] != "#"}
