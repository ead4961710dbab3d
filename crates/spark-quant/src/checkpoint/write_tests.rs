//! What reading refuses is not written, and a file that is there stays as it is.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::block::{Granularity, Quantizer, Recipe};
use crate::simd::ExecutionPolicy;

const LAYOUTS: [Layout; 4] = [
    Layout::ModelOpt,
    Layout::CompressedTensors,
    Layout::Native,
    Layout::Fp8,
];

fn weight(recipe: Recipe) -> Weight {
    let values: Vec<f32> = (0..4 * 192).map(|i| i as f32 - 300.0).collect();
    let packed =
        Quantizer::new(recipe).quantize(ExecutionPolicy::one_thread(), &values, &[4, 192], 1);
    Weight {
        packed: packed.expect("finite"),
        shape: vec![4, 192],
        inputs: Inputs::Unquantized,
    }
}

fn of(entries: impl IntoIterator<Item = (&'static str, Entry)>) -> Checkpoint {
    let entries = entries
        .into_iter()
        .map(|(name, entry)| (name.to_owned(), entry));
    Checkpoint {
        entries: entries.collect(),
    }
}

fn plain(dtype: Dtype, shape: &[usize], n_bytes: usize) -> Entry {
    Entry::Plain(Plain {
        dtype,
        shape: shape.to_vec(),
        data: vec![0; n_bytes],
    })
}

/// A folder with a good file in it, removed at the end.
struct Kept(PathBuf);

impl Kept {
    fn new() -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("spark-quant-kept-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let good = of([("good.weight", Entry::Quantized(weight(Recipe::FP8)))]);
        good.write(&folder.join("model.safetensors"), Layout::ModelOpt)
            .expect("a good file");
        Self(folder)
    }

    /// The refusal, after which the good file is what it was and alone.
    #[track_caller]
    fn refusal(&self, checkpoint: &Checkpoint, layout: Layout) -> String {
        let path = self.0.join("model.safetensors");
        let before = std::fs::read(&path).expect("the good file");
        let written = checkpoint.write(&path, layout);
        assert_eq!(
            std::fs::read(&path).expect("still there"),
            before,
            "{written:?}"
        );
        assert_eq!(std::fs::read_dir(&self.0).expect("a folder").count(), 1);
        let said = written.expect_err("what cannot be read again").to_string();
        let bytes = checkpoint.to_bytes(layout).expect_err("the same");
        assert_eq!(said, bytes.to_string());
        said
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // What a failed test leaves behind has no use.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn data_that_do_not_fit_type_and_shape_leave_the_old_file() {
    let kept = Kept::new();
    let half = usize::MAX / 2;
    for (dtype, shape, n_bytes) in [
        (Dtype::F32, &[3][..], 8),
        (Dtype::F32, &[3], 16),
        (Dtype::F32, &[], 0),
        (Dtype::BF16, &[2, 0], 2),
        (Dtype::F4, &[3], 2),
        (Dtype::U8, &[usize::MAX, 2], 0),
        (Dtype::F64, &[half, 2], 0),
    ] {
        for layout in LAYOUTS {
            let said = kept.refusal(&of([("a.bias", plain(dtype, shape, n_bytes))]), layout);
            let what = format!("tensor `a.bias`: content is {n_bytes} bytes, expected");
            assert!(said.starts_with(&what), "{said}");
        }
    }
}

#[test]
fn scales_of_inputs_that_cannot_be_read_leave_the_old_file() {
    let kept = Kept::new();
    let recipes = [
        (Layout::ModelOpt, Recipe::NVFP4, "a.input_scale"),
        (Layout::ModelOpt, Recipe::FP8, "a.input_scale"),
        (
            Layout::CompressedTensors,
            Recipe::NVFP4,
            "a.input_global_scale",
        ),
        (Layout::CompressedTensors, Recipe::INT8, "a.input_scale"),
    ];
    for (layout, recipe, tensor) in recipes {
        for scale in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY] {
            let mut weight = weight(recipe);
            weight.inputs = Inputs::Calibrated(scale);
            let said = kept.refusal(&of([("a.weight", Entry::Quantized(weight))]), layout);
            assert!(
                said.contains(tensor) && said.contains("finite scale above zero"),
                "{said}"
            );
        }
        let mut weight = weight(recipe);
        weight.inputs = Inputs::Calibrated(0.5);
        let good = of([("a.weight", Entry::Quantized(weight))]);
        let bytes = good.to_bytes(layout).expect("a scale that can be read");
        assert_eq!(
            Checkpoint::from_bytes(&bytes).expect("our own file").0,
            good
        );
    }
    // A multiplier so small that its reciprocal is none.
    let mut weight = weight(Recipe::NVFP4);
    weight.inputs = Inputs::Calibrated(1e-40);
    let tiny = of([("a.weight", Entry::Quantized(weight))]);
    assert!(tiny.to_bytes(Layout::ModelOpt).is_ok());
    assert!(
        kept.refusal(&tiny, Layout::CompressedTensors)
            .contains("inf")
    );
}

#[test]
fn shapes_of_weights_that_do_not_fit_their_codes_leave_the_old_file() {
    let kept = Kept::new();
    for shape in [
        &[usize::MAX, usize::MAX][..],
        &[1 << 32, 1 << 32, 768],
        &[768, 2],
        &[0],
        &[],
    ] {
        for layout in LAYOUTS {
            let mut weight = weight(Recipe::FP8);
            weight.shape = shape.to_vec();
            let said = kept.refusal(&of([("a.weight", Entry::Quantized(weight))]), layout);
            assert!(said.contains("4 times 192 values"), "{said}");
            assert_eq!(said.matches("`a.weight`").count(), 1, "{said}");
        }
    }
}

#[test]
fn names_that_mean_something_else_leave_the_old_file() {
    let kept = Kept::new();
    let one = || plain(Dtype::F32, &[1], 4);
    let quantized = || ("a.weight", Entry::Quantized(weight(Recipe::MXFP8)));
    for layout in [Layout::ModelOpt, Layout::CompressedTensors] {
        kept.refusal(&of([("__metadata__", one())]), layout);
        kept.refusal(&of([("a.weight_global_scale", one())]), layout);
        kept.refusal(&of([quantized(), ("a.weight_scale_2", one())]), layout);
        kept.refusal(&of([quantized(), ("b.weight_packed", one())]), layout);
    }
    // Beside weights of the native layout, `_scale` makes a weight of its neighbour.
    kept.refusal(
        &of([quantized(), ("b", one()), ("b_scale", one())]),
        Layout::Native,
    );
    let apart = of([quantized(), ("b", one()), ("c_scale", one())]);
    assert!(apart.to_bytes(Layout::Native).is_ok());
}

/// Their cut is in the configuration alone, with which they are read.
#[test]
fn groups_that_only_the_configuration_explains_are_written() {
    let recipe = Recipe::Int8 {
        granularity: Granularity::Block { rows: 1, depth: 64 },
    };
    let groups = of([("a.weight", Entry::Quantized(weight(recipe)))]);
    let layout = Layout::CompressedTensors;
    let bytes = groups.to_bytes(layout).expect("written");
    assert!(Checkpoint::from_bytes(&bytes).is_err(), "alone");
    let config = groups.quantization_config(layout).expect("of this layout");
    let (back, _) = Checkpoint::from_bytes_as(&bytes, &config).expect("as configured");
    assert_eq!(back, groups);
}

#[test]
fn plain_tensors_are_made_of_as_many_values_as_their_shape_says() {
    for shape in [&[3][..], &[2, 2], &[0], &[]] {
        let made = Plain::from_f32(&[1.0, 2.0], shape);
        assert!(
            matches!(made, Err(QuantError::LengthMismatch { .. })),
            "{made:?}"
        );
    }
    let made = Plain::from_f32(&[], &[usize::MAX, 2]);
    assert!(
        matches!(made, Err(QuantError::ShapeOverflow { .. })),
        "{made:?}"
    );
    let made = Plain::from_f32(&[1.0, 2.0], &[2, 1]).expect("two values");
    assert_eq!(made.to_f32().as_deref(), Some(&[1.0, 2.0][..]));
}

#[test]
fn a_folder_without_a_quantized_weight_reads_back_in_every_layout() {
    let checkpoint = of([
        ("a.bias", plain(Dtype::F32, &[4], 16)),
        ("a.weight", plain(Dtype::F32, &[4, 4], 64)),
    ]);
    for layout in LAYOUTS {
        let kept = Kept::new();
        checkpoint
            .write_folder(&kept.0, layout, None)
            .expect("sound");
        let (again, _) =
            Checkpoint::read_folder(&kept.0).unwrap_or_else(|e| panic!("{layout:?}: {e}"));
        assert_eq!(again.entries, checkpoint.entries, "{layout:?}");
    }
}

/// Readers look in all three places, and the tensors are of another layout now.
#[test]
fn no_configuration_in_a_folder_speaks_of_tensors_that_are_gone() {
    let checkpoint = of([("a.weight", Entry::Quantized(weight(Recipe::FP8)))]);
    let stale = checkpoint.quantization_config(Layout::ModelOpt);
    let old = json!({
        "quantization_config": stale,
        "text_config": { "hidden_size": 7, "quantization_config": stale },
        "compression_config": stale,
        "vision_config": { "depth": 2 },
    });
    for layout in LAYOUTS {
        for is_given in [false, true] {
            let kept = Kept::new();
            let path = kept.0.join("config.json");
            if !is_given {
                std::fs::write(&path, old.to_string()).expect("a file");
            }
            checkpoint
                .write_folder(&kept.0, layout, is_given.then_some(&old))
                .expect("sound");
            let (again, read) =
                Checkpoint::read_folder(&kept.0).unwrap_or_else(|e| panic!("{layout:?}: {e}"));
            assert_eq!((again, read), (checkpoint.clone(), layout));
            let text = std::fs::read_to_string(&path).expect("a file");
            let config: Value = serde_json::from_str(&text).expect("JSON");
            let mut wanted = json!({
                "text_config": { "hidden_size": 7 }, "vision_config": { "depth": 2 },
            });
            if let Some(new) = checkpoint.quantization_config(layout) {
                wanted["quantization_config"] = new;
            }
            assert_eq!(config, wanted, "{layout:?}, given {is_given}");
        }
    }
}

#[test]
fn a_damaged_configuration_leaves_the_old_file() {
    let checkpoint = of([("b.weight", Entry::Quantized(weight(Recipe::FP8)))]);
    for layout in LAYOUTS {
        let kept = Kept::new();
        std::fs::write(kept.0.join("config.json"), "{").expect("a file");
        let before = std::fs::read(kept.0.join("model.safetensors")).expect("the good file");
        let error = checkpoint.write_folder(&kept.0, layout, None);
        assert!(matches!(error, Err(QuantError::Json { .. })), "{error:?}");
        let after = std::fs::read(kept.0.join("model.safetensors")).expect("still there");
        assert_eq!(before, after);
        let config = std::fs::read_to_string(kept.0.join("config.json"));
        assert_eq!(config.expect("still there"), "{");
    }
}
