"""How many model steps per second do onnxruntime and OpenVINO take through the challenge's network?

Run, from the root of the repository:

    python3 -m venv /tmp/dynamics
    /tmp/dynamics/bin/pip install -r benches/rivals/learned_dynamics/requirements.txt
    /tmp/dynamics/bin/python benches/rivals/learned_dynamics/measure.py [THREADS] [MODEL.onnx]

The counterpart of `sim/learned_dynamics/2t`: states [100, 20, 4] f32 and tokens [100, 20] i64 to
logits [100, 20, 1024], a transformer of 4 blocks, width 128, 4 heads, with random weights. Both
have to agree on the logits before they are timed. With a file name the network is kept there.
Prints `case,unit,runs,min,median,max`.
"""

import statistics
import sys
import time

import numpy as np
import onnxruntime
import openvino

from network import BINS, STEPS, network

BATCH = 100
N_RUNS = 21


def measure(name, run):
    run(), run()
    rates = []
    for _ in range(N_RUNS):
        start = time.perf_counter()
        run()
        rates.append(BATCH / (time.perf_counter() - start))
    figures = min(rates), statistics.median(rates), max(rates)
    print(f"{name},model_steps,{N_RUNS}," + ",".join(f"{x:.4e}" for x in figures))


def main():
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    model = network("b")
    if len(sys.argv) > 2:
        with open(sys.argv[2], "wb") as file:
            file.write(model)
    random = np.random.default_rng(2)
    states = random.uniform(-1, 1, (BATCH, STEPS, 4)).astype(np.float32)
    tokens = random.integers(0, BINS, (BATCH, STEPS))
    inputs = {"states": states, "tokens": tokens}

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    core = openvino.Core()
    request = core.compile_model(
        core.read_model(model),
        "CPU",
        {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1},
    ).create_infer_request()

    of_session = session.run(None, inputs)[0]
    of_request = request.infer(inputs)[0]
    error = np.abs(of_session - of_request).max()
    if not error < 1e-3:
        raise SystemExit(f"the engines differ by {error}")
    print("case,unit,runs,min,median,max")
    measure(f"onnxruntime/learned_dynamics/{threads}t", lambda: session.run(None, inputs))
    measure(f"openvino/learned_dynamics/{threads}t", lambda: request.infer(inputs))


if __name__ == "__main__":
    main()
