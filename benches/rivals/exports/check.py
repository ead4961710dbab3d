"""What PyTorch exports, run by this project and by onnxruntime: does it load, and do they agree?

Run, from the root of the repository:

    python3 -m venv target/exports
    target/exports/bin/pip install -r benches/rivals/exports/requirements.txt
    cargo build --release --example bench_supercombo
    target/exports/bin/python benches/rivals/exports/check.py

Every network of networks.py is written by both exporters, torch.onnx.export with dynamo=False (TorchScript) and with
dynamo=True (torch.export), as a user gets it: in the operator set that the exporter prefers, optimised or not as it
is by default. Weights and inputs follow from the seed. `nodes` counts those of the graph, not those of bodies. Outcomes:

    agrees: E               largest error of an output over the largest value that onnxruntime gives in it, worst of
                            all outputs; the bar is 1e-4
    wrong: E                the same, above the bar, or another shape
    refused: ...            what our program says
    onnxruntime refuses     what it says; E is then to PyTorch's own outputs
    refused by both         what our program says, and what onnxruntime says: the file is at fault
    cannot be exported      what PyTorch says, in one line

The last column is the distance of onnxruntime's outputs from PyTorch's, measured the same way: a network
with random weights may amplify rounding, and no engine can be closer to another than that. The exit code is 1
if anything is wrong or refused.
"""

import argparse
import contextlib
import inspect
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import onnxscript
import timm
import torch
import torchvision
from safetensors.numpy import load_file, save_file

from networks import NETWORKS

BAR = 1e-4
EXPORTERS = {"TorchScript": False, "dynamo": True}


@contextlib.contextmanager
def silence():
    """What the exporters print, from native code too, is no part of the table."""
    with open(os.devnull, "w") as nowhere:
        kept = [os.dup(1), os.dup(2)]
        sys.stdout.flush()
        try:
            os.dup2(nowhere.fileno(), 1), os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            sys.stdout.flush()
            for number, copy in enumerate(kept, 1):
                os.dup2(copy, number)
                os.close(copy)


def one_line(message, width=160):
    """The first line that says something, without Markdown's bars."""
    lines = (line.strip() for line in str(message).splitlines())
    text = next((line for line in lines if line), "no message").replace("|", "/").replace("`", "'")
    return text if len(text) <= width else text[: width - 3] + "..."


def root_cause(error):
    """The exporters wrap what went wrong."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def export(module, inputs, path, is_dynamo, opset, is_free):
    """Writes `path`; with `is_free` the first axis of every input may have another length later."""
    options = {"opset_version": opset} if opset else {}
    names = [f"x{index}" for index in range(len(inputs))]
    if is_free and is_dynamo:
        options["dynamic_shapes"] = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
        parameters = inspect.signature(module.forward).parameters.values()
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            options["dynamic_shapes"] = (options["dynamic_shapes"][0], options["dynamic_shapes"][1:])
    elif is_free:
        options["dynamic_axes"] = {name: {0: "batch"} for name in names}
    with silence(), torch.no_grad():
        torch.onnx.export(module, inputs, str(path), dynamo=is_dynamo, input_names=names, **options)


def theirs(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = {port.name for port in session.get_inputs()}
    return session.run(None, {name: value for name, value in inputs.items() if name in given})


def ours(program, path, inputs, folder):
    """Our outputs by name, or what our program says."""
    fed, dump = folder / "inputs.safetensors", folder / "dump.safetensors"
    save_file(inputs, fed)
    command = [program, "--model", path, "--inputs", fed, "--dump-outputs", dump, "--device", "cpu",
               "--precision", "fp32", "--runs", 1, "--warmup", 0]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if not dump.exists():
        said = [line for line in done.stderr.splitlines() if line.startswith("error")]
        message = said[-1].removeprefix("error: ") if said else f"exit code {done.returncode}: {done.stderr}"
        return message.replace(str(path), path.name).removeprefix(f"model `{path.stem}`: ")
    mine = {key.split("case0/out/")[1]: value for key, value in load_file(dump).items() if "case0/out/" in key}
    dump.unlink()
    return mine


def distance(got, want):
    """Largest error over the largest value; infinity for another shape, NaN where NaN is."""
    got, want = (np.asarray(v) for v in (got, want))
    if got.shape != want.shape:
        return np.inf
    if want.size == 0:
        return 0.0
    got, want = got.astype(np.float64), want.astype(np.float64)
    error, scale = np.abs(got - want).max(), np.abs(want).max()
    return float(error / scale) if scale > 0 else float(error)


def worst(got, want):
    return max((distance(a, b) for a, b in zip(got, want, strict=True)), key=lambda d: (np.isnan(d), d))


def compare(program, path, inputs, expected, folder):
    """The outcome of one file, and onnxruntime's distance from PyTorch."""
    inputs = {f"x{index}": np.ascontiguousarray(value.numpy()) for index, value in enumerate(inputs)}
    graph = onnx.load(path, load_external_data=False).graph
    declared = {value.name for value in graph.input}
    inputs = {name: value for name, value in inputs.items() if name in declared}
    truth, note, apart = expected, "", ""
    try:
        with silence():
            truth = theirs(path, inputs)
        apart = f"{worst(truth, expected):.1e}"
    except Exception as error:
        note = f"; onnxruntime refuses: {one_line(error)}"
    mine = ours(program, path, inputs, folder)
    if isinstance(mine, str):
        return f"{'refused by both' if note else 'refused'}: {one_line(mine)}{note}", apart
    mine = [mine[value.name] for value in graph.output]
    error = worst(mine, truth)
    if np.isinf(error):
        shapes = [(list(a.shape), list(np.shape(b))) for a, b in zip(mine, truth) if a.shape != np.shape(b)]
        return f"wrong: shape {shapes[0][0]} for {shapes[0][1]}{note}", apart
    return f"{'agrees' if error <= BAR else 'wrong'}: {error:.1e}{note}", apart


def check(name, exporter, options, folder):
    """One row of the table, without the network's name."""
    torch.manual_seed(options.seed)
    module, inputs = NETWORKS[name]()
    if options.free:
        inputs = tuple(torch.cat([value, value.flip(-1)]) for value in inputs)
    path = folder / f"{name.replace(', ', '_').replace(' ', '_')}.{exporter.lower()}.onnx"
    try:
        if not path.exists():
            export(module, inputs, path, EXPORTERS[exporter], options.opset, options.free)
    except Exception as error:
        return ["", "", f"cannot be exported: {one_line(root_cause(error))}", ""]
    if options.free:
        inputs = tuple(torch.cat([value, value[:1] * 0.5]) for value in inputs)
    with torch.no_grad():
        expected = module(*inputs)
    expected = [value.numpy() for value in (expected if isinstance(expected, tuple) else [expected])]
    model = onnx.load(path, load_external_data=False)
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    outcome, apart = compare(options.program, path, inputs, expected, folder)
    return [str(opset), str(len(model.graph.node)), outcome, apart]


HEADER = """| network | exporter | opset | nodes | outcome | onnxruntime to PyTorch |
|---|---|--:|--:|---|--:|"""


def versions():
    parts = [f"{m.__name__} {m.__version__}" for m in (torch, torchvision, timm, onnx, onnxscript, onnxruntime)]
    return ", ".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/examples/bench_supercombo", type=Path)
    parser.add_argument("--only", default="", help="parts of names of networks, joined by commas")
    parser.add_argument("--exporter", choices=list(EXPORTERS), help="one of the two")
    parser.add_argument("--opset", type=int, help="operator set, instead of the exporter's own choice")
    parser.add_argument("--free", action="store_true",
                        help="leave the first axis of every input free: exported with twice the rows, run with one more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the exported files, some 2 GB; those that are there are not exported again")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    start, n_bad, n_rows = time.perf_counter(), 0, 0
    print(f"{versions()}\n\n{HEADER}", flush=True)
    names = [name for name in NETWORKS if any(part in name for part in options.only.split(","))]
    for name in names:
        for exporter in [options.exporter] if options.exporter else EXPORTERS:
            with tempfile.TemporaryDirectory() as temporary:
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                row = check(name, exporter, options, options.keep or Path(temporary))
            n_rows, n_bad = n_rows + 1, n_bad + row[2].startswith(("wrong", "refused:"))
            print("| " + " | ".join([name, exporter, *row]) + " |", flush=True)
    print(f"\n{n_rows} rows, {n_bad} wrong or refused, {time.perf_counter() - start:.0f} s")
    sys.exit(1 if n_bad else 0)


if __name__ == "__main__":
    main()
