"""The parts of a snapshot as values for msgpack, and back."""

from dataclasses import fields
from typing import Any

from collector.features.network.applications.images import ImageTable
from collector.features.network.applications.table import Applications
from collector.features.network.mesh.delays import Delays
from collector.snapshot.codec import pack_column, unpack_column
from collector.snapshot.parts import PartCodec

Packed = dict[str, Any]


def _pack_delays(delays: Delays) -> Packed:
    return {each.name: pack_column(getattr(delays, each.name)) for each in fields(delays)}


def _unpack_delays(packed: Packed) -> Delays:
    return Delays(**{name: unpack_column(column) for name, column in packed.items()})


def _pack_applications(applications: Applications) -> Packed:
    is_member = applications.is_member
    return {
        "names": applications.names,
        "delay_max": pack_column(applications.delay_max),
        "of_service": pack_column(applications.of_service),
        "links": [(row, sorted(links)) for row, links in applications.links.items()],
        "is_member": None if is_member is None else pack_column(is_member),
    }


def _unpack_applications(packed: Packed) -> Applications:
    is_member = packed["is_member"]
    return Applications(
        names=tuple(packed["names"]),
        delay_max=unpack_column(packed["delay_max"]),
        of_service=unpack_column(packed["of_service"]),
        links={row: frozenset((one, other) for one, other in links) for row, links in packed["links"]},
        is_member=None if is_member is None else unpack_column(is_member),
    )


def _pack_images(images: ImageTable) -> Packed:
    """Each name once, as most nodes have the same ones."""
    names = sorted(frozenset[str]().union(*images.references))
    number = {name: place for place, name in enumerate(names)}
    return {"names": names, "nodes": [sorted(map(number.__getitem__, each)) for each in images.references]}


def _unpack_images(packed: Packed) -> ImageTable:
    names = packed["names"]
    return ImageTable(references=tuple(frozenset(names[place] for place in each) for each in packed["nodes"]))


PARTS: tuple[PartCodec[Any], ...] = (
    PartCodec("delays", Delays, _pack_delays, _unpack_delays),
    PartCodec("applications", Applications, _pack_applications, _unpack_applications),
    PartCodec("images", ImageTable, _pack_images, _unpack_images),
)
