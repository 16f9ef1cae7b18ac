"""Makes message classes from a descriptor, by what protobuf offers in public for that.

All of them are in one pool of the package's own, so that another copy of the same .proto files in
the process does not matter.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

_pool = descriptor_pool.DescriptorPool()


def _class_of(descriptor: Any) -> Any:
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    factory: Any = message_factory.MessageFactory(_pool)  # protobuf 4.21
    return factory.GetPrototype(descriptor)


def _require(name: str) -> None:
    """The files that one imports come before it into the pool."""
    __import__(f"{__package__}.{name.rsplit('/', 1)[1][: -len('.proto')]}_pb2")


def load(serialized: bytes, namespace: dict[str, Any]) -> None:
    """Puts the file's messages and enums into `namespace`, as protoc's own module would."""
    proto = descriptor_pb2.FileDescriptorProto.FromString(serialized)
    for dependency in proto.dependency:
        _require(dependency)
    _pool.AddSerializedFile(serialized)
    file = _pool.FindFileByName(proto.name)
    for name, descriptor in file.message_types_by_name.items():
        namespace[name] = _class_of(descriptor)
    for name, enum in file.enum_types_by_name.items():
        namespace[name] = EnumTypeWrapper(enum)
        for value in enum.values:
            namespace[value.name] = value.number
