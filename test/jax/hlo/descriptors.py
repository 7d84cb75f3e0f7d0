#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""descriptors.py: checks whether the field numbers of jax/hlo/fields.h are those of the installed
jaxlib.

A protobuf library holds the descriptors of its messages, as serialized FileDescriptorProtos. This
script looks for those of hlo.proto and xla_data.proto in jaxlib's largest libraries, or in the
files given as arguments, such as xla_cuda_plugin.so.
"""

import mmap
import os
import pathlib
import re
import sys

FIELDS_H = pathlib.Path(__file__).parents[3] / "jax" / "hlo" / "fields.h"
FILES = ("xla/service/hlo.proto", "xla/xla_data.proto")
# Each name in fields.h begins with one of these prefixes, which says to which message it belongs.
# If several prefixes fit, the longest counts.
MESSAGES = {
    "HLO_MODULE_": "HloModuleProto",
    "HLO_COMPUTATION_": "HloComputationProto",
    "HLO_INSTRUCTION_": "HloInstructionProto",
    "HLO_SLICE_DIMENSIONS_": "HloInstructionProto.SliceDimensions",
    "HLO_SHAPE_": "ShapeProto",
    "HLO_LAYOUT_": "LayoutProto",
    "HLO_REPLICA_GROUP_": "ReplicaGroup",
    "HLO_COLLECTIVE_DEVICE_LIST_": "CollectiveDeviceListProto",
    "HLO_IOTA_REPLICA_GROUP_LIST_": "IotaReplicaGroupListProto",
    "HLO_MESH_AXES_REPLICA_GROUP_LIST_": "MeshAxesReplicaGroupListProto",
    "HLO_MESH_": "MeshProto",
    "HLO_IOTA_TRANSFORM_": "MeshProto.IotaTransform",
    "HLO_MESH_AXIS_": "MeshProto.MeshAxis",
    "HLO_AXIS_REF_": "AxisRefProto",
    "HLO_SUB_AXIS_": "AxisRefProto.SubAxis",
    "HLO_DEVICE_ASSIGNMENT_": "DeviceAssignmentProto",
    "HLO_COMPUTATION_DEVICE_": "DeviceAssignmentProto.ComputationDevice",
    "HLO_OP_METADATA_": "OpMetadata",
    "HLO_STACK_FRAME_INDEX_": "StackFrameIndexProto",
    "HLO_STACK_FRAME_": "StackFrameIndexProto.StackFrame",
    "HLO_FILE_LOCATION_": "StackFrameIndexProto.FileLocation",
}
# jaxlib 0.9.2 has none of these fields
NOT_IN_ALL = {
    "HLO_INSTRUCTION_BACKEND_CONFIG_PAYLOAD",
    "HLO_MESH_IOTA_TRANSFORM",
    "MeshProto.IotaTransform",
}
NO_FIELD = {"HLO_API_VERSION_TYPED_FFI", "HLO_INSTRUCTION_NEWEST"}


def take(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data, at=0, last=99):
    """Yield (number, content) until the end of the data, or until a field that a descriptor cannot
    have."""
    while at < len(data):
        tag, at = take(data, at)
        if tag >> 3 == 0 or tag >> 3 > last or tag & 7 not in (0, 2):
            return
        content, at = take(data, at)
        if tag & 7 == 2:
            content, at = data[at : at + content], at + content
        yield tag >> 3, content


def read_message(data, outer, found):
    """Add the message of a DescriptorProto, and the messages in it, to ``found``, which is
    {message: {field: number}}."""
    parts = list(fields(data))
    name = outer + dict(parts)[1].decode()
    found[name] = {
        f[1].decode(): f[3] for f in (dict(fields(c, last=999)) for n, c in parts if n == 2)
    }
    for number, content in parts:
        if number == 3:
            read_message(content, name + ".", found)


def read_library(path):
    found = {}
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for file in FILES:
            head = b"\n" + bytes([len(file)]) + file.encode() + b"\x12\x03xla"
            at = data.find(head)
            for number, content in fields(data, at, 14) if at >= 0 else ():
                if number == 4:
                    read_message(content, "", found)
    return found


def compare(found, library):
    wrong = 0
    text = FIELDS_H.read_text()
    for name, number in re.findall(r"^ +(?:enum \{ )?(HLO_\w+) = (\d+)", text, re.M):
        if name in NO_FIELD:
            continue
        prefix = max((p for p in MESSAGES if name.startswith(p)), key=len)
        message = found.get(MESSAGES[prefix])
        field = name[len(prefix) :].lower()
        if message is None or field not in message:
            if {name, MESSAGES[prefix]} & NOT_IN_ALL:
                continue
            print(f"FAILED: {library} has no {MESSAGES[prefix]}.{field}")
        elif message[field] != int(number):
            print(f"FAILED: {MESSAGES[prefix]}.{field} is {message[field]} in {library}")
        else:
            continue
        wrong += 1
    newest = int(re.search(r"HLO_INSTRUCTION_NEWEST = (\d+)", text)[1])
    beyond = [f for f, n in found["HloInstructionProto"].items() if n > newest]
    if beyond:
        print(f"note: {library} has newer fields of HloInstructionProto: {beyond}")
    return wrong


def libraries():
    import jaxlib

    folder = pathlib.Path(jaxlib.__file__).parent
    return [p for p in folder.glob("*.so") if os.path.getsize(p) > 20 << 20]


def main():
    read = 0
    wrong = 0
    for path in sys.argv[1:] or libraries():
        found = read_library(path)
        if len(found) > 50:
            read += 1
            wrong += compare(found, pathlib.Path(path).name)
    if not read:
        print("FAILED: no library with XLA's descriptors found")
    print(f"field numbers: {read} libraries compared, {wrong} wrong")
    return wrong > 0 or not read


if __name__ == "__main__":
    sys.exit(main())
