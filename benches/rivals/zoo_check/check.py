"""Does onnxruntime load the zoo's files and agree with this project's runner?

Run, from the root of the repository:

    cargo run --release --example bench_supercombo -- --write-zoo /tmp/zoo
    cargo run --release --example bench_supercombo -- --runs 1 --dump-outputs /tmp/zoo/dump.safetensors
    python3 -m venv /tmp/zoo/venv
    /tmp/zoo/venv/bin/pip install -r benches/rivals/zoo_check/requirements.txt
    /tmp/zoo/venv/bin/python benches/rivals/zoo_check/check.py /tmp/zoo /tmp/zoo/dump.safetensors

Each model is checked by onnx's own checker, its table of output heads is read the way
openpilot reads it, and it is run by onnxruntime, with and without graph optimisation, on
the inputs in the dump. The largest error relative to the output's scale must stay below
the bar; the exit code says whether it did. A third argument names a file to write
onnxruntime's unoptimised outputs to: `crates/spark-bench/tests/it/zoo_goldens.safetensors`
was made that way.
"""

import codecs
import pickle
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file, save_file

BAR = 1e-4
LEVELS = {
    "plain": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "optimised": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def heads(model):
    """The table of output heads, as openpilot's get_model_metadata.py decodes it."""
    properties = {entry.key: entry.value for entry in model.metadata_props}
    return pickle.loads(codecs.decode(properties["output_slices"].encode(), "base64"))


def run(path, level, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(names, inputs)
    start = time.perf_counter()
    session.run(names, inputs)
    return dict(zip(names, outputs)), 1000 * (time.perf_counter() - start)


def check(path, tensors, goldens):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    prefix = f"{path.stem}/fp32/case0/"
    ours = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    if not ours:
        sys.exit(f"{path.stem}: the dump holds no fp32 run of it")
    inputs = {name.removeprefix("in/"): value for name, value in ours.items() if name.startswith("in/")}
    worst = 0.0
    for label, level in LEVELS.items():
        outputs, milliseconds = run(path, level, inputs)
        for name, theirs in outputs.items():
            mine = ours[f"out/{name}"]
            assert mine.shape == theirs.shape and mine.dtype == theirs.dtype, (name, mine.shape, theirs.shape)
            error = float(np.abs(mine - theirs).max() / np.abs(theirs).max())
            worst = max(worst, error)
            if label == "plain":
                goldens[f"{path.stem}/{name}"] = theirs
            end = max(part.indices(theirs.shape[1])[1] for part in heads(model).values())
            assert end == theirs.shape[1], (name, end)
            print(
                f"{path.stem:18} {label:9} {name} {theirs.shape}: largest error {error:.2e} of scale, "
                f"standard deviation {theirs.std():.2f}, {len(heads(model))} heads, "
                f"onnxruntime 1 thread {milliseconds:.1f} ms"
            )
    return worst


def main():
    folder, dump = Path(sys.argv[1]), load_file(sys.argv[2])
    files = sorted(folder.glob("*.onnx"))
    if not files:
        sys.exit(f"{folder} holds no ONNX file")
    goldens = {}
    worst = max(check(path, dump, goldens) for path in files)
    if len(sys.argv) > 3:
        save_file(goldens, sys.argv[3])
    print(f"largest error {worst:.2e}, bar {BAR:.0e}")
    sys.exit(0 if worst <= BAR else 1)


if __name__ == "__main__":
    main()
