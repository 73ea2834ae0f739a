"""Credentials of this node, and verification of the collector: token and certificates."""

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from agent.config import DeliveryConfig
from wire.address import Address
from wire.errors import UserError


def read_token(settings: DeliveryConfig) -> str | None:
    """Read the token of this node; None if no file is set. Raises `UserError`."""
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
            f"{path} contains no token: create one on the collector's host with: wattpack token add"
        )
    return token


def tls_context(settings: DeliveryConfig) -> ssl.SSLContext | None:
    """Create the TLS context for the collector; None if the URL is not https."""
    if urlsplit(settings.url).scheme != "https":
        if settings.ca_file or settings.cert_file:
            raise UserError(
                f"collector.url is {settings.url}, without TLS: use https://, or leave collector.ca_file and"
                " collector.cert_file empty"
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
                f"cannot use {settings.cert_file} and its key ({_why(error)}): check"
                " collector.cert_file and collector.key_file"
            ) from error
    return context


def sends_token_in_plaintext(settings: DeliveryConfig) -> bool:
    """Whether the token is sent over a network without TLS."""
    address = urlsplit(settings.url)
    is_local = Address(address.hostname or "", 0).is_loopback
    return bool(settings.token_file) and address.scheme != "https" and not is_local


def _refuse_password() -> str:
    """Keep OpenSSL from prompting on the terminal."""
    raise UserError("the key in collector.key_file is encrypted: store it without a password")


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return "not PEM, or certificate and key do not match"
    return (error.strerror or str(error)).lower()
