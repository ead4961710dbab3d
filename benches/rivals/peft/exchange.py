"""Loads an adapter that spark-dora wrote into PEFT and compares the outputs.

    cargo run --release --features dora --example merge_adapter -- --exchange FOLDER
    python exchange.py FOLDER

FOLDER holds the adapter in PEFT's layout and `exchange.safetensors`: base weights as `base.<parameter>`,
an input `x`, and the adapted output `y` as spark-dora computed it. The network is the one the example
builds: conv 3x3 stride 2, relu, flatten, linear, relu, linear without bias.
"""

import sys
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file

BOUND = 1e-5


class Net(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        shapes = {name[5:]: value.shape for name, value in tensors.items() if name[:5] == "base."}
        out, inputs = shapes["conv.weight"][:2]
        self.conv = torch.nn.Conv2d(inputs, out, 3, 2, 1)
        self.head = torch.nn.Linear(*reversed(shapes["head.weight"]))
        self.out = torch.nn.Linear(*reversed(shapes["out.weight"]), bias=False)

    def forward(self, x):
        x = torch.relu(self.conv(x)).flatten(1)
        return self.out(torch.relu(self.head(x)))


def main():
    folder = Path(sys.argv[1])
    tensors = load_file(folder / "exchange.safetensors")
    net = Net(tensors)
    net.load_state_dict({n[5:]: t for n, t in tensors.items() if n.startswith("base.")})
    with torch.no_grad():
        before = net(tensors["x"])
        adapted = PeftModel.from_pretrained(net, folder).eval()
        y = adapted(tensors["x"])
        merged = adapted.merge_and_unload()(tensors["x"])
    want = tensors["y"]
    scale = want.abs().max().item()
    errors = {
        "adapted": (y - want).abs().max().item() / scale,
        "merged": (merged - want).abs().max().item() / scale,
    }
    change = (before - want).abs().max().item() / scale
    print(f"PEFT against spark-dora, relative: {errors}; the adapter changes outputs by {change:.3f}")
    assert change > 0.01, "the adapter does something"
    assert all(error <= BOUND for error in errors.values()), f"more than {BOUND}"


if __name__ == "__main__":
    main()
