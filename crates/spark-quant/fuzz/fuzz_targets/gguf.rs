//! Any bytes as a GGUF file: refused, or consistent and usable.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_quant::Cpu;
use spark_quant::checkpoint::{Entry, gguf};

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = gguf::read(bytes) else { return };
    for entry in file.checkpoint.entries.values() {
        if let Entry::Quantized(weight) = entry {
            let values = weight.packed.dequantize(Cpu::one_thread()).expect("consistent sizes");
            assert!(values.iter().all(|x| !x.is_nan()));
        }
    }
});
