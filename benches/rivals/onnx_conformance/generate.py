"""Writes conformance cases for the operators of spark-onnx.

Two sources of truth:

* the conformance suite of the onnx package, every case of it and as it is: one model per
  operator variant with the results of its NumPy definitions, small models that PyTorch
  exported, and nine well-known networks with constant weights;
* random models (random_models.py) with onnxruntime's results, where that suite is thin.

Run:

    python -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python generate.py /tmp/onnx_cases
    SPARK_ONNX_CASES=/tmp/onnx_cases cargo test -p spark-onnx --test it conformance -- --nocapture

What is expected of every case stands in crates/spark-onnx/tests/it/onnx_suite.txt.
"""

import argparse
import sys
import warnings
from pathlib import Path

import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.backend.test import loader
from onnx.backend.test.runner import Runner

from case_files import CaseWriter

KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator", "real"]


def read_value(path: Path, value_type: onnx.TypeProto):
    """A tensor; other kinds of values are of no use to the reader and given as a list."""
    if not value_type.HasField("tensor_type"):
        return []
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def index_of(path: Path) -> int:
    return int(path.stem.split("_")[1])


def sets_on_disk(folder: Path, graph: onnx.GraphProto):
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        sides = []
        for what, values in [("input", inputs), ("output", graph.output)]:
            paths = sorted(data.glob(f"{what}_*.pb"), key=index_of)
            sides.append([read_value(p, v.type) for p, v in zip(paths, values, strict=True)])
        sets.append(tuple(sides))
    return sets


def dummy_set(path: Path, name: str, graph: onnx.GraphProto):
    """What the suite's own runner feeds a network that comes without inputs."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [
        Runner.generate_dummy_data(value, seed=0, name=name, random=False)
        for value in graph.input
        if value.name not in constants
    ]
    outputs = []
    for index, value in enumerate(graph.output):
        outputs.append(read_value(path.with_name(f"{path.stem}_output_{index}.pb"), value.type))
    return [(inputs, outputs)]


def model_and_sets(case):
    """The bytes of a case's model, and its values."""
    if case.model is not None:
        return case.model.SerializeToString(), case.data_sets
    if case.model_dir is not None:
        folder = Path(case.model_dir)
        model = (folder / "model.onnx").read_bytes()
        return model, sets_on_disk(folder, onnx.load_model_from_string(model).graph)
    path = Path(onnx.__file__).parent.parent / case.url
    model = path.read_bytes()
    graph = onnx.load_model_from_string(model).graph
    return model, dummy_set(path, case.model_name, graph)


def add_suite(writer: CaseWriter) -> None:
    for kind in KINDS:
        for case in sorted(loader.load_model_tests(kind=kind), key=lambda c: c.name):
            model, sets = model_and_sets(case)
            name = f"{kind}_{case.name}"
            writer.add(name, kind, model, sets, case.rtol, case.atol)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder to write, made if missing")
    parser.add_argument("--seed", type=int, default=1, help="of the random models")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    writer = CaseWriter(arguments.out)
    add_suite(writer)
    n_suite = len(writer.cases)

    import random_models

    random_models.add_all(writer, arguments.seed)
    writer.finish(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
    n_random = len(writer.cases) - n_suite
    print(
        f"{n_suite} cases of onnx {onnx.__version__}, {n_random} random models, "
        f"{len(writer.without_truth)} more that onnxruntime refuses",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
