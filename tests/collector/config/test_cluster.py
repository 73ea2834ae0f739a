import pytest

from collector.config import LivenessConfig
from wire.errors import UserError


def test_a_node_is_suspect_before_it_is_down() -> None:
    assert LivenessConfig(suspect_after_beacons=3.0, down_after_beacons=3.0).down_after_beacons == 3.0
    with pytest.raises(UserError, match=r"down_after_beacons \(2\) must not be below"):
        LivenessConfig(suspect_after_beacons=3.0, down_after_beacons=2.0)
