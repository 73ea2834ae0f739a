from collector.answers import State
from collector.config import Liveness
from collector.registry import Registry
from tests.collector.making import START, container, report


def registry() -> Registry:
    return Registry(Liveness(silent_after_seconds=15.0, forget_after_hours=1.0))


def test_a_container_that_stopped_is_gone_with_the_next_report() -> None:
    known = registry()
    known.apply(report(sequence=1, containers=[container("stays"), container("stops")]), START)
    known.apply(report(sequence=2, at=START + 3, containers=[container("stays")]), START + 3)
    assert [each.name for each in known.containers(START + 3)] == ["stays"]
    assert known.nodes(START + 3)[0].containers == 1


def test_a_late_report_does_not_overwrite_a_newer_one_but_proves_life() -> None:
    known = registry()
    known.apply(report(sequence=5, at=START), START)
    known.apply(report(sequence=4, at=START - 3), START + 14)
    (node,) = known.nodes(START + 20)
    assert (node.sampled_at, node.state, node.last_seen_seconds_ago) == (START, State.UP, 6.0)


def test_a_restarted_agent_replaces_the_earlier_run_though_it_counts_from_one_again() -> None:
    known = registry()
    known.apply(report(boot="zzz", sequence=900, at=START), START)
    known.apply(report(boot="aaa", sequence=1, at=START + 3), START + 3)
    assert known.nodes(START + 3)[0].boot == "aaa"


def test_the_spooled_words_of_an_earlier_run_do_not_replace_the_present_one() -> None:
    known = registry()
    known.apply(report(boot="new", sequence=1, at=START), START)
    known.apply(report(boot="old", sequence=900, at=START - 60), START + 1)
    assert known.nodes(START + 1)[0].boot == "new"


def test_a_node_that_comes_back_with_its_clock_reset_is_not_shut_out() -> None:
    known = registry()
    known.apply(report(boot="before", sequence=900, at=START), START)
    known.apply(report(boot="after", sequence=1, at=5.0), START + 30)
    assert known.nodes(START + 30)[0].boot == "after"


def test_a_clock_stepped_back_within_one_run_does_not_freeze_the_node() -> None:
    known = registry()
    known.apply(report(sequence=1, at=START), START)
    known.apply(report(sequence=2, at=START - 3600), START + 3)
    assert known.nodes(START + 3)[0].sampled_at == START - 3600


def test_a_silent_node_and_its_containers_are_listed_as_silent_then_forgotten() -> None:
    known = registry()
    known.apply(report("quiet", containers=[container()]), START)
    assert known.count(START + 15) == {State.UP: 1, State.SILENT: 0}
    assert known.count(START + 16) == {State.UP: 0, State.SILENT: 1}
    assert known.containers(START + 16)[0].node_state is State.SILENT
    known.forget_silent(START + 3600)
    assert len(known.nodes(START + 3600)) == 1
    known.forget_silent(START + 3601)
    assert known.nodes(START + 3601) == []
    assert known.container_count() == 0


def test_a_node_told_to_speak_seldom_is_not_silent_in_between() -> None:
    known = registry()
    seldom = report()
    known.apply(type(seldom)(*(seldom.node, "b", 1, START, 60.0, "0", seldom.state)), START)
    assert known.nodes(START + 170)[0].state is State.UP
    assert known.nodes(START + 181)[0].state is State.SILENT


def test_lists_are_in_a_stable_order() -> None:
    known = registry()
    for name in ("beta", "alpha", "gamma"):
        known.apply(report(name, containers=[container("z"), container("a")]), START)
    assert [node.name for node in known.nodes(START)] == ["alpha", "beta", "gamma"]
    order = [(each.name, each.node) for each in known.containers(START)]
    assert order == sorted(order)
    assert len(order) == 6


def test_ratios_are_taken_where_the_capacity_is_known() -> None:
    known = registry()
    known.apply(report(), START)
    ratios = known.nodes(START)[0].used_ratio
    assert (ratios.cpu_ratio, ratios.memory_ratio, ratios.disk_ratio) == (0.25, 0.25, None)
