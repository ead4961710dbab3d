//! The items that a person does: a command, and what to look for while it runs.

use super::item::{Item, Part, State};

/// Part, what is to be so, what to run.
const ITEMS: [(Part, &str, &str); 16] = [
    (
        Part::Models,
        "openpilot's models are read and planned",
        "sparkpilot inspect driving_vision.onnx, and driving_policy.onnx and dmonitoring_model.onnx",
    ),
    (
        Part::Models,
        "their latency is measured, in every precision, without an error or a warning",
        "sparkpilot bench --models-dir openpilot/selfdrive/modeld/models --precision all --html report.html",
    ),
    (
        Part::Models,
        "their outputs agree with recorded ones and hold no NaN",
        "sparkpilot compare driving_policy.onnx --against golden.safetensors",
    ),
    (
        Part::Monitoring,
        "samples come every second, with a summary at the end",
        "sparkpilot monitor --duration 10",
    ),
    (
        Part::Monitoring,
        "memory goes up while a program works, and down again",
        "sparkpilot monitor beside a sparkpilot bench in another terminal",
    ),
    (
        Part::Training,
        "layers of adapters behave as they should",
        "cargo test --release -p spark-dora -p spark-train",
    ),
    (
        Part::Training,
        "recorded drives are read",
        "sparkpilot logs DRIVES",
    ),
    (
        Part::Training,
        "the loss falls, checkpoints are written, and the adapter is small",
        "sparkpilot finetune train --model m.onnx --data DRIVES --output run (a build with the feature train)",
    ),
    (
        Part::Training,
        "a run that was stopped with Ctrl-C goes on",
        "sparkpilot finetune resume --output run (the same)",
    ),
    (
        Part::Memory,
        "as much can be allocated as is said to be available, and the machine stays awake",
        "load the largest model that is to be used, with sparkpilot monitor beside it: memory that is not there freezes a DGX Spark",
    ),
    (
        Part::Memory,
        "memory is given back when programs end",
        "sparkpilot monitor --status before and after",
    ),
    (
        Part::Integration,
        "a kernel, a copy and a small network have the results that they should",
        "sparkpilot doctor --verify",
    ),
    (
        Part::Integration,
        "scenarios run, on the processors",
        "sparkpilot sim run --suite alks-cut-in --controller pid",
    ),
    (
        Part::Stress,
        "nothing gets slower or hotter than allowed in the long run",
        "sparkpilot bench --runs 1000, and then sparkpilot doctor while the GPU is still at work",
    ),
    (
        Part::Stress,
        "training for hours ends as it should",
        "sparkpilot finetune train as above, with a night's worth of steps",
    ),
    (
        Part::Unpublished,
        "this machine becomes one of the recorded ones",
        "sparkpilot info --record machine.txt, then crates/spark-hal/tests/machines (docs/hardware.md)",
    ),
];

pub(super) fn items() -> impl Iterator<Item = Item> {
    ITEMS.into_iter().map(|(part, what, said)| Item {
        part,
        what,
        state: State::ByHand,
        said: said.to_owned(),
    })
}
