"""Networks of 8-bit integers, made of ONNX files in f32 by onnxruntime's quantiser, for timing and for arithmetic.

    write(paths, folder) -> paths of NAME_int8, one for each

QuantizeLinear and DequantizeLinear around every layer that the quantiser knows, activations u8, weights i8 with a scale
per channel, ranges of four random inputs or of those that `inputs_of(path)` gives.
"""

from pathlib import Path

RUNS = 4


class RandomInputs:
    """Inputs as onnxruntime's quantiser asks for them, one after the other."""

    def __init__(self, path):
        import numpy as np
        import onnxruntime as ort

        ports = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs()
        random = np.random.default_rng(1)
        shapes = {port.name: [extent if isinstance(extent, int) else 1 for extent in port.shape] for port in ports}
        draw = lambda: {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        self.left = [draw() for _ in range(RUNS)]

    def get_next(self):
        return self.left.pop() if self.left else None


def whole(path, folder):
    """The file in one piece, as the quantiser does not find weights beside it, and of an operator set whose
    DequantizeLinear has an axis: the quantiser writes one into older sets too."""
    import onnx
    from onnx import version_converter

    model = onnx.load(path)
    if max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")) < 13:
        model = version_converter.convert_version(model, 17)
    whole = folder / path.name
    onnx.save(model, whole)
    return whole


def write(paths, folder, inputs_of=RandomInputs):
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path in map(Path, paths):
        path = whole(path, folder)
        prepared, to = folder / f"{path.stem}_prepared.onnx", folder / f"{path.stem}_int8.onnx"
        quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
        quantize_static(prepared, to, inputs_of(prepared), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        written.append(to)
    return written
