"""Writes conformance cases for the operators of spark-model.

Two sources of truth:

* the conformance suite of the onnx package: one model per operator variant with the
  results of its NumPy definitions, and small models that PyTorch exported;
* random models (random_models.py) with onnxruntime's results, where that suite is thin.

Run:

    python -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python generate.py /tmp/onnx_cases
    SPARK_ONNX_CASES=/tmp/onnx_cases cargo test -p spark-model --test it conformance -- --nocapture
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test import loader

from case_files import CaseWriter


def read_tensor(path: Path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def sets_on_disk(folder: Path):
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        inputs = [read_tensor(p) for p in sorted(data.glob("input_*.pb"), key=index_of)]
        outputs = [read_tensor(p) for p in sorted(data.glob("output_*.pb"), key=index_of)]
        sets.append((inputs, outputs))
    return sets


def index_of(path: Path) -> int:
    return int(path.stem.split("_")[1])


def operator_of(model) -> str:
    return model.graph.node[0].op_type if model and model.graph.node else "?"


# Operators whose further results spark-model does not make; the first is still checked.
FIRST_RESULT_ONLY = {"LayerNormalization", "RMSNormalization", "MaxPool", "Dropout"}


def with_first_result(model, sets):
    """The model and its data without results that spark-model does not make."""
    if len(model.graph.node) > 1 or operator_of(model) not in FIRST_RESULT_ONLY:
        return model, sets
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    del cut.graph.node[0].output[1:]
    del cut.graph.output[1:]
    return cut, [(inputs, outputs[:1]) for inputs, outputs in sets]


# Oldest operator set that spark-model reads.
OLDEST = 7


def relabelled(model):
    """A model of an older operator set as one of `OLDEST`, if none of its operators
    changed in between."""
    standard = next((o for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
    if standard is None or standard.version >= OLDEST or model.functions:
        return model
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type not in operator_names():
            return model
        then = onnx.defs.get_schema(node.op_type, standard.version, "")
        if then.since_version != onnx.defs.get_schema(node.op_type, OLDEST, "").since_version:
            return model
    new = onnx.ModelProto()
    new.CopyFrom(model)
    for opset in new.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = OLDEST
    return new


def operator_names():
    return {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}


def as_array(value):
    """Values of types that NumPy lacks come as messages."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def add_suite(writer: CaseWriter) -> None:
    for kind in ["node", "simple", "pytorch-converted", "pytorch-operator"]:
        for case in loader.load_model_tests(kind=kind):
            name = f"{kind}_{case.name}"
            if case.model is not None:
                model, sets = case.model, case.data_sets
            else:
                folder = Path(case.model_dir)
                model, sets = onnx.load(folder / "model.onnx"), sets_on_disk(folder)
            values = [v for pair in sets for side in pair for v in side]
            if any(v is None or isinstance(v, (list, tuple, dict)) for v in values):
                writer.skip(name, operator_of(model), "a sequence or optional value")
                continue
            sets = [(list(map(as_array, i)), list(map(as_array, o))) for i, o in sets]
            model, sets = with_first_result(relabelled(model), sets)
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
    writer.finish()
    n_random = len(writer.cases) - n_suite
    print(
        f"{n_suite} cases of onnx {onnx.__version__}, {n_random} random models, "
        f"{len(writer.skipped)} left out",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
