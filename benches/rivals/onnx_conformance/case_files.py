"""Writes one case: a model, and tensors to feed it and to expect of it.

    OUT/<case>/model.onnx
    OUT/<case>/set_<n>.safetensors     tensors in/<input name> and out/<output name>
    OUT/cases.json                     {"cases": [{name, kind, operator, rtol, atol, sets}],
                                        "skipped": [{name, operator, reason}]}

The reader is crates/spark-model/tests/it/conformance.rs.
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


class Unwritable(Exception):
    """A value that no tensor of the supported element types can hold."""


def write_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, blobs, offset = {}, [], 0
    for name, array in tensors.items():
        array = np.asarray(array)
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


class CaseWriter:
    """Collects cases and the reasons for those left out."""

    def __init__(self, out: Path):
        self.out = out
        self.cases: list[dict] = []
        self.skipped: list[dict] = []

    def skip(self, name: str, operator: str, reason: str) -> None:
        self.skipped.append({"name": name, "operator": operator, "reason": reason})

    def add(self, name, kind, model, data_sets, rtol, atol) -> None:
        """`data_sets`: (inputs, outputs) in the order of the graph's inputs and outputs."""
        nodes = model.graph.node
        operator = nodes[0].op_type if len(nodes) == 1 else f"{kind} (several nodes)"
        for value in [*model.graph.input, *model.graph.output]:
            if not value.type.HasField("tensor_type"):
                self.skip(name, operator, f"a value of type {value.type.WhichOneof('value')}")
                return
        folder = self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        constants = {tensor.name for tensor in model.graph.initializer}
        input_names = [v.name for v in model.graph.input if v.name not in constants]
        try:
            for index, (inputs, outputs) in enumerate(data_sets):
                tensors = {f"in/{n}": t for n, t in zip(input_names, inputs)}
                tensors |= {f"out/{v.name}": t for v, t in zip(model.graph.output, outputs)}
                write_safetensors(folder / f"set_{index}.safetensors", tensors)
        except Unwritable as reason:
            self.skip(name, operator, str(reason))
            return
        onnx.save(model, folder / "model.onnx")
        self.cases.append(
            {
                "name": name,
                "kind": kind,
                "operator": operator,
                "rtol": rtol,
                "atol": atol,
                "sets": len(data_sets),
            }
        )

    def finish(self) -> None:
        text = json.dumps({"cases": self.cases, "skipped": self.skipped}, indent=1)
        (self.out / "cases.json").write_text(text)
