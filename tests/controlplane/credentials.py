"""Users, tokens, kubeconfigs and the service account key of one control plane.

Static tokens keep the test bed free of a certificate authority: the API server signs its own
serving certificate, and everybody else is known by a token.
"""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path

EXTENDER_USER = "extender"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody the API server knows."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    def csv(self) -> str:
        """The user's line of ``--token-auth-file``."""
        return f'{self.token},{self.name},{self.name},"{",".join(self.groups)}"'


@dataclass(frozen=True, slots=True)
class Users:
    """Everybody with a token.

    The scheduler runs under its real name, hence with its real (bootstrap) rights. The controller
    manager would need a service account for each controller, so it is an administrator here.
    """

    admin: User = field(default_factory=lambda: User("admin", ("system:masters",)))
    manager: User = field(
        default_factory=lambda: User("system:kube-controller-manager", ("system:masters",))
    )
    scheduler: User = field(default_factory=lambda: User("system:kube-scheduler"))
    kwok: User = field(default_factory=lambda: User("kwok", ("system:masters",)))
    extender: User = field(default_factory=lambda: User(EXTENDER_USER))
    """No right at all, until a test binds a role to it."""

    def write(self, path: Path) -> Path:
        """Write the ``--token-auth-file``."""
        users = (self.admin, self.manager, self.scheduler, self.kwok, self.extender)
        path.write_text("".join(user.csv() + "\n" for user in users))
        path.chmod(0o600)
        return path


def write_kubeconfig(path: Path, server: str, ca_file: Path, user: User) -> Path:
    """Write a kubeconfig for one user (as JSON, which is YAML too)."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": server, "certificate-authority": str(ca_file)},
            }
        ],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user.name}}],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
    path.chmod(0o600)
    return path


def write_service_account_key(path: Path) -> Path:
    """Write a fresh P-256 private key as PEM.

    SEC 1 makes the public point optional and Go computes it, so a random number is all a key
    needs; no cryptography package, no openssl.
    """
    # A cleared top bit keeps the number below the order of the curve, which starts with ones.
    scalar = bytearray(secrets.token_bytes(32))
    scalar[0] &= 0x7F
    curve = bytes.fromhex("06082a8648ce3d030107")  # OBJECT IDENTIFIER prime256v1
    body = bytes([2, 1, 1, 4, 32]) + bytes(scalar) + bytes([0xA0, len(curve)]) + curve
    der = bytes([0x30, len(body)]) + body
    text = base64.encodebytes(der).decode()
    path.write_text(f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n")
    path.chmod(0o600)
    return path
