"""What this node shows the collector, and how it knows that it is the collector: a token, certificates."""

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from agent.config import DeliveryConfig
from wire.address import Address
from wire.errors import UserError


def read_token(settings: DeliveryConfig) -> str | None:
    """The node's token, or None where it has none; raises `UserError` when its file is not right."""
    if not settings.token_file:
        return None
    path = Path(settings.token_file)
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(f"cannot read {path} ({why}): check collector.token_file") from error
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise UserError(
            f"{path} holds no token: put what wattpack token add shows into it, on a line of its own"
        )
    return token


def tls_context(settings: DeliveryConfig) -> ssl.SSLContext | None:
    """How the collector is verified, and what it is shown; None where the address is not of TLS."""
    if urlsplit(settings.url).scheme != "https":
        if settings.ca_file or settings.cert_file:
            raise UserError(
                f"collector.url is {settings.url}, without TLS, so there are no certificates: write https://,"
                " or leave collector.ca_file and collector.cert_file empty"
            )
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"cannot read certificates from {settings.ca_file} ({_why(error)}): check collector.ca_file"
        ) from error
    if settings.cert_file:
        key = settings.key_file or None
        try:
            context.load_cert_chain(settings.cert_file, key, password=_refuse_password)
        except (OSError, ssl.SSLError) as error:
            raise UserError(
                f"{settings.cert_file} and its key cannot be used ({_why(error)}): check"
                " collector.cert_file and collector.key_file"
            ) from error
    return context


def sends_token_in_plaintext(settings: DeliveryConfig) -> bool:
    """Whether a token would cross a network as plain text."""
    address = urlsplit(settings.url)
    is_local = Address(address.hostname or "", 0).is_loopback
    return bool(settings.token_file) and address.scheme != "https" and not is_local


def _refuse_password() -> str:
    """Else OpenSSL would ask on the terminal, and wait."""
    raise UserError("the key of the node's certificate is encrypted: store it without a password")


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return "not in PEM, or not fitting together"
    return (error.strerror or str(error)).lower()
