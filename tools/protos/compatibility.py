"""What may not change in an interface that somebody calls already: proto/README.md has the rule.

Both ways are compared as bytes and as JSON: names, numbers, types and labels of fields stay, what
is taken out is reserved by number and by name, and nothing is ever un-reserved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)


def breaking(old: FileDescriptorSet, new: FileDescriptorSet) -> list[str]:
    """Return in words what callers of ``old`` would stumble over in ``new``."""
    found: list[str] = []
    messages, enums = dict(_messages(new)), dict(_enums(new))
    for name, was in _messages(old):
        found += _message(name, was, messages.get(name))
    for name, values in _enums(old):
        found += _enum(name, values, enums.get(name))
    methods = dict(_methods(new))
    for name, method in _methods(old):
        found += _method(name, method, methods.get(name))
    return found


def _method(
    name: str, old: MethodDescriptorProto, new: MethodDescriptorProto | None
) -> Iterator[str]:
    if new is None:
        yield f"{name}: the rpc is gone"
        return
    for what in ("input_type", "output_type", "client_streaming", "server_streaming"):
        if getattr(old, what) != getattr(new, what):
            yield f"{name}: {what} was {getattr(old, what)}, is {getattr(new, what)}"


def _message(name: str, old: DescriptorProto, new: DescriptorProto | None) -> Iterator[str]:
    if new is None:
        yield f"{name}: the message is gone"
        return
    present = {field.number: field for field in new.field}
    for field in old.field:
        where = f"{name}.{field.name}"
        other = present.get(field.number)
        if other is None:
            if not _covers(new, field.number) or field.name not in new.reserved_name:
                yield (
                    f"{where}: number {field.number} is gone and its number and name are "
                    "not both reserved"
                )
            continue
        was, now = _shape(old, field), _shape(new, other)
        for what, before in was.items():
            if now[what] != before:
                yield f"{where}: {what} of number {field.number} was {before}, is {now[what]}"
    yield from _unreserved(name, old, new)


def _enum(name: str, old: EnumDescriptorProto, new: EnumDescriptorProto | None) -> Iterator[str]:
    if new is None:
        yield f"{name}: the enum is gone"
        return
    present = {value.number: value.name for value in new.value}
    for value in old.value:
        other = present.get(value.number)
        if other is None:
            # An enum's reserved ranges include their end.
            kept = any(each.start <= value.number <= each.end for each in new.reserved_range)
            if not kept or value.name not in new.reserved_name:
                yield f"{name}.{value.name}: is gone and its number and name are not both reserved"
        elif other != value.name:
            yield f"{name}.{value.name}: number {value.number} is called {other} now"
    yield from _unreserved(name, old, new)


def _unreserved(
    name: str,
    old: DescriptorProto | EnumDescriptorProto,
    new: DescriptorProto | EnumDescriptorProto,
) -> Iterator[str]:
    for reserved in old.reserved_name:
        if reserved not in new.reserved_name:
            yield f"{name}: the name {reserved} is no longer reserved"
    ranges = {(each.start, each.end) for each in new.reserved_range}
    for each in old.reserved_range:
        if not any(start <= each.start and each.end <= end for start, end in ranges):
            yield f"{name}: the numbers from {each.start} are no longer reserved"


def _shape(message: DescriptorProto, field: FieldDescriptorProto) -> dict[str, str]:
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else "none"
    return {
        "name": field.name,
        "JSON name": field.json_name or _json_name(field.name),
        "type": FieldDescriptorProto.Type.Name(field.type),
        "type name": field.type_name,
        "label": FieldDescriptorProto.Label.Name(field.label),
        "oneof": oneof,
        "presence": str(field.proto3_optional),
    }


def _json_name(name: str) -> str:
    """Return the name that protoc gives where none is said; generated code leaves it out."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _covers(message: DescriptorProto, number: int) -> bool:
    """Whether a number is reserved; a message's ranges exclude their end."""
    return any(each.start <= number < each.end for each in message.reserved_range)


def _messages(files: FileDescriptorSet) -> Iterator[tuple[str, DescriptorProto]]:
    def nested(
        prefix: str, found: Sequence[DescriptorProto]
    ) -> Iterator[tuple[str, DescriptorProto]]:
        for message in found:
            name = f"{prefix}.{message.name}"
            yield name, message
            yield from nested(name, message.nested_type)

    for file in files.file:
        yield from nested(file.package, file.message_type)


def _enums(files: FileDescriptorSet) -> Iterator[tuple[str, EnumDescriptorProto]]:
    for file in files.file:
        for enum in file.enum_type:
            yield f"{file.package}.{enum.name}", enum
    for name, message in _messages(files):
        for enum in message.enum_type:
            yield f"{name}.{enum.name}", enum


def _methods(files: FileDescriptorSet) -> Iterator[tuple[str, MethodDescriptorProto]]:
    for file in files.file:
        for service in file.service:
            for method in service.method:
                yield f"{file.package}.{service.name}.{method.name}", method
