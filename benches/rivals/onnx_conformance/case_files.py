"""Writes one case: a model, and tensors to feed it and to expect of it.

    OUT/<case>/model.onnx
    OUT/<case>/set_<n>.safetensors     tensors in/<input name> and out/<output name>
    OUT/cases.json                     {"source": versions,
                                        "cases": [{name, kind, operator, rtol, atol, sets, unwritten}],
                                        "without_truth": [{name, reason}]}

Integers of 2 and 4 bits are written as those of 8, floats of 4 and 8 bits as those of 16: that is
how the reader holds them.

`operator` is the one that the case's model holds, empty if it holds several nodes.

Every case has a model. One whose values no tensor can hold (a sequence, a text, a float8e8m0)
has no sets, and says why in `unwritten`: a reader that takes such a model is wrong.

The reader is crates/spark-onnx/tests/it/conformance.rs.
"""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx

DTYPES = {
    np.dtype(np.float64): "F64",
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype(np.int64): "I64",
    np.dtype(np.int32): "I32",
    np.dtype(np.int16): "I16",
    np.dtype(np.int8): "I8",
    np.dtype(np.uint64): "U64",
    np.dtype(np.uint32): "U32",
    np.dtype(np.uint16): "U16",
    np.dtype(np.uint8): "U8",
    np.dtype(np.bool_): "BOOL",
}

# What the reader holds as a wider type.
HELD = {
    np.dtype(ml_dtypes.int2): np.int8,
    np.dtype(ml_dtypes.int4): np.int8,
    np.dtype(ml_dtypes.uint2): np.uint8,
    np.dtype(ml_dtypes.uint4): np.uint8,
    np.dtype(ml_dtypes.float4_e2m1fn): np.float16,
    np.dtype(ml_dtypes.float8_e4m3fn): np.float16,
    np.dtype(ml_dtypes.float8_e4m3fnuz): np.float16,
    np.dtype(ml_dtypes.float8_e5m2): np.float16,
    np.dtype(ml_dtypes.float8_e5m2fnuz): np.float16,
}


class Unwritable(Exception):
    """A value that no tensor of the supported element types can hold."""


def write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, blobs, offset = {}, [], 0
    for name, array in tensors.items():
        array = np.asarray(array)
        array = array.astype(HELD.get(array.dtype, array.dtype))
        if array.dtype not in DTYPES:
            raise Unwritable(f"element type {array.dtype}")
        blob = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": DTYPES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def as_array(value) -> np.ndarray:
    """Values of types that NumPy lacks come as messages."""
    if value is None or isinstance(value, (list, tuple, dict)):
        raise Unwritable("a sequence or optional value")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value)


def operator_of(model: bytes) -> str:
    """The operator of a model of one node, as spark-onnx names it; empty for models of several."""
    nodes = onnx.load_model_from_string(model).graph.node
    if len(nodes) != 1:
        return ""
    domain = "" if nodes[0].domain == "ai.onnx" else nodes[0].domain
    return f"{domain}::{nodes[0].op_type}" if domain else nodes[0].op_type


class CaseWriter:
    """Collects cases."""

    def __init__(self, out: Path):
        self.out = out
        self.cases: list[dict] = []
        self.without_truth: list[dict] = []

    def no_truth(self, name: str, reason: str) -> None:
        """A case for which nobody knows the right results."""
        self.without_truth.append({"name": name, "reason": reason})

    def add(self, name, kind, model: bytes, data_sets, rtol, atol) -> None:
        """`data_sets`: (inputs, outputs) in the order of the graph's inputs and outputs."""
        folder = self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(model)
        unwritten = None
        try:
            for index, tensors in enumerate(self.named(model, data_sets)):
                write_safetensors(folder / f"set_{index}.safetensors", tensors)
        except Unwritable as reason:
            unwritten = str(reason)
        self.cases.append(
            {
                "name": name,
                "kind": kind,
                "operator": operator_of(model),
                "rtol": rtol,
                "atol": atol,
                "sets": 0 if unwritten else len(data_sets),
                "unwritten": unwritten,
            }
        )

    @staticmethod
    def named(model: bytes, data_sets):
        graph = onnx.load_model_from_string(model).graph
        constants = {tensor.name for tensor in graph.initializer}
        constants |= {tensor.values.name for tensor in graph.sparse_initializer}
        input_names = [v.name for v in graph.input if v.name not in constants]
        output_names = [v.name for v in graph.output]
        for inputs, outputs in data_sets:
            if len(inputs) > len(input_names) or len(outputs) != len(output_names):
                raise AssertionError(f"{graph.name}: values do not fit inputs and outputs")
            tensors = {f"in/{n}": as_array(t) for n, t in zip(input_names, inputs)}
            tensors |= {f"out/{n}": as_array(t) for n, t in zip(output_names, outputs)}
            yield tensors

    def finish(self, source: str) -> None:
        listed = {
            "source": source,
            "cases": self.cases,
            "without_truth": self.without_truth,
        }
        (self.out / "cases.json").write_text(json.dumps(listed, indent=1))
