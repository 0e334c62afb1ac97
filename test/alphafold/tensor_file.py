"""Files of the safetensors layout, of fp64 and int64 tensors: eight bytes of length, a JSON header,
the elements."""

import json
import struct

import numpy as np
import torch

NAMES = {torch.float64: "F64", torch.int64: "I64"}
TYPES = {"F64": np.float64, "I64": np.int64}


def write(path, tensors, metadata):
    header, parts, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in tensors.items():
        data = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        found[name] = torch.from_numpy(array.copy())
    return found
