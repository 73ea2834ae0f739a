import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.docker.models import (
    MAX_LABEL_BYTES,
    MAX_LABELS,
    ContainerInfo,
    limit_labels,
    parse_event,
    parse_images,
    parse_listing,
    service_of,
)
from tests.agent.sources.docker.events import ID, line
from wire.messages import MAX_IMAGES, MAX_NAME_LENGTH, MAX_TEXT_LENGTH

LABELS = {"com.docker.swarm.service.name": "s", "tier": "front"}


def test_a_listing_names_each_container_without_its_slash() -> None:
    body = json.dumps(
        [
            {
                "Id": ID,
                "Names": ["/other/alias", "/web"],
                "Image": "nginx",
                "Labels": LABELS,
                "State": "running",
            },
            {"Id": "b" * 64, "Names": None, "Image": "x", "Labels": None},
        ]
    )
    assert dict(parse_listing(body.encode())) == {
        ID: ContainerInfo("web", "nginx", "s", labels=LABELS, restarts=0),
        "b" * 64: ContainerInfo("b" * 12, "x", restarts=0),
    }


def test_start_event_contains_name_image_and_labels() -> None:
    event = parse_event(line("start", 1.5e9, attributes=LABELS))
    assert (event.action, event.container_id, event.unix_seconds) == ("start", ID, 1.5e9)
    assert event.describe() == ContainerInfo("web", "nginx", "s", 1.5e9, LABELS, restarts=0)


@pytest.mark.parametrize(("text", "code"), [("0", 0), ("137", 137), ("", None), ("?", None)])
def test_exit_code_of_a_stopped_container(text: str, code: int | None) -> None:
    assert parse_event(line("die", attributes={"exitCode": text})).exit_code == code


def test_event_without_attributes_is_named_by_id() -> None:
    event = parse_event(json.dumps({"Action": "oom", "Actor": {"ID": ID, "Attributes": None}}).encode())
    assert event.name == ID[:12]
    assert event.exit_code is None


def test_service_comes_from_the_labels_of_the_orchestrator() -> None:
    assert service_of({"com.docker.swarm.service.name": "shop"}) == "shop"
    assert service_of({"com.docker.compose.project": "blog", "com.docker.compose.service": "db"}) == "blog/db"
    assert (
        service_of({"io.kubernetes.pod.namespace": "prod", "io.kubernetes.pod.name": "api-7f"})
        == "prod/api-7f"
    )
    assert service_of({"anything": "else"}) is None


@given(st.dictionaries(st.text(max_size=3000), st.text(max_size=3000), max_size=100))
def test_labels_are_limited_in_number_and_length(labels: dict[str, str]) -> None:
    kept = limit_labels(labels)
    assert len(kept) <= MAX_LABELS
    assert all(len(name) <= MAX_TEXT_LENGTH and len(value) <= MAX_TEXT_LENGTH for name, value in kept.items())
    assert all(labels[name].startswith(value) for name, value in kept.items())
    assert (
        sum(len((name + value).encode(errors="replace")) for name, value in kept.items()) <= MAX_LABEL_BYTES
    )


@given(st.dictionaries(st.text(max_size=50), st.text(max_size=80), max_size=10))
def test_labels_are_unchanged_if_they_fit(labels: dict[str, str]) -> None:
    if sum(len((name + value).encode(errors="replace")) for name, value in labels.items()) <= MAX_LABEL_BYTES:
        assert limit_labels(labels) == labels


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=3000), min_size=60, max_size=100))
def test_labels_of_wattpack_are_kept_before_all_others(labels: dict[str, str]) -> None:
    own = {"wattpack.class": "1", "wattpack.move": "never", "wattpack.talks-to": "a,b"}
    assert limit_labels({**labels, **own}).items() >= own.items()


def test_service_is_known_even_if_its_label_is_cut() -> None:
    many = {f"a{number:03}": "x" for number in range(MAX_LABELS)}
    info = parse_event(line("start", attributes={**many, **LABELS})).describe()
    assert info.service == "s"
    assert info.labels == many


@given(
    st.binary()
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
)
def test_invalid_bodies_raise_decode_errors_only(body: bytes) -> None:
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        parse_event(body)
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        dict(parse_listing(body))


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("web-7d4b9c6f5d-x2x9k", "web"),
        ("node-agent-4kq7z", "node-agent"),
        ("db-0", "db"),
        ("db-12", "db"),
        ("web-server", "web-server"),
        ("api", "api"),
        ("nightly-28391040-wz6tq", "nightly"),
    ],
)
def test_pods_of_one_workload_are_one_service(pod: str, workload: str) -> None:
    labels = {"io.kubernetes.pod.namespace": "prod", "io.kubernetes.pod.name": pod}
    assert service_of(labels) == f"prod/{workload}"


def test_images_have_their_tags_and_digests_and_what_has_no_name_is_left_out() -> None:
    listed = [
        {"Id": "sha256:1", "RepoTags": ["redis:7", "cache:new"], "RepoDigests": ["redis@sha256:aa"]},
        {"Id": "sha256:2", "RepoTags": ["<none>:<none>"], "RepoDigests": ["<none>@<none>"]},
        {"Id": "sha256:3", "RepoTags": None, "RepoDigests": None},
        {"Id": "sha256:4", "RepoTags": ["x" * (MAX_NAME_LENGTH + 1)], "Size": 5},
    ]
    used = {"web:1@sha256:bb", "sha256:cc", ""}
    assert parse_images(json.dumps(listed).encode(), used) == (
        "cache:new",
        "redis:7",
        "redis@sha256:aa",
        "web:1@sha256:bb",
    )


def test_of_too_many_images_those_in_use_and_the_newest_are_listed() -> None:
    listed = [{"RepoTags": [f"image:{number:04}"], "Created": number} for number in range(1000)]
    found = parse_images(json.dumps(listed).encode(), {"image:0000"})
    assert len(found) == MAX_IMAGES
    assert found == ("image:0000", *(f"image:{number:04}" for number in range(1000 - MAX_IMAGES + 1, 1000)))
