"""After a token was revoked, every answer is that of a cluster that never had its node."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.runtime.revocation import Revocations
from tests.collector.builders import Clock
from tests.collector.features.small_cluster import (
    SNAPSHOT_SECONDS,
    SmallCluster,
    heartbeat,
    make_tokens,
    small_cluster,
)
from wattpack.cli import main
from wire.messages import ContainerPower, PowerSource, Report

HONEST = [f"node{number:02}" for number in range(5)]
MALLORY = "mallory"
ENERGY = "/v1/energy?by=service&start=1799990000&end=1800100000"

pytestmark = pytest.mark.slow

SEEDS = range(6)


def claims(seed: int) -> dict[str, Any]:
    """What a node claims, and in which heartbeats."""
    choose = random.Random(seed)  # noqa: S311 - reproducible, not a secret
    return {
        "service": choose.choice(["shop", "own", "shop"]),
        "cores": choose.choice([0.0, 0.4, 0.6, 2.0, 16.0, 1e5]),
        "containers": choose.choice([1, 20]),
        "watts": choose.choice([0.0, 3.0, 1e9]),
        "beats": sorted(choose.sample(range(12), choose.choice([1, 4, 12]))),
    }


def claimed(beat: int, claim: dict[str, Any]) -> Report:
    power = ContainerPower(claim["watts"], PowerSource.RAPL, 0.1, claim["watts"] * 300 * beat)
    return heartbeat(
        MALLORY,
        beat,
        claim["cores"],
        service=claim["service"],
        containers=claim["containers"],
        image="evil:1",
        power=power,
    )


async def report_for_an_hour(cluster: SmallCluster, claim: dict[str, Any] | None) -> None:
    for beat in range(12):
        if claim is not None and beat in claim["beats"]:
            await cluster.send(claimed(beat, claim))
        await cluster.run_honest(len(HONEST), [beat])
        await cluster.collector.analysis.analyse()


async def answers_of(folder: Path, claim: dict[str, Any] | None, *, restart: bool) -> tuple[Any, Any]:
    """The answers after the claims of a node were taken out, and after a restart."""
    secrets = make_tokens(folder / "tokens.jsonl", [*HONEST, MALLORY])
    clock = Clock()
    async with small_cluster(folder, secrets, clock) as cluster:
        await report_for_an_hour(cluster, claim)
        await cluster.answers()
        if claim is not None:
            await cluster.revoke(MALLORY)
        first = await cluster.answers()
    if not restart:
        return first, None
    clock.now -= 2 * SNAPSHOT_SECONDS  # answers are asked for at the same time
    async with small_cluster(folder, secrets, clock) as cluster:
        return first, await cluster.answers()


@pytest.mark.parametrize("seed", SEEDS)
async def test_answers_are_those_of_a_cluster_that_never_had_the_node(tmp_path: Path, seed: int) -> None:
    without, with_claims = tmp_path / "without", tmp_path / "with"
    without.mkdir()
    with_claims.mkdir()
    expected, _ = await answers_of(without, None, restart=False)
    found, after_restart = await answers_of(with_claims, claims(seed), restart=True)
    assert list(differences(found, expected)) == []
    assert list(differences(after_restart, expected)) == []


async def test_a_token_that_is_revoked_while_the_collector_is_stopped(tmp_path: Path) -> None:
    without, with_claims = tmp_path / "without", tmp_path / "with"
    without.mkdir()
    with_claims.mkdir()
    _, expected = await answers_of(without, None, restart=True)
    claim = {"service": "shop", "cores": 2.0, "containers": 9, "watts": 3.0, "beats": range(12)}
    secrets, clock = make_tokens(with_claims / "tokens.jsonl", [*HONEST, MALLORY]), Clock()
    async with small_cluster(with_claims, secrets, clock) as cluster:
        await report_for_an_hour(cluster, claim)
        await cluster.answers()
        await cluster.answers()
    assert main(["token", "revoke", MALLORY, "--file", str(with_claims / "tokens.jsonl")]) == 0
    clock.now -= 2 * SNAPSHOT_SECONDS
    for _ in range(2):
        async with small_cluster(with_claims, secrets, clock) as cluster:
            assert list(differences(await cluster.answers(), expected)) == []
        clock.now -= 2 * SNAPSHOT_SECONDS


async def test_a_node_with_a_new_token_counts_again_with_all_that_it_reported(tmp_path: Path) -> None:
    secrets, clock = make_tokens(tmp_path / "tokens.jsonl", [*HONEST, MALLORY]), Clock()
    async with small_cluster(tmp_path, secrets, clock) as cluster:
        await report_for_an_hour(cluster, claims(0))
        before = (await cluster.answers())[ENERGY]
        await cluster.revoke(MALLORY)
        assert (await cluster.answers())[ENERGY] != before
    make_tokens(tmp_path / "tokens.jsonl", [MALLORY])
    async with small_cluster(tmp_path, secrets, clock) as cluster:
        assert (await cluster.answers())[ENERGY] == before


async def test_many_revoked_nodes_are_taken_out_before_one_pass_of_the_analysis(tmp_path: Path) -> None:
    secrets, clock = make_tokens(tmp_path / "tokens.jsonl", [*HONEST, MALLORY]), Clock()
    async with small_cluster(tmp_path, secrets, clock) as cluster:
        await report_for_an_hour(cluster, claims(0))
        job, core = cluster.collector.analysis, cluster.collector.core
        revocations, before = Revocations(core, lambda: [MALLORY, *HONEST[:3]]), core.analysis.latest
        assert await revocations.run_once(job)
        assert core.registry.names() == HONEST[3:]
        assert core.analysis.latest.seconds == before.seconds, "no pass per node"
        assert not await revocations.run_once(job)


def differences(found: Any, expected: Any, where: str = "") -> Iterator[str]:
    """Where two answers differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in found.keys() | expected.keys():
            yield from differences(found.get(key), expected.get(key), f"{where}.{key}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{where}[{place}]")
    elif found != expected:
        yield f"{where}: {found} instead of {expected}"
