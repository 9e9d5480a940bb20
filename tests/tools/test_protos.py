"""The rules of the gRPC interface catch what they are there for, and proto/ keeps them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

from extender.pb.podgroup.v1 import extender_pb2, plan_pb2, types_pb2, verifier_pb2, watch_pb2
from tools.protos.compatibility import breaking
from tools.protos.style import faults

MODULES = (extender_pb2, plan_pb2, types_pb2, verifier_pb2, watch_pb2)
STORED = "proto/podgroup.v1.binpb"


def compiled() -> FileDescriptorSet:
    """The generated code's descriptors, without comments."""
    found = FileDescriptorSet()
    for module in MODULES:
        module.DESCRIPTOR.CopyToProto(found.file.add())
    return found


def file(files: FileDescriptorSet, name: str) -> FileDescriptorProto:
    return next(each for each in files.file if each.name.endswith(f"/{name}.proto"))


def message(files: FileDescriptorSet, of: str, name: str) -> DescriptorProto:
    return next(each for each in file(files, of).message_type if each.name == name)


def field(files: FileDescriptorSet, of: str, name: str, number: int) -> FieldDescriptorProto:
    return next(each for each in message(files, of, name).field if each.number == number)


def service(files: FileDescriptorSet) -> ServiceDescriptorProto:
    return file(files, "extender").service[0]


def renumbered(files: FileDescriptorSet) -> None:
    field(files, "types", "Seat", 2).number = 9


def renamed(files: FileDescriptorSet) -> None:
    found = field(files, "types", "Seat", 2)
    found.name, found.json_name = "host", "host"


def retyped(files: FileDescriptorSet) -> None:
    field(files, "watch", "HeldSeat", 3).type = FieldDescriptorProto.TYPE_INT64


def repeated(files: FileDescriptorSet) -> None:
    field(files, "plan", "PlanRequest", 1).label = FieldDescriptorProto.LABEL_REPEATED


def taken_out(files: FileDescriptorSet) -> None:
    del message(files, "types", "Seat").field[1]


def taken_out_and_reserved_by_number_only(files: FileDescriptorSet) -> None:
    taken_out(files)
    message(files, "types", "Seat").reserved_range.add(start=2, end=3)


def moved_out_of_its_oneof(files: FileDescriptorSet) -> None:
    field(files, "plan", "PlanResponse", 1).ClearField("oneof_index")


def message_gone(files: FileDescriptorSet) -> None:
    del file(files, "types").message_type[0]


def enum_value_renamed(files: FileDescriptorSet) -> None:
    message(files, "plan", "ExplainResponse").enum_type[0].value[1].name = "STATE_OK"


def enum_value_gone(files: FileDescriptorSet) -> None:
    del message(files, "plan", "ExplainResponse").enum_type[0].value[1]


def rpc_gone(files: FileDescriptorSet) -> None:
    del service(files).method[0]


def rpc_streams(files: FileDescriptorSet) -> None:
    service(files).method[0].server_streaming = True


def rpc_answers_otherwise(files: FileDescriptorSet) -> None:
    service(files).method[0].output_type = ".podgroup.v1.PreemptResponse"


BREAKING = [
    renumbered,
    renamed,
    retyped,
    repeated,
    taken_out,
    taken_out_and_reserved_by_number_only,
    moved_out_of_its_oneof,
    message_gone,
    enum_value_renamed,
    enum_value_gone,
    rpc_gone,
    rpc_streams,
    rpc_answers_otherwise,
]


@pytest.mark.parametrize("change", BREAKING, ids=lambda each: each.__name__)
def test_what_breaks_callers_is_told(change: Callable[[FileDescriptorSet], None]) -> None:
    changed = compiled()
    change(changed)
    assert breaking(compiled(), changed)


def test_what_is_added_or_properly_taken_out_breaks_nobody() -> None:
    changed = compiled()
    seat = message(changed, "types", "Seat")
    seat.field.add(name="more", json_name="more", number=7, type=9, label=1)
    taken_out(changed)
    seat.reserved_range.add(start=2, end=3)
    seat.reserved_name.append("node_name")
    file(changed, "types").message_type.add(name="Another")
    service(changed).method.add(name="Another")
    assert breaking(compiled(), changed) == []
    later = FileDescriptorSet.FromString(changed.SerializeToString())
    del message(later, "types", "Seat").reserved_range[:]
    assert breaking(changed, later), "what is reserved stays so"


def test_nothing_that_callers_may_rely_on_is_broken() -> None:
    """Against the stored descriptors; only `python -m tools.protos` writes them."""
    with open(STORED, "rb") as stored:
        assert breaking(FileDescriptorSet.FromString(stored.read()), compiled()) == []


STYLE = [
    (lambda files: setattr(field(files, "types", "Seat", 2), "name", "nodeName"), "FIELD_LOWER"),
    (lambda files: setattr(service(files), "name", "Extender"), "SERVICE_SUFFIX"),
    (lambda files: setattr(file(files, "types"), "package", "podgroup"), "PACKAGE_VERSION_SUFFIX"),
    (lambda files: setattr(file(files, "types"), "name", "types.proto"), "PACKAGE_DIRECTORY"),
    (rpc_answers_otherwise, "RPC_RESPONSE_STANDARD_NAME"),
    (rpc_answers_otherwise, "RPC_REQUEST_RESPONSE_UNIQUE"),
    (enum_value_renamed, "COMMENT_ENUM_VALUE"),
    (
        lambda files: setattr(
            message(files, "plan", "ExplainResponse").enum_type[0].value[0], "name", "STATE_NONE"
        ),
        "ENUM_ZERO_VALUE_SUFFIX",
    ),
]


@pytest.mark.parametrize(("change", "rule"), STYLE)
def test_what_is_against_the_style_is_told(
    change: Callable[[FileDescriptorSet], None], rule: str
) -> None:
    changed = compiled()
    change(changed)
    assert any(rule in fault for fault in faults(changed))


def test_without_comments_only_comments_are_missing() -> None:
    """The generated code carries none; `python -m tools.protos --check` reads them in proto/."""
    assert {fault.split(": ")[1].split("_")[0] for fault in faults(compiled())} == {"COMMENT"}
