//! Any bytes as a checkpoint: refused, or consistent, usable and, if it can be written, the same when read again.
//!
//! The first inputs are small files with the tensors of each layout, written here: a length, a
//! header in JSON, values.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_quant::ExecutionPolicy;
use spark_quant::checkpoint::{Checkpoint, Entry};

fuzz_target!(init: write_seeds(), |bytes: &[u8]| {
    let Ok((checkpoint, layout)) = Checkpoint::from_bytes(bytes) else { return };
    for entry in checkpoint.entries.values() {
        if let Entry::Quantized(weight) = entry {
            let values = weight.packed.dequantize(ExecutionPolicy::one_thread()).expect("consistent sizes");
            assert!(values.iter().all(|x| !x.is_nan()));
        }
    }
    if let Ok(again) = checkpoint.to_bytes(layout) {
        let (back, _) = Checkpoint::from_bytes(&again).expect("a file of our own");
        assert_eq!(back, checkpoint);
    }
});

/// Puts the first inputs into the folder that libFuzzer is started with.
fn write_seeds() {
    let Some(folder) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        return;
    };
    if !std::path::Path::new(&folder).is_dir() {
        return;
    }
    // Name, type, shape, bytes; what ModelOpt, compressed-tensors and this crate write.
    type Tensors = &'static [(&'static str, &'static str, &'static [usize], usize)];
    let files: [(&str, Tensors); 6] = [
        (
            "plain",
            &[
                ("a.weight", "F32", &[2, 4], 32),
                ("a.bias", "BF16", &[2], 4),
            ],
        ),
        (
            "fp8",
            &[
                ("a.weight", "F8_E4M3", &[2, 16], 32),
                ("a.weight_scale", "F32", &[], 4),
            ],
        ),
        (
            "fp8_blocks",
            &[
                ("a.weight", "F8_E4M3", &[2, 128], 256),
                ("a.weight_scale_inv", "F32", &[1, 1], 4),
            ],
        ),
        (
            "nvfp4",
            &[
                ("a.weight", "U8", &[2, 8], 16),
                ("a.weight_scale", "F8_E4M3", &[2, 1], 2),
                ("a.weight_scale_2", "F32", &[], 4),
            ],
        ),
        (
            "nvfp4_packed",
            &[
                ("a.weight_packed", "U8", &[2, 8], 16),
                ("a.weight_scale", "F8_E4M3", &[2, 1], 2),
                ("a.weight_global_scale", "F32", &[1], 4),
            ],
        ),
        (
            "int8",
            &[
                ("a.weight", "I8", &[2, 16], 32),
                ("a.weight_scale", "F32", &[2, 1], 8),
            ],
        ),
    ];
    for (name, tensors) in files {
        let mut end = 0;
        let entries: Vec<String> = tensors
            .iter()
            .map(|(name, dtype, shape, n_bytes)| {
                let start = end;
                end += n_bytes;
                format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}")
            })
            .collect();
        let mut header = format!("{{{}}}", entries.join(","));
        header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        // 0x38 is 1 in E4M3, and a small number in the other types.
        bytes.extend(std::iter::repeat_n(0x38, end));
        if let Err(error) = Checkpoint::from_bytes(&bytes) {
            panic!("the first input {name} is refused: {error}");
        }
        let _ = std::fs::write(format!("{folder}/seed-{name}"), bytes);
    }
}
