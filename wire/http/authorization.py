"""Parse the Authorization header: basic authentication (RFC 7617) and bearer tokens (RFC 6750)."""

import base64


def parse_basic(header: str) -> tuple[str, bytes] | None:
    """User name and password from an Authorization header; None if it is not basic authentication."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except ValueError:
        return None


def parse_token(header: str) -> bytes | None:
    """A bearer token, or the password of any user, which lets a browser send one; None without either."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() == "bearer":
        return token.strip().encode(errors="surrogateescape")
    basic = parse_basic(header)
    return basic[1] if basic is not None else None
