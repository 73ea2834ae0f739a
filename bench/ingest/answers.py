"""Answers of a collector that can be compared before and after a restart: without times and ages."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any

import msgspec

from wire.errors import UserError

POLICIES = ("least-watts", "genpack")
"""The default policy, and one that moves containers of a cluster that has no bottleneck."""
SERVICES = 5
"""Services that hints are asked for."""
TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.05
_ROWS = 1000

Json = Any


def plans_of(address: str) -> Json | None:
    """The plans of some policies, without the time of their snapshot; None if one is refused."""
    plans = []
    for policy in POLICIES:
        plan = ask(address, "/v1/hints/rebalance", {"policy": policy})
        if plan is None:
            return None
        plans.append({name: each for name, each in plan.items() if name != "at"})
    return plans


def hints_of(address: str) -> Json | None:
    """The rankings of nodes for a few services; None if one is refused."""
    hints = []
    for number in range(SERVICES):
        question = {"service": f"shop-{number}/service-{number}", "limit": 100}
        hint = ask(address, "/v1/hints/placement", question)
        if hint is None:
            return None
        nodes = [
            {name: node[name] for name in ("node", "score", "predicted_ratio")} for node in hint["nodes"]
        ]
        hints.append({"assumed": hint["assumed"], "nodes": nodes, "refused_for": hint["refused_for"]})
    return hints


def envelopes_of(address: str) -> Mapping[tuple[str, str], Json]:
    """The envelopes of all containers; none if the list is refused."""
    rows = rows_of(address, "/v1/containers?means=false", "containers")
    return {(each["node"], each["id"]): each["envelope"] for each in rows or ()}


def rows_of(address: str, path: str, name: str) -> list[Json] | None:
    """All pages of a list; None if one is refused."""
    rows: list[Json] = []
    cursor = ""
    while True:
        page = ask(address, f"{path}&limit={_ROWS}{cursor}")
        if page is None:
            return None
        rows += page[name]
        if page["next"] is None:
            return rows
        cursor = f"&cursor={page['next']}"


def ask(address: str, path: str, body: object = None) -> Json | None:
    """Ask a collector; None if it refuses to answer for the moment."""
    with closing(HTTPConnection(address, timeout=TIMEOUT_SECONDS)) as connection:
        try:
            if body is None:
                connection.request("GET", path)
            else:
                headers = {"Content-Type": "application/json"}
                connection.request("POST", path, msgspec.json.encode(body), headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException):
            return None
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return None
    if response.status != HTTPStatus.OK:
        raise UserError(f"{path}: status {response.status}: {content[:300]!r}")
    return msgspec.json.decode(content)


def await_answer(ask: Callable[[], Json], what: str) -> Json:
    """Ask until there is an answer."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if answer := ask():
            return answer
        time.sleep(POLL_SECONDS)
    raise UserError(f"not within {TIMEOUT_SECONDS:g} s: {what}")


def await_analysis(address: str, since: float) -> None:
    """Wait until hints use an analysis that began after a time."""

    def is_analysed() -> bool:
        cluster = ask(address, "/v1/cluster")
        return cluster is not None and cluster["analyzed_at"] > since

    await_answer(is_analysed, "an analysis ends")
    analysed_at = time.time()

    def is_used() -> bool:
        hint = ask(address, "/v1/hints/placement", {"limit": 1})
        return hint is not None and hint["at"] > analysed_at

    await_answer(is_used, "a snapshot is taken after the analysis")


def difference(before: Json, after: Json) -> str:
    """Where two answers differ first, or `nothing`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before | after:
            if before.get(name) != after.get(name):
                return f"{name}: {difference(before.get(name), after.get(name))}"
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            if one != other:
                return f"{number}: {difference(one, other)}"
    return "nothing" if before == after else f"{str(before)[:200]} became {str(after)[:200]}"
