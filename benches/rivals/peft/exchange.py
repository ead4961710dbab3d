"""Exchanges adapters with PEFT, both ways, and compares outputs.

    python exchange.py --write FOLDER     adapters of PEFT, with their outputs, in FOLDER/peft
    SPARK_DORA_EXCHANGE=FOLDER cargo test -p spark-dora --test it exchange -- --ignored --nocapture
    python exchange.py --check FOLDER     adapters of spark-dora, in FOLDER/ours

The test in between reads PEFT's adapters, compares, writes each again and writes some of its own. Module
names nest and overlap, and patterns are given in an order that is not alphabetical, since the first that
matches decides. A case is an adapter's folder with `network.json` (kind and name of each layer, in order)
and `network.safetensors`: base weights as `base.<parameter>`, an input `x`, and the adapted outputs `y`, 16
columns for each layer. Errors are relative to the largest output of the layer.

    cargo run --release --features dora --example merge_adapter -- --exchange FOLDER
    python exchange.py FOLDER

checks the small network of that example: conv 3x3 stride 2, relu, flatten, linear, relu, linear.
"""

import argparse
import json
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

BOUND = 1e-6
NAMES = [
    "layers.1.proj",
    "layers.11.proj",
    "layers.1.out_proj",
    "layersX1.proj",
    "proj",
    "out.proj",
    "my.default_layer",
    "default.fc",
    "fc",
]
LINEAR = [["linear", name] for name in NAMES]
# Name, layers, settings. `order` lists patterns as the file is to have them.
CASES = [
    ("names", LINEAR, {"target_modules": ["proj", "out_proj", "fc", "my.default_layer"]}),
    (
        "shorter_first",
        LINEAR,
        {
            "target_modules": ["proj", "fc"],
            "rank_pattern": {"proj": 3, "layers.1.proj": 2},
            "alpha_pattern": {"proj": 24, "layers.1.proj": 2, "default.fc": 3, "fc": 5},
        },
    ),
    (
        "longer_first",
        LINEAR,
        {
            "target_modules": ["proj", "fc"],
            "rank_pattern": {"layers.1.proj": 2, "proj": 3},
            "alpha_pattern": {"layers.1.proj": 2, "proj": 24},
            "use_rslora": True,
        },
    ),
    (
        "expressions",
        LINEAR,
        {
            "target_modules": r"(layers\.\d+\.(out_)?|out\.)?proj|[a-z]+\.(fc|default_\w+)",
            "rank_pattern": {r"^proj": 1, r"layers\.1{2}\.proj": 5, r".*proj": 3},
            "alpha_pattern": {r"layers\.[^1]+.*": 50, r"layers.1.\w*proj": 11, r"my.*": 2.5},
        },
    ),
    (
        "excluded",
        LINEAR,
        {
            "target_modules": ["proj", "fc"],
            "exclude_modules": ["out.proj"],
            "alpha_pattern": {"1.proj": 30},
        },
    ),
    (
        "layers",
        LINEAR,
        {
            "target_modules": ["proj", "out_proj"],
            "layers_to_transform": [11],
            "layers_pattern": "layers",
        },
    ),
    ("lora", LINEAR, {"target_modules": "all-linear", "use_dora": False, "rank_pattern": {"fc": 2}}),
    (
        "kinds",
        [["embedding", "emb.tokens"], ["conv", "a.conv"], ["conv", "conv"], ["linear", "head"]],
        {
            "target_modules": ["tokens", "conv", "head"],
            "rank_pattern": {"conv": 3, "a.conv": 4},
            "alpha_pattern": {"a.conv": 3, "conv": 8},
        },
    ),
    # Trained whole: by the end of a name, in the middle of a part too, and with all that is within.
    (
        "whole",
        [*LINEAR, ["linear", "head.a"], ["conv", "head.b"], ["embedding", "head.words"]],
        {"target_modules": ["fc", "layers.1.proj"], "modules_to_save": ["head", "out.proj", "ult_layer"]},
    ),
]


class Layers(torch.nn.Module):
    """Layers of width 16 under dotted names, side by side on one input of 32 rows."""

    def __init__(self, layers):
        super().__init__()
        self.layers_in_order = layers
        for kind, name in layers:
            *parents, last = name.split(".")
            at = self
            for parent in parents:
                if not hasattr(at, parent):
                    at.add_module(parent, torch.nn.Module())
                at = getattr(at, parent)
            at.add_module(last, self.layer(kind))

    @staticmethod
    def layer(kind):
        if kind == "embedding":
            return torch.nn.Embedding(20, 16)
        if kind == "conv":
            return torch.nn.Conv2d(4, 4, 3, padding=1)
        return torch.nn.Linear(16, 16)

    def forward(self, x):
        outputs = []
        for kind, name in self.layers_in_order:
            layer = self.get_submodule(name)
            if kind == "embedding":
                outputs.append(layer(torch.arange(len(x)) % 20))
            elif kind == "conv":
                outputs.append(layer(x.view(-1, 4, 2, 2)).flatten(1))
            else:
                outputs.append(layer(x))
        return torch.cat(outputs, 1)


class Net(torch.nn.Module):
    """The network of the example."""

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


def write(folder):
    """PEFT's adapters. Outputs are those of the files, read again by PEFT."""
    for number, (name, layers, settings) in enumerate(CASES):
        torch.manual_seed(number)
        case = folder / "peft" / name
        net = Layers(layers)
        state = {f"base.{key}": value.clone() for key, value in net.state_dict().items()}
        settings = {"r": 4, "lora_alpha": 6, "use_dora": True, **settings}
        adapted = get_peft_model(net, LoraConfig(init_lora_weights=False, **settings))
        with torch.no_grad():
            for key, value in adapted.named_parameters():
                if "magnitude" in key:
                    value.mul_(1 + 0.3 * torch.rand_like(value))
                elif "modules_to_save" in key:
                    value.add_(0.3 * torch.randn_like(value))
        adapted.save_pretrained(case)
        # PEFT sorts patterns when it saves; other programs do not.
        path = case / "adapter_config.json"
        config = json.loads(path.read_text())
        for key in ["rank_pattern", "alpha_pattern"]:
            config[key] = settings.get(key, {})
        path.write_text(json.dumps(config, indent=2))
        (case / "network.json").write_text(json.dumps(layers))
        x = torch.randn(32, 16)
        y = read(case, layers, state, x)[0]
        save_file({**state, "x": x, "y": y.contiguous()}, case / "network.safetensors")
        print(f"{name}: written")


def read(case, layers, state, x):
    """Outputs of the adapter in `case`, merged outputs, those without it, and the adapted modules."""
    net = Layers(layers)
    net.load_state_dict({key[5:]: value for key, value in state.items() if key[:5] == "base."})
    with torch.no_grad():
        before = net(x)
        adapted = PeftModel.from_pretrained(net, case).eval()
        modules = {name.removesuffix(".lora_A.default") for name, _ in adapted.named_modules()
                   if name.endswith(".lora_A.default")}
        y = adapted(x)
        merged = adapted.merge_and_unload()(x)
    return y, merged, before, modules


def report(name, y, merged, before, want):
    def error(value):
        apart, scale = (value - want).abs(), want.abs()
        columns = min(16, want.shape[1])
        layers = zip(apart.split(columns, 1), scale.split(columns, 1))
        return max((a.max() / s.max()).item() for a, s in layers)

    adapted, merged, change = error(y), error(merged), error(before)
    print(f"{name}: relative error {adapted:.1e}, merged {merged:.1e}; the adapter changes {change:.3f}")
    assert change > 0.01, "the adapter does something"
    assert max(adapted, merged) <= BOUND, f"more than {BOUND}"
    return max(adapted, merged)


def check(folder):
    """spark-dora's adapters, which PEFT must find on the very modules whose tensors they hold."""
    worst = 0
    cases = sorted((folder / "ours").iterdir())
    for case in cases:
        tensors = load_file(case / "network.safetensors")
        layers = json.loads((case / "network.json").read_text())
        y, merged, before, modules = read(case, layers, tensors, tensors["x"])
        worst = max(worst, report(case.name, y, merged, before, tensors["y"]))
        held = {key.removesuffix(".lora_A.weight") for key in load_file(case / "adapter_model.safetensors")
                if key.endswith(".lora_A.weight")}
        assert modules == held, f"PEFT adapts {sorted(modules ^ held)} otherwise"
    assert len(cases) > len(CASES), "the test writes more than it read"
    print(f"{len(cases)} adapters of spark-dora, worst relative error {worst:.1e}")


def example(folder):
    tensors = load_file(folder / "exchange.safetensors")
    net = Net(tensors)
    net.load_state_dict({n[5:]: t for n, t in tensors.items() if n.startswith("base.")})
    with torch.no_grad():
        before = net(tensors["x"])
        adapted = PeftModel.from_pretrained(net, folder).eval()
        y = adapted(tensors["x"])
        merged = adapted.merge_and_unload()(tensors["x"])
    report("example", y, merged, before, tensors["y"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="write PEFT's adapters")
    parser.add_argument("--check", action="store_true", help="check spark-dora's adapters")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    step = write if options.write else check if options.check else example
    step(options.folder)


if __name__ == "__main__":
    main()
