"""The dashboards: cluster, node, service, energy and cost."""

from wattpack.dashboards.grafana import Dashboard, Panel, Query, Variable

_INSTANCE = Variable("instance", "Node", values_of="wattpack_node_power_watts, instance")
_SERVICE = Variable("service", "Service", values_of="wattpack_service_power_watts, service")
_PRICE = Variable("price", "Price per kWh", text="0.30")
_CO2 = Variable("co2", "Grams of CO2 per kWh", text="400")
_JOULES_PER_KWH = "3.6e6"
_NODE = '{instance=~"$instance"}'
_OF_SERVICE = '{service=~"$service"}'


def _stat(title: str, expr: str, unit: str = "short") -> Panel:
    return Panel(title, (Query(expr),), unit, kind="stat", width=6)


def _by_node(title: str, metric: str, unit: str) -> Panel:
    return Panel(title, (Query(f"{metric}{_NODE}", "{{instance}}"),), unit)


def _directions(title: str, subject: str, labels: str, ways: tuple[str, str], legend: str) -> Panel:
    by = "instance" if subject == "node" else "service"
    queries = tuple(
        Query(
            f"sum by ({by}) (rate(wattpack_{subject}_{way}_bytes_total{labels}[$__rate_interval]))",
            f"{legend} {way.partition('_')[2]}",
        )
        for way in ways
    )
    return Panel(title, queries, "Bps")


_DISK = ("disk_read", "disk_written")
_NETWORK = ("network_receive", "network_transmit")

_CLUSTER = Dashboard(
    "wattpack-cluster",
    "Wattpack / Cluster",
    (
        _stat("Power", "wattpack_cluster_watts", "watt"),
        _stat("Nodes up", 'wattpack_collector_nodes{state="up"}'),
        _stat("Containers", "wattpack_collector_containers"),
        _stat("Open alerts", "sum(wattpack_cluster_open_alerts)"),
        Panel(
            "Power: idle, system, containers",
            (
                Query("sum(wattpack_node_power_idle_watts)", "idle"),
                Query("sum(wattpack_node_power_system_watts)", "system"),
                Query("sum(wattpack_container_power_watts)", "containers"),
            ),
            "watt",
            stacked=True,
            description="Idle: without any load. System: processes outside containers.",
        ),
        Panel(
            "Power with expected error",
            (
                Query("sum(wattpack_node_power_watts)", "power"),
                Query(
                    "sum(wattpack_node_power_watts * on (instance) (1 + wattpack_node_power_error_ratio))",
                    "highest",
                ),
                Query(
                    "sum(wattpack_node_power_watts * on (instance) (1 - wattpack_node_power_error_ratio))",
                    "lowest",
                ),
            ),
            "watt",
            description="Highest and lowest: if the power of all nodes is off in the same direction.",
        ),
        Panel("Power by node", (Query("wattpack_node_power_watts", "{{instance}}"),), "watt", stacked=True),
        Panel(
            "Power by service, top 10",
            (Query("topk(10, wattpack_service_power_watts)", "{{service}}"),),
            "watt",
            stacked=True,
        ),
        Panel(
            "CPU cores",
            (
                Query("wattpack_cluster_cpu_used_cores", "used"),
                Query("wattpack_cluster_cpu_cores", "capacity"),
            ),
        ),
        Panel("Nodes by state", (Query("wattpack_collector_nodes", "{{state}}"),)),
        Panel("Open alerts by kind", (Query("wattpack_cluster_open_alerts", "{{kind}}"),)),
        Panel(
            "Reports by outcome",
            (
                Query(
                    "sum by (outcome) (rate(wattpack_collector_reports_total[$__rate_interval]))",
                    "{{outcome}}",
                ),
            ),
            "reqps",
        ),
    ),
)

_NODES = Dashboard(
    "wattpack-node",
    "Wattpack / Node",
    (
        _by_node("Power", "wattpack_node_power_watts", "watt"),
        Panel(
            "Power by container, top 10",
            (Query(f"topk(10, wattpack_container_power_watts{_NODE})", "{{name}}"),),
            "watt",
            stacked=True,
        ),
        Panel(
            "CPU usage",
            (
                Query(
                    f"wattpack_node_cpu_cores{_NODE} / wattpack_node_cpu_capacity_cores{_NODE}",
                    "{{instance}}",
                ),
            ),
            "percentunit",
        ),
        Panel(
            "Memory usage",
            (
                Query(
                    f"wattpack_node_memory_used_bytes{_NODE} / wattpack_node_memory_capacity_bytes{_NODE}",
                    "{{instance}}",
                ),
            ),
            "percentunit",
        ),
        _directions("Disk", "node", _NODE, _DISK, "{{instance}}"),
        _directions("Network", "node", _NODE, _NETWORK, "{{instance}}"),
        _by_node("Load average, 1 minute", "wattpack_node_load_1m", "short"),
        _by_node("Expected error of power", "wattpack_node_power_error_ratio", "percentunit"),
    ),
    (_INSTANCE,),
)

_SERVICES = Dashboard(
    "wattpack-service",
    "Wattpack / Service",
    (
        Panel("Power", (Query(f"wattpack_service_power_watts{_OF_SERVICE}", "{{service}}"),), "watt"),
        Panel(
            "Containers",
            (Query(f"count by (service) (wattpack_container_info{_OF_SERVICE})", "{{service}}"),),
        ),
        Panel(
            "CPU usage, in cores",
            (
                Query(
                    "sum by (service)"
                    f" (rate(wattpack_container_cpu_seconds_total{_OF_SERVICE}[$__rate_interval]))",
                    "{{service}}",
                ),
            ),
        ),
        Panel(
            "Memory",
            (
                Query(
                    f"sum by (service) (wattpack_container_memory_working_set_bytes{_OF_SERVICE})",
                    "{{service}}",
                ),
            ),
            "bytes",
        ),
        _directions("Disk", "container", _OF_SERVICE, _DISK, "{{service}}"),
        _directions("Network", "container", _OF_SERVICE, _NETWORK, "{{service}}"),
        Panel(
            "Power per core in use",
            (
                Query(
                    f"wattpack_service_power_watts{_OF_SERVICE} / on (service)"
                    " (sum by (service)"
                    f" (rate(wattpack_container_cpu_seconds_total{_OF_SERVICE}[$__rate_interval])) > 0)",
                    "{{service}}",
                ),
            ),
            "watt",
        ),
        Panel(
            "Promised and delivered availability",
            (
                Query(f"wattpack_slo_availability_ratio{_OF_SERVICE}", "{{service}} delivered"),
                Query(f"wattpack_slo_target_ratio{_OF_SERVICE}", "{{service}} promised"),
            ),
            "percentunit",
        ),
    ),
    (_SERVICE,),
)


def _kwh(metric: str, by: str) -> str:
    return f"sum by ({by}) (increase({metric}[$__range])) / {_JOULES_PER_KWH}"


_ENERGY = Dashboard(
    "wattpack-energy",
    "Wattpack / Energy and cost",
    (
        _stat(
            "Energy",
            f"sum(increase(wattpack_node_energy_joules_total[$__range])) / {_JOULES_PER_KWH}",
            "kwatth",
        ),
        _stat(
            "Cost, by the price above",
            f"sum(increase(wattpack_node_energy_joules_total[$__range])) / {_JOULES_PER_KWH} * $price",
            "none",
        ),
        _stat(
            "CO2, in grams",
            f"sum(increase(wattpack_node_energy_joules_total[$__range])) / {_JOULES_PER_KWH} * $co2",
        ),
        _stat(
            "Containers' share of energy",
            "sum(increase(wattpack_container_energy_joules_total[$__range]))"
            " / sum(increase(wattpack_node_energy_joules_total[$__range]))",
            "percentunit",
        ),
        Panel(
            "Energy by service, in kWh",
            (Query(f"sort_desc({_kwh('wattpack_service_energy_joules_total', 'service')})"),),
            "kwatth",
            kind="table",
        ),
        Panel(
            "Cost by service",
            (Query(f"sort_desc({_kwh('wattpack_service_energy_joules_total', 'service')} * $price)"),),
            "none",
            kind="table",
        ),
        Panel(
            "Energy by node, in kWh",
            (Query(f"sort_desc({_kwh('wattpack_node_energy_joules_total', 'instance')})"),),
            "kwatth",
            kind="table",
        ),
        Panel(
            "Energy by container, top 20, in kWh",
            (Query(f"topk(20, {_kwh('wattpack_container_energy_joules_total', 'name')})"),),
            "kwatth",
            kind="table",
        ),
        Panel(
            "Mean power by service",
            (
                Query(
                    "sum by (service) (rate(wattpack_service_energy_joules_total[$__rate_interval]))",
                    "{{service}}",
                ),
            ),
            "watt",
            stacked=True,
            width=24,
        ),
    ),
    (_PRICE, _CO2),
)

DASHBOARDS = (_CLUSTER, _NODES, _SERVICES, _ENERGY)
