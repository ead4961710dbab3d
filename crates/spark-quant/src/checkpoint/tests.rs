//! Files written and read back, files made by hand, and files that lie.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::block::stochastic::philox;
use crate::block::{Granularity, Quantizer, Recipe, Rotation};
use crate::packed::{PackedFormat, PackedTensor, Scales};
use crate::scalar::MiniFormat;
use crate::simd::ExecutionPolicy;

fn values(n: usize, seed: u64) -> Vec<f32> {
    (0..n)
        .map(|i| philox(seed, i as u64)[0] as f32 / 2f32.powi(31) - 1.0)
        .collect()
}

fn weight(recipe: Recipe, shape: &[usize], seed: u64) -> Weight {
    let (rows, depth) = (shape[0], shape[1..].iter().product());
    let packed = Quantizer::new(recipe).quantize(
        ExecutionPolicy::detect(),
        &values(rows * depth, seed),
        &[rows, depth],
        1,
    );
    Weight {
        packed: packed.expect("finite"),
        shape: shape.to_vec(),
        inputs: Inputs::Unquantized,
    }
}

const FP8_TENSOR: Recipe = Recipe::Fp8 {
    format: MiniFormat::E4m3,
    granularity: Granularity::Tensor,
};
const FP8_SQUARES: Recipe = Recipe::Fp8 {
    format: MiniFormat::E4m3,
    granularity: Granularity::Block {
        rows: 128,
        depth: 128,
    },
};

/// A checkpoint with every recipe given, a bias and an unquantized weight.
fn checkpoint(recipes: &[Recipe]) -> Checkpoint {
    let mut entries = BTreeMap::new();
    for (i, &recipe) in recipes.iter().enumerate() {
        let shape: &[usize] = if i % 2 == 0 {
            &[160, 192]
        } else {
            &[6, 32, 3, 3]
        };
        entries.insert(
            format!("layer.{i}.weight"),
            Entry::Quantized(weight(recipe, shape, i as u64)),
        );
    }
    entries.insert(
        "layer.0.bias".to_owned(),
        Entry::Plain(Plain::from_f32(&values(160, 99), &[160]).expect("as many values")),
    );
    entries.insert(
        "head.weight".to_owned(),
        Entry::Plain(Plain::from_f32(&values(6, 98), &[2, 3]).expect("as many values")),
    );
    Checkpoint { entries }
}

fn recipes(layout: Layout) -> Vec<Recipe> {
    let shared = [
        Recipe::NVFP4,
        Recipe::NVFP4_SWEEP,
        Recipe::MXFP4,
        Recipe::MXFP8,
        Recipe::FP8,
        FP8_TENSOR,
        FP8_SQUARES,
    ];
    let more = match layout {
        Layout::ModelOpt => vec![],
        Layout::Fp8 => return vec![FP8_SQUARES, FP8_SQUARES],
        Layout::CompressedTensors => vec![Recipe::INT8, Recipe::MXFP6],
        Layout::Native => vec![
            Recipe::INT8,
            Recipe::MXFP6,
            Recipe::Int8 {
                granularity: Granularity::Block { rows: 3, depth: 50 },
            },
            Recipe::Mx {
                format: MiniFormat::E3m2,
                scale: crate::block::MxScale::Floor,
            },
            Recipe::Mx {
                format: MiniFormat::E5m2,
                scale: crate::block::MxScale::Floor,
            },
            Recipe::Fp8 {
                format: MiniFormat::E5m2,
                granularity: Granularity::Row,
            },
        ],
    };
    shared.into_iter().chain(more).collect()
}

const LAYOUTS: [Layout; 4] = [
    Layout::ModelOpt,
    Layout::CompressedTensors,
    Layout::Native,
    Layout::Fp8,
];

#[test]
fn every_layout_gives_back_the_same_bits() {
    for layout in LAYOUTS {
        let original = checkpoint(&recipes(layout));
        let bytes = original.to_bytes(layout).expect("representable");
        let (back, found) = Checkpoint::from_bytes(&bytes).expect("our own file");
        assert_eq!(found, layout);
        for (name, entry) in &original.entries {
            assert_eq!(back.entries.get(name), Some(entry), "{name} in {layout:?}");
        }
        assert_eq!(back.entries.len(), original.entries.len());
        assert_eq!(
            back.to_bytes(layout).expect("representable"),
            bytes,
            "writing again in {layout:?}"
        );
    }
}

#[test]
fn tensor_scales_survive_the_reciprocal() {
    for i in 0..200 {
        let mut original = checkpoint(&[Recipe::NVFP4]);
        let Some(Entry::Quantized(weight)) = original.entries.get_mut("layer.0.weight") else {
            panic!("quantized")
        };
        let scaled: Vec<f32> = values(160 * 192, 5)
            .iter()
            .map(|x| x * (1.0 + i as f32 * 0.013))
            .collect();
        weight.packed = Quantizer::new(Recipe::NVFP4)
            .quantize(ExecutionPolicy::detect(), &scaled, &[160, 192], 1)
            .expect("finite");
        let bytes = original
            .to_bytes(Layout::CompressedTensors)
            .expect("representable");
        assert_eq!(
            Checkpoint::from_bytes(&bytes).expect("our own file").0,
            original
        );
    }
}

#[test]
fn four_bit_weights_take_the_promised_space() {
    let n = 256 * 1024;
    let big = Weight {
        shape: vec![256, 1024],
        ..weight(Recipe::NVFP4, &[256, 1024], 1)
    };
    let checkpoint = Checkpoint {
        entries: BTreeMap::from([("w.weight".to_owned(), Entry::Quantized(big))]),
    };
    assert_eq!(checkpoint.size_bytes(), n * 9 / 16 + 4);
    let bytes = checkpoint
        .to_bytes(Layout::ModelOpt)
        .expect("representable")
        .len();
    assert!(bytes < n * 9 / 16 + 1024, "{bytes}");
}

#[test]
fn modelopt_tensors_have_their_names_types_and_shapes() {
    let mut original = checkpoint(&[Recipe::NVFP4]);
    if let Some(Entry::Quantized(weight)) = original.entries.get_mut("layer.0.weight") {
        weight.inputs = Inputs::Calibrated(0.125);
    }
    let bytes = original.to_bytes(Layout::ModelOpt).expect("representable");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("valid");
    let about = |name: &str| {
        let view = file.tensor(name).expect(name);
        (view.dtype(), view.shape().to_vec())
    };
    assert_eq!(about("layer.0.weight"), (Dtype::U8, vec![160, 96]));
    assert_eq!(
        about("layer.0.weight_scale"),
        (Dtype::F8_E4M3, vec![160, 12])
    );
    assert_eq!(about("layer.0.weight_scale_2"), (Dtype::F32, vec![]));
    assert_eq!(
        file.tensor("layer.0.input_scale")
            .expect("calibrated")
            .data(),
        0.125f32.to_le_bytes()
    );
    let amax = values(160 * 192, 0)
        .iter()
        .fold(0f32, |largest, x| largest.max(x.abs()));
    assert_eq!(
        file.tensor("layer.0.weight_scale_2")
            .expect("written")
            .data(),
        (amax / 2688.0).to_le_bytes()
    );

    let bytes = original
        .to_bytes(Layout::CompressedTensors)
        .expect("representable");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("valid");
    assert_eq!(
        file.tensor("layer.0.weight_packed")
            .expect("written")
            .shape(),
        [160, 96]
    );
    let divisor = file.tensor("layer.0.weight_global_scale").expect("written");
    assert_eq!(
        (divisor.shape(), divisor.data()),
        (&[1usize][..], &(1.0 / (amax / 2688.0)).to_le_bytes()[..])
    );
    assert_eq!(
        file.tensor("layer.0.input_global_scale")
            .expect("written")
            .data(),
        8f32.to_le_bytes()
    );
}

#[test]
fn configurations_name_the_algorithm_and_the_ignored_modules() {
    let nvfp4 = checkpoint(&[Recipe::NVFP4]);
    let config = nvfp4
        .quantization_config(Layout::ModelOpt)
        .expect("ModelOpt has one");
    assert_eq!(config["quant_method"], "modelopt");
    assert_eq!(config["quant_algo"], "W4A16_NVFP4");
    assert_eq!(config["ignore"], json!(["head"]));
    assert_eq!(
        config["config_groups"]["group_0"]["weights"]["group_size"],
        16
    );
    assert_eq!(nvfp4.hf_quant_config()["quantization"]["group_size"], 16);
    let config = nvfp4
        .quantization_config(Layout::CompressedTensors)
        .expect("has one");
    assert_eq!(config["format"], "nvfp4-pack-quantized");
    assert_eq!(
        config["config_groups"]["group_0"]["weights"]["strategy"],
        "tensor_group"
    );

    let mixed = checkpoint(&[Recipe::NVFP4, Recipe::FP8]);
    let config = mixed.hf_quant_config();
    assert_eq!(config["quantization"]["quant_algo"], "MIXED_PRECISION");
    assert_eq!(
        config["quantization"]["quantized_layers"]["layer.1"]["quant_algo"],
        "FP8_PER_CHANNEL_PER_TOKEN"
    );
    let config = mixed
        .quantization_config(Layout::CompressedTensors)
        .expect("has one");
    assert_eq!(config["format"], "mixed-precision");
    assert_eq!(
        config["config_groups"]
            .as_object()
            .map(serde_json::Map::len),
        Some(2)
    );
}

#[test]
fn a_folder_is_written_and_checked_when_read() {
    let folder = std::env::temp_dir().join(format!("spark-quant-folder-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary folder");
    let original = checkpoint(&[Recipe::NVFP4]);
    for layout in [Layout::ModelOpt, Layout::CompressedTensors] {
        original
            .write_folder(&folder, layout, Some(&json!({ "hidden_size": 7 })))
            .expect("writable");
        let (back, found) = Checkpoint::read_folder(&folder).expect("our own folder");
        assert_eq!((back, found), (original.clone(), layout));
        let read_json = |name: &str| -> Value {
            serde_json::from_slice(&std::fs::read(folder.join(name)).expect("written"))
                .expect("JSON")
        };
        assert_eq!(read_json("config.json")["hidden_size"], 7);
        let mut config = read_json("config.json");
        let field = if layout == Layout::ModelOpt {
            "quant_algo"
        } else {
            "format"
        };
        config["quantization_config"][field] = json!("FP8");
        std::fs::write(folder.join("config.json"), config.to_string()).expect("writable");
        let error = Checkpoint::read_folder(&folder)
            .expect_err("the configuration lies")
            .to_string();
        let names_both = error.contains(field) && error.to_uppercase().contains("FP8");
        assert!(names_both, "{error}");
    }
    let names = std::fs::read_dir(&folder)
        .expect("readable")
        .map(|entry| entry.expect("entry").file_name());
    assert!(
        names
            .into_iter()
            .all(|name| !name.to_string_lossy().ends_with(".part"))
    );
    std::fs::remove_dir_all(&folder).expect("removable");
}

#[test]
fn folders_of_several_formats_are_read_back() {
    let folder = std::env::temp_dir().join(format!("spark-quant-mixed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary folder");
    let mut mixed = checkpoint(&[Recipe::NVFP4, Recipe::FP8, Recipe::NVFP4, Recipe::MXFP8]);
    for layout in [Layout::ModelOpt, Layout::CompressedTensors] {
        mixed.write_folder(&folder, layout, None).expect("writable");
        let back = Checkpoint::read_folder(&folder).expect("our own folder");
        assert_eq!(back, (mixed.clone(), layout));
    }
    // ModelOpt's names stand for what lies inside them too: `layer` in the list of what is not quantized
    // would stand for `layer.0`.
    let mut nested = checkpoint(&[Recipe::NVFP4]);
    let plain = Plain::from_f32(&values(6, 97), &[2, 3]).expect("as many values");
    nested
        .entries
        .insert("layer.weight".to_owned(), Entry::Plain(plain));
    let before = std::fs::read(folder.join("model.safetensors")).expect("written");
    let error = nested.write_folder(&folder, Layout::ModelOpt, None);
    let text = error.expect_err("reading refuses it").to_string();
    assert!(text.contains("layer"), "{text}");
    let after = std::fs::read(folder.join("model.safetensors")).expect("still there");
    assert!(before == after, "the old file stays");
    // The fp8 layout says once for all weights whether inputs are calibrated.
    mixed = checkpoint(&[Recipe::FP8, Recipe::FP8]);
    let Some(Entry::Quantized(weight)) = mixed.entries.get_mut("layer.1.weight") else {
        panic!("it is there");
    };
    weight.inputs = Inputs::Calibrated(0.5);
    let error = mixed.write_folder(&folder, Layout::Fp8, None);
    let text = error.expect_err("cannot be said").to_string();
    assert!(
        text.contains("`layer.1`") && text.contains("`layer.0`"),
        "{text}"
    );
    std::fs::remove_dir_all(&folder).expect("removable");
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = std::env::temp_dir().join(format!("spark-quant-failed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary folder");
    let path = folder.join("model.safetensors");
    std::fs::write(&path, b"old").expect("writable");
    let result = container::write_file(&path, |file| {
        file.write_all(b"half of the new")?;
        Err(std::io::Error::other("the disk is full"))
    });
    assert!(matches!(result, Err(QuantError::Io { .. })));
    assert_eq!(std::fs::read(&path).expect("still there"), b"old");
    assert_eq!(std::fs::read_dir(&folder).expect("readable").count(), 1);
    std::fs::remove_dir_all(&folder).expect("removable");
}

#[test]
fn what_a_layout_cannot_say_is_refused() {
    let one = |weight: Weight| Checkpoint {
        entries: BTreeMap::from([("a.weight".to_owned(), Entry::Quantized(weight))]),
    };
    let refused = |weight: Weight, layout| {
        let error = one(weight).to_bytes(layout).expect_err("not representable");
        std::error::Error::source(&error)
            .expect("a reason")
            .to_string()
    };
    assert!(refused(weight(Recipe::MXFP6, &[4, 32], 1), Layout::ModelOpt).contains("mxfp6"));
    assert!(refused(weight(Recipe::INT8, &[4, 32], 1), Layout::ModelOpt).contains("int8"));
    assert!(
        refused(weight(Recipe::NVFP4, &[4, 24], 1), Layout::ModelOpt).contains("multiple of 16")
    );
    let rotated = Quantizer {
        rotation: Some(Rotation::new(32, 3).expect("a size")),
        ..Quantizer::new(Recipe::NVFP4)
    };
    let packed = rotated
        .quantize(ExecutionPolicy::detect(), &values(128, 1), &[4, 32], 1)
        .expect("finite");
    let rotated = Weight {
        packed,
        shape: vec![4, 32],
        inputs: Inputs::Unquantized,
    };
    assert!(refused(rotated.clone(), Layout::CompressedTensors).contains("rotated"));
    let bytes = one(rotated.clone())
        .to_bytes(Layout::Native)
        .expect("the native layout can");
    assert_eq!(
        Checkpoint::from_bytes(&bytes).expect("our own file").0,
        one(rotated)
    );
}

/// A safetensors file with the given header and data.
fn file(header: &Value, data: &[u8]) -> Vec<u8> {
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn lying_headers_are_refused() {
    let tensor = |dtype: &str, shape: &[u64], start: u64, end: u64| json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
    let lies = [
        (
            "overlapping",
            file(
                &json!({ "a": tensor("U8", &[8], 0, 8), "b": tensor("U8", &[8], 4, 12) }),
                &[0; 12],
            ),
        ),
        (
            "a hole",
            file(
                &json!({ "a": tensor("U8", &[4], 0, 4), "b": tensor("U8", &[4], 8, 12) }),
                &[0; 12],
            ),
        ),
        (
            "beyond the end",
            file(&json!({ "a": tensor("U8", &[100], 0, 100) }), &[0; 10]),
        ),
        (
            "shape overflow",
            file(
                &json!({ "a": tensor("F32", &[u64::MAX, 2, 2], 0, 4) }),
                &[0; 4],
            ),
        ),
        (
            "shape and offsets",
            file(&json!({ "a": tensor("F32", &[2], 0, 4) }), &[0; 4]),
        ),
        (
            "reversed offsets",
            file(&json!({ "a": tensor("U8", &[4], 4, 0) }), &[0; 4]),
        ),
        ("header length", u64::MAX.to_le_bytes().to_vec()),
        ("no header", vec![1, 2, 3]),
        ("empty", vec![]),
        (
            "own metadata",
            file(&json!({ "__metadata__": { METADATA_KEY: "{" } }), &[]),
        ),
    ];
    for (what, bytes) in lies {
        let result = Checkpoint::from_bytes(&bytes);
        assert!(
            matches!(
                result,
                Err(QuantError::Safetensors(_) | QuantError::Json { .. })
            ),
            "{what}: {result:?}"
        );
    }
}

/// A ModelOpt NVFP4 file of 2 by 32 weights, its parts open to change.
fn modelopt_file(scale: &[u8], scale_shape: [usize; 2], scale_2: Option<f32>) -> Vec<u8> {
    let n = scale.len();
    let mut header = json!({
        "x.weight": { "dtype": "U8", "shape": [2, 16], "data_offsets": [0, 32] },
        "x.weight_scale": { "dtype": "F8_E4M3", "shape": scale_shape, "data_offsets": [32, 32 + n] },
    });
    let mut data = vec![0x21; 32];
    data.extend(scale);
    if let Some(scale_2) = scale_2 {
        header["x.weight_scale_2"] =
            json!({ "dtype": "F32", "shape": [], "data_offsets": [32 + n, 36 + n] });
        data.extend(scale_2.to_le_bytes());
    }
    file(&header, &data)
}

#[test]
fn a_file_made_by_hand_reads_as_its_layout_says() {
    let bytes = modelopt_file(&[0x38, 0x40, 0x30, 0x00], [2, 2], Some(0.5));
    let (checkpoint, layout) = Checkpoint::from_bytes(&bytes).expect("valid");
    assert_eq!(layout, Layout::ModelOpt);
    let Some(Entry::Quantized(weight)) = checkpoint.entries.get("x.weight") else {
        panic!("quantized")
    };
    let values = weight
        .packed
        .dequantize(ExecutionPolicy::detect())
        .expect("whole");
    // Codes 1, 2 are 0.5 and 1; the low nibble comes first; scales 1, 2, 0.5 and 0 times one half.
    let want: Vec<f32> = [0.5, 1.0, 0.25, 0.0]
        .iter()
        .flat_map(|scale| [0.5 * scale, *scale].repeat(8))
        .collect();
    assert_eq!(values, want);
}

#[test]
fn scales_that_cannot_be_are_refused_by_name() {
    let error = |bytes: &[u8]| {
        let error = Checkpoint::from_bytes(bytes).expect_err("refused");
        let source = std::error::Error::source(&error)
            .map(|source| format!(": {source}"))
            .unwrap_or_default();
        format!("{error}{source}")
    };
    let good = [0x38; 4];
    for (bits, shown) in [
        (0.0, "0"),
        (-1.0, "-1"),
        (f32::NAN, "NaN"),
        (f32::INFINITY, "inf"),
    ] {
        let text = error(&modelopt_file(&good, [2, 2], Some(bits)));
        assert!(
            text.contains("x.weight_scale_2") && text.contains(shown),
            "{text}"
        );
    }
    assert!(
        error(&modelopt_file(&[0x38, 0x7F, 0x38, 0x38], [2, 2], Some(1.0)))
            .contains("scale 1 is NaN")
    );
    assert!(
        error(&modelopt_file(&[0x38, 0xB8, 0x38, 0x38], [2, 2], Some(1.0)))
            .contains("without a sign")
    );
    assert!(error(&modelopt_file(&[0x38; 3], [1, 3], Some(1.0))).contains("shape"));
    assert!(error(&modelopt_file(&good, [4, 1], Some(1.0))).contains("expected [2, 2]"));
    assert!(error(&modelopt_file(&good, [2, 2], None)).contains("x.weight_scale_2"));
    let fp8 = |code: u8, scale: f32| {
        let header = json!({
            "x.weight": { "dtype": "F8_E4M3", "shape": [1, 4], "data_offsets": [0, 4] },
            "x.weight_scale": { "dtype": "F32", "shape": [], "data_offsets": [4, 8] },
        });
        file(
            &header,
            &[&[1, 2, code, 4][..], &scale.to_le_bytes()].concat(),
        )
    };
    assert!(Checkpoint::from_bytes(&fp8(3, 1.0)).is_ok());
    assert!(error(&fp8(0x7F, 1.0)).contains("NaN at element 2"));
    assert!(error(&fp8(3, f32::NAN)).contains("scale 0 is NaN"));
    assert!(error(&fp8(3, 0.0)).contains("scale 0 is 0"));
}

/// A GGUF file with the given tensors: name, fastest extent first, type, data.
fn gguf_file(tensors: &[(&str, &[u64], u32, &[u8])]) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    let string = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    bytes.extend(3u32.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend(2u64.to_le_bytes());
    string(&mut bytes, "general.alignment");
    bytes.extend([4u32.to_le_bytes(), 64u32.to_le_bytes()].concat());
    string(&mut bytes, "some.list");
    bytes.extend([9u32.to_le_bytes(), 8u32.to_le_bytes()].concat());
    bytes.extend(1u64.to_le_bytes());
    string(&mut bytes, "text");
    let mut offset = 0u64;
    for (name, extents, kind, data) in tensors {
        string(&mut bytes, name);
        bytes.extend((extents.len() as u32).to_le_bytes());
        extents
            .iter()
            .for_each(|extent| bytes.extend(extent.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        offset += (data.len() as u64).next_multiple_of(64);
    }
    for (_, _, _, data) in tensors {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        bytes.extend(*data);
    }
    bytes
}

#[test]
fn gguf_nibbles_are_put_in_order() {
    // Value i of every block has code i % 16.
    let halves = |half: usize| (0..half).map(move |j| (j % 16 + (j + half) % 16 * 16) as u8);
    let mut mxfp4 = vec![128];
    mxfp4.extend(halves(16));
    let mut nvfp4 = vec![0x38, 0x40, 0x30, 0x38];
    (0..4).for_each(|_| nvfp4.extend(halves(8)));
    let scale = 0.25f32.to_le_bytes();
    let bytes = gguf_file(&[
        ("m.weight", &[32, 1], 39, &mxfp4),
        ("n.weight", &[64, 1], 40, &nvfp4),
        ("n.scale", &[1], 0, &scale),
        ("q.weight", &[32, 1], 2, &[0; 18]),
    ]);
    let file = gguf::read(&bytes).expect("valid");
    assert_eq!(file.skipped, [("q.weight".to_owned(), 2)]);
    let dequantized = |name: &str| match &file.checkpoint.entries[name] {
        Entry::Quantized(weight) => weight
            .packed
            .dequantize(ExecutionPolicy::detect())
            .expect("whole"),
        Entry::Plain(_) => panic!("{name} is quantized"),
    };
    let code = |i: usize| MiniFormat::E2m1.decode((i % 16) as u8);
    assert_eq!(
        dequantized("m.weight"),
        (0..32).map(|i| 2.0 * code(i)).collect::<Vec<_>>()
    );
    let block_scales = [1.0, 2.0, 0.5, 1.0];
    assert_eq!(
        dequantized("n.weight"),
        (0..64)
            .map(|i| code(i) * block_scales[i / 16] * 0.25)
            .collect::<Vec<_>>()
    );
}

#[test]
fn damaged_gguf_is_refused_where_it_breaks() {
    let good = gguf_file(&[("m.weight", &[32, 1], 39, &[7; 17])]);
    assert!(gguf::read(&good).is_ok());
    for n in 0..good.len() {
        assert!(
            matches!(gguf::read(&good[..n]), Err(QuantError::Gguf { .. })),
            "cut to {n} bytes"
        );
    }
    let huge = gguf_file(&[("m.weight", &[u64::MAX, 3], 39, &[7; 17])]);
    assert!(gguf::read(&huge).is_err());
    let ragged = gguf_file(&[("m.weight", &[33, 1], 39, &[7; 34])]);
    assert!(gguf::read(&ragged).is_err());
    let mut counts = good.clone();
    counts[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(gguf::read(&counts).is_err());
}

/// What may not happen with any bytes: a panic, a hang, a huge allocation; and what was read can be used.
fn survive(bytes: &[u8]) {
    let checkpoints = [
        Checkpoint::from_bytes(bytes).ok().map(|(c, _)| c),
        gguf::read(bytes).ok().map(|f| f.checkpoint),
    ];
    for checkpoint in checkpoints.into_iter().flatten() {
        for entry in checkpoint.entries.values() {
            if let Entry::Quantized(weight) = entry {
                let values = weight
                    .packed
                    .dequantize(ExecutionPolicy::one_thread())
                    .expect("consistent");
                assert!(values.iter().all(|x| !x.is_nan()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_bytes_are_read_or_refused(
        which in 0usize..4, // the first three of LAYOUTS, and GGUF
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let small = Checkpoint {
            entries: [Recipe::NVFP4, Recipe::FP8, Recipe::MXFP8]
                .into_iter()
                .enumerate()
                .map(|(i, recipe)| (format!("l{i}.weight"), Entry::Quantized(weight(recipe, &[2, 64], i as u64))))
                .collect(),
        };
        let mut bytes = match which {
            3 => gguf_file(&[("m.weight", &[32, 2], 39, &[7; 34]), ("n.weight", &[64], 40, &[9; 36])]),
            _ => small.to_bytes(LAYOUTS[which]).expect("representable"),
        };
        for (at, byte) in changes {
            // Half of the changes go to the header, where most decisions are made.
            let end = if byte % 2 == 0 { bytes.len() } else { bytes.len().min(200) };
            bytes[at.index(end)] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        survive(&bytes);
    }
}

#[test]
fn original_shapes_that_do_not_fit_are_refused() {
    let original = checkpoint(&[Recipe::NVFP4, Recipe::NVFP4]);
    let bytes = original.to_bytes(Layout::ModelOpt).expect("representable");
    let text = String::from_utf8_lossy(&bytes[8..]).into_owned();
    assert!(text.contains("[6,32,3,3]"));
    let lying = bytes
        .windows(10)
        .position(|window| window == b"[6,32,3,3]")
        .expect("in the metadata");
    let mut bytes = bytes;
    bytes[lying + 1] = b'7';
    assert!(matches!(
        Checkpoint::from_bytes(&bytes),
        Err(QuantError::TensorLayout { .. })
    ));
}

#[test]
fn mixed_scales_are_of_the_right_kind() {
    let codes = vec![0; 16];
    let result = PackedTensor::from_parts(
        &[1, 32],
        1,
        PackedFormat::Nvfp4,
        codes.clone(),
        Scales::Mx(vec![1; 1]),
    );
    assert!(matches!(result, Err(QuantError::Unsupported { .. })));
    let scales = Scales::Nvfp4 {
        block: vec![0x38; 1],
        tensor: 1.0,
    };
    let result = PackedTensor::from_parts(&[1, 32], 1, PackedFormat::Nvfp4, codes, scales);
    assert!(matches!(
        result,
        Err(QuantError::LengthMismatch {
            got: 1,
            want: 2,
            ..
        })
    ));
}

#[cfg(unix)]
#[test]
fn devices_and_folders_are_no_checkpoints() {
    for path in ["/dev/zero", "/"] {
        let result = Checkpoint::read(std::path::Path::new(path));
        assert!(matches!(result, Err(QuantError::Io { .. })), "{path}");
    }
}
