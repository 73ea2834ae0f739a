from powermodels.common.interface import ASSUMED, Load, completed
from wire.resources import Quantities


def test_the_same_use_is_another_share_of_another_capacity() -> None:
    load = Load(0.5, 0.3, 0.4, 0.8, 0.9)
    here = Quantities(disk_bytes_per_second=1e8, network_bytes_per_second=1e9)
    there = Quantities(disk_bytes_per_second=4e8, network_bytes_per_second=2e9)
    assert load.rescaled(here, there) == Load(0.5, 0.3, 0.1, 0.4, 0.9)


def test_unknown_capacity_changes_nothing() -> None:
    load = Load(0.5, 0.3, 0.4, None)
    known = Quantities(disk_bytes_per_second=1e8, network_bytes_per_second=1e9)
    assert load.rescaled(known, Quantities()) == load
    assert load.rescaled(Quantities(), known) == load


def test_what_a_host_learns_with_time_is_fixed_for_a_model() -> None:
    learned = Quantities(8.0, 1 << 34, disk_bytes_per_second=1e6, network_bytes_per_second=1.25e8)
    fixed = completed(learned)
    assert (fixed.cpu_cores, fixed.memory_bytes) == (8.0, 1 << 34)
    assert fixed.disk_bytes_per_second == ASSUMED.disk_bytes_per_second
    assert fixed.network_bytes_per_second == ASSUMED.network_bytes_per_second
