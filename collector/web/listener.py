"""At the start: how the collector is reached, and whether it may be reached so."""

from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext

from collector import config
from collector.web.token_file import TokenFile
from wire.address import COLLECTOR_DEFAULT, parse_address
from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class Listener:
    """What stands between the network and the routes."""

    tokens: TokenFile | None
    """None lets everybody in who can reach the address: loopback only."""
    tls: SSLContext | None


def opening(settings: config.CollectorConfig) -> Listener:
    """How a collector with these settings is opened; raises `UserError` where that would be careless."""
    tls = _context(settings.tls) if settings.tls.certificate else None
    path = settings.access.tokens
    file = TokenFile(Path(path)) if path else None
    tokens = file if file is not None and file.is_there else None
    listen = settings.http.listen
    if not parse_address(listen).is_loopback:
        instead = f", or choose a loopback address such as {COLLECTOR_DEFAULT}"
        if tokens is None or not len(tokens.tokens):
            raise UserError(
                f"the collector does not listen on {listen}, which other machines can reach, without tokens"
                f" to tell who may: make some with wattpack token add{instead}"
            )
        if tls is None and not settings.http.insecure_plaintext:
            raise UserError(
                f"the collector does not listen on {listen}, which other machines can reach, without TLS, as"
                f" tokens could be read on the way: set tls.certificate and tls.key{instead}"
            )
    return Listener(tokens, tls)


def _context(settings: config.TlsConfig) -> SSLContext:
    # YAML and bcrypt come along with this, so only where there is TLS.
    from wire.http.tls import server_context  # noqa: PLC0415 - see above
    from wire.http.webconfig_file import ClientAuth, Tls  # noqa: PLC0415 - see above

    return server_context(
        Tls(
            cert_file=settings.certificate,
            key_file=settings.key,
            client_auth_type=ClientAuth.IF_GIVEN if settings.client_ca else ClientAuth.NONE,
            client_ca_file=settings.client_ca or None,
        )
    )
