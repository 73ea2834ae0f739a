from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.power.prior import table_without
from bench.power.published_curves import CURVES, PublishedCurve
from powermodels.common.interface import CpuIdentity, HostFacts, Load
from powermodels.models.prior import GENERATIONS, PriorModel, match_machine
from wire.messages import PowerSource

IDLE = Load(cpu_ratio=0.0, memory_ratio=0.0)
FULL = Load(cpu_ratio=1.0, memory_ratio=1.0)
ratios = st.none() | st.floats(0, 1)
cpu_ratios = st.floats(0, 1)
loads = st.builds(Load, cpu_ratios, ratios, ratios, ratios)

GENOA = CpuIdentity("AuthenticAMD", 25, 17, 1)


def test_the_stated_error_holds_for_nearly_all_published_curves() -> None:
    def within(curve: PublishedCurve) -> bool:
        model = PriorModel.for_host(curve.facts, table_without(curve.source))
        pairs = ((model.terms(IDLE).watts, curve.watts[0]), (model.terms(FULL).watts, curve.watts[-1]))
        return all(abs(watts - truth) <= model.error_ratio * watts for watts, truth in pairs)

    assert sum(map(within, CURVES)) >= 0.85 * len(CURVES)


def test_generations_do_not_hide_each_other() -> None:
    # A row that only an earlier one's CPUs would reach is dead.
    for generation in GENERATIONS:
        model = min(generation.models)
        stepping = max(generation.steppings)
        cpu = CpuIdentity(generation.vendor, generation.family, model, stepping)
        assert match_machine(HostFacts("", 1, 1, 1, 0, cpu=cpu)).name == generation.name


def test_stepping_distinguishes_cascade_lake_from_skylake() -> None:
    def name(stepping: int) -> str:
        return match_machine(HostFacts("", 1, 1, 1, 0, cpu=CpuIdentity("GenuineIntel", 6, 85, stepping))).name

    assert "Skylake" in name(4)
    assert "Cascade" in name(7)


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        (
            HostFacts("Xeon 9", 2, 64, 128, 10**12, cpu=CpuIdentity("GenuineIntel", 19, 1)),
            "GenuineIntel server",
        ),
        (
            HostFacts("Core 9", 1, 8, 16, 10**10, cpu=CpuIdentity("GenuineIntel", 19, 9)),
            "GenuineIntel desktop",
        ),
        (HostFacts("POWER9", 2, 40, 160, 10**12), "server"),
        (HostFacts("unknown CPU", 1, 4, 4, 10**10), "desktop"),
    ],
)
def test_unknown_cpus_are_typical_of_vendor_and_kind_and_less_sure(facts: HostFacts, kind: str) -> None:
    match = match_machine(facts)
    assert match.name == f"typical {kind}"
    assert not match.is_same_generation
    known = PriorModel.for_host(CURVES[-1].facts)
    assert PriorModel.for_host(facts).error_ratio > known.error_ratio


def test_guest_gets_its_share_with_a_larger_error() -> None:
    host = HostFacts("AMD EPYC 9654", 2, 192, 384, 384 * 10**9, cpu=GENOA)
    guest = replace(host, sockets=1, cores=24, threads=24, memory_bytes=24 * 10**9, hypervisor="KVM")
    of_host, of_guest = PriorModel.for_host(host), PriorModel.for_host(guest)
    assert of_guest.terms(FULL).watts == pytest.approx(of_host.terms(FULL).watts / 16)
    assert of_guest.error_ratio > of_host.error_ratio
    assert "guest's share, 24 vCPUs" in of_guest.describe()
    assert "guest" not in of_host.describe()


def test_more_memory_draws_more() -> None:
    small = HostFacts("AMD EPYC 9654", 2, 192, 384, 384 * 10**9, cpu=GENOA)
    large = replace(small, memory_bytes=1536 * 10**9)
    more_watts = PriorModel.for_host(large).terms(IDLE).watts - PriorModel.for_host(small).terms(IDLE).watts
    assert 50 < more_watts < 300


def test_a_little_load_draws_more_than_its_share_of_the_range() -> None:
    model = PriorModel.for_host(CURVES[-1].facts)
    idle_watts, little_watts, full_watts = (model.terms(Load(u)).watts for u in (0.0, 0.05, 1.0))
    assert little_watts - idle_watts > 1.5 * 0.05 * (full_watts - idle_watts)


@given(st.sampled_from(CURVES), loads, cpu_ratios)
def test_more_load_never_draws_less(curve: PublishedCurve, load: Load, other_cpu_ratio: float) -> None:
    model = PriorModel.for_host(curve.facts)
    low, high = (
        model.terms(replace(load, cpu_ratio=pick(load.cpu_ratio, other_cpu_ratio))) for pick in (min, max)
    )
    assert 0 < low.idle_watts <= low.watts <= high.watts


def test_loads_beyond_the_scale_are_cut_off() -> None:
    model = PriorModel.for_host(CURVES[-1].facts)
    assert model.terms(Load(1.7, 3.0)) == model.terms(FULL)
    assert model.terms(Load(-0.1, -1.0)) == model.terms(IDLE)


def test_a_host_never_metered_gets_the_prior() -> None:
    assert PriorModel.for_host(CURVES[-1].facts).source is PowerSource.PRIOR
