from typing import Any

import msgspec
import pytest

from collector.drivers.kubernetes.models import KubePod, service_view
from tests.collector.drivers.kubernetes.fake import pod


def read(described: dict[str, Any], **labels: str) -> KubePod:
    described["metadata"]["labels"] |= labels
    return msgspec.convert(described, KubePod)


NEVER, ALLOWED = {"wattpack.move": "never"}, {"wattpack.move": "allowed"}
SCRATCH = [{"name": "scratch", "emptyDir": {}}]


@pytest.mark.parametrize(
    ("described", "labels", "replicas", "stays"),
    [
        (pod("web", "a"), {}, 2, None),
        (pod("web", "a"), NEVER, 2, "its label wattpack.move is never"),
        (pod("web", "a"), {}, 1, "it has one replica and no label wattpack.move=allowed"),
        (pod("web", "a"), ALLOWED, 1, None),
        (
            pod("web", "a", volumes=SCRATCH),
            {},
            2,
            "it uses the volume scratch, which stays behind and no label wattpack.move=allowed",
        ),
        (pod("web", "a", volumes=SCRATCH), ALLOWED, 2, None),
        (
            pod("web", "a", volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": "x"}}]),
            {},
            2,
            None,
        ),
        (pod("web", "a", kind="DaemonSet"), ALLOWED, 2, "it runs on every node"),
        (pod("web", "a", kind="Job"), ALLOWED, 2, "it is a job, which would start over"),
        (pod("web", "a", kind=None), ALLOWED, 1, "no controller would replace it"),
        (
            pod("web", "a", nodeSelector={"kubernetes.io/hostname": "a"}),
            ALLOWED,
            2,
            "its node selector pins it to a",
        ),
    ],
)
def test_what_stays_and_why(
    described: dict[str, Any], labels: dict[str, str], replicas: int, stays: str | None
) -> None:
    assert service_view("shop/web", [read(described, **labels)] * replicas).stays == stays
