"""Well-known networks as ONNX files with random weights, for timing and for arithmetic.

    write(folder) -> paths of resnet18, mobilenet_v3_large, efficientnet_b0, vit_tiny
    write_driving(folder) -> paths of networks of the shapes that driving models have: two frames of a camera as
        12x128x256 into MobileNetV3-Large, EfficientNet-B0 and EfficientNet-B2; a learned car, one and 64 at a time
    resnet50(folder) -> path of resnet50, for ../integers

Shapes follow the papers and torchvision's definitions: ResNet-18 (He et al. 2015) on
12x128x256, ResNet-50 (the same, its steps of two in the 3x3 convolutions, as torchvision has them),
MobileNetV3-Large (Howard et al. 2019), EfficientNet-B0 (Tan and Le 2019) and ViT-Tiny/16 (Touvron et al. 2021) on 3x224x224. BatchNorm stays in the graph, as exporters
leave it with training modes off; weights are scaled so that activations keep their size.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.append(str(Path(__file__).parent.parent / "learned_dynamics"))
import network as learned_car  # noqa: E402

OPSET = 17
PICTURE = [1, 3, 224, 224]
CAMERA = [1, 12, 128, 256]


class Network:
    """Nodes and weights of one graph, appended in order."""

    def __init__(self, name, shape, seed):
        self.name, self.nodes, self.weights = name, [], []
        self.random = np.random.default_rng(seed)
        self.input = helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)
        self.channels = {"input": shape[1]}

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def node(self, op, inputs, channels=None, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        self.channels[name] = self.channels.get(inputs[0]) if channels is None else channels
        return name

    def normal(self, *shape, scale):
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def conv(self, x, out, kernel, stride=1, groups=1, bias=False):
        per_group = self.channels[x] // groups
        scale = np.sqrt(2.0 / (per_group * kernel * kernel))
        inputs = [x, self.normal(out, per_group, kernel, kernel, scale=scale)]
        if bias:
            inputs.append(self.normal(out, scale=0.1))
        pad = kernel // 2
        return self.node("Conv", inputs, out, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                         pads=[pad] * 4, group=groups)

    def batch_norm(self, x):
        n = self.channels[x]
        draw = lambda low, high: self.constant(self.random.uniform(low, high, n).astype(np.float32))
        return self.node("BatchNormalization", [x, draw(0.8, 1.2), draw(-0.1, 0.1), draw(-0.1, 0.1), draw(0.8, 1.2)])

    def linear(self, x, n_in, n_out):
        product = self.node("MatMul", [x, self.normal(n_in, n_out, scale=n_in**-0.5)], n_out)
        return self.node("Add", [product, self.normal(n_out, scale=0.1)])

    def swish(self, x):
        return self.node("Mul", [x, self.node("Sigmoid", [x])])

    def act(self, x, kind):
        return self.swish(x) if kind == "Swish" else self.node(kind, [x])

    def squeeze_excite(self, x, n_hidden, first, last):
        n = self.channels[x]
        pooled = self.node("GlobalAveragePool", [x])
        hidden = self.act(self.conv(pooled, n_hidden, 1, bias=True), first)
        return self.node("Mul", [x, self.node(last, [self.conv(hidden, n, 1, bias=True)])])

    def classifier(self, x, n_classes=1000):
        flat = self.node("Flatten", [self.node("GlobalAveragePool", [x])])
        weights = self.normal(n_classes, self.channels[x], scale=self.channels[x] ** -0.5)
        return self.node("Gemm", [flat, weights, self.normal(n_classes, scale=0.1)], n_classes, transB=1)

    def save(self, folder, output):
        self.nodes[-1].output[0] = "output"
        assert output == self.nodes[-1].name
        result = helper.make_tensor_value_info("output", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, self.name, [self.input], [result], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model, full_check=True)
        path = Path(folder) / f"{self.name}.onnx"
        onnx.save(model, path)
        return path


def resnet18(folder):
    net = Network("resnet18", [1, 12, 128, 256], 1)
    x = net.node("Relu", [net.batch_norm(net.conv("input", 64, 7, stride=2))])
    x = net.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for width, first_stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        for stride in (first_stride, 1):
            y = net.node("Relu", [net.batch_norm(net.conv(x, width, 3, stride))])
            y = net.batch_norm(net.conv(y, width, 3))
            if stride != 1 or net.channels[x] != width:
                x = net.batch_norm(net.conv(x, width, 1, stride))
            x = net.node("Relu", [net.node("Add", [y, x])])
    return net.save(folder, net.classifier(x))


def resnet50(folder):
    net = Network("resnet50", PICTURE, 5)
    x = net.node("Relu", [net.batch_norm(net.conv("input", 64, 7, stride=2))])
    x = net.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for width, blocks, first_stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            y = net.node("Relu", [net.batch_norm(net.conv(x, width, 1))])
            y = net.node("Relu", [net.batch_norm(net.conv(y, width, 3, stride))])
            y = net.batch_norm(net.conv(y, 4 * width, 1))
            if block == 0:
                x = net.batch_norm(net.conv(x, 4 * width, 1, stride))
            x = net.node("Relu", [net.node("Add", [y, x])])
    return net.save(folder, net.classifier(x))


# kernel, expanded width, width out, squeeze-excite, activation, stride (paper, table 1)
MOBILENET_V3_LARGE = [
    (3, 16, 16, False, "Relu", 1), (3, 64, 24, False, "Relu", 2), (3, 72, 24, False, "Relu", 1),
    (5, 72, 40, True, "Relu", 2), (5, 120, 40, True, "Relu", 1), (5, 120, 40, True, "Relu", 1),
    (3, 240, 80, False, "HardSwish", 2), (3, 200, 80, False, "HardSwish", 1), (3, 184, 80, False, "HardSwish", 1),
    (3, 184, 80, False, "HardSwish", 1), (3, 480, 112, True, "HardSwish", 1), (3, 672, 112, True, "HardSwish", 1),
    (5, 672, 160, True, "HardSwish", 2), (5, 960, 160, True, "HardSwish", 1), (5, 960, 160, True, "HardSwish", 1),
]


def mobilenet_v3_large(folder, name="mobilenet_v3_large", shape=PICTURE):
    net = Network(name, shape, 2)
    x = net.act(net.batch_norm(net.conv("input", 16, 3, 2)), "HardSwish")
    for kernel, wide, out, excite, act, stride in MOBILENET_V3_LARGE:
        y = x
        if wide != net.channels[x]:
            y = net.act(net.batch_norm(net.conv(y, wide, 1)), act)
        y = net.act(net.batch_norm(net.conv(y, wide, kernel, stride, groups=wide)), act)
        if excite:
            y = net.squeeze_excite(y, (wide // 4 + 4) // 8 * 8, "Relu", "HardSigmoid")
        y = net.batch_norm(net.conv(y, out, 1))
        x = net.node("Add", [y, x]) if stride == 1 and net.channels[x] == out else y
    x = net.act(net.batch_norm(net.conv(x, 960, 1)), "HardSwish")
    pooled = net.node("GlobalAveragePool", [x])
    hidden = net.act(net.conv(pooled, 1280, 1, bias=True), "HardSwish")
    return net.save(folder, net.classifier(hidden))


# expansion, kernel, stride, width out, blocks (paper, table 1)
EFFICIENTNET_B0 = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                   (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)]


def efficientnet(folder, name, shape, width=1.0, depth=1.0):
    net = Network(name, shape, 3)
    # Channels are multiples of eight, none smaller by more than a tenth.
    rounded = lambda n: max(8, int(n * width + 4) // 8 * 8)
    channels = lambda n: rounded(n) if rounded(n) >= 0.9 * n * width else rounded(n) + 8
    x = net.swish(net.batch_norm(net.conv("input", channels(32), 3, 2)))
    for expansion, kernel, first_stride, out, blocks in EFFICIENTNET_B0:
        out, blocks = channels(out), int(np.ceil(depth * blocks))
        for block in range(blocks):
            stride, n_in = (first_stride if block == 0 else 1), net.channels[x]
            y, wide = x, n_in * expansion
            if expansion != 1:
                y = net.swish(net.batch_norm(net.conv(y, wide, 1)))
            y = net.swish(net.batch_norm(net.conv(y, wide, kernel, stride, groups=wide)))
            y = net.squeeze_excite(y, max(1, n_in // 4), "Swish", "Sigmoid")
            y = net.batch_norm(net.conv(y, out, 1))
            x = net.node("Add", [y, x]) if stride == 1 and n_in == out else y
    x = net.swish(net.batch_norm(net.conv(x, channels(1280), 1)))
    return net.save(folder, net.classifier(x))


def efficientnet_b0(folder):
    return efficientnet(folder, "efficientnet_b0", PICTURE)


def vit_tiny(folder, width=192, heads=3, depth=12, patch=16):
    net = Network("vit_tiny", [1, 3, 224, 224], 4)
    tokens, head = (224 // patch) ** 2 + 1, width // heads
    shape = lambda *extents: net.constant(np.array(extents, np.int64))
    norm = lambda x: net.node("LayerNormalization", [
        x, net.constant(np.ones(width, np.float32)), net.normal(width, scale=0.02)], axis=-1, epsilon=1e-6)
    x = net.node("Conv", ["input", net.normal(width, 3, patch, patch, scale=(3 * patch**2) ** -0.5)], width,
                 kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = net.node("Transpose", [net.node("Reshape", [x, shape(1, width, -1)])], perm=[0, 2, 1])
    x = net.node("Concat", [net.normal(1, 1, width, scale=1.0), x], axis=1)
    x = net.node("Add", [x, net.normal(1, tokens, width, scale=0.02)])
    for _ in range(depth):
        y = net.linear(norm(x), width, 3 * width)
        y = net.node("Transpose", [net.node("Reshape", [y, shape(1, tokens, 3, heads, head)])], perm=[2, 0, 3, 1, 4])
        q, k, v = (net.node("Gather", [y, net.constant(np.array(i, np.int64))], axis=0) for i in range(3))
        scores = net.node("MatMul", [q, net.node("Transpose", [k], perm=[0, 1, 3, 2])])
        scores = net.node("Mul", [scores, net.constant(np.float32(head**-0.5))])
        y = net.node("MatMul", [net.node("Softmax", [scores], axis=-1), v])
        y = net.node("Reshape", [net.node("Transpose", [y], perm=[0, 2, 1, 3]), shape(1, tokens, width)])
        x = net.node("Add", [x, net.linear(y, width, width)])
        y = net.linear(norm(x), width, 4 * width)
        erf = net.node("Erf", [net.node("Div", [y, net.constant(np.float32(2**0.5))])])
        y = net.node("Mul", [y, net.node("Add", [erf, net.constant(np.float32(1))])])
        y = net.node("Mul", [y, net.constant(np.float32(0.5))])
        x = net.node("Add", [x, net.linear(y, 4 * width, width)])
    first = net.node("Gather", [norm(x), net.constant(np.array(0, np.int64))], width, axis=1)
    out = net.node("Gemm", [first, net.normal(1000, width, scale=width**-0.5), net.normal(1000, scale=0.1)], transB=1)
    return net.save(folder, out)


def learned(folder, batch):
    path = Path(folder) / f"learned_car_{batch}.onnx"
    path.write_bytes(learned_car.network(batch))
    return path


def write_driving(folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    return [
        mobilenet_v3_large(folder, "mobilenet_v3_camera", CAMERA),
        efficientnet(folder, "efficientnet_b0_camera", CAMERA),
        efficientnet(folder, "efficientnet_b2_camera", CAMERA, width=1.1, depth=1.2),
        learned(folder, 1),
        learned(folder, 64),
    ]


def write(folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    return [make(folder) for make in (resnet18, mobilenet_v3_large, efficientnet_b0, vit_tiny)]
