//! `doctor --hardware`: the checklist of a new machine, gone through as far as a program can.
//!
//! ```text
//! done      looked at here, and it is as it should be; with what was seen
//! failed    looked at, and it is not                                         the command ends with 1
//! by hand   a command to run, or something to watch while it runs
//! not here  cannot be looked at on this machine or now, and why
//! ```
//!
//! The list is that of the project this one continues (montge/openpilot, `tools/dgx/HARDWARE_TEST_CHECKLIST.md`, commit 0450b81a,
//! MIT), in its order, with this program's commands, and what docs/hardware.md leaves to the first machine as its last part. An
//! item is done only by what was looked at just now: that a command exists is no item that is done. Its limits for the
//! latency of models are left out: they were measured without waiting for the GPU.

mod by_hand;
mod item;
mod judged;

use serde_json::{Value, json};
use sparkpilot::hal::doctor::{Facts, Report};

pub(super) use item::Item;
use item::{Part, State};

/// Every item, part by part: within one what was looked at before what is left to a person.
pub(super) fn checklist(facts: &Facts, report: &Report) -> Vec<Item> {
    let mut items = judged::items(facts, report);
    items.extend(by_hand::items());
    items.sort_by_key(|item| item.part);
    items
}

fn counts(items: &[Item]) -> String {
    let counted = State::ALL.map(|state| {
        let n = items.iter().filter(|item| item.state == state).count();
        format!("{n} {}", state.word())
    });
    counted.join(", ")
}

/// For people.
pub(super) fn to_text(facts: &Facts, items: &[Item]) -> String {
    let mut text = format!("{}\n", facts.machine.summary());
    for (number, part) in Part::ALL.into_iter().enumerate() {
        text.push_str(&format!("\n{}. {}\n", number + 1, part.title()));
        for item in items.iter().filter(|item| item.part == part) {
            text.push_str(&format!(
                "  {:<9} {}\n            {}\n",
                item.state.word(),
                item.what,
                item.said
            ));
        }
    }
    text.push_str(&format!("\n{}\n", counts(items)));
    text
}

/// For programs, schema `sparkpilot-hardware/1`.
pub(super) fn to_json(facts: &Facts, items: &[Item]) -> Value {
    let listed = items.iter().map(|item| {
        json!({
            "part": item.part.title(),
            "what": item.what,
            "state": item.state.word().replace(' ', "_"),
            "said": item.said,
        })
    });
    let n = |state| items.iter().filter(|item| item.state == state).count();
    json!({
        "schema": "sparkpilot-hardware/1",
        "machine": facts.machine.summary(),
        "counts": {
            "done": n(State::Done),
            "failed": n(State::Failed),
            "by_hand": n(State::ByHand),
            "not_here": n(State::NotHere),
        },
        "items": listed.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
