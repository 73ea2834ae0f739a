"""A TLS context that follows its files: a renewed certificate is used from the next connection on."""

import logging
import ssl
from pathlib import Path

from wire.errors import UserError
from wire.http.webconfig_file import Cipher, ClientAuth, Tls, TlsVersion

log = logging.getLogger(__name__)

_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_VERSION = {TlsVersion.TLS12: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS13: ssl.TLSVersion.TLSv1_3}
_OPENSSL_NAME = {
    Cipher.ECDSA_AES_128: "ECDHE-ECDSA-AES128-GCM-SHA256",
    Cipher.ECDSA_AES_256: "ECDHE-ECDSA-AES256-GCM-SHA384",
    Cipher.ECDSA_CHACHA20: "ECDHE-ECDSA-CHACHA20-POLY1305",
    Cipher.RSA_AES_128: "ECDHE-RSA-AES128-GCM-SHA256",
    Cipher.RSA_AES_256: "ECDHE-RSA-AES256-GCM-SHA384",
    Cipher.RSA_CHACHA20: "ECDHE-RSA-CHACHA20-POLY1305",
}


def server_context(settings: Tls) -> ssl.SSLContext:
    """The context to serve with; raises `UserError` when a file is not what it should be.

    Before each handshake it looks whether a file was replaced. New files that do not work, such as a
    certificate whose key is still to be written, are said once, and the old ones stay in use.
    """
    first = latest = _load(settings)
    stamp = _stamp(settings)

    def renew(handshake: ssl.SSLObject, _server_name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal latest, stamp
        if (now := _stamp(settings)) != stamp:
            stamp = now
            try:
                latest = _load(settings)
                log.info("%s was replaced and is in use", settings.cert_file)
            except UserError as complaint:
                log.warning("going on with the certificate before: %s", complaint)
        if latest is not first:
            handshake.context = latest

    # OpenSSL asks this about every connection, whether or not the client names a server.
    first.sni_callback = renew
    return first


def _load(settings: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSION[settings.min_version]
    context.maximum_version = _VERSION[settings.max_version]
    if settings.cipher_suites:
        context.set_ciphers(":".join(_OPENSSL_NAME[cipher] for cipher in settings.cipher_suites))
    if not settings.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    for path in _files(settings):
        _check_readable(path)
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file, password=_refuse_password)
    except ssl.SSLError as error:
        raise UserError(
            f"{settings.cert_file} and {settings.key_file} are not a certificate and its key, both in PEM"
        ) from error
    context.verify_mode = _VERIFY[settings.client_auth_type]
    if settings.client_ca_file is not None:
        try:
            context.load_verify_locations(settings.client_ca_file)
        except ssl.SSLError as error:
            raise UserError(f"{settings.client_ca_file} holds no certificate in PEM") from error
    return context


def _files(settings: Tls) -> tuple[Path, ...]:
    paths = (settings.cert_file, settings.key_file, settings.client_ca_file)
    return tuple(Path(path) for path in paths if path is not None)


def _check_readable(path: Path) -> None:
    """OpenSSL does not say which of its files it could not open."""
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"cannot read {path} ({reason}), which TLS needs") from error


def _refuse_password() -> str:
    """Else OpenSSL would ask on the terminal, and wait."""
    raise UserError("the key of the certificate is encrypted: store it without a password")


def _stamp(settings: Tls) -> tuple[tuple[int, int, int] | None, ...]:
    """What changes when a file is written or replaced."""

    def of(path: Path) -> tuple[int, int, int] | None:
        try:
            status = path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    return tuple(of(path) for path in _files(settings))
