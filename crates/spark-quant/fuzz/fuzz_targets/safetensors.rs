//! Any bytes as a checkpoint: refused, or consistent, usable and the same after writing it again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_quant::Cpu;
use spark_quant::checkpoint::{Checkpoint, Entry};

fuzz_target!(|bytes: &[u8]| {
    let Ok((checkpoint, layout)) = Checkpoint::from_bytes(bytes) else { return };
    for entry in checkpoint.entries.values() {
        if let Entry::Quantized(weight) = entry {
            let values = weight.packed.dequantize(Cpu::one_thread()).expect("consistent sizes");
            assert!(values.iter().all(|x| !x.is_nan()));
        }
    }
    if let Ok(again) = checkpoint.to_bytes(layout) {
        let (back, _) = Checkpoint::from_bytes(&again).expect("a file of our own");
        assert_eq!(back, checkpoint);
    }
});
