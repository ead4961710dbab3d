//! Plans, chunks as bytes, folders, merging and launchers.

mod chunks;
mod folders;
mod launchers;

use crate::{Identity, Plan, Run};

fn run() -> Run {
    Run {
        identity: Identity::new("squares")
            .with("program", "1.0")
            .with("of", "naturals"),
        plan: Plan::new(10, 4).expect("a plan"),
    }
}
