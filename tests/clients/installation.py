"""SkyPilot in an environment of its own, made once for each content of its lock.

``python -m tests.clients.installation`` makes it and prints where its programs are.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.controlplane.build import default_cache

LOCK = Path(__file__).resolve().parents[2] / "requirements" / "skypilot.txt"

DEBIAN = {"socat": "socat", "nc": "netcat-openbsd", "rsync": "rsync", "ssh": "openssh-client"}
"""Program that SkyPilot wants -> its Debian package."""


def lacking() -> list[str]:
    """The Debian packages that this machine lacks."""
    return [package for program, package in DEBIAN.items() if not shutil.which(program)]


def ensure() -> Path:
    """Return the folder with SkyPilot's programs, installing them when the cache has none.

    Every wheel is compared with its hash. Raises CalledProcessError when pip fails.
    """
    folder = default_cache().parent / f"skypilot-{_key(sys.executable)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    finished = folder / "finished"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder)
            finished.touch()
    return folder / "bin"


def _key(python: str) -> str:
    """Name what the environment is made of, and by which Python; a checkout's .venv is none of its
    own, so all checkouts with the same one share what is installed."""
    words = f"{sys.version} {Path(python).resolve()}".encode()
    return hashlib.sha256(LOCK.read_bytes() + words).hexdigest()[:12]


def _install(folder: Path) -> None:
    """Make the environment with this Python, which has pip for it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    what = ["--require-hashes", "--only-binary=:all:", "-r", str(LOCK)]
    subprocess.run(
        [*pip, "install", "--quiet", "--disable-pip-version-check", *what],
        check=True,
        stdin=subprocess.DEVNULL,
    )


def main() -> int:
    """Install, and say where."""
    if lacks := lacking():
        print(f"SkyPilot wants {' '.join(lacks)} (Debian's packages)", file=sys.stderr)
    print(ensure())
    return 0


if __name__ == "__main__":
    sys.exit(main())
