"""Secrets of tokens; the Authorization header: basic authentication (RFC 7617), bearer tokens (RFC 6750)."""

import base64
import hashlib
import secrets

_SECRET_BYTES = 32


def new_secret(kind: str) -> str:
    """A secret that nobody can guess. The prefix lets people and secret scanners recognise it."""
    return f"wattpack-{kind}-{secrets.token_urlsafe(_SECRET_BYTES)}"


def secret_hash(secret: bytes) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret).hexdigest()


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
