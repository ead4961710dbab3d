"""What quantised activations must be, given the ones before them: every node of a QDQ network by itself.

    product     Conv, Gemm or MatMul of dequantised bytes, with a bias in the scale of the sums, and what the range of
                the result implies of Relu and Clip
                    s = sum of (x - x_zero) (w - w_zero) + bias                        integers, exact
                    y = saturate(round_half_even(f32(s) * m) + y_zero)
                    m = x_scale * w_scale / y_scale                                    each step rounded to f32
    mean        GlobalAveragePool or ReduceMean of dequantised bytes: f32(sum / n), less the zero point, times the scale,
                quantised; each step rounded to f32
    arithmetic  anything made of sums, differences, products, quotients, comparisons and moves: each operator rounded to
                f32, which leaves nothing open
    function    anything else, such as Sigmoid, Softmax or LayerNormalization: each operator in f64, rounded to f32. An
                engine's may be another by units of the last place: so one step where the quotient is near a tie

`Oracle(model)` knows the network, `Oracle.activations` names what is quantised in it, `Oracle.expect` computes one of
them. This shares no code with the engines that it judges: sums are matrix products in f64 of integers, exact below 2^53.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx import helper, numpy_helper

F32 = np.float32
erf = np.frompyfunc(math.erf, 1, 1)


@dataclass
class Expected:
    kind: str
    bytes: np.ndarray
    # Before it is rounded to whole numbers: how far a result is from a tie.
    quotient: np.ndarray
    # What the same node gives as its file spells it out, each operator rounded to f32; of products and means.
    spelled_out: np.ndarray | None = None


def rounded(values):
    """f64 to f32, or what it is."""
    return values.astype(F32) if values.dtype == np.float64 else values


def broadcast(list_, axis, rank):
    """One value, or one per position of `axis`."""
    list_ = np.asarray(list_)
    if list_.size == 1:
        return list_.reshape(())
    shape = [1] * rank
    shape[axis % rank] = list_.size
    return list_.reshape(shape)


def windows(x, w, attributes, pads_with=0.0):
    """`[n, c, h, w]` padded, as `[n, c, rows, columns, kernel rows, kernel columns]`."""
    if attributes.get("auto_pad", b"NOTSET") != b"NOTSET" or attributes.get("ceil_mode", 0):
        raise NotImplementedError("auto_pad and ceil_mode")
    rank = len(w)
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    widths = [(0, 0), (0, 0)] + [(pads[a], pads[rank + a]) for a in range(rank)]
    x = np.pad(x, widths, constant_values=pads_with)
    reach = [(extent - 1) * dilation + 1 for extent, dilation in zip(w, dilations)]
    view = sliding_window_view(x, reach, axis=tuple(range(2, 2 + rank)))
    at = [slice(None)] * 2 + [slice(None, None, s) for s in strides] + [slice(None, None, d) for d in dilations]
    return view[tuple(at)]


def convolved(x, w, attributes):
    """A convolution in f64 of two spatial axes: of integers exact."""
    if w.ndim != 4:
        raise NotImplementedError(f"a convolution of weights {w.shape}")
    groups, out = attributes.get("group", 1), w.shape[0]
    view = windows(x, w.shape[2:], attributes)
    n, _, rows, columns = view.shape[:4]
    if w.shape[1] == 1 and groups == x.shape[1] == out:
        sums = np.zeros((n, out, rows, columns))
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                sums += view[..., i, j] * w[:, 0, i, j, None, None]
        return sums
    result = np.empty((n, out, rows, columns))
    for group in range(groups):
        mine = view[:, group * w.shape[1] : (group + 1) * w.shape[1]]
        taps = mine.transpose(0, 2, 3, 1, 4, 5).reshape(n * rows * columns, -1)
        own = slice(group * out // groups, (group + 1) * out // groups)
        sums = taps @ w[own].reshape(out // groups, -1).T
        result[:, own] = sums.reshape(n, rows, columns, -1).transpose(0, 3, 1, 2)
    return result


def hard_sigmoid(x, attributes):
    alpha, beta = (np.float64(F32(attributes.get(name, default))) for name, default in (("alpha", 0.2), ("beta", 0.5)))
    return np.clip(alpha * x + beta, 0, 1)


def softmax(x, axis):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def layer_norm(x, scale, bias, attributes):
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + np.float64(F32(attributes.get("epsilon", 1e-5)))) * scale + bias


def sliced(x, starts, ends, axes=None, steps=None):
    at = [slice(None)] * x.ndim
    axes = range(len(starts)) if axes is None else axes
    for i, axis in enumerate(axes):
        at[axis] = slice(int(starts[i]), int(ends[i]), int(steps[i]) if steps is not None else 1)
    return x[tuple(at)]


def reshaped(x, shape):
    return x.reshape([x.shape[i] if extent == 0 else int(extent) for i, extent in enumerate(shape)])


def axes_of(attributes, v):
    return attributes["axes"] if len(v) < 2 else [int(axis) for axis in v[1]]


# What leaves nothing open once each operator is rounded to f32. Values `v` are f64, or indices and shapes as they are.
ARITHMETIC = {
    "Add": lambda v, a: v[0] + v[1],
    "Sub": lambda v, a: v[0] - v[1],
    "Mul": lambda v, a: v[0] * v[1],
    "Div": lambda v, a: v[0] / v[1],
    "Relu": lambda v, a: np.maximum(v[0], 0),
    "Clip": lambda v, a: np.clip(v[0], *(v[1:] or (np.float64(F32(a["min"])), np.float64(F32(a["max"]))))),
    "MaxPool": lambda v, a: windows(v[0], a["kernel_shape"], a, -np.inf).max(axis=(4, 5)),
    "Identity": lambda v, a: v[0],
    "Flatten": lambda v, a: v[0].reshape(math.prod(v[0].shape[: a.get("axis", 1)]), -1),
    "Reshape": lambda v, a: reshaped(v[0], v[1]),
    "Squeeze": lambda v, a: v[0].squeeze(tuple(axes_of(a, v))),
    "Unsqueeze": lambda v, a: np.expand_dims(v[0], tuple(axes_of(a, v))),
    "Transpose": lambda v, a: v[0].transpose(a.get("perm")),
    "Concat": lambda v, a: np.concatenate(v, axis=a["axis"]),
    "Gather": lambda v, a: np.take(v[0], v[1].astype(np.int64), axis=a.get("axis", 0)),
    "Slice": lambda v, a: sliced(*v),
}

FUNCTIONS = {
    "Sigmoid": lambda v, a: 1 / (1 + np.exp(np.minimum(-v[0], 700))),
    # One operator that rounds a product and a sum, or the sum alone.
    "HardSigmoid": lambda v, a: hard_sigmoid(v[0], a),
    "HardSwish": lambda v, a: v[0] * np.clip(v[0] / 6 + 0.5, 0, 1),
    "Tanh": lambda v, a: np.tanh(v[0]),
    "Erf": lambda v, a: erf(v[0]).astype(np.float64),
    "Gelu": lambda v, a: v[0] * 0.5 * (1 + erf(v[0] / math.sqrt(2)).astype(np.float64)),
    "Softmax": lambda v, a: softmax(v[0], a.get("axis", -1)),
    "LayerNormalization": lambda v, a: layer_norm(*v, a),
    "GlobalAveragePool": lambda v, a: v[0].mean(axis=tuple(range(2, v[0].ndim)), keepdims=True),
    "ReduceMean": lambda v, a: v[0].mean(axis=tuple(a["axes"] if len(v) < 2 else v[1]), keepdims=bool(a.get("keepdims", 1))),
    "Conv": lambda v, a: convolved(v[0], v[1], a) + (v[2].reshape(-1, 1, 1) if len(v) > 2 else 0),
    "MatMul": lambda v, a: v[0] @ v[1],
    "Gemm": lambda v, a: gemm(v, a),
}


def gemm(v, attributes):
    if attributes.get("alpha", 1) != 1 or attributes.get("beta", 1) != 1 or attributes.get("transA", 0):
        raise NotImplementedError("factors of a Gemm")
    return v[0] @ (v[1].T if attributes.get("transB", 0) else v[1]) + (v[2] if len(v) > 2 else 0)


@dataclass
class Quantised:
    """Bytes, with their scale and zero point as lists, and the axis along which they are."""

    bytes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    axis: int

    def centred(self):
        return self.bytes.astype(np.float64) - broadcast(self.zero, self.axis, self.bytes.ndim).astype(np.float64)


class Oracle:
    def __init__(self, model):
        self.graph = model.graph
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.made_by = {name: node for node in self.graph.node for name in node.output}
        self.attributes = {
            node.output[0]: {a.name: helper.get_attribute_value(a) for a in node.attribute} for node in self.graph.node
        }
        names = [name for node in self.graph.node for name in node.input] + [v.name for v in self.graph.output]
        self.readers = {name: names.count(name) for name in set(names)}
        self.quantisations = {
            node.output[0]: node for node in self.graph.node
            if node.op_type == "QuantizeLinear" and node.input[0] not in self.constants
        }

    @property
    def activations(self):
        return list(self.quantisations)

    def held(self, name, given):
        """Constants, inputs of the network and bytes that were computed before."""
        return self.constants[name] if name in self.constants else given.get(name)

    def dequantised(self, name, given):
        """What `name` was before it was dequantised, or None."""
        node = self.made_by.get(name)
        if node is None or node.op_type != "DequantizeLinear":
            return None
        scale = self.constants[node.input[1]]
        zero = self.constants[node.input[2]] if len(node.input) > 2 else np.zeros_like(scale, np.int32)
        axis = self.attributes[name].get("axis", 1)
        return Quantised(self.held(node.input[0], given), np.atleast_1d(scale), np.atleast_1d(zero), axis)

    def floats(self, name, given):
        """`name` as f32, every operator in f64 and rounded once; and whether that leaves nothing open."""
        held = self.held(name, given)
        if held is not None:
            return held, True
        quantised = self.dequantised(name, given)
        if quantised is not None:
            scale = broadcast(quantised.scale, quantised.axis, quantised.bytes.ndim).astype(np.float64)
            return (quantised.centred() * scale).astype(F32), True
        node = self.made_by[name]
        operands = [self.floats(operand, given) for operand in node.input if operand]
        wide = [v.astype(np.float64) if v.dtype == F32 else v for v, _ in operands]
        is_exact = node.op_type in (*ARITHMETIC, "Split") and all(exact for _, exact in operands)
        if node.op_type == "Split":
            return self.split(node, name, *wide), is_exact
        function = ARITHMETIC.get(node.op_type) or FUNCTIONS.get(node.op_type)
        if function is None:
            raise NotImplementedError(f"operator {node.op_type} of `{node.name}`")
        return rounded(np.asarray(function(wide, self.attributes[name]))), is_exact

    def split(self, node, name, x, lengths=None):
        """The part of `x` that is called `name`."""
        axis = self.attributes[node.output[0]].get("axis", 0)
        places = len(node.output) if lengths is None else np.cumsum(lengths)[:-1]
        return rounded(np.split(x, places, axis)[list(node.output).index(name)])

    def parameters(self, node):
        """Scale, zero point and type of a quantisation."""
        zero = self.constants[node.input[2]] if len(node.input) > 2 else np.uint8(0)
        return F32(self.constants[node.input[1]].reshape(())), int(zero.reshape(())), zero.dtype

    @staticmethod
    def saturated(quotient, zero, dtype):
        limits = np.iinfo(dtype)
        return np.clip(np.rint(quotient).astype(np.float64) + zero, limits.min, limits.max).astype(dtype)

    def expect(self, name, given):
        """What activation `name` must be, of what is `given`: the network's inputs and activations by name."""
        node = self.quantisations[name]
        scale, zero, dtype = self.parameters(node)
        values, is_exact = self.floats(node.input[0], given)
        quotient = values / scale
        spelled_out = self.saturated(quotient, zero, dtype)
        special = self.product(node, given) or self.mean(node, given)
        if special is None:
            return Expected("arithmetic" if is_exact else "function", spelled_out, quotient)
        kind, quotient = special
        return Expected(kind, self.saturated(quotient, zero, dtype), quotient, spelled_out)

    def is_implied(self, node, scale, zero, dtype):
        """Whether Relu or Clip changes nothing that the bytes can tell."""
        limits = np.iinfo(dtype)
        if node.op_type == "Relu":
            return zero <= limits.min
        attributes = self.attributes[node.output[0]]
        low, high = ([self.constants[n] for n in node.input[1:]] if len(node.input) > 2
                     else (attributes["min"], attributes["max"]))
        byte = lambda bound: np.rint(F32(bound) / scale) + zero
        return byte(low) <= limits.min and byte(high) >= limits.max

    def product(self, quantise, given):
        """The quotients of a product of integers, or None."""
        scale, zero, dtype = self.parameters(quantise)
        name = quantise.input[0]
        node = self.made_by.get(name)
        while node is not None and node.op_type in ("Relu", "Clip") and self.readers[name] == 1:
            if not self.is_implied(node, scale, zero, dtype):
                return None
            name, node = node.input[0], self.made_by.get(node.input[0])
        if node is None or node.op_type not in ("Conv", "Gemm", "MatMul") or self.readers[name] > 1:
            return None
        x, w = (self.dequantised(operand, given) for operand in node.input[:2])
        if x is None or w is None:
            return None
        attributes = self.attributes[node.output[0]]
        own = {"Conv": 0, "MatMul": w.bytes.ndim - 1, "Gemm": int(not attributes.get("transB", 0))}[node.op_type]
        if w.scale.size > 1 and w.axis % w.bytes.ndim != own:
            return None
        sums = {
            "Conv": lambda: convolved(x.centred(), w.centred(), attributes),
            "MatMul": lambda: x.centred() @ w.centred(),
            "Gemm": lambda: gemm([x.centred(), w.centred()], attributes),
        }[node.op_type]()
        channels = 1 if node.op_type == "Conv" else sums.ndim - 1
        if len(node.input) > 2 and node.input[2]:
            bias = self.dequantised(node.input[2], given)
            of_sums = x.scale * w.scale
            if bias is None or not np.allclose(bias.scale, of_sums, rtol=1e-6, atol=0):
                return None
            sums = sums + broadcast(bias.centred(), channels, sums.ndim)
        assert np.abs(sums).max() < 2**31, f"the sums of {node.name} do not fit 32 bits"
        factor = x.scale * w.scale / scale
        assert factor.dtype == F32
        return "product", sums.astype(np.int32).astype(F32) * broadcast(factor, channels, sums.ndim)

    def mean(self, quantise, given):
        """The quotients of a mean of bytes, or None."""
        node = self.made_by.get(quantise.input[0])
        if node is None or node.op_type not in ("GlobalAveragePool", "ReduceMean") or self.readers[node.output[0]] > 1:
            return None
        x = self.dequantised(node.input[0], given)
        if x is None:
            return None
        attributes, axes = self.attributes[node.output[0]], tuple(range(2, x.bytes.ndim))
        if node.op_type == "ReduceMean":
            axes = tuple(attributes["axes"] if len(node.input) < 2 else map(int, self.constants[node.input[1]]))
        sums = x.bytes.astype(np.int64).sum(axis=axes, keepdims=bool(attributes.get("keepdims", 1)))
        mean = (sums / math.prod(x.bytes.shape[axis] for axis in axes)).astype(F32)
        return "mean", (mean - F32(x.zero[0])) * x.scale[0] / self.parameters(quantise)[0]
