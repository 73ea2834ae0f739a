from collector.config import DriverConfig


def test_managers_are_told_apart() -> None:
    managers = "tcp://10.0.0.1:2376, ,tcp://10.0.0.2:2376 "
    assert DriverConfig(managers=managers).manager_addresses == ("tcp://10.0.0.1:2376", "tcp://10.0.0.2:2376")
    assert DriverConfig(managers="").manager_addresses == ()
