"""Pack manifests/krew for Krew and write the archive's sum into the plugin manifest.

``python -m tools.krew_archive`` writes build/kubectl-gang.tar.gz. Equal files give equal bytes,
so that whoever builds it again can compare the sum that manifests/krew/gang.yaml states.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE = ROOT / "build" / "kubectl-gang.tar.gz"
MANIFEST = ROOT / "manifests" / "krew" / "gang.yaml"
FILES = (("kubectl-gang", "manifests/krew/kubectl-gang", 0o755), ("LICENSE", "LICENSE", 0o644))


def archive() -> bytes:
    """Return the archive: names, rights and bytes of FILES, and nothing of time or owner."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, source, mode in FILES:
            data = (ROOT / source).read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    zipped = io.BytesIO()
    # Level 0 stores: what deflate makes differs between zlib versions, and what gzip.compress
    # writes as operating system between Python versions.
    with gzip.GzipFile("", "wb", compresslevel=0, fileobj=zipped, mtime=0) as file:
        file.write(packed.getvalue())
    return zipped.getvalue()


def main() -> int:
    """Write the archive and the sum."""
    data = archive()
    total = hashlib.sha256(data).hexdigest()
    ARCHIVE.parent.mkdir(exist_ok=True)
    ARCHIVE.write_bytes(data)
    text = MANIFEST.read_text()
    MANIFEST.write_text(re.sub(r"(?m)(sha256: ).*$", rf"\g<1>{total}", text))
    print(f"{ARCHIVE.relative_to(ROOT)} {total}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
