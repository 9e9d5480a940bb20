"""buf's STANDARD lint rules, as far as this interface meets them, and COMMENTS.

https://buf.build/docs/lint/rules has each rule's reason; the names here are those of that page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

PASCAL = re.compile(r"[A-Z][A-Za-z0-9]*")
SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
SHOUTED = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
VERSIONED = re.compile(r"[a-z][a-z0-9_.]*\.v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
# Field numbers of descriptor.proto, of which paths of comments are made.
MESSAGE, ENUM, SERVICE = 4, 5, 6
FIELD, NESTED, NESTED_ENUM, ONEOF = 2, 3, 4, 8
VALUE, METHOD = 2, 2

Path = tuple[int, ...]
Fault = str


def faults(compiled: FileDescriptorSet) -> list[Fault]:
    """Return what is against a rule: where, which rule and what it says."""
    found = [fault for file in compiled.file for fault in _file(file)]
    used = Counter(
        name
        for file in compiled.file
        for service in file.service
        for method in service.method
        for name in (method.input_type, method.output_type)
    )
    found += [
        f"{n[1:]}: RPC_REQUEST_RESPONSE_UNIQUE: used {c} times" for n, c in used.items() if c > 1
    ]
    return found


def _file(file: FileDescriptorProto) -> Iterator[Fault]:
    folder, _, name = file.name.rpartition("/")
    if file.syntax != "proto3":
        yield f"{file.name}: SYNTAX_SPECIFIED: proto3 is expected"
    if not VERSIONED.fullmatch(file.package):
        yield f"{file.name}: PACKAGE_VERSION_SUFFIX: {file.package!r} does not end in a version"
    if folder != file.package.replace(".", "/"):
        yield f"{file.name}: PACKAGE_DIRECTORY_MATCH: {file.package!r} is in {folder!r}"
    if not SNAKE.fullmatch(name.removesuffix(".proto")):
        yield f"{file.name}: FILE_LOWER_SNAKE_CASE"
    if file.public_dependency or file.weak_dependency:
        yield f"{file.name}: IMPORT_NO_PUBLIC, IMPORT_NO_WEAK"
    commented = {
        tuple(place.path)
        for place in file.source_code_info.location
        if place.leading_comments.strip()
    }
    for i, message in enumerate(file.message_type):
        yield from _message(message, f"{file.package}.{message.name}", (MESSAGE, i), commented)
    for i, enum in enumerate(file.enum_type):
        yield from _enum(enum, f"{file.package}.{enum.name}", (ENUM, i), commented)
    for i, service in enumerate(file.service):
        yield from _service(service, f"{file.package}.{service.name}", (SERVICE, i), commented)


def _message(
    message: DescriptorProto, where: str, path: Path, commented: set[Path]
) -> Iterator[Fault]:
    if message.options.map_entry:
        return
    if not PASCAL.fullmatch(message.name):
        yield f"{where}: MESSAGE_PASCAL_CASE"
    if path not in commented:
        yield f"{where}: COMMENT_MESSAGE"
    for i, field in enumerate(message.field):
        if not SNAKE.fullmatch(field.name):
            yield f"{where}.{field.name}: FIELD_LOWER_SNAKE_CASE"
        if (*path, FIELD, i) not in commented:
            yield f"{where}.{field.name}: COMMENT_FIELD"
    # What protoc makes of an optional field is no oneof of the file.
    made = {field.oneof_index for field in message.field if field.proto3_optional}
    for i, oneof in enumerate(message.oneof_decl):
        if i in made:
            continue
        if not SNAKE.fullmatch(oneof.name):
            yield f"{where}.{oneof.name}: ONEOF_LOWER_SNAKE_CASE"
        if (*path, ONEOF, i) not in commented:
            yield f"{where}.{oneof.name}: COMMENT_ONEOF"
    for i, nested in enumerate(message.nested_type):
        yield from _message(nested, f"{where}.{nested.name}", (*path, NESTED, i), commented)
    for i, enum in enumerate(message.enum_type):
        yield from _enum(enum, f"{where}.{enum.name}", (*path, NESTED_ENUM, i), commented)


def _enum(
    enum: EnumDescriptorProto, where: str, path: Path, commented: set[Path]
) -> Iterator[Fault]:
    if not PASCAL.fullmatch(enum.name):
        yield f"{where}: ENUM_PASCAL_CASE"
    if path not in commented:
        yield f"{where}: COMMENT_ENUM"
    if enum.options.allow_alias:
        yield f"{where}: ENUM_NO_ALLOW_ALIAS"
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper() + "_"
    for i, value in enumerate(enum.value):
        if not SHOUTED.fullmatch(value.name):
            yield f"{where}.{value.name}: ENUM_VALUE_UPPER_SNAKE_CASE"
        if not value.name.startswith(prefix):
            yield f"{where}.{value.name}: ENUM_VALUE_PREFIX: {prefix} is expected"
        if value.number == 0 and value.name != prefix + "UNSPECIFIED":
            yield f"{where}.{value.name}: ENUM_ZERO_VALUE_SUFFIX: {prefix}UNSPECIFIED is expected"
        if (*path, VALUE, i) not in commented:
            yield f"{where}.{value.name}: COMMENT_ENUM_VALUE"


def _service(
    service: ServiceDescriptorProto, where: str, path: Path, commented: set[Path]
) -> Iterator[Fault]:
    if not PASCAL.fullmatch(service.name):
        yield f"{where}: SERVICE_PASCAL_CASE"
    if not service.name.endswith("Service"):
        yield f"{where}: SERVICE_SUFFIX"
    if path not in commented:
        yield f"{where}: COMMENT_SERVICE"
    for i, method in enumerate(service.method):
        if not PASCAL.fullmatch(method.name):
            yield f"{where}.{method.name}: RPC_PASCAL_CASE"
        if method.input_type.rpartition(".")[2] != f"{method.name}Request":
            yield f"{where}.{method.name}: RPC_REQUEST_STANDARD_NAME: {method.input_type}"
        if method.output_type.rpartition(".")[2] != f"{method.name}Response":
            yield f"{where}.{method.name}: RPC_RESPONSE_STANDARD_NAME: {method.output_type}"
        if (*path, METHOD, i) not in commented:
            yield f"{where}.{method.name}: COMMENT_RPC"
