from collector.config import Driver


def test_managers_are_told_apart() -> None:
    managers = "tcp://10.0.0.1:2376, ,tcp://10.0.0.2:2376 "
    assert Driver(managers=managers).manager_addresses == ("tcp://10.0.0.1:2376", "tcp://10.0.0.2:2376")
    assert Driver(managers="").manager_addresses == ()
