"""Certificates for tests of TLS, valid for a day."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.lab.parts import require


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, each in a PEM file."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        require("certificates")
        self._folder = folder
        self._own = self._make(name)

    @property
    def certificate(self) -> Path:
        """The certificate to trust, for all that the authority signs."""
        return self._own.certificate

    def issue(self, name: str) -> Pair:
        """Sign a certificate for a server at 127.0.0.1 or a client; an old one of that name is replaced."""
        own = self._own
        signed = ("-CA", str(own.certificate), "-CAkey", str(own.key), "-addext", "basicConstraints=CA:FALSE")
        return self._make(name, *signed, "-addext", "subjectAltName=IP:127.0.0.1")

    def lock(self, name: str, locked: str) -> None:
        """Encrypt the key of a certificate with a password."""
        source, target = (str(self._folder / f"{each}.key") for each in (name, locked))
        command = ["openssl", "ec", "-in", source, "-out", target, "-aes128", "-passout", "pass:secret"]
        subprocess.run(command, check=True, capture_output=True)

    def _make(self, name: str, *options: str) -> Pair:
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
        files = ("-keyout", str(pair.key), "-out", str(pair.certificate))
        subprocess.run(
            ["openssl", "req", "-x509", *curve, *files, "-days", "1", "-subj", f"/CN={name}", *options],
            check=True,
            capture_output=True,
        )
        return pair


def trusting(authority: Authority, own: Pair | None = None) -> ssl.SSLContext:
    """Make a client context that trusts an authority, with a client certificate if given."""
    context = ssl.create_default_context(cafile=authority.certificate)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context
