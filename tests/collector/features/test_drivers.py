from pathlib import Path

import msgspec

from collector.act.drivers.table import drivers, open_driver
from tests.collector.features.kubernetes.fake import Fake, faking


async def test_every_driver_has_its_name_and_only_none_is_dry(tmp_path: Path) -> None:
    async with faking(Fake(nodes={}, pods={}), tmp_path, engines={"a": "unix:///nowhere"}) as settings:
        for name in drivers():
            async with open_driver(msgspec.structs.replace(settings, name=name)) as driver:
                assert (driver.name, driver.dry) == (name, name == "none")
