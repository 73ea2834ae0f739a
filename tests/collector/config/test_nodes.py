import pytest

from collector.config import Liveness
from wire.errors import Complaint


def test_a_node_is_suspect_before_it_is_down() -> None:
    assert Liveness(suspect_after_beacons=3.0, down_after_beacons=3.0).down_after_beacons == 3.0
    with pytest.raises(Complaint, match=r"down_after_beacons \(2\) must not be below"):
        Liveness(suspect_after_beacons=3.0, down_after_beacons=2.0)
