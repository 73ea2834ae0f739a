"""The tables of the demo shop: its machines, how far apart its zones are, and its services."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import msgspec

from collector.common.labels import ELASTIC_LABEL, ELASTIC_REPLICAS_LABEL, OPTIONAL_LABEL, WEIGHT_LABEL
from powermodels.common.interface import Terms
from powermodels.models.prior import PriorModel
from powermodels.models.wire_curve import power_curve_of
from wire.messages import PROBE_LABEL, Gap, PowerCurve, PowerScope, PowerSource
from wire.resources import Quantities

_GIB = 1 << 30
_NO_RAPL = Gap("RAPL", "the CPU's energy counters are not readable: see wattpack power doctor")
ZONES = ("fra", "ams", "vie")
_DELAYS_SECONDS = {("ams", "fra"): 0.0071, ("fra", "vie"): 0.0112, ("ams", "vie"): 0.0174}
_LOCAL_DELAY_SECONDS = 0.0003


def delay_seconds(one: str, other: str) -> float:
    """The round-trip time between two zones."""
    low, high = sorted((one, other))
    return _LOCAL_DELAY_SECONDS if low == high else _DELAYS_SECONDS[low, high]


@dataclass(frozen=True, slots=True)
class Machine:
    """A type of machine."""

    name: str
    cores: int
    memory_gib: int
    idle_watts: float
    full_watts: float
    """Power at full CPU load."""
    source: PowerSource
    error_ratio: float
    source_scope: PowerScope = PowerScope.MACHINE
    link_bytes_per_second: float = 1.25e9
    disk_bytes_per_second: float = 1.6e9
    gaps: tuple[Gap, ...] = ()

    @property
    def capacity(self) -> Quantities:
        return Quantities(
            float(self.cores), self.memory_gib * _GIB, self.disk_bytes_per_second, self.link_bytes_per_second
        )

    @property
    def curve(self) -> PowerCurve:
        """The power curve: between idle and full power, it has the shape of published machines."""
        dynamic = self.full_watts - self.idle_watts
        full = Terms(self.idle_watts, dynamic, 0.06 * dynamic, 0.04 * dynamic, 0.03 * dynamic)
        model = PriorModel(full, self.error_ratio, self.name)
        return msgspec.structs.replace(
            power_curve_of(model), source=self.source, source_scope=self.source_scope
        )


MACHINES = (
    Machine("epyc", 32, 128, 96.0, 310.0, PowerSource.RAPL, 0.08, PowerScope.CPU_AND_MEMORY, 3.125e9),
    Machine("xeon", 16, 64, 78.0, 205.0, PowerSource.MODEL, 0.12, gaps=(_NO_RAPL,)),
    Machine("edge", 8, 32, 21.0, 92.0, PowerSource.PRIOR, 0.35, disk_bytes_per_second=5e8, gaps=(_NO_RAPL,)),
    Machine("db", 24, 192, 118.0, 265.0, PowerSource.IPMI, 0.03, disk_bytes_per_second=2.4e9),
)
MACHINE_ORDER = ("epyc", "xeon", "xeon", "edge", "epyc", "xeon", "edge", "db", "xeon", "edge")
"""Machines are added in this order, again and again."""


APPLICATION = "shop"
"""The application whose services talk to each other."""
_PINNED = "pinned"
_CONTROL: Mapping[str, Mapping[str, str]] = {
    "search_suggest": {ELASTIC_LABEL: "250ms", ELASTIC_REPLICAS_LABEL: "2-20", PROBE_LABEL: "8080/health"},
    "data_dashboards": {OPTIONAL_LABEL: "true", WEIGHT_LABEL: "0.5"},
}
"""Labels of the elastic and the optional service; only the first shop of a large cluster has them."""


class Rhythm(IntEnum):
    """When a service has work."""

    DAY = 0
    EVENING = 1
    FLAT = 2
    NIGHT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopService:
    """One service of the shop."""

    name: str
    image: str
    share: float
    """Its share of all containers."""
    used: tuple[float, ...]
    """Usage of one container at the busiest time of day: cores, MiB, MiB/s of disk and of network."""
    rhythm: Rhythm
    labels: Mapping[str, str]
    is_pinned: bool
    """Whether it has local data, so that its containers cannot move."""

    @property
    def is_optional(self) -> bool:
        return OPTIONAL_LABEL in self.labels

    @property
    def replicas_max(self) -> int:
        """Most replicas that an elastic service may have; 0 if it is not elastic."""
        return int(self.labels.get(ELASTIC_REPLICAS_LABEL, "0").rpartition("-")[2])

    def without_control(self) -> "ShopService":
        """The same service, neither elastic nor optional."""
        labels = {key: value for key, value in self.labels.items() if key not in _CONTROL.get(self.name, {})}
        return replace(self, labels=labels)


_TABLE = """
service           team       image                 share cores   MiB disk network rhythm  labels
shop_web          storefront linden/web:5.12.1      0.13   0.9   420 0.02       6 day     class=2
shop_api          storefront linden/api:5.12.1      0.12   1.3   610 0.02     3.5 day     slo=silver
shop_cart         storefront linden/cart:2.4.0      0.05   0.5   350 0.02     0.8 day
shop_checkout     payments   linden/checkout:3.0.7  0.04   0.6   480 0.02     0.6 evening slo=gold
shop_search       search     opensearch:2.11        0.05   2.6  3100    4     1.8 day
shop_sessions     storefront redis:7.2              0.03   0.3  1900 0.02     2.2 day     pinned
shop_images       storefront linden/images:1.9      0.04   0.4   260    9      14 day     class=3
shop_thumbnails   storefront linden/thumbnails:1.9  0.05   1.7   540    3       1 day     class=4
shop_postgres     data       postgres:16.1          0.01   3.4 18000   38       4 day     move=never pinned
search_suggest    search     linden/suggest:1.4     0.03   0.8   320 0.02     1.5 day
payments_gateway  payments   linden/gateway:4.1     0.04   0.5   390 0.02     0.5 evening slo=gold
payments_ledger   payments   linden/ledger:4.1      0.02   0.8   900  2.5     0.1 day     slo=gold
payments_fraud    payments   linden/fraud:0.31      0.03   1.9  2300 0.02     0.1 evening class=2
warehouse_stock   warehouse  linden/stock:2.2       0.04   0.5   430  1.1     0.1 day
warehouse_picking warehouse  linden/picking:2.2     0.04   0.7   380 0.02     0.1 day     class=2
warehouse_labels  warehouse  linden/labels:1.0      0.02   0.3   240  0.6     0.1 day
warehouse_routes  warehouse  linden/routes:0.8      0.02   2.1  1200 0.02     0.1 night   class=3
data_events       data       redpanda:23.2          0.03   0.8  1500   16       9 day     pinned
data_clickhouse   data       clickhouse:23.8       0.015     3 16000  120       7 flat    move=never pinned
data_dashboards   data       linden/dashboards:3.2  0.01     4  1800 0.02     0.3 flat    pinned
data_reports      data       linden/reports:7.3     0.03   2.4  2600   12     0.1 night   class=4
data_recommend    search     linden/recommend:2.0   0.03   2.8  5200 0.02     0.1 night   class=4
mail_sender       platform   linden/mail:1.6        0.03   0.2   210 0.02     0.4 day
platform_ingress  platform   traefik:2.10           0.05   0.7   190 0.02      17 day
platform_cron     platform   linden/cron:1.1       0.025   0.2   150 0.02     0.1 flat
platform_ci       platform   linden/runner:3.9      0.04   1.8  1400    8     0.1 day     class=4
platform_metrics  platform   victoria-metrics:1.93  0.02   0.9  2800    3     0.1 flat    pinned
"""
"""Labels are those that begin with `wattpack.`."""


def _parse(line: str) -> ShopService:
    name, team, image, share, cores, memory, disk, network, rhythm, *labels = line.split()
    given = dict(each.split("=") for each in labels if each != _PINNED)
    application = {"app": APPLICATION} if name.startswith(f"{APPLICATION}_") else {}
    return ShopService(
        name=name,
        image=image,
        share=float(share),
        used=(float(cores), float(memory), float(disk), float(network)),
        rhythm=Rhythm[rhythm.upper()],
        labels={
            "team": team,
            **{f"wattpack.{key}": value for key, value in (application | given).items()},
            **_CONTROL.get(name, {}),
        },
        is_pinned=_PINNED in labels,
    )


SERVICES = tuple(_parse(line) for line in _TABLE.strip().splitlines()[1:])
