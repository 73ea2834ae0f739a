"""The Host header: whether a request is for this server, or for a name that was made to point here."""

import socket
from collections.abc import Set as AbstractSet

from wire.address import parse_ip


def is_own_host(header: str, names: AbstractSet[str], *, local_only: bool) -> bool:
    """Whether a Host header names this server: one of `names`, or an IP address.

    A foreign web page can resolve its own name to our address and make a browser send us requests; the Host
    header reveals that. An IP address in that header cannot be rebound, so it is accepted; with `local_only`,
    loopback addresses only.
    """
    name = _name_in(header)
    if name in names or name == "localhost":
        return True
    address = parse_ip(name)
    return address is not None and (address.is_loopback or not local_only)


def machine_names() -> frozenset[str]:
    """The host name of this machine, as it is and without its domain."""
    name = socket.gethostname().lower()
    return frozenset({name, name.partition(".")[0]})


def is_named_after(header: str, names: AbstractSet[str]) -> bool:
    """Whether the first label of the name in a Host header is one of `names`, whatever its domain."""
    return _name_in(header).partition(".")[0] in names


def _name_in(header: str) -> str:
    """The Host header without its port."""
    if header.startswith("[") and "]" in header:
        return header[1 : header.index("]")]
    return header.partition(":")[0].lower()
