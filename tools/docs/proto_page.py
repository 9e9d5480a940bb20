"""The page of the gRPC interface: services, messages and fields with their comments."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from tools.protos import generate

PREFIX = ".podgroup.v1."
# Field numbers of descriptor.proto, of which paths of comments are made.
MESSAGE, ENUM, SERVICE = 4, 5, 6
FIELD, NESTED_ENUM = 2, 4

Comments = dict[tuple[int, ...], str]


def page() -> str:
    """Return the page."""
    files = generate.descriptors().file
    lines = [
        "Package `podgroup.v1`. [gRPC](../grpc.md) says where it is served and who may call it;",
        "[proto](../../proto/README.md) says what may change.",
        "",
        "## Services",
        "",
    ]
    commented = [(file, _comments(file)) for file in files]
    for file, comments in commented:
        for at, service in enumerate(file.service):
            lines += _service(service, comments, (SERVICE, at))
    lines += ["## Messages", ""]
    for file, comments in commented:
        for at, message in enumerate(file.message_type):
            lines += _message(message, comments, (MESSAGE, at))
        for at, enum in enumerate(file.enum_type):
            lines += _enum(enum.name, enum, comments, (ENUM, at))
    return "\n".join(lines)


def _comments(file: FileDescriptorProto) -> Comments:
    return {
        tuple(each.path): " ".join(each.leading_comments.split()).replace("|", "\\|")
        for each in file.source_code_info.location
        if each.leading_comments
    }


def _service(
    service: ServiceDescriptorProto, comments: Comments, path: tuple[int, ...]
) -> Iterator[str]:
    yield from (f"### {service.name}", "", comments[path], "")
    yield from ("| call | asks | answers | meaning |", "| --- | --- | --- | --- |")
    for at, method in enumerate(service.method):
        asks, answers = _link(method.input_type), _link(method.output_type)
        answers = f"stream of {answers}" if method.server_streaming else answers
        yield f"| `{method.name}` | {asks} | {answers} | {comments[(*path, FIELD, at)]} |"
    yield ""


def _message(message: DescriptorProto, comments: Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield from (f"### {message.name}", "", comments[path], "")
    if message.field:
        yield from ("| field | number | type | meaning |", "| --- | --- | --- | --- |")
    entries = {entry.name: entry for entry in message.nested_type}
    for at, field in enumerate(message.field):
        meaning = comments[(*path, FIELD, at)]
        yield f"| `{field.name}` | {field.number} | {_type(field, entries)} | {meaning} |"
    yield from [""] if message.field else []
    for at, enum in enumerate(message.enum_type):
        name = f"{message.name}.{enum.name}"
        yield from _enum(name, enum, comments, (*path, NESTED_ENUM, at))


def _enum(
    name: str, enum: EnumDescriptorProto, comments: Comments, path: tuple[int, ...]
) -> Iterator[str]:
    yield from (f"### {name}", "", comments[path], "")
    yield from ("| value | number | meaning |", "| --- | --- | --- |")
    for at, value in enumerate(enum.value):
        yield f"| `{value.name}` | {value.number} | {comments[(*path, FIELD, at)]} |"
    yield ""


def _type(field: FieldDescriptorProto, entries: dict[str, DescriptorProto]) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None:
        return f"map of {_type(entry.field[0], {})} to {_type(entry.field[1], {})}"
    name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    one = _link(field.type_name) if field.type_name else name
    many = field.label == FieldDescriptorProto.LABEL_REPEATED
    return f"list of {one}" if many else one


def _link(name: str) -> str:
    """Return a type's name, as a link where this page has it."""
    if not name.startswith(PREFIX):
        return name.removeprefix(".")
    short = name.removeprefix(PREFIX)
    return f"[{short}](#{short.lower().replace('.', '')})"
