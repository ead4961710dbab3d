//! Any bytes as a GGUF file: refused, or consistent and usable.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_quant::ExecutionPolicy;
use spark_quant::checkpoint::{Entry, gguf};

fuzz_target!(init: write_seed(), |bytes: &[u8]| {
    let Ok(file) = gguf::read(bytes) else { return };
    for entry in file.checkpoint.entries.values() {
        if let Entry::Quantized(weight) = entry {
            let values = weight.packed.dequantize(ExecutionPolicy::one_thread()).expect("consistent sizes");
            assert!(values.iter().all(|x| !x.is_nan()));
        }
    }
});

/// Puts the first input, a file of one tensor of 32 values in Q8_0, into the folder that libFuzzer
/// is started with.
fn write_seed() {
    let Some(folder) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        return;
    };
    if !std::path::Path::new(&folder).is_dir() {
        return;
    }
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend([1_u64.to_le_bytes(), 1_u64.to_le_bytes()].concat()); // tensors, entries
    bytes.extend(text("general.alignment"));
    bytes.extend([4_u32.to_le_bytes(), 32_u32.to_le_bytes()].concat()); // an u32: 32
    bytes.extend(text("a.weight"));
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(32_u64.to_le_bytes());
    bytes.extend(8_u32.to_le_bytes()); // Q8_0
    bytes.extend(0_u64.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend([0x00, 0x3c]); // scale 1
    bytes.extend(0..32);
    gguf::read(&bytes).expect("a first input that is no GGUF file leads nowhere");
    let _ = std::fs::write(format!("{folder}/seed-q8_0"), bytes);
}
