"""This project against onnxruntime and OpenVINO on the CPU: one table, one command.

Run, from the root of the repository:

    python3 -m venv target/rivals
    target/rivals/bin/pip install -r benches/rivals/engines/requirements.txt
    cargo build --release --example bench_supercombo
    target/rivals/bin/python benches/rivals/engines/compare.py MODEL.onnx ...

Models: those named, the zoo, and the networks of networks.py. Every engine is one process
per round, and the engines take turns, so that a slow minute of the machine hits all of
them. A figure is the median over rounds of the median latency of a round; the brackets
hold the smallest and the largest round. Before anything is timed, all engines run the same
inputs: their outputs must agree within 1e-3 of the output's scale; in bf16 and fp16 have a cosine
above 0.98 with onnxruntime's f32, and networks of integers one above 0.9 with its integers: random weights
amplify rounding (onnxruntime itself, with and without optimising MobileNetV3's, has 0.956).
With --quantised the networks of networks.py are those of 8-bit integers that quantised.py makes of them; with
--driving they are those of the shapes that driving models have. With --avx2 all engines are held to AVX2.

    load + first   file opened to first result, the process and its imports not counted; the
                   ratio is to onnxruntime's, where it runs
    peak memory    peak resident memory of the process; for the Python engines, what the
                   process had after its imports is subtracted; the ratio is ours to our
                   weights as they are held and arena, program and inputs not subtracted
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ENGINES = ("spark", "onnxruntime", "openvino")


def peak_kb():
    """Peak resident memory of this process; getrusage would count its parent's as well."""
    with open("/proc/self/status") as status:
        return next(int(row.split()[1]) for row in status if row.startswith("VmHWM"))


def worker(engine, path, inputs_path, threads, precision, runs, warmup):
    """One engine, one model, in this process: prints one line of JSON."""
    import numpy as np

    inputs = dict(np.load(inputs_path))
    if engine == "onnxruntime":
        import onnxruntime as ort

        base_kb = peak_kb()
        start = time.perf_counter()
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        run = lambda: session.run(None, inputs)
    else:
        import openvino as ov

        base_kb = peak_kb()
        start = time.perf_counter()
        config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
                  "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}[precision]}
        compiled = ov.Core().compile_model(path, "CPU", config)
        request = compiled.create_infer_request()
        run = lambda: list(request.infer(inputs).values())
    outputs = run()
    first_ms = 1e3 * (time.perf_counter() - start)
    for _ in range(warmup):
        run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    rss_kb = peak_kb() - base_kb
    print(json.dumps({"p50": statistics.median(times), "load_first": first_ms, "rss_mb": rss_kb / 1e3}))
    return outputs


def ours(program, path, inputs_file, threads, precision, runs, warmup, dump=None):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [program, "--model", path, "--threads", threads, "--precision", precision, "--device", "cpu",
                   "--runs", runs, "--warmup", warmup, "--inputs", inputs_file, "--json", report.name]
        if is_held():
            command += ["--isa", "avx2"]
        if dump:
            command += ["--dump-outputs", dump]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        run = json.load(open(report.name))["runs"][-1]
    memory = run["memory"]
    return {"p50": run["p50_ms"], "load_first": run["load_ms"] + run["first_ms"],
            "rss_mb": memory["peak_rss_bytes"] / 1e6,
            "needed_mb": (memory["weight_bytes"] + memory["arena_bytes"]) / 1e6}


def make_inputs(path, folder):
    """Inputs in -1..1 (bytes for uint8), as .npz for Python and .safetensors for us."""
    import numpy as np
    import onnxruntime as ort
    from safetensors.numpy import save_file

    random, inputs = np.random.default_rng(0), {}
    for port in ort.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs():
        shape = [extent if isinstance(extent, int) else 1 for extent in port.shape]
        kind = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8,
                "tensor(int64)": np.int64}[port.type]
        if kind is np.int64:
            inputs[port.name] = random.integers(0, 1024, shape)
        elif kind is np.uint8:
            inputs[port.name] = random.integers(0, 256, shape, dtype=np.uint8)
        else:
            inputs[port.name] = random.uniform(-1, 1, shape).astype(kind)
    np.savez(folder / "inputs.npz", **inputs)
    save_file(inputs, folder / "inputs.safetensors")


def cosine_of(got, want):
    import numpy as np

    got, want = (v.astype(np.float64).ravel() for v in (got, want))
    return float(got @ want / np.sqrt((got @ got) * (want @ want)))


def agree(program, path, folder, precision):
    """All engines on the same inputs; the largest error against onnxruntime, over its scale."""
    import numpy as np
    import onnxruntime as ort
    from safetensors.numpy import load_file

    stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
    want = worker("onnxruntime", path, folder / "inputs.npz", 1, precision, 1, 0)
    theirs = worker("openvino", path, folder / "inputs.npz", 1, precision, 1, 0)
    sys.stdout = stdout
    dump = folder / "dump.safetensors"
    ours(program, path, folder / "inputs.safetensors", 1, precision, 1, 0, dump)
    names = [port.name for port in ort.InferenceSession(path, providers=["CPUExecutionProvider"]).get_outputs()]
    mine = {key.split("case0/out/")[1]: value for key, value in load_file(dump).items() if "case0/out/" in key}
    errors = {}
    for engine, outputs in (("spark", [mine[name] for name in names]), ("openvino", theirs)):
        errors[engine] = max(
            float(np.abs(got.astype(np.float64) - w).max() / np.abs(w).max())
            for got, w in zip(outputs, want, strict=True))
        if precision == "fp32" and not is_quantised(path):
            assert errors[engine] <= 1e-3, f"{path}: {engine} is off by {errors[engine]:.1e} of the output's scale"
        cosine = min(cosine_of(got, w) for got, w in zip(outputs, want, strict=True))
        assert cosine >= (0.9 if is_quantised(path) else 0.98), f"{path}: {engine} has a cosine of {cosine:.4f}"
    return errors


def is_held():
    """Whether everything runs on AVX2; onnxruntime has no such setting."""
    return os.environ.get("ONEDNN_MAX_CPU_ISA") == "AVX2"


def is_quantised(path):
    import onnx

    return any(node.op_type == "QuantizeLinear" for node in onnx.load(path).graph.node)


def turn(engine, program, path, folder, threads, precision, runs):
    warmup = max(5, runs // 5)
    if engine == "spark":
        return ours(program, path, folder / "inputs.safetensors", threads, precision, runs, warmup)
    command = [sys.executable, __file__, "--worker", engine, path, folder / "inputs.npz", threads, precision, runs, warmup]
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def summary(rounds, key):
    values = [one[key] for one in rounds]
    return statistics.median(values), min(values), max(values)


def measure(program, path, threads, precision, rounds, runs):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(path, folder)
        errors = agree(program, path, folder, precision)
        engines = ENGINES if precision == "fp32" and not is_held() else ("spark", "openvino")
        results = {engine: [] for engine in engines}
        for _ in range(rounds):
            for engine in engines:
                results[engine].append(turn(engine, program, path, folder, threads, precision, runs))
    return {"model": Path(path).stem, "threads": threads, "precision": precision, "errors": errors,
            "needed_mb": results["spark"][0]["needed_mb"],
            "engines": {e: {k: summary(r, k) for k in ("p50", "load_first", "rss_mb")} for e, r in results.items()}}


def line(row):
    cells = [row["model"], str(row["threads"]), row["precision"]]
    for engine in ENGINES:
        figures = row["engines"].get(engine)
        cells.append("" if figures is None else "{:.2f} [{:.2f}, {:.2f}]".format(*figures["p50"]))
    spark = row["engines"]["spark"]
    rivals = [row["engines"][e] for e in ENGINES[1:] if e in row["engines"]]
    cells.append(f"{spark['p50'][0] / min(r['p50'][0] for r in rivals):.2f}")
    for key in ("load_first", "rss_mb"):
        figures = " / ".join(f"{row['engines'][e][key][0]:.0f}" for e in ENGINES if e in row["engines"])
        against = row["needed_mb"] if key == "rss_mb" else row["engines"].get("onnxruntime", {}).get(key, [None])[0]
        cells.append(figures if against is None else f"{figures} ({spark[key][0] / against:.2f})")
    return "| " + " | ".join(cells) + " |"


HEADER = """| model | threads | precision | spark, ms | onnxruntime, ms | OpenVINO, ms | spark / best rival | load + first result, ms | peak memory, MB |
|---|--:|---|--:|--:|--:|--:|--:|--:|"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="ONNX files beside the built-in ones")
    parser.add_argument("--program", default="target/release/examples/bench_supercombo")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--precision", default="fp32", help="fp32, bf16, fp16, joined by commas; onnxruntime runs f32 only")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--driving", action="store_true", help="networks.py's of driving models' shapes, and not the zoo")
    parser.add_argument("--avx2", action="store_true", help="no AVX-512 for any engine; onnxruntime cannot be held, and is left out")
    parser.add_argument("--quantised", action="store_true", help="networks.py's as 8-bit integers, and not the zoo")
    options = parser.parse_args()
    if options.avx2:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"
    import networks
    import onnxruntime
    import openvino

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.program, "--write-zoo", folder], check=True, stdout=subprocess.DEVNULL)
        known = networks.write(Path(folder) / "known")
        if options.quantised:
            import quantised

            built_in = quantised.write(known, Path(folder) / "quantised")
        elif options.driving:
            built_in = networks.write_driving(Path(folder) / "driving")
        else:
            built_in = sorted(Path(folder).glob("*.onnx")) + known
        models = [path for path in [*map(Path, options.models), *built_in] if options.only in path.name]
        print(f"onnxruntime {onnxruntime.__version__}, OpenVINO {openvino.__version__}\n\n{HEADER}", flush=True)
        rows = []
        for path in models:
            for precision in options.precision.split(","):
                for threads in map(int, options.threads.split(",")):
                    rows.append(measure(options.program, str(path), threads, precision, options.rounds, options.runs))
                    print(line(rows[-1]), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        engine, path, inputs, threads, precision, runs, warmup = sys.argv[2:]
        worker(engine, path, inputs, int(threads), precision, int(runs), int(warmup))
    else:
        main()
