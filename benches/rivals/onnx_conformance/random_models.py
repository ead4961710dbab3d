"""Random single-operator models with onnxruntime's results.

Each function yields (operator, attributes, inputs, number of results, opset); inputs are
arrays, or None where an optional one is left out. A model that onnxruntime refuses has no
known results; it is counted, with its reason.
"""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

# Newest IR version that goes with every operator set used here.
IR_VERSION = 8

# onnxruntime computes in f32, the interpreter in f64.
RTOL, ATOL = 1e-4, 2e-5


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def pick(rng, *choices):
    return choices[rng.integers(len(choices))]


def ints(*values):
    return np.array(values, dtype=np.int64)


def window(rng, rank, extents, kernel, dilations):
    """Strides and pads, or an auto_pad, for a window that fits."""
    attributes = {"strides": rng.integers(1, 4, rank).tolist()}
    if pick(rng, True, False):
        pads = [int(rng.integers(0, (k - 1) * d + 1)) for k, d in zip(kernel * 2, dilations * 2)]
        attributes["pads"] = pads
    else:
        attributes["auto_pad"] = pick(rng, "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    return attributes


def conv(rng):
    for _ in range(60):
        rank = int(rng.integers(1, 4))
        groups = pick(rng, 1, 1, 2, 3)
        c, m = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
        kernel = rng.integers(1, 4, rank).tolist()
        dilations = rng.integers(1, 3, rank).tolist()
        extents = [(k - 1) * d + 1 + int(rng.integers(0, 6)) for k, d in zip(kernel, dilations)]
        attributes = window(rng, rank, extents, kernel, dilations)
        if attributes.get("auto_pad", "")[:4] == "SAME":
            dilations = [1] * rank  # onnxruntime refuses others
        attributes |= {"group": groups, "dilations": dilations, "kernel_shape": kernel}
        inputs = [normal(rng, 2, c, *extents), normal(rng, m, c // groups, *kernel)]
        if pick(rng, True, False):
            inputs.append(normal(rng, m))
        yield "Conv", attributes, inputs, 1, pick(rng, 7, 11, 13, 21)


def conv_transpose(rng):
    for _ in range(60):
        rank = int(rng.integers(1, 4))
        groups = pick(rng, 1, 1, 2)
        c, m = groups * int(rng.integers(1, 3)), int(rng.integers(1, 4))
        kernel = rng.integers(1, 4, rank).tolist()
        strides = rng.integers(1, 4, rank).tolist()
        extents = rng.integers(2, 6, rank).tolist()
        attributes = {"group": groups, "kernel_shape": kernel, "strides": strides}
        kind = pick(rng, "pads", "pads", "shape", "auto")
        if kind == "pads":
            attributes["dilations"] = rng.integers(1, 3, rank).tolist()
            attributes["pads"] = rng.integers(0, 2, 2 * rank).tolist()
            attributes["output_padding"] = [int(rng.integers(0, s)) for s in strides]
        elif kind == "shape":
            full = [s * (n - 1) + k for s, n, k in zip(strides, extents, kernel)]
            attributes["output_shape"] = [max(1, f - int(rng.integers(0, 3))) for f in full]
            attributes["auto_pad"] = pick(rng, "NOTSET", "SAME_UPPER", "SAME_LOWER")
        else:
            attributes["auto_pad"] = pick(rng, "SAME_UPPER", "SAME_LOWER", "VALID")
            # onnxruntime's SAME falls short of input * stride where stride > kernel
            attributes["strides"] = [min(s, k) for s, k in zip(strides, kernel)]
        inputs = [normal(rng, 2, c, *extents), normal(rng, c, m, *kernel)]
        if pick(rng, True, False):
            inputs.append(normal(rng, m * groups))
        yield "ConvTranspose", attributes, inputs, 1, pick(rng, 11, 13, 21)


def pool(rng):
    for _ in range(120):
        rank = int(rng.integers(1, 4))
        operator = pick(rng, "MaxPool", "AveragePool")
        opset = pick(rng, 7, 10, 11, 12, 19, 22)
        kernel = rng.integers(1, 4, rank).tolist()
        dilations = [1] * rank
        if (operator == "MaxPool" and opset >= 10) or opset >= 19:
            dilations = rng.integers(1, 3, rank).tolist()
        extents = [(k - 1) * d + 1 + int(rng.integers(0, 6)) for k, d in zip(kernel, dilations)]
        attributes = window(rng, rank, extents, kernel, dilations)
        attributes["kernel_shape"] = kernel
        if "pads" in attributes:
            # onnxruntime wants them below the kernel, dilated or not
            attributes["pads"] = [min(p, k - 1) for p, k in zip(attributes["pads"], kernel * 2)]
        auto = attributes.get("auto_pad", "NOTSET")
        if dilations != [1] * rank and auto[:4] != "SAME":
            attributes["dilations"] = dilations  # onnxruntime's SAME forgets them
        if opset >= 10 and auto != "VALID":
            attributes["ceil_mode"] = pick(rng, 0, 1)  # and its VALID rounds up, unlike ONNX
        if operator == "AveragePool":
            attributes["count_include_pad"] = pick(rng, 0, 1)
        yield operator, attributes, [normal(rng, 2, 3, *extents)], 1, opset
    for operator in ["GlobalMaxPool", "GlobalAveragePool"]:
        yield operator, {}, [normal(rng, 2, 3, 4, 5)], 1, 13


def resize(rng):
    transforms = [
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
    ]
    for _ in range(240):
        opset = pick(rng, 11, 13, 18, 19)
        mode = pick(rng, "nearest", "nearest", "linear", "cubic")
        transform = pick(rng, *transforms)
        if transform == "half_pixel_symmetric" and opset < 19:
            transform = "half_pixel"
        attributes = {"mode": mode, "coordinate_transformation_mode": transform}
        if mode == "nearest":
            attributes["nearest_mode"] = pick(
                rng, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"
            )
        if mode == "cubic":
            attributes["cubic_coeff_a"] = pick(rng, -0.75, -0.5)
            attributes["exclude_outside"] = pick(rng, 0, 1)
        if mode != "nearest" and opset >= 18:
            attributes["antialias"] = pick(rng, 0, 1)
        h, w = int(rng.integers(2, 9)), int(rng.integers(2, 9))
        x = normal(rng, 1, 2, h, w)
        roi = np.zeros(0, np.float32) if opset >= 13 else np.zeros(8, np.float32)
        if pick(rng, True, False):
            scales = rng.choice([0.5, 0.6, 0.75, 1.0, 1.3, 2.0, 2.5, 3.0], 2)
            if mode != "nearest" and attributes.get("antialias"):
                scales = rng.choice([0.25, 0.4, 0.5, 2.0], 2)
            scales = np.array([1, 1, *scales], np.float32)
            if int(h * scales[2]) == 0 or int(w * scales[3]) == 0:
                continue
            yield "Resize", attributes, [x, roi, scales], 1, opset
        else:
            sizes = ints(1, 2, rng.integers(1, 14), rng.integers(1, 14))
            empty = np.zeros(0, np.float32)
            yield "Resize", attributes, [x, roi, empty, sizes], 1, opset
    for _ in range(20):
        roi = np.array([0, 0, *rng.uniform(-0.2, 0.4, 2), 1, 1, *rng.uniform(0.5, 1.3, 2)])
        attributes = {
            "mode": pick(rng, "nearest", "linear"),
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "extrapolation_value": 7.5,
        }
        # onnxruntime forgets the region of an axis that keeps its length
        sizes = ints(1, 2, pick(rng, 1, 2, 3, 4, 6, 8), pick(rng, 1, 2, 3, 4, 5, 8))
        inputs = [normal(rng, 1, 2, 5, 6), roi.astype(np.float32), np.zeros(0, np.float32), sizes]
        yield "Resize", attributes, inputs, 1, 13
    for mode in ["nearest", "linear"]:
        scales = np.array([1, 1, 2, 3], np.float32)
        yield "Upsample", {"mode": mode}, [normal(rng, 1, 2, 3, 4), scales], 1, 9


def recurrent(rng):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}
    for operator, n_gates in gates.items():
        for _ in range(30):
            direction = pick(rng, "forward", "reverse", "bidirectional")
            d = 2 if direction == "bidirectional" else 1
            steps, batch, width, hidden = rng.integers(1, 5, 4).tolist()
            attributes = {"hidden_size": hidden, "direction": direction}
            if operator == "GRU":
                attributes["linear_before_reset"] = pick(rng, 0, 1)
            if pick(rng, True, False, False):
                names = {
                    "RNN": ["Relu"],
                    "GRU": ["HardSigmoid", "Softsign"],
                    "LSTM": ["Sigmoid", "Elu", "Softplus"],
                }[operator]
                attributes["activations"] = names * d
            optional = lambda value: value if pick(rng, True, False) else None
            lengths = rng.integers(1, steps + 1, batch).astype(np.int32)
            inputs = [
                normal(rng, steps, batch, width),
                normal(rng, d, n_gates * hidden, width),
                normal(rng, d, n_gates * hidden, hidden),
                optional(normal(rng, d, 2 * n_gates * hidden)),
                optional(lengths),
                optional(normal(rng, d, batch, hidden)),
            ]
            if operator == "LSTM":
                inputs.append(optional(normal(rng, d, batch, hidden)))
                inputs.append(optional(normal(rng, d, 3 * hidden)))
            yield operator, attributes, inputs, 3 if operator == "LSTM" else 2, pick(rng, 7, 14)


def softmax(rng):
    for _ in range(30):
        shape = rng.integers(1, 5, int(rng.integers(1, 5))).tolist()
        opset = pick(rng, 7, 11, 13)
        axis = int(rng.integers(0 if opset < 11 else -len(shape), len(shape)))
        operator = pick(rng, "Softmax", "LogSoftmax")
        yield operator, {"axis": axis}, [4 * normal(rng, *shape)], 1, opset
        yield operator, {}, [normal(rng, 2, 3, 4)], 1, opset


def products(rng):
    for _ in range(30):
        m, k, n = rng.integers(1, 6, 3).tolist()
        trans_a, trans_b = pick(rng, 0, 1), pick(rng, 0, 1)
        inputs = [
            normal(rng, *((k, m) if trans_a else (m, k))),
            normal(rng, *((n, k) if trans_b else (k, n))),
        ]
        c = pick(rng, None, (m, n), (n,), (m, 1), (1, n), (1,))
        if c is not None:
            inputs.append(normal(rng, *c))
        attributes = {"transA": trans_a, "transB": trans_b, "alpha": 0.5, "beta": 1.5}
        yield "Gemm", attributes, inputs, 1, pick(rng, 11, 13)
    shapes = [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((3,), (5, 3, 4)),
        ((2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (4, 3, 6)),
        ((1, 2, 3), (5, 3, 2)),
    ]
    for a, b in shapes:
        yield "MatMul", {}, [normal(rng, *a), normal(rng, *b)], 1, 13
    equations = [
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
        ("bhid,bhjd->bhij", (1, 2, 3, 4), (1, 2, 5, 4)),
        ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
        ("ij,j", (2, 3), (3,)),
        ("ij->ji", (2, 3)),
        ("ij->", (2, 3)),
        ("i,j->ij", (2,), (3,)),
    ]
    for equation, *operands in equations:
        inputs = [normal(rng, *shape) for shape in operands]
        yield "Einsum", {"equation": equation}, inputs, 1, 12


def movement(rng):
    x = normal(rng, 3, 4, 5)
    for _ in range(40):
        starts, ends = rng.integers(-8, 9, 2), rng.integers(-8, 9, 2)
        steps = rng.choice([-3, -2, -1, 1, 2, 3], 2)
        axes = rng.permutation(3)[:2]
        yield "Slice", {}, [x, ints(*starts), ints(*ends), ints(*axes), ints(*steps)], 1, 13
    for mode in ["constant", "reflect", "edge", "wrap"]:
        for _ in range(10):
            pads = rng.integers(0, 3, 6)
            if mode == "constant":
                pads = rng.integers(-1, 4, 6)
            opset = 19 if mode == "wrap" else pick(rng, 11, 13, 18)
            inputs = [x, ints(*pads), np.array(2.5, np.float32)]
            yield "Pad", {"mode": mode}, inputs, 1, opset
    yield "Pad", {}, [x, ints(1, 2, 0, 1), np.array(1, np.float32), ints(2, 0)], 1, 18
    for axis in [-1, 0, 1, 2]:
        indices = rng.integers(-3, 3, (2, 2))
        yield "Gather", {"axis": axis}, [x, indices], 1, 13
        yield "GatherElements", {"axis": axis}, [x, rng.integers(-3, 3, (2, 3, 2))], 1, 13
        for reduction in ["none", "add", "mul", "max", "min"]:
            indices = np.argsort(rng.random((3, 4, 5)), axis=axis) % x.shape[axis]
            if reduction != "none":
                indices = rng.integers(-3, 3, (3, 4, 5))
            attributes = {"axis": axis, "reduction": reduction}
            yield "ScatterElements", attributes, [x, indices, normal(rng, 3, 4, 5)], 1, 18
    for reduction in ["none", "add", "mul", "max", "min"]:
        inputs = [x, ints(0, 1, 2, 3).reshape(2, 2), normal(rng, 2, 5)]
        yield "ScatterND", {"reduction": reduction}, inputs, 1, 18
    yield "GatherND", {"batch_dims": 1}, [x, rng.integers(0, 4, (3, 2, 1))], 1, 13
    yield "GatherND", {}, [x, rng.integers(0, 3, (2, 2))], 1, 13
    for largest in [0, 1]:
        for axis in [-1, 0, 1]:
            attributes = {"axis": axis, "largest": largest}
            yield "TopK", attributes, [np.round(2 * x), ints(2)], 2, 11
    for exclusive in [0, 1]:
        for reverse in [0, 1]:
            attributes = {"exclusive": exclusive, "reverse": reverse}
            yield "CumSum", attributes, [x, np.array(-2, np.int32)], 1, 14
    for mode in ["DCR", "CRD"]:
        depth = normal(rng, 2, 12, 2, 3)
        yield "DepthToSpace", {"blocksize": 2, "mode": mode}, [depth], 1, 13
    yield "SpaceToDepth", {"blocksize": 2}, [normal(rng, 2, 3, 4, 6)], 1, 13
    for axis in [-1, 0, 1]:
        inputs = [ints(0, 2, -1, 5), np.array(4, np.int64), np.array([0.5, 2], np.float32)]
        yield "OneHot", {"axis": axis}, inputs, 1, 11
    for upper in [0, 1]:
        for k in [-2, 0, 1]:
            yield "Trilu", {"upper": upper}, [x, np.array(k, np.int64)], 1, 14
    yield "Tile", {}, [x, ints(2, 1, 3)], 1, 13
    yield "Expand", {}, [normal(rng, 3, 1), ints(2, 1, 4)], 1, 13
    yield "Split", {"axis": 1}, [x, ints(1, 3)], 2, 13
    yield "Split", {"axis": -1, "num_outputs": 2}, [x], 2, 18
    for bounds in [(1, 10, 3), (10, 1, -4), (0, 0, 1)]:
        yield "Range", {}, [np.array(b, np.int64) for b in bounds], 1, 11
        yield "Range", {}, [np.array(b, np.float32) for b in bounds], 1, 11


def reductions(rng):
    kinds = "Sum Mean Max Min Prod L1 L2 SumSquare LogSum LogSumExp".split()
    for kind in kinds:
        for axes in [None, [1], [0, -1], [2]]:
            x = normal(rng, 2, 3, 4)
            if kind == "LogSum":
                x = np.abs(x) + 0.1
            attributes = {"keepdims": pick(rng, 0, 1)}
            inputs = [x] if axes is None else [x, ints(*axes)]
            yield f"Reduce{kind}", attributes, inputs, 1, 18
            old = attributes if axes is None else attributes | {"axes": axes}
            yield f"Reduce{kind}", old, [x], 1, 11
    for operator in ["ArgMax", "ArgMin"]:
        for axis in [0, -1]:
            for last in [0, 1]:
                x = rng.integers(0, 3, (3, 4, 5)).astype(np.float32)
                attributes = {"axis": axis, "select_last_index": last, "keepdims": last}
                yield operator, attributes, [x], 1, 13


def normalisations(rng):
    x = normal(rng, 2, 6, 4, 3)
    per_channel = [normal(rng, 6), normal(rng, 6)]
    statistics = [normal(rng, 6), np.abs(normal(rng, 6)) + 0.1]
    yield "BatchNormalization", {"epsilon": 1e-3}, [x, *per_channel, *statistics], 1, 15
    yield "BatchNormalization", {}, [x, *per_channel, *statistics], 1, 9
    yield "InstanceNormalization", {"epsilon": 1e-3}, [x, *per_channel], 1, 6
    yield "GroupNormalization", {"num_groups": 3}, [x, *per_channel], 1, 21
    for axis in [-1, 1, 2]:
        shape = x.shape[axis:]
        inputs = [x, normal(rng, *shape), normal(rng, *shape)]
        yield "LayerNormalization", {"axis": axis, "epsilon": 1e-4}, inputs, 1, 17
        yield "LpNormalization", {"axis": axis, "p": pick(rng, 1, 2)}, [x], 1, 13
    for size in [1, 3, 5, 9]:  # onnxruntime takes odd ones only
        attributes = {"size": size, "alpha": 0.1, "beta": 0.6, "bias": 1.5}
        yield "LRN", attributes, [x], 1, 13


def grid_sample(rng):
    for mode in ["linear", "nearest", "cubic"]:
        for padding in ["zeros", "border", "reflection"]:
            for align in [0, 1]:
                grid = rng.uniform(-1.6, 1.6, (2, 3, 4, 2)).astype(np.float32)
                old = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
                attributes = {"mode": old, "padding_mode": padding, "align_corners": align}
                yield "GridSample", attributes, [normal(rng, 2, 3, 4, 5), grid], 1, 16


def elementwise(rng):
    wide = np.array([-90, -20, -3, -1, -0.5, -0.0, 0, 0.3, 1, 2.5, 3.5, 20, 90], np.float32)
    special = np.array([np.nan, np.inf, -np.inf], np.float32)
    names = """Abs Neg Sign Floor Ceil Round Reciprocal Sqrt Exp Log Sin Cos Tan Asin Acos Atan
        Sinh Cosh Asinh Acosh Atanh Erf Relu LeakyRelu ThresholdedRelu Elu Selu Celu Sigmoid
        HardSigmoid HardSwish Tanh Softplus Softsign Mish""".split()
    for name in names:
        opset = {"Mish": 18, "HardSwish": 14, "Celu": 12}.get(name, 13)
        yield name, {}, [wide], 1, opset
        yield name, {}, [2 * normal(rng, 3, 5)], 1, opset
    for name in ["Relu", "Abs", "Neg", "Exp", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "Sign"]:
        yield name, {}, [special], 1, 13
    for approximate in ["none", "tanh"]:
        yield "Gelu", {"approximate": approximate}, [wide], 1, 20
    broadcasts = [((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (2, 3)), ((5,), (5,))]
    for name in ["Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater", "Equal", "PRelu"]:
        for a, b in broadcasts:
            if name == "PRelu" and a != (3, 4):
                continue
            x, y = normal(rng, *a), normal(rng, *b)
            if name == "Pow":
                x = np.abs(x)
            yield name, {}, [np.asarray(x, np.float32), np.asarray(y, np.float32)], 1, 13
    signed = np.array([-7, 7, -7, 7, -9], np.int32)
    divisor = np.array([2, -2, -2, 2, 3], np.int32)
    yield "Div", {}, [signed, divisor], 1, 14
    for fmod in [0, 1]:
        yield "Mod", {"fmod": fmod}, [signed, divisor], 1, 13
    yield "Mod", {"fmod": 1}, [signed.astype(np.float32), divisor.astype(np.float32)], 1, 13
    yield "Pow", {}, [signed, np.array([0, 1, 2, 3, 4], np.int64)], 1, 13
    yield "Pow", {}, [normal(rng, 5), np.array([0, 1, 2, 3, -4], np.int32)], 1, 13
    for name in ["Sum", "Mean", "Max", "Min"]:
        yield name, {}, [normal(rng, 3, 4), normal(rng, 4), normal(rng, 3, 1)], 1, 13
    floats = np.array([-1.9, -0.5, 0.5, 1.5, 2.9, 100.7], np.float32)
    for to in [TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT16]:
        yield "Cast", {"to": to}, [floats], 1, 13
    for low, high in [(-1, 1), (None, 0.5), (0.1, None), (2, -2)]:
        bounds = [None if b is None else np.array(b, np.float32) for b in (low, high)]
        yield "Clip", {}, [normal(rng, 4, 4), *bounds], 1, 13


def quantised(rng):
    for dtype in [np.uint8, np.int8]:
        x, scale = 40 * normal(rng, 2, 3, 4), np.array([0.3, 0.7, 1.1], np.float32)
        zero = np.array([3, 0, 7], dtype)
        yield "QuantizeLinear", {"axis": 1}, [x, scale, zero], 1, 13
        yield "QuantizeLinear", {}, [x, scale[0], zero[0]], 1, 13
        codes = rng.integers(0, 100, (2, 3, 4)).astype(dtype)
        yield "DequantizeLinear", {"axis": 1}, [codes, scale, zero], 1, 13
        yield "DequantizeLinear", {}, [codes, scale[0], zero[0]], 1, 13
        blocked = {"axis": 1, "block_size": 2}
        scale = rng.uniform(0.1, 1, (2, 2, 4)).astype(np.float32)
        zero = rng.integers(0, 9, (2, 2, 4)).astype(dtype)
        yield "QuantizeLinear", blocked, [x, scale, zero], 1, 21
        yield "DequantizeLinear", blocked, [codes, scale, zero], 1, 21
    for dtype in [np.uint16, np.int16]:
        x, scale = 4000 * normal(rng, 2, 3, 4), np.array([0.03, 0.7, 1.1], np.float32)
        zero = np.array([300, 0, 7], dtype)
        yield "QuantizeLinear", {"axis": 1}, [x, scale, zero], 1, 21
        yield "QuantizeLinear", {}, [x, scale[0], zero[0]], 1, 21
        codes = rng.integers(0, 30000, (2, 3, 4)).astype(dtype)
        yield "DequantizeLinear", {"axis": 1}, [codes, scale, zero], 1, 21


def boxes(rng, samples, n, is_centred):
    """Boxes among which about as many overlap as do not, with either diagonal."""
    centre, size = rng.uniform(0, 1, (samples, n, 2)), rng.uniform(0, 0.6, (samples, n, 2))
    if is_centred:
        return np.concatenate([centre, size], 2).astype(np.float32)
    corners = np.stack([centre - size / 2, centre + size / 2], 2)
    flipped = rng.integers(0, 2, (samples, n, 1, 2))
    corners = np.where(flipped == 1, corners[:, :, ::-1], corners)
    return corners.reshape(samples, n, 4).astype(np.float32)


def hostile_boxes(rng):
    """No boxes, classes or samples; scores and corners that are no numbers; bounds at their ends."""

    def suppression(shape, most, iou, score, x=None, scores=None):
        samples, classes, n = shape
        x = boxes(rng, samples, n, False) if x is None else x
        scores = rng.uniform(-1, 1, shape).astype(np.float32) if scores is None else scores
        thresholds = [np.array(iou, np.float32), np.array(score, np.float32)]
        inputs = [x, scores, np.array(most, np.int64), *thresholds]
        return "NonMaxSuppression", {}, inputs, 1, 11

    for shape in [(1, 2, 0), (1, 0, 5), (0, 2, 5), (0, 0, 0)]:
        yield suppression(shape, 3, 0.5, 0)
    for most, iou, score in [(-1, 0.5, 0), (9, 0, -1), (9, 1, -1), (9, 0.5, np.inf), (9, 0.5, -np.inf)]:
        yield suppression((1, 2, 9), most, iou, score)
    # Without a threshold nobody says where a score that is no number stands.
    scores = rng.uniform(-1, 1, (1, 2, 9)).astype(np.float32)
    scores[0, 0, ::3], scores[0, 1, ::4], scores[0, 1, 1] = np.nan, np.inf, -np.inf
    yield suppression((1, 2, 9), 9, 0.3, -0.9, scores=scores)
    x = boxes(rng, 1, 9, False)
    x[0, ::4] = np.inf
    yield suppression((1, 2, 9), 9, 0.3, -0.9, x=x)


def choosing(rng):
    for case in range(24):
        samples, classes, n = ints(*rng.integers(1, 4, 2), rng.integers(1, 40))
        is_centred = case % 2
        x = boxes(rng, samples, n, is_centred)
        scores = rng.uniform(-1, 1, (samples, classes, n)).astype(np.float32)
        if case % 3 == 0:
            # Equal scores, and boxes without an area or inside out.
            scores = np.round(scores, 1)
            x[:, ::5, 2:] = x[:, ::5, :2] if not is_centred else 0
            x[:, ::7, 2:] *= -1
        most = pick(rng, 0, 1, 3, n, 1 << 40)
        thresholds = [np.array(rng.uniform(0, 1), np.float32), np.array(rng.uniform(-1, 1), np.float32)]
        thresholds = thresholds[: case % 3]
        inputs = [x, scores, np.array(most, np.int64), *thresholds]
        attributes = {"center_point_box": is_centred}
        yield "NonMaxSuppression", attributes, inputs, 1, 11
    yield from hostile_boxes(rng)
    x = normal(rng, 3, 4, 5)
    for axis, length in [(None, 60), (None, 7), (0, 3), (1, 4), (-1, 5), (-1, 2), (1, 0)]:
        attributes = {} if axis is None else {"axis": axis}
        yield "Compress", attributes, [x, rng.integers(0, 2, length).astype(bool)], 1, 11


def fourier(rng):
    for length, axis, parts in [(None, None, 1), (8, 1, 1), (3, 2, 1), (5, -3, 2), (9, 1, 2)]:
        x = normal(rng, 2, 6, 5, parts)
        operands = [None if v is None else np.array(v, np.int64) for v in (length, axis)]
        while operands and operands[-1] is None:
            operands.pop()
        yield "DFT", {}, [x, *operands], 1, 20
        if parts == 1:
            yield "DFT", {"onesided": 1}, [x, *operands], 1, 20
        else:
            yield "DFT", {"inverse": 1}, [x, *operands], 1, 20
    yield "DFT", {"axis": 2, "onesided": 1}, [normal(rng, 2, 3, 7, 1)], 1, 17
    window = rng.uniform(0, 1, 16).astype(np.float32)
    for step, window, length in [(5, window, None), (16, None, 16), (7, window, 16)]:
        x = normal(rng, 2, 50, 1)
        length = None if length is None else np.array(length, np.int64)
        yield "STFT", {}, [x, np.array(step, np.int64), window, length][: 4 if length is not None else 3], 1, 17
    yield "STFT", {"onesided": 0}, [normal(rng, 1, 40, 1), np.array(4, np.int64), window], 1, 17


FAMILIES = [
    conv,
    conv_transpose,
    pool,
    resize,
    recurrent,
    softmax,
    products,
    movement,
    reductions,
    normalisations,
    grid_sample,
    elementwise,
    quantised,
    choosing,
    fourier,
]


def make_model(operator, attributes, inputs, n_outputs, opset):
    """All inputs but the first are constants, as in exported networks."""
    names, constants, first = [], [], None
    for index, value in enumerate(inputs):
        if value is None:
            names.append("")
            continue
        name = f"x{index}"
        names.append(name)
        value = np.asarray(value)
        if index == 0:
            dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
            first = helper.make_tensor_value_info(name, dtype, value.shape)
        else:
            constants.append(numpy_helper.from_array(value, name))
    outputs = [f"y{i}" for i in range(n_outputs)]
    node = helper.make_node(operator, names, outputs, **attributes)
    # Element type and shape of the results are left to the reader.
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], operator, [first], results, constants)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    for result, value in zip(model.graph.output, inferred.graph.output):
        # onnx infers no type for some functions; all of those here are of one type
        inferred_type = value.type.tensor_type.elem_type
        result.type.tensor_type.elem_type = inferred_type or first.type.tensor_type.elem_type
    return model


def run(model, first):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x0": first})


def add_all(writer, seed: int) -> None:
    for family in FAMILIES:
        # One stream per family: a new case in one leaves the others as they are.
        rng = np.random.default_rng([seed, *family.__name__.encode()])
        for index, (operator, attributes, inputs, n_outputs, opset) in enumerate(family(rng)):
            name = f"random_{family.__name__}_{index}"
            try:
                model = make_model(operator, attributes, inputs, n_outputs, opset)
                outputs = run(model, np.asarray(inputs[0]))
            except Exception as error:  # noqa: BLE001: the reason is recorded
                reason = str(error).strip().splitlines()[0][:160]
                writer.no_truth(name, f"{operator}: onnxruntime: {reason}")
                continue
            data = [([np.asarray(inputs[0])], outputs)]
            writer.add(name, "random", model.SerializeToString(), data, RTOL, ATOL)
