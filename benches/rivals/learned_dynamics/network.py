"""The network of a car's behaviour that the controls challenge runs, with random weights.

    network(batch) -> ONNX bytes; states [batch, 20, 4] f32 and tokens [batch, 20] i64 to logits [batch, 20, 1024]

A transformer of 4 blocks, width 128, 4 heads.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STEPS, WIDTH, HEADS, BLOCKS, BINS = 20, 128, 4, 4, 1024


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


def network(batch):
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
            helper.make_tensor_value_info("states", TensorProto.FLOAT, [batch, STEPS, 4]),
            helper.make_tensor_value_info("tokens", TensorProto.INT64, [batch, STEPS]),
        ],
        [helper.make_tensor_value_info(logits, TensorProto.FLOAT, [batch, STEPS, BINS])],
        net.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    return model.SerializeToString()
