//! Any bytes under a right checksum as a chunk: refused, or the chunk is written as the same bytes.
//!
//! ```text
//! bytes ──and their SHA-256──> decode ──> chunk ──encode──> the same bytes
//! ```
//!
//! Without the checksum nothing behind it would ever be read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sha2::{Digest as _, Sha256};
use spark_shards::{Identity, Plan, Run, decode, encode};

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| {
        let checksum = Sha256::digest(bytes);
        let whole = [bytes, &checksum[..]].concat();
        if let Ok(chunk) = decode(&whole) {
            let again = encode(&chunk.run, chunk.number, &chunk.payload);
            assert!(again.is_ok_and(|again| again == whole));
        }
        let _ = decode(bytes);
    }
);

/// Puts the first inputs into the folder that libFuzzer is started with.
fn write_seeds() {
    let Some(folder) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        return;
    };
    let folder = std::path::Path::new(&folder);
    if !folder.is_dir() {
        return;
    }
    let identity = Identity::new("sim run").with("controller", "pid");
    let plan = Plan::new(10, 4).expect("a plan");
    let run = Run { identity, plan };
    for number in 0..run.plan.n_chunks() {
        let mut bytes = encode(&run, number, b"what it came to").expect("a chunk");
        bytes.truncate(bytes.len() - 32);
        let file = folder.join(format!("seed-{number}"));
        std::fs::write(file, bytes).expect("writable");
    }
}
