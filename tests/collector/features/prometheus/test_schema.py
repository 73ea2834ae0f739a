"""The names and labels of what is pushed are those of what is scraped."""

from agent.exposition.catalogue import (
    AGENT_METRICS,
    ALERT_METRICS,
    CONTAINER_METRICS,
    CONTAINER_PRESSURE_METRICS,
    GAP_METRICS,
    NODE_METRICS,
    NODE_PRESSURE_METRICS,
)
from collector.features.prometheus.schema import (
    ALERT,
    BUILD_INFO,
    CONTAINER_FIELDS,
    COUNTED_UNTIL,
    GAP,
    INFO,
    NODE_FIELDS,
    SAMPLED_AT,
    USAGE_METRICS,
    identity_labels,
    info_labels,
)
from tests.collector.builders import container, state
from wire.resources import RESOURCES

CATALOGUE = {
    spec.name: set(spec.labels)
    for table in (
        *(AGENT_METRICS, ALERT_METRICS, GAP_METRICS, NODE_METRICS, NODE_PRESSURE_METRICS),
        *(CONTAINER_METRICS, CONTAINER_PRESSURE_METRICS),
    )
    for spec in table
}


def test_every_level_is_in_the_agents_catalogue_with_the_same_labels() -> None:
    for level in NODE_FIELDS:
        assert CATALOGUE[level.metric] == {*level.labels, *(level.source(state()) if level.source else ())}
    for level in CONTAINER_FIELDS:
        extra = {*level.labels, *(level.source(container()) if level.source else ())}
        assert CATALOGUE[level.metric] == {*identity_labels(container()), *extra}


def test_the_series_of_the_node_list_are_in_the_catalogue() -> None:
    assert {SAMPLED_AT, BUILD_INFO, GAP, ALERT} <= CATALOGUE.keys()
    # The agent knows the pod, but reports do not contain it.
    assert CATALOGUE[INFO] - {"pod"} == set(info_labels(container()))
    assert COUNTED_UNTIL not in CATALOGUE, "it distinguishes pushed nodes from scraped ones"


def test_every_resource_has_its_level() -> None:
    for resource in RESOURCES:
        [level] = [level for level in CONTAINER_FIELDS if level.metric == USAGE_METRICS[resource]]
        assert level.value(container()) == container().used.of(resource)


def test_an_unknown_number_is_none() -> None:
    levels = {level.metric: level for level in NODE_FIELDS}
    assert levels["wattpack_node_power_watts"].value(state()) == 50.0
    assert levels["wattpack_node_power_watts"].value(state(power=None)) is None
