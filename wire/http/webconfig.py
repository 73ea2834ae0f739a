"""The web configuration file of Prometheus: its keys, its TLS context, and its users with bcrypt hashes."""

import asyncio
import hmac
import logging
import re
import secrets
import ssl
from collections.abc import Mapping
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any

import bcrypt
import msgspec
import yaml
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from wire.errors import UserError, os_reason
from wire.http.authorization import parse_basic
from wire.http.connections import sender
from wire.http.turns import FairTurns, TooManyWaitingError
from wire.settings import Section

log = logging.getLogger(__name__)


def protect(app: web.Application, file: Path) -> ssl.SSLContext | None:
    """Apply a web configuration file to an application; returns the TLS context if the file enables TLS."""
    config = read_web_config(file)
    if config.basic_auth_users:
        app.middlewares.insert(0, Users(config.basic_auth_users).guard)
    return server_context(config.tls_server_config) if config.tls_server_config else None


def check_web_config(file: Path) -> None:
    """Raise the `UserError` that `protect` would raise, if any."""
    protect(web.Application(), file)


# --- The file -----------------------------------------------------------------------------------


class ClientAuth(StrEnum):
    """Whether clients send a certificate. Modes that do not verify it are not supported."""

    NONE = "NoClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRED = "RequireAndVerifyClientCert"


class TlsVersion(StrEnum):
    """Supported TLS versions."""

    TLS12 = "TLS12"
    TLS13 = "TLS13"


class Tls(Section, frozen=True):
    """`tls_server_config`; its paths are relative to the file."""

    cert_file: str
    key_file: str
    client_auth_type: ClientAuth = ClientAuth.NONE
    client_ca_file: str | None = None
    min_version: TlsVersion = TlsVersion.TLS12

    def __post_init__(self) -> None:
        if self.client_auth_type is ClientAuth.NONE and self.client_ca_file is not None:
            raise ValueError(
                f"client_ca_file has no effect without client_auth_type: {ClientAuth.REQUIRED.value}"
            )
        if self.client_auth_type is not ClientAuth.NONE and self.client_ca_file is None:
            raise ValueError(f"client_auth_type: {self.client_auth_type.value} requires client_ca_file")


class WebConfig(Section, frozen=True):
    """The whole file."""

    tls_server_config: Tls | msgspec.UnsetType = msgspec.UNSET
    """Not None: an empty `tls_server_config` is an error, and does not disable TLS."""
    basic_auth_users: dict[str, str] = msgspec.field(default_factory=dict)
    """User name to bcrypt hash."""

    def __post_init__(self) -> None:
        for name, hashed in self.basic_auth_users.items():
            if not _BCRYPT.fullmatch(hashed):
                raise ValueError(
                    f"basic_auth_users.{name} is not a bcrypt hash: create one with htpasswd -nB {name}"
                )


_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")


def read_web_config(file: Path) -> WebConfig:
    """Read and validate a file; its paths are relative to its directory. Raises `UserError`."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {file} ({os_reason(error)}): check http.web_config") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 text: save it as UTF-8") from error
    config = parse_web_config(text, str(file))
    tls = config.tls_server_config
    if not tls:
        return config
    paths = {
        key: str(file.parent / path)
        for key in ("cert_file", "key_file", "client_ca_file")
        if (path := getattr(tls, key)) is not None
    }
    return msgspec.structs.replace(config, tls_server_config=msgspec.structs.replace(tls, **paths))


def parse_web_config(text: str, name: str) -> WebConfig:
    """Validate the text of a file; `name` is its name in error messages."""
    try:
        tree = yaml.load(text, _Loader)  # noqa: S506 - a safe loader, only stricter
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{name}{line}: invalid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise UserError(f"{name}: invalid YAML: {error}") from error
    try:
        return msgspec.convert({} if tree is None else tree, WebConfig)
    except msgspec.ValidationError as error:
        raise UserError(f"{name}: {_explain(str(error))}") from None


class _Loader(yaml.SafeLoader):
    """Rejects duplicate keys: of two passwords of one user, one would be ignored silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        keys: set[str] = set()
        for key, _ in node.value:
            if key.value in keys:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} occurs twice", problem_mark=key.start_mark)
            keys.add(key.value)
        return super().construct_mapping(node, deep)


_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>.*)`)?")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*)`")
_MISSING = re.compile(r"Object missing required field `(?P<key>.*)`")
_WRONG_CHOICE = re.compile(r"Invalid enum value '?(?P<value>.*?)'?")
_WRONG_TYPE = re.compile(r"Expected `(?P<wanted>\w+)(?: \| null)?`, got `(?P<got>\w+)`")
_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "str": "a string",
    "bool": "true or false",
    "null": "empty",
}


def _explain(message: str) -> str:
    """Translate an error of msgspec into the terms of the file."""
    match = _MESSAGE.fullmatch(message)
    assert match is not None, "the expression matches anything"
    what, path = match["what"], re.sub(r"\[.*?\]", "", match["path"] or "")
    below = f"{path}." if path else ""
    if unknown := _UNKNOWN.fullmatch(what):
        return f"{below}{unknown['key']} is not supported: remove it"
    if missing := _MISSING.fullmatch(what):
        return f"{below}{missing['key']} is missing"
    if wrong := _WRONG_CHOICE.fullmatch(what):
        choices = ", ".join(Tls.__annotations__[path.rpartition(".")[2]])
        return f"{path}: {wrong['value']} is not supported: use one of {choices}"
    if wrong := _WRONG_TYPE.fullmatch(what):
        wanted, got = (_TYPES.get(wrong[key], wrong[key]) for key in ("wanted", "got"))
        return f"{path or 'the file'} must be {wanted}, not {got}"
    return f"{path}: {what}" if path else what


# --- TLS ----------------------------------------------------------------------------------------

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


# --- Users --------------------------------------------------------------------------------------

_CHALLENGE = 'Basic realm="wattpack", charset="UTF-8"'
_BCRYPT_MAX_BYTES = 72
_MOST_WAITING, _MOST_ADDRESSES = 8, 64
"""Of one address, and addresses: all of them get a turn within the few seconds that a scrape may take."""


class Users:
    """The users and their password hashes.

    Checking a bcrypt hash takes about 50 ms. It runs in a thread, one check at a time, however many clients
    guess: addresses take turns, and few requests of each wait. A correct password is cached as a keyed
    digest: at most one per user.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = {name: hashed.encode() for name, hashed in hashes.items()}
        # Checking an unknown name takes equally long, so that timing does not reveal which names exist.
        self._decoy = next(iter(self._hashes.values()))
        self._verified: dict[str, bytes] = {}
        self._key = secrets.token_bytes(32)
        self._turns = FairTurns(_MOST_WAITING, _MOST_ADDRESSES)

    async def verify(self, name: str, password: bytes, address: str = "") -> bool:
        """Whether the password is right; raises `TooManyWaitingError`."""
        digest = blake2b(password, key=self._key).digest()
        if self._is_verified(name, digest):
            return True
        async with self._turns.turn(sender(address)):
            if self._is_verified(name, digest):
                return True  # while this one waited
            matches = await asyncio.to_thread(_matches, password, self._hashes.get(name, self._decoy))
        if not matches or name not in self._hashes:
            return False
        self._verified[name] = digest
        return True

    def _is_verified(self, name: str, digest: bytes) -> bool:
        return hmac.compare_digest(self._verified.get(name, b""), digest)

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer requests without a valid password with 401."""
        credentials = parse_basic(request.headers.get(hdrs.AUTHORIZATION, ""))
        try:
            if credentials is not None and await self.verify(*credentials, request.remote or ""):
                return await handler(request)
        except TooManyWaitingError:
            return web.Response(status=429, text="Too many passwords wait\n", headers={hdrs.RETRY_AFTER: "5"})
        return web.Response(status=401, text="Unauthorized\n", headers={hdrs.WWW_AUTHENTICATE: _CHALLENGE})


def _matches(password: bytes, hashed: bytes) -> bool:
    # htpasswd truncates a longer password when it creates the hash; this library raises an error instead.
    return bcrypt.checkpw(password[:_BCRYPT_MAX_BYTES], hashed)
