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
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

BATCH, STEPS, WIDTH, HEADS, BLOCKS, BINS = 100, 20, 128, 4, 4, 1024
N_RUNS = 21


class Network:
    """Nodes and weights of one graph, appended in order."""

    def __init__(self):
        self.nodes, self.weights = [], []
        self.random = np.random.default_rng(1)

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def node(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def linear(self, x, n_in, n_out):
        bound = (3 / n_in) ** 0.5
        w = self.constant(self.random.uniform(-bound, bound, (n_in, n_out)).astype(np.float32))
        b = self.constant(self.random.uniform(-0.1, 0.1, n_out).astype(np.float32))
        return self.node("Add", self.node("MatMul", x, w), b)

    def norm(self, x):
        scale = self.constant(self.random.uniform(0.8, 1.2, WIDTH).astype(np.float32))
        bias = self.constant(self.random.uniform(-0.1, 0.1, WIDTH).astype(np.float32))
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def heads(self, x, perm):
        shape = self.constant(np.array([0, STEPS, HEADS, WIDTH // HEADS]))
        split = self.node("Reshape", self.linear(x, WIDTH, WIDTH), shape)
        return self.node("Transpose", split, perm=perm)

    def attention(self, x, mask):
        q, k, v = self.heads(x, [0, 2, 1, 3]), self.heads(x, [0, 2, 3, 1]), self.heads(x, [0, 2, 1, 3])
        factor = self.constant(np.float32((WIDTH // HEADS) ** -0.5))
        scores = self.node("Add", self.node("Mul", self.node("MatMul", q, k), factor), mask)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        back = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        joined = self.node("Reshape", back, self.constant(np.array([0, STEPS, WIDTH])))
        return self.linear(joined, WIDTH, WIDTH)

    def block(self, x, mask):
        x = self.node("Add", x, self.attention(self.norm(x), mask))
        wide = self.node("Gelu", self.linear(self.norm(x), WIDTH, 4 * WIDTH), approximate="tanh")
        return self.node("Add", x, self.linear(wide, 4 * WIDTH, WIDTH))


def network():
    net = Network()
    table = net.constant(net.random.uniform(-1, 1, (BINS, WIDTH // 2)).astype(np.float32))
    tokens = net.node("Gather", table, "tokens", axis=0)
    x = net.node("Concat", net.linear("states", 4, WIDTH // 2), tokens, axis=-1)
    position = net.random.uniform(-0.5, 0.5, (1, STEPS, WIDTH)).astype(np.float32)
    x = net.node("Add", x, net.constant(position))
    mask = net.constant(np.where(np.tri(STEPS, dtype=bool), 0, -1e9).astype(np.float32))
    for _ in range(BLOCKS):
        x = net.block(x, mask)
    logits = net.linear(net.norm(x), WIDTH, BINS)
    graph = helper.make_graph(
        net.nodes,
        "learned_dynamics",
        [
            helper.make_tensor_value_info("states", TensorProto.FLOAT, ["b", STEPS, 4]),
            helper.make_tensor_value_info("tokens", TensorProto.INT64, ["b", STEPS]),
        ],
        [helper.make_tensor_value_info(logits, TensorProto.FLOAT, ["b", STEPS, BINS])],
        net.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    return model.SerializeToString()


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
    model = network()
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
