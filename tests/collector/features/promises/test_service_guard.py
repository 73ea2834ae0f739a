from dataclasses import replace
from typing import Any

import msgspec

from collector.decide.policies.actions import ServiceAction
from collector.features.promises.guards import keeps_promises
from tests.collector.act.guards.test_services import RESIZE, SCALE, WEB, context, step
from tests.collector.features.promises.promised import Promised, with_promises


def promised(action: ServiceAction, promise: Promised, **service: Any) -> str | None:
    made = context(replace(WEB, **service))
    return keeps_promises(
        step(action), replace(made, snapshot=with_promises(made.snapshot, {"web1": promise}))
    )


def test_a_promised_service_keeps_a_replica_and_is_not_stopped_to_be_resized() -> None:
    tight = Promised(slack_seconds=-1.0, startup_seconds=4.0)
    none = msgspec.structs.replace(SCALE, replicas=0, sheds=True)
    assert "it would wait for room" in (promised(none, Promised(slack_seconds=5000.0)) or "")
    assert promised(msgspec.structs.replace(SCALE, replicas=1), tight) is None, "fewer are promised"
    assert promised(RESIZE, tight) is None, "each replacement runs first"
    assert "it would be down for 4 s" in (promised(RESIZE, tight, stops_to_resize=True) or "")
    loose = Promised(slack_seconds=100.0, startup_seconds=4.0)
    assert promised(RESIZE, loose, stops_to_resize=True) is None
