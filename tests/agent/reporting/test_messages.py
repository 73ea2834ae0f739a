import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.reporting.messages import container_state, container_values, node_state, node_values
from agent.sources.docker import ContainerInfo
from tests.agent.samples import Clock, Container, node_sample
from wire.messages import ContainerState, Gap, NodePower, NodeState, PowerSource, Pressure, encode
from wire.resources import Quantities, Resource

text = st.text(max_size=3000)


def state_of(seen: Container, container_id: str = "a") -> ContainerState:
    (container,) = node_sample(Clock(), {container_id: seen}).containers
    return container_state(container, container_values(container), 3.0)


@given(name=text, image=text, service=text, labels=st.dictionaries(text, text, max_size=3))
def test_any_container_name_fits_into_a_report(
    name: str, image: str, service: str, labels: dict[str, str]
) -> None:
    info = ContainerInfo(name, image, service, labels=labels)
    state = state_of(Container(info=info), "f" * 300)
    assert msgspec.json.decode(encode(state), type=ContainerState) == state
    assert state.name == (name[:253] or "f" * 12)


def test_the_values_of_one_sample_come_back_in_their_places() -> None:
    used = Quantities(
        cpu_cores=0.5, memory_bytes=100, disk_bytes_per_second=20.0, network_bytes_per_second=3.0
    )
    pressure = Pressure(cpu_ratio=0.1, memory_ratio=0.2, disk_ratio=0.3)
    state = state_of(Container(used=used, pressure=pressure, watts=1.5))
    assert (state.used, state.pressure, state.window_seconds) == (used, pressure, 3.0)
    assert state.power is not None
    assert state.power.watts == 1.5


def test_a_node_comes_back_in_its_places() -> None:
    used = Quantities(
        cpu_cores=0.5, memory_bytes=100, disk_bytes_per_second=20.0, network_bytes_per_second=3.0
    )
    sample = node_sample(Clock(), used=used, watts=70.0)
    rates = replace(
        sample.rates,
        pressure=Pressure(cpu_ratio=0.1, memory_ratio=0.2, disk_ratio=0.3),
        learned_capacities=(Resource.DISK,),
        load_1m=1.25,
        frequency_hertz=2.4e9,
        iowait_ratio=0.04,
        steal_ratio=0.05,
        swap_used_bytes=6,
        disk_busy_ratio=0.07,
        oom_kills_total=8,
    )
    sample = replace(sample, rates=rates, gaps=(Gap("w" * 2000, "y" * 2000),))
    state = node_state(sample, node_values(sample), 30.0)
    assert state == NodeState(
        used=used,
        capacity=rates.capacity,
        window_seconds=30.0,
        learned_capacities=(Resource.DISK,),
        pressure=rates.pressure,
        power=NodePower(70.0, 70.0, 0.0, PowerSource.PRIOR, 0.5, 1.0),
        load_1m=1.25,
        frequency_hertz=2.4e9,
        iowait_ratio=0.04,
        steal_ratio=0.05,
        swap_used_bytes=6,
        disk_busy_ratio=0.07,
        oom_kills_total=8,
        gaps=(Gap("w" * 1024, "y" * 1024),),
    )


def test_unknown_watts_are_absent() -> None:
    sample = node_sample(Clock(), {"a": Container()})
    assert node_state(sample, node_values(sample), 3.0).power is None
    assert state_of(Container()).power is None


@given(st.floats(1e-9, 1e15))
def test_numbers_have_six_digits(cores: float) -> None:
    reported = state_of(Container(used=Quantities(cpu_cores=cores))).used.cpu_cores
    assert reported == pytest.approx(cores, rel=5e-6)
    assert len(f"{reported:e}".split("e")[0].rstrip("0").replace(".", "")) <= 6
