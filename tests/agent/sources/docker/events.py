"""Lines of the engine's stream of events."""

import json
from collections.abc import Mapping

ID = "a" * 64


def line(
    action: str,
    at: float = 1_500_000_000.5,
    container_id: str = ID,
    name: str = "web",
    attributes: Mapping[str, str] | None = None,
) -> bytes:
    details = {"name": name, "image": "nginx", **(attributes or {})}
    event = {
        "Action": action,
        "Actor": {"ID": container_id, "Attributes": details},
        "timeNano": int(at * 10**9),
    }
    return json.dumps(event).encode() + b"\n"
