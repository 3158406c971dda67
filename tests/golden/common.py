"""What every generator shares: seeded random tensors, and files that come out the same each time."""

import json
import struct
from pathlib import Path

import torch

HERE = Path(__file__).parent

_NAMES = {torch.float32: "F32", torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}


def seed(number):
    torch.manual_seed(number)
    torch.set_num_threads(1)


def rounded(*shape, mean=0.0, std=1.0):
    """Float64 values that float32 holds exactly, so that the stored inputs are the ones computed with."""
    return (torch.randn(*shape) * std + mean).double()


def leaves(tensors):
    """The same tensors as autograd leaves that take a gradient."""
    return {name: value.detach().clone().requires_grad_() for name, value in tensors.items()}


def gradients(output, grad_output, inputs):
    """`grad_<name>` for every named input."""
    values = torch.autograd.grad(output, list(inputs.values()), grad_output)
    return {f"grad_{name}": value for name, value in zip(inputs, values)}


def save(path, tensors, **metadata):
    """Writes a safetensors file under tests/golden; float64 becomes float32. Widest types first, which aligns all."""
    header, body, offset = {}, [], 0
    if metadata:
        header["__metadata__"] = {key: str(value) for key, value in metadata.items()}
    stored = {name: value.detach().float() if value.is_floating_point() else value for name, value in tensors.items()}
    for name, value in sorted(stored.items(), key=lambda item: -item[1].itemsize):
        data = value.contiguous().numpy().tobytes()
        header[name] = {
            "dtype": _NAMES[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        body.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(body))
