"""Images by the names that users, engines and orchestrators give them."""

import pytest

from collector.features.network.applications.images import ImageTable, references

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("redis", ("docker.io/library/redis:latest",)),
        ("redis:7", ("docker.io/library/redis:7",)),
        ("bitnami/redis:7", ("docker.io/bitnami/redis:7",)),
        ("index.docker.io/bitnami/redis", ("docker.io/bitnami/redis:latest",)),
        ("quay.io/a/b:1", ("quay.io/a/b:1",)),
        ("localhost/web", ("localhost/web:latest",)),
        ("registry:5000/web:2", ("registry:5000/web:2",)),
        (f"redis@{DIGEST}", (f"docker.io/library/redis@{DIGEST}",)),
        (f"redis:7@{DIGEST}", (f"docker.io/library/redis@{DIGEST}", "docker.io/library/redis:7")),
    ],
)
def test_a_name_stands_for_references(name: str, found: tuple[str, ...]) -> None:
    assert references(name) == found


def test_an_image_is_found_by_tag_and_with_a_digest_only_by_that() -> None:
    images = ImageTable.of_nodes([["redis:7"], [f"redis:7@{DIGEST}"], [f"redis@{DIGEST}"], []])
    assert images.on_nodes("docker.io/library/redis:7").tolist() == [True, True, False, False]
    assert images.on_nodes(f"redis:7@{DIGEST}").tolist() == [False, True, True, False]
    assert not images.on_nodes("redis").any()
    images.on_nodes("redis")[:] = True
    assert not images.on_nodes("redis").any(), "the caller may change its copy"
