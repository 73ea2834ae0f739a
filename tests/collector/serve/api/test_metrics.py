from prometheus_client.parser import text_string_to_metric_families

from collector.runtime.parts import INGEST_DURATION
from collector.serve.api.metrics import COLLECTOR_METRICS
from tests.collector.builders import Client, container, partial_report, report
from wire.messages import Alert
from wire.resources import Resource


async def scraped(collector: Client) -> str:
    async with collector.http.get(collector.url + "/metrics") as answer:
        assert answer.status == 200
        return await answer.text()


async def test_metrics_count_reports_and_nodes(collector: Client) -> None:
    await collector.send(report(containers=[container()]), report("beta"))
    await collector.send(report())
    await collector.post(b"nonsense")
    collector.clock.now += 10
    await collector.send(partial_report("beta", sequence=3, alerts=(Alert(Resource.CPU, 1.0, "busy"),)))
    await collector.send(partial_report("beta", sequence=2), partial_report("beta", sequence=4))
    collector.clock.now += 10
    text = await scraped(collector)
    for line in (
        'wattpack_collector_reports_total{outcome="accepted"} 5.0',
        'wattpack_collector_reports_total{outcome="duplicate"} 1.0',
        'wattpack_collector_reports_total{outcome="rejected"} 1.0',
        'wattpack_collector_nodes{state="up"} 1.0',
        'wattpack_collector_nodes{state="suspect"} 1.0',
        'wattpack_collector_nodes{state="down"} 0.0',
        "wattpack_collector_containers 1.0",
        'wattpack_collector_new_reports_total{kind="heartbeat"} 2.0',
        'wattpack_collector_new_reports_total{kind="change"} 1.0',
        'wattpack_collector_new_reports_total{kind="beacon"} 2.0',
        "wattpack_collector_sequence_gaps_total 1.0",
        'wattpack_collector_alerts{state="open"} 1.0',
        'wattpack_collector_alerts{state="closed"} 0.0',
        "wattpack_collector_history_reports 5.0",
        "wattpack_collector_ingest_duration_seconds_count 5.0",
        'wattpack_collector_build_info{version="0.1.0"} 1.0',
    ):
        assert line in text.splitlines()
    size = next(
        line for line in text.splitlines() if line.startswith("wattpack_collector_history_size_bytes")
    )
    assert float(size.split()[1]) > 4096


async def test_every_exposed_metric_is_in_the_table(collector: Client) -> None:
    exposed = {family.name for family in text_string_to_metric_families(await scraped(collector))}
    ours = {name for name in exposed if not name.startswith("process_")}
    listed = {spec.name.removesuffix("_total") for spec in COLLECTOR_METRICS} | {INGEST_DURATION[0]}
    # The moment at which the histogram began to count is the client library's own addition.
    assert ours - {f"{INGEST_DURATION[0]}_created"} == listed
    assert "process_resident_memory_bytes" in exposed
