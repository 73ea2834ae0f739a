"""What a client shows in its Authorization header: a name and a password, or a token (RFC 7617, RFC 6750)."""

import base64


def parse_basic(header: str) -> tuple[str, bytes] | None:
    """Read the name and the password from an Authorization header; None if it holds none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except ValueError:
        return None


def parse_token(header: str) -> bytes | None:
    """Read a token: after `Bearer`, or as the password of anybody, which is how a browser can show one."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() == "bearer":
        return token.strip().encode(errors="surrogateescape")
    basic = parse_basic(header)
    return basic[1] if basic is not None else None
