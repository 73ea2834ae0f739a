"""Tokens and TLS of the HTTP server, and the check at startup that they suffice for its address."""

from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext

from collector import config
from collector.serve.web.tokens import TokenFile
from wire.address import COLLECTOR_DEFAULT, parse_address
from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class Listener:
    """Access control of the HTTP server."""

    tokens: TokenFile | None
    """None accepts all requests, which is allowed on loopback only."""
    tls: SSLContext | None


def open_listener(settings: config.CollectorConfig) -> Listener:
    """Load tokens and certificates; raises `UserError` if the address needs more of them."""
    tls = _context(settings.tls) if settings.tls.certificate else None
    path = settings.access.tokens
    file = TokenFile(Path(path)) if path else None
    tokens = file if file is not None and file.exists else None
    listen = settings.http.listen
    if not parse_address(listen).is_loopback:
        instead = f", or listen on a loopback address such as {COLLECTOR_DEFAULT}"
        if tokens is None or not len(tokens.tokens):
            raise UserError(
                f"http.listen is {listen}, which other machines can reach, but there are no tokens: create"
                f" them with wattpack token add{instead}"
            )
        if tls is None and not settings.http.insecure_plaintext:
            raise UserError(
                f"http.listen is {listen}, which other machines can reach, but without TLS, others could read"
                f" tokens on the network: set tls.certificate and tls.key{instead}"
            )
    return Listener(tokens, tls)


def _context(settings: config.TlsConfig) -> SSLContext:
    # Imports YAML and bcrypt, so only with TLS.
    from wire.http.webconfig import ClientAuth, Tls, server_context  # noqa: PLC0415 - see above

    return server_context(
        Tls(
            cert_file=settings.certificate,
            key_file=settings.key,
            client_auth_type=ClientAuth.IF_GIVEN if settings.client_ca else ClientAuth.NONE,
            client_ca_file=settings.client_ca or None,
        )
    )
