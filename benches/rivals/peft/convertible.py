"""ONNX networks as onnx2torch takes them, and their products as layers that PEFT adapts."""

import numpy
import onnx
import torch
from onnx import numpy_helper

HALF, FLOAT = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT


def is_float_cast(node):
    return node.op_type == "Cast" and any(a.name == "to" and a.i in (FLOAT, HALF) for a in node.attribute)


def widened(model):
    """The network with every f16 as f32."""
    for constant in model.graph.initializer:
        if constant.data_type == HALF:
            constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant).astype(numpy.float32), constant.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i == HALF:
                attribute.i = FLOAT
            if attribute.HasField("t") and attribute.t.data_type == HALF:
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(numpy.float32)))
    for value in list(model.graph.input) + list(model.graph.output) + list(model.graph.value_info):
        if value.type.tensor_type.elem_type == HALF:
            value.type.tensor_type.elem_type = FLOAT
    # A constant behind a cast is that constant now.
    constants = {constant.name for constant in model.graph.initializer}
    behind = {n.output[0]: n.input[0] for n in model.graph.node if is_float_cast(n) and n.input[0] in constants}
    kept = [node for node in model.graph.node if node.output[0] not in behind]
    for node in kept:
        for at, name in enumerate(node.input):
            node.input[at] = behind.get(name, name)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    # onnx2torch knows operators up to this version, after which those here have changed in where reductions have their axes.
    values = {constant.name: numpy_helper.to_array(constant) for constant in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2") and len(node.input) == 2:
            node.attribute.append(onnx.helper.make_attribute("axes", values[node.input.pop()].tolist()))
    for imported in model.opset_import:
        if imported.domain == "" and imported.version > 17:
            imported.version = 17
    return model


def with_linear(network):
    """The network with its products by constants as layers, which PEFT can adapt."""
    for node in list(network.graph.nodes):
        if node.op != "call_module" or type(network.get_submodule(node.target)).__name__ != "OnnxMatMul":
            continue
        constant = node.args[1]
        if constant.op != "get_attr":
            continue
        owner, _, name = constant.target.rpartition(".")
        weight = getattr(network.get_submodule(owner), name).detach()
        if weight.ndim != 2:
            continue
        layer = torch.nn.Linear(*weight.shape, bias=False)
        layer.weight = torch.nn.Parameter(weight.T.contiguous())
        setattr(network, node.target, layer)
        node.args = (node.args[0],)
    network.graph.lint()
    network.recompile()
    return network
