"""The TLS context of a server. It reloads its files: a new certificate applies to the next connection."""

import logging
import ssl
from pathlib import Path

from wire.errors import UserError, os_reason
from wire.http.webconfig_file import ClientAuth, Tls, TlsVersion

log = logging.getLogger(__name__)

_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_VERSION = {TlsVersion.TLS12: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS13: ssl.TLSVersion.TLSv1_3}


def server_context(settings: Tls) -> ssl.SSLContext:
    """Create the context; raises `UserError` if a file is invalid.

    Each handshake checks whether a file was replaced. If the new files are invalid, for example because the
    key is not written yet, it logs a warning once and keeps the old certificate.
    """
    first = latest = _load(settings)
    versions = _file_versions(settings)

    def renew(handshake: ssl.SSLObject, _server_name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal latest, versions
        if (current := _file_versions(settings)) != versions:
            versions = current
            try:
                latest = _load(settings)
                log.info("loaded the new certificate %s", settings.cert_file)
            except UserError as error:
                log.warning("keeping the previous certificate: %s", error)
        if latest is not first:
            handshake.context = latest

    # OpenSSL calls this for every connection, even if the client sends no server name.
    first.sni_callback = renew
    return first


def _load(settings: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSION[settings.min_version]
    for path in _files(settings):
        _check_readable(path)
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file, password=_refuse_password)
    except ssl.SSLError as error:
        raise UserError(
            f"{settings.cert_file} and {settings.key_file} are not a PEM certificate and its key: check both"
        ) from error
    context.verify_mode = _VERIFY[settings.client_auth_type]
    if settings.client_ca_file is not None:
        try:
            context.load_verify_locations(settings.client_ca_file)
        except ssl.SSLError as error:
            raise UserError(
                f"{settings.client_ca_file} is not a PEM certificate: check client_ca_file"
            ) from error
    return context


def _files(settings: Tls) -> tuple[Path, ...]:
    paths = (settings.cert_file, settings.key_file, settings.client_ca_file)
    return tuple(Path(path) for path in paths if path is not None)


def _check_readable(path: Path) -> None:
    """Name the file in the error: OpenSSL does not."""
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise UserError(f"cannot read {path} ({os_reason(error)}): check the TLS settings") from error


def _refuse_password() -> str:
    """Keep OpenSSL from prompting on the terminal."""
    raise UserError("the key of the certificate is encrypted: store it without a password")


def _file_versions(settings: Tls) -> tuple[tuple[int, int, int] | None, ...]:
    """A value that changes when a file is written or replaced."""

    def version(path: Path) -> tuple[int, int, int] | None:
        try:
            status = path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    return tuple(version(path) for path in _files(settings))
