from collector.acting.knowing import Deeds, allocations, hosts
from collector.drivers.interface import Mode, NodeView, ServiceView, TaskView, View

_NOTHING_DONE = Deeds.of(())


def test_managers_are_never_switched_off_and_keep_their_own_labels() -> None:
    seen = View(nodes=(NodeView(name="a", labels={"zone": "z"}, is_manager=True), NodeView(name="b")))
    labels = {host.node: dict(host.labels or ()) for host in hosts(seen, _NOTHING_DONE)}
    assert labels == {"a": {"zone": "z", "wattpack.power": "never"}, "b": {}}


def test_what_an_orchestrator_runs_on_every_node_is_told_as_such() -> None:
    services = (ServiceView(name="agent", mode=Mode.GLOBAL), ServiceView(name="web"))
    tasks = [
        TaskView(container=f"id-of-{each.name}", service=each.name, node="a", state="running")
        for each in services
    ]
    told = allocations(View(services=services, tasks=tuple(tasks)), _NOTHING_DONE, opt_in=False)
    assert {each.container: each.everywhere for each in told} == {"id-of-agent": True, "id-of-web": False}
