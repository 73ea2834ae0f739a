"""What labels promise a service."""

from collections.abc import Container, Mapping
from typing import NamedTuple

from collector.common.labels import Label
from collector.config import CollectorConfig
from collector.features.promises.ledger.promises import ServiceMode
from collector.features.promises.settings import SLO_LABEL, PromisesConfig, promise_classes
from collector.observe.traits import kind_of
from collector.snapshot.tables import TaskKind

SLO_MODE_LABEL = "wattpack.slo-mode"
_MODES = {mode.value: mode for mode in ServiceMode}

LABELS = (
    Label(
        SLO_LABEL,
        "container, service",
        "the name of a class under `[slo]`: `gold`, `silver`, `bronze`",
        "`promises.default_class`",
        "The availability that the service is promised.",
    ),
    Label(
        SLO_MODE_LABEL,
        "container, service",
        "`independent`, `concurrent`, `aggregated`, `batch`",
        "`independent`; `batch` for a job",
        "How the times of the instances make up the availability of the service.",
    ),
)


class PromiseTraits(NamedTuple):
    """What the labels of a service, or of its container, promise it."""

    promise_class: str
    """Its name; empty without a promise."""
    mode: ServiceMode


def promise_traits(labels: Mapping[str, str], classes: Container[str], default: str) -> PromiseTraits:
    """The promise of a service; an invalid value counts as unset.

    The default is not for daemons: those belong to their nodes.
    """
    kind, name = kind_of(labels), labels.get(SLO_LABEL, "")
    if name not in classes:
        name = "" if kind is TaskKind.DAEMON else default
    usual = ServiceMode.BATCH if kind is TaskKind.JOB else ServiceMode.INDEPENDENT
    return PromiseTraits(name, _MODES.get(labels.get(SLO_MODE_LABEL, ""), usual))


def with_promise_class(labels: Mapping[str, str], config: CollectorConfig) -> Mapping[str, str]:
    """Labels of a container to place with the class that it will have: that of its label, or the default."""
    default = config.section(PromisesConfig).default_class
    name = promise_traits(labels, promise_classes(config), default).promise_class
    return labels if labels.get(SLO_LABEL, "") == name else {**labels, SLO_LABEL: name}


COMPLETE = (with_promise_class,)
