"""Networks of 8-bit integers as onnxruntime's quantiser writes them: is every byte of every activation what it must be?

Run, from the root of the repository:

    python3 -m venv target/integers
    target/integers/bin/pip install -r benches/rivals/integers/requirements.txt
    cargo build --release --example bench_supercombo
    cargo build --release -p spark-onnx-graph --features safetensors --example interpret
    target/integers/bin/python benches/rivals/integers/check.py --interpreter target/release/examples/interpret
    target/integers/bin/python benches/rivals/integers/check.py NET.onnx ...

Without a file: the networks of ../engines/networks.py, whose weights are random. A file in f32 is quantised as those are, one that is
quantised already is taken as it is. Ranges are chosen on four random inputs, the network then runs on another; where
`goldens/NET.safetensors` lies beside the file, as it does for driver monitoring, all inputs are of its cases.

Each network is run twice by this project: as it is, and as a copy in which every quantised activation is an output. Then
the oracle of oracle.py computes every activation of the activations before it, as this project gave them:

    products      bytes that are results of Conv, Gemm and MatMul on integers. All must be equal
    on integers   how many of them this project's plan computes on integers
    arithmetic    bytes of sums, products and moves, of averages, and of the input. All must be equal
    functions     bytes of what has Sigmoid, Softmax, LayerNormalization and the like in it. Where they are not equal
                  they must be one step apart, and the exact quotient within NEAR of a tie
    spelled out   products that differ, by one step, if operators are rounded to f32 one by one, as the file has them
    untouched     whether the outputs of both runs have the same bits; they must
    interpreter   with --interpreter, activations that differ from those of the reference interpreter, which runs the whole network from the
                  input on, its products joined to integers. The first of them must be a function
    ort, same     onnxruntime, optimisation disabled, by the same oracle of its own activations: how many bytes differ
    ort, whole    this project's activations beside onnxruntime's, each network running on its own from the input on: the
                  share of equal bytes, and the steps between the furthest

With --isa every instruction set that is named is checked, and its activations compared with those of the first. The exit
code is 1 if anything that must be is not.
"""

import argparse
import copy
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from safetensors.numpy import load_file, save_file

from oracle import Oracle

sys.path.append(str(Path(__file__).parent.parent / "engines"))
import networks  # noqa: E402
import quantised  # noqa: E402

# In steps of quantisation: a relative error of 2^-18 of the greatest byte.
NEAR = 1e-3
EXACT = ("product", "mean", "arithmetic")
BUILT_IN = [networks.resnet50, networks.resnet18, networks.mobilenet_v3_large, networks.efficientnet_b0, networks.vit_tiny]


class RecordedInputs:
    """Cases of a golden file, as onnxruntime's quantiser asks for them; those of real pictures come last."""

    def __init__(self, path):
        cases = {}
        for key, value in load_file(path).items():
            case, direction, name = key.split("/")
            if direction == "in":
                cases.setdefault(case, {})[name] = value.astype(np.float32)
        self.left = [cases[case] for case in sorted(cases, reverse=True)]

    def get_next(self):
        return self.left.pop() if self.left else None


def all_inputs(path, goldens):
    return RecordedInputs(goldens) if goldens else quantised.RandomInputs(path)


def is_quantised(model):
    return any(node.op_type == "QuantizeLinear" for node in model.graph.node)


def with_activations_as_outputs(model, names):
    model = copy.deepcopy(model)
    outputs = {value.name for value in model.graph.output}
    for name in names:
        if name not in outputs:
            model.graph.output.append(helper.make_empty_tensor_value_info(name))
    return model


def ours(options, path, fed, isa, folder):
    """Outputs by name, and how many products the plan computes on integers."""
    dump = folder / "dump.safetensors"
    command = [options.program, "--model", path, "--inputs", fed, "--dump-outputs", dump, "--device", "cpu",
               "--precision", "fp32", "--runs", 1, "--warmup", 0, "--explain"]
    command += ["--isa", isa] if isa else []
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{path.name}: {done.stderr.strip()}")
    outputs = {key.split("case0/out/")[1]: value for key, value in load_file(dump).items() if "case0/out/" in key}
    return outputs, sum("8-bit integers" in line for line in done.stdout.splitlines())


def interpreted(options, path, fed, folder):
    """What the reference interpreter gives, by name."""
    out = folder / "interpreted.safetensors"
    done = subprocess.run([str(word) for word in (options.interpreter, path, fed, out)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{path.name}: {done.stderr.strip()}")
    return load_file(out)


def theirs(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def steps_between(got, want):
    """By element; a shape that is not right is no result."""
    if got.shape != want.shape or got.dtype != want.dtype:
        sys.exit(f"{got.dtype} {got.shape} for {want.dtype} {want.shape}")
    return np.abs(got.astype(np.int64) - want.astype(np.int64))


class Tally:
    """How many bytes of a kind are equal, and how far the others are."""

    def __init__(self):
        self.nodes, self.bytes, self.unequal, self.furthest = Counter(), Counter(), Counter(), Counter()
        self.kind_of = {}
        self.spelled_out = 0
        # Greatest distance from a tie of what is one step apart, in steps.
        self.from_tie = 0.0
        self.faults = []

    def add(self, name, expected, got, must_hold):
        kind, steps = expected.kind, steps_between(got, expected.bytes)
        unequal = steps > 0
        self.kind_of[name] = kind
        self.nodes[kind] += 1
        self.bytes[kind] += got.size
        self.unequal[kind] += int(unequal.sum())
        self.furthest[kind] = max(self.furthest[kind], int(steps.max(initial=0)))
        if kind == "product":
            self.spelled_out += int((expected.spelled_out != expected.bytes).sum())
        if not must_hold or not unequal.any():
            return
        quotient = expected.quotient[unequal].astype(np.float64)
        from_tie = float(np.abs(np.abs(quotient - np.trunc(quotient)) - 0.5).max())
        if kind == "function":
            self.from_tie = max(self.from_tie, from_tie)
        if kind in EXACT or steps.max() > 1 or from_tie > NEAR:
            self.faults.append(f"{kind} `{name}`: {unequal.sum()} of {got.size} bytes differ, by {steps.max()} steps "
                               f"at most, {from_tie:.1e} of a step from a tie")

    def of(self, *kinds):
        n, unequal = (sum(counter[kind] for kind in kinds) for counter in (self.bytes, self.unequal))
        return n, unequal, max(self.furthest[kind] for kind in kinds)

    def cell(self, *kinds):
        n, unequal, furthest = self.of(*kinds)
        return f"{n:,}: " + ("equal" if unequal == 0 else f"{unequal:,} differ, by {furthest}") if n else "-"


def judged(oracle, inputs, activations, must_hold):
    tally, given = Tally(), inputs | activations
    for name in oracle.activations:
        tally.add(name, oracle.expect(name, given), activations[name], must_hold)
    return tally


def same_bits(a, b):
    return a.keys() == b.keys() and all(a[k].shape == b[k].shape and a[k].tobytes() == b[k].tobytes() for k in a)


def share(steps_by_name):
    n, equal = sum(s.size for s in steps_by_name), sum(int((s == 0).sum()) for s in steps_by_name)
    return f"{100 * equal / n:.2f} %, {max(int(s.max(initial=0)) for s in steps_by_name)}"


def check(path, goldens, options, folder):
    """One row of the table, and what is wrong."""
    model = onnx.load(path)
    oracle = Oracle(model)
    names = oracle.activations
    source = all_inputs(path, goldens)
    # Not one that ranges were chosen on, where inputs are random.
    inputs = [given for given in iter(source.get_next, None)][-1] if goldens else random_input(path, options.seed)
    fed, wide = folder / "inputs.safetensors", folder / f"{path.stem}_activations.onnx"
    save_file(inputs, fed)
    onnx.save(with_activations_as_outputs(model, names), wide)
    first, faults, n_differ = None, [], []
    for isa in options.isa or [None]:
        outputs, n_integer = ours(options, path, fed, isa, folder)
        activations, n_wide = ours(options, wide, fed, isa, folder)
        untouched = {name: activations[name] for name in outputs}
        if not same_bits(outputs, untouched):
            faults.append(f"the outputs of the copy have other bits{f' on {isa}' if isa else ''}")
        if n_integer != n_wide:
            faults.append(f"{n_integer} products of integers, {n_wide} in the copy")
        activations = {name: activations[name] for name in names}
        if first is not None and same_bits(first, activations):
            n_differ.append(f"{isa}: same bits")
            continue
        tally = judged(oracle, inputs, activations, must_hold=True)
        faults += [f"{fault}{f' on {isa}' if isa else ''}" for fault in tally.faults]
        if first is None:
            first, kept, n_kept = activations, tally, n_integer
        else:
            n_differ.append(f"{isa}: {share([steps_between(activations[n], first[n]) for n in names])}")
    if n_kept != kept.nodes["product"]:
        faults.append(f"{kept.nodes['product']} products of the file, {n_kept} on integers")
    by_interpreter = "-"
    if options.interpreter:
        meant = interpreted(options, wide, fed, folder)
        apart = {name: steps_between(first[name], meant[name]) for name in names}
        # In the order of the file: all that the first reads are equal.
        at = next((name for name in names if apart[name].any()), None)
        if at is not None and kept.kind_of[at] != "function":
            faults.append(f"{kept.kind_of[at]} `{at}` is not the interpreter's")
        n_apart = sum(int((steps > 0).sum()) for steps in apart.values())
        furthest = max(int(steps.max(initial=0)) for steps in apart.values())
        by_interpreter = f"{n_apart:,} differ, by {furthest}" if n_apart else "equal"
    rival = theirs(wide, inputs)
    rival = {name: rival[name] for name in names}
    by_rule = judged(oracle, inputs, rival, must_hold=False)
    _, unequal, furthest = by_rule.of(*by_rule.bytes)
    functions = kept.cell("function") + (f", {kept.from_tie:.0e} from a tie" if kept.from_tie else "")
    row = [path.stem.removesuffix("_int8"), kept.cell("product"), f"{n_kept} of {kept.nodes['product']}", kept.cell("arithmetic", "mean"),
           functions, f"{kept.spelled_out:,}", "same bits" if not any("copy" in f for f in faults) else "differ",
           by_interpreter, f"{unequal:,} differ, by {furthest}" if unequal else "equal", share([steps_between(first[name], rival[name]) for name in names])]
    return row, faults, n_differ


def random_input(path, seed):
    ports = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs()
    random = np.random.default_rng([2, seed])
    shapes = {port.name: [extent if isinstance(extent, int) else 1 for extent in port.shape] for port in ports}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


HEADER = """| network | products, bytes | on integers | arithmetic, bytes | functions, bytes | spelled out | untouched | interpreter | ort, same | ort, whole |
|---|--:|--:|--:|--:|--:|---|---|--:|--:|"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", type=Path, help="ONNX files, in f32 or quantised")
    parser.add_argument("--program", default="target/release/examples/bench_supercombo", type=Path)
    parser.add_argument("--interpreter", type=Path, help="target/release/examples/interpret, which takes minutes for a ViT")
    parser.add_argument("--isa", nargs="*", help="instruction sets, instead of the best one")
    parser.add_argument("--seed", type=int, default=0, help="of the random input")
    options = parser.parse_args()
    start, faulty = time.perf_counter(), False
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}, numpy {np.__version__}\n\n{HEADER}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder, notes = Path(temporary), []
        for source in options.networks or BUILT_IN:
            path = source if isinstance(source, Path) else source(folder)
            goldens = path.parent / "goldens" / f"{path.stem}.safetensors"
            goldens = goldens if goldens.exists() else None
            if not is_quantised(onnx.load(path)):
                [path] = quantised.write([path], folder / "int8", lambda prepared: all_inputs(prepared, goldens))
            row, faults, n_differ = check(path, goldens, options, folder)
            print("| " + " | ".join(row) + " |", flush=True)
            notes += [f"{row[0]}: {note}" for note in faults + n_differ]
            faulty |= bool(faults)
        print("\n".join(["", *notes, f"{time.perf_counter() - start:.0f} s"]))
    sys.exit(faulty)


if __name__ == "__main__":
    main()
