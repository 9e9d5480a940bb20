"""From proto/ to extender/pb with the compiler of grpcio-tools; nothing else writes there."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "proto"
PACKAGE = ROOT / "extender" / "pb"
STORED = SOURCES / "podgroup.v1.binpb"
"""What callers may rely on: a FileDescriptorSet without comments."""
HEADER = '"""Generated from proto/ by `python -m tools.protos`; not to be edited."""\n'
_IMPORT = re.compile(r"^from podgroup\.", re.MULTILINE)


def sources() -> list[str]:
    """Return the .proto files, relative to proto/."""
    return sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.proto"))


def descriptors() -> FileDescriptorSet:
    """Return what proto/ says, with comments. Raises SystemExit when it does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "set"
        compiled([f"--descriptor_set_out={path}", "--include_source_info"])
        return FileDescriptorSet.FromString(path.read_bytes())


def stored() -> FileDescriptorSet | None:
    """Return the descriptors that callers may rely on."""
    return FileDescriptorSet.FromString(STORED.read_bytes()) if STORED.exists() else None


def plain(compiled: FileDescriptorSet) -> FileDescriptorSet:
    """Return the descriptors without comments, as they are stored."""
    bare = FileDescriptorSet.FromString(compiled.SerializeToString())
    for file in bare.file:
        file.ClearField("source_code_info")
    return bare


def store(compiled: FileDescriptorSet) -> None:
    """Make these descriptors the ones that callers may rely on."""
    STORED.write_bytes(plain(compiled).SerializeToString(deterministic=True))


def write(package: Path) -> None:
    """Generate the package anew."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        compiled(
            [f"--{kind}_out={out}" for kind in ("python", "grpc_python")]
            + [f"--{kind}_out=quiet:{out}" for kind in ("mypy", "mypy_grpc")]
        )
        for file in out.rglob("*.py*"):
            if "_pb2_grpc" in file.name and "Stub" not in file.read_text():
                file.unlink()  # of a file without services
                continue
            # protoc names modules after proto/, but they live in a package of ours.
            file.write_text(_IMPORT.sub("from extender.pb.podgroup.", file.read_text()))
        for directory in (out, *(path for path in out.rglob("*") if path.is_dir())):
            (directory / "__init__.py").write_text(HEADER)
        shutil.rmtree(package, ignore_errors=True)
        shutil.copytree(out, package)


def differences(fresh: Path, present: Path) -> list[str]:
    """Return in words which files of two packages are not the same."""
    names = _files(fresh) | _files(present)
    return [
        f"extender/pb/{name} is not what proto/ gives: run python -m tools.protos"
        for name in sorted(names)
        if content(fresh / name) != content(present / name)
    ]


def _files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py*")
        if path.suffix in (".py", ".pyi")
    }


def content(file: Path) -> bytes | None:
    """Return what a file has, None when there is none."""
    return file.read_bytes() if file.exists() else None


def compiled(options: Iterable[str]) -> None:
    """Run protoc over all of proto/. Raises SystemExit when it fails."""
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    # protoc finds its plugins on PATH; those of this interpreter are meant.
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), before))
    try:
        status = protoc.main(["protoc", f"-I{SOURCES}", f"-I{well_known}", *options, *sources()])
    finally:
        os.environ["PATH"] = before
    if status:
        raise SystemExit(f"protoc failed with {status}")
