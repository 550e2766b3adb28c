"""TLS and a user for the HTTP port of an embedded cluster, made anew at each start by the JRE's keytool alone."""

import base64
import hashlib
import json
import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .install import JRE_HOME

USER = "rally"
KEYSTORE = "http.p12"
DAYS = 365
"""How long the certificate is valid."""
HASH_ITERATIONS = 10_000


@dataclass(frozen=True)
class Security:
    """What the nodes of one cluster and its clients need.

    :param keystore: the private key and its certificate, which signs itself.
    :param certificate: the certificate alone, which clients trust.
    :param password: of the user ``rally``, a superuser of the file realm.
    :param keystore_password: of the keystore.
    """

    keystore: bytes
    certificate: Path
    password: str
    keystore_password: str

    def settings(self) -> dict[str, Any]:
        """Lines for ``elasticsearch.yml``."""
        return {
            "xpack.security.enabled": "true",
            "xpack.security.http.ssl.enabled": "true",
            "xpack.security.http.ssl.keystore.path": KEYSTORE,
            "xpack.security.http.ssl.keystore.password": self.keystore_password,
        }

    def write(self, config: Path) -> None:
        """Writes keystore and user into a node's folder ``config``."""
        write_private(config / KEYSTORE, self.keystore)
        salt = os.urandom(32)
        digest = hashlib.pbkdf2_hmac("sha512", self.password.encode(), salt, HASH_ITERATIONS, dklen=32)
        stored = "$".join([str(HASH_ITERATIONS), *(base64.b64encode(part).decode() for part in (salt, digest))])
        write_private(config / "users", f"{USER}:{{PBKDF2}}{stored}\n".encode())
        write_private(config / "users_roles", f"superuser:{USER}\n".encode())

    def client_options(self) -> bytes:
        """Client options as Rally reads them from a file."""
        options = {
            "use_ssl": True,
            "verify_certs": True,
            "ca_certs": str(self.certificate),
            "basic_auth_user": USER,
            "basic_auth_password": self.password,
        }
        return json.dumps({"default": options}, indent=1).encode() + b"\n"


def create(folder: Path, name: str, host: str) -> Security:
    """Makes key, certificate and password of a cluster; leaves ``NAME.pem``, the certificate, in ``folder``.

    :param host: IP address that the certificate is for; it is for ``localhost`` too.
    """
    certificate, keystore, password = folder / f"{name}.pem", folder / f"{name}.p12", secrets.token_urlsafe()
    for file in (certificate, keystore):
        file.unlink(missing_ok=True)

    def keytool(*arguments: str) -> None:
        command = [str(JRE_HOME / "bin" / "keytool"), *arguments, "-alias", "http"]
        command += ["-keystore", str(keystore), "-storetype", "PKCS12", "-storepass:env", "STOREPASS"]
        env = os.environ | {"STOREPASS": password}
        subprocess.run(command, env=env, umask=0o077, capture_output=True, check=True)

    key = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", str(DAYS)]
    keytool("-genkeypair", *key, "-dname", f"CN={name}", "-ext", f"san=ip:{host},dns:localhost")
    keytool("-exportcert", "-rfc", "-file", str(certificate))
    certificate.chmod(0o644)
    security = Security(keystore.read_bytes(), certificate, secrets.token_urlsafe(), password)
    keystore.unlink()
    return security


def write_private(path: Path, content: bytes) -> None:
    """Writes a file anew that nobody but its owner can read, whatever was there and whoever could read that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
        f.write(content)
