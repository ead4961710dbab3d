//! Folders as other programs write them: their configurations, names, types and shapes; and folders
//! that contradict themselves.

mod files;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::packed::{PackedFormat, Scales};
use crate::scalar::MiniFormat;
use crate::simd::ExecutionPolicy;

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("spark-quant-foreign-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("temporary folder");
        Self(path)
    }

    fn with(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.0.join(name), bytes).expect("writable");
        self
    }

    fn config(self, quantization: &Value) -> Self {
        let config = json!({ "model_type": "llama", "quantization_config": quantization });
        self.with("config.json", config.to_string())
    }

    #[track_caller]
    fn read(&self) -> (Checkpoint, Layout) {
        Checkpoint::read_folder(&self.0).expect("a folder that this crate reads")
    }

    /// The error and its causes.
    #[track_caller]
    fn refused(&self, words: &[&str]) {
        let error = Checkpoint::read_folder(&self.0).expect_err("refused");
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        for word in words {
            assert!(text.contains(word), "`{word}` is not in: {text}");
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Tensor = (String, &'static str, Vec<usize>, Vec<u8>);

fn tensor(name: &str, dtype: &'static str, shape: &[usize], data: Vec<u8>) -> Tensor {
    (name.to_owned(), dtype, shape.to_vec(), data)
}

fn f32s(name: &str, shape: &[usize], values: &[f32]) -> Tensor {
    let data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    tensor(name, "F32", shape, data)
}

fn bf16s(name: &str, shape: &[usize], values: &[f32]) -> Tensor {
    let bits = values.iter().map(|x| half::bf16::from_f32(*x).to_bits());
    tensor(
        name,
        "BF16",
        shape,
        bits.flat_map(u16::to_le_bytes).collect(),
    )
}

/// Codes `0, 1, 2, ...` below 120, none of them NaN in E4M3.
fn codes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 % 120) as u8).collect()
}

fn file(tensors: &[Tensor]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::<u8>::new();
    for (name, dtype, shape, bytes) in tensors {
        let (begin, end) = (data.len(), data.len() + bytes.len());
        let info = json!({ "dtype": dtype, "shape": shape, "data_offsets": [begin, end] });
        header.insert(name.clone(), info);
        data.extend(bytes);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn folder(tensors: &[Tensor]) -> Folder {
    Folder::new().with("model.safetensors", file(tensors))
}

fn weight<'a>(checkpoint: &'a Checkpoint, name: &str) -> &'a Weight {
    match &checkpoint.entries[name] {
        Entry::Quantized(weight) => weight,
        Entry::Plain(_) => panic!("{name} is quantized"),
    }
}

#[track_caller]
fn check_values(checkpoint: &Checkpoint, name: &str, want: impl Fn(usize, usize) -> f32) {
    let weight = weight(checkpoint, name);
    let depth = weight.packed.depth();
    let values = weight
        .packed
        .dequantize(ExecutionPolicy::one_thread())
        .expect("whole");
    for (i, value) in values.iter().enumerate() {
        let want = want(i / depth, i % depth);
        assert_eq!(
            value.to_bits(),
            want.to_bits(),
            "{name} at {i}: {value}, not {want}"
        );
    }
}

/// Written again in the layout it came in, a checkpoint reads as the same.
#[track_caller]
fn check_written_back(checkpoint: &Checkpoint, layout: Layout) -> Value {
    let folder = Folder::new();
    checkpoint
        .write_folder(&folder.0, layout, None)
        .expect("its own layout");
    assert_eq!(folder.read(), (checkpoint.clone(), layout));
    let config = std::fs::read(folder.0.join("config.json")).expect("written");
    let config: Value = serde_json::from_slice(&config).expect("JSON");
    config["quantization_config"].clone()
}

fn e4m3(code: u8) -> f32 {
    MiniFormat::E4m3.decode(code)
}

/// A configuration as llm-compressor writes it.
fn compressed(format: &str, weights: Value, inputs: Value) -> Value {
    json!({
        "config_groups": { "group_0": {
            "format": format, "input_activations": inputs, "output_activations": null,
            "targets": ["Linear"], "weights": weights,
        } },
        "format": format, "global_compression_ratio": null, "ignore": ["lm_head"],
        "kv_cache_scheme": null, "quant_method": "compressed-tensors",
        "quantization_status": "compressed", "sparsity_config": {}, "transform_config": {},
        "version": "0.20.0",
    })
}

fn arguments(bits: u8, kind: &str, strategy: &str, dynamic: Value) -> Value {
    json!({
        "actorder": null, "block_structure": null, "dynamic": dynamic, "group_size": null,
        "num_bits": bits, "observer": "minmax", "observer_kwargs": {}, "strategy": strategy,
        "symmetric": true, "type": kind,
    })
}

fn fp8_dynamic() -> Value {
    let weights = arguments(8, "float", "channel", json!(false));
    let inputs = arguments(8, "float", "token", json!(true));
    compressed("float-quantized", weights, inputs)
}

fn fp8_rows() -> Vec<Tensor> {
    vec![
        tensor("a.b.weight", "F8_E4M3", &[2, 32], codes(64)),
        bf16s("a.b.weight_scale", &[2, 1], &[0.5, 0.25]),
        bf16s("lm_head.weight", &[1, 2], &[1.0, 2.0]),
    ]
}

#[test]
fn fp8_dynamic_of_compressed_tensors_is_read_and_written() {
    let (checkpoint, layout) = folder(&fp8_rows()).config(&fp8_dynamic()).read();
    assert_eq!(layout, Layout::CompressedTensors);
    assert_eq!(weight(&checkpoint, "a.b.weight").inputs, Inputs::Dynamic);
    check_values(&checkpoint, "a.b.weight", |row, k| {
        e4m3(codes(64)[row * 32 + k]) * [0.5, 0.25][row]
    });
    let config = check_written_back(&checkpoint, layout);
    let group = &config["config_groups"]["group_0"];
    assert_eq!(group["weights"]["strategy"], "channel");
    assert_eq!(group["input_activations"]["strategy"], "token");
    assert_eq!(group["input_activations"]["dynamic"], true);
    // The name of the package's scheme stands for the same.
    let mut preset = fp8_dynamic();
    preset["config_groups"] = json!({ "FP8_DYNAMIC": ["Linear"] });
    assert_eq!(folder(&fp8_rows()).config(&preset).read().0, checkpoint);
}

#[test]
fn int8_weights_with_int8_inputs_are_read_and_written() {
    let tensors = |more: Vec<Tensor>| {
        let codes: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(11)).collect();
        let mut tensors = vec![
            tensor("a.weight", "I8", &[2, 32], codes),
            bf16s("a.weight_scale", &[2, 1], &[0.5, 0.125]),
        ];
        tensors.extend(more);
        tensors
    };
    let config = |dynamic: bool| {
        let weights = arguments(8, "int", "channel", json!(false));
        let inputs = if dynamic { "token" } else { "tensor" };
        let inputs = arguments(8, "int", inputs, json!(dynamic));
        compressed("int-quantized", weights, inputs)
    };
    let (checkpoint, layout) = folder(&tensors(vec![])).config(&config(true)).read();
    assert_eq!(layout, Layout::CompressedTensors);
    check_values(&checkpoint, "a.weight", |row, k| {
        let code = ((row * 32 + k) as u8).wrapping_mul(11) as i8;
        f32::from(code) * [0.5, 0.125][row]
    });
    check_written_back(&checkpoint, layout);
    let calibrated = vec![f32s("a.input_scale", &[1], &[0.03])];
    let (checkpoint, _) = folder(&tensors(calibrated)).config(&config(false)).read();
    assert_eq!(
        weight(&checkpoint, "a.weight").inputs,
        Inputs::Calibrated(0.03)
    );
    check_written_back(&checkpoint, layout);
    // Static inputs need a scale, dynamic ones have none; zero points must be zero.
    folder(&tensors(vec![]))
        .config(&config(false))
        .refused(&["a.input_scale"]);
    let calibrated = || vec![f32s("a.input_scale", &[1], &[0.03])];
    folder(&tensors(calibrated()))
        .config(&config(true))
        .refused(&["a.input_scale", "a.weight"]);
    let zero = |value| vec![tensor("a.weight_zero_point", "I8", &[2, 1], vec![0, value])];
    folder(&tensors(zero(0))).config(&config(true)).read();
    folder(&tensors(zero(3)))
        .config(&config(true))
        .refused(&["a.weight_zero_point"]);
}

#[test]
fn mx_formats_of_compressed_tensors_are_read_and_written() {
    let group = |bits: u8, dynamic: bool| {
        let mut arguments = arguments(bits, "float", "group", json!(dynamic));
        arguments["group_size"] = json!(32);
        arguments["scale_dtype"] = json!("torch.uint8");
        arguments
    };
    let scales = || tensor("a.weight_scale", "U8", &[2, 1], vec![126, 129]);
    let factor = [0.5, 4.0];
    let config = compressed("mxfp8-quantized", group(8, false), group(8, true));
    let codes_8 = tensor("a.weight", "F8_E4M3", &[2, 32], codes(64));
    let (checkpoint, layout) = folder(&[codes_8, scales()]).config(&config).read();
    assert_eq!(layout, Layout::CompressedTensors);
    check_values(&checkpoint, "a.weight", |row, k| {
        e4m3(codes(64)[row * 32 + k]) * factor[row]
    });
    check_written_back(&checkpoint, layout);

    // Four codes of six bits in three bytes, the first in the lowest bits.
    let word = 0b000011_000010_000001_000000u32.to_le_bytes();
    let codes_6 = word[..3].repeat(16);
    let config = compressed("mxfp6-pack-quantized", group(6, false), group(8, true));
    let packed = tensor("a.weight_packed", "U8", &[2, 24], codes_6);
    let (checkpoint, _) = folder(&[packed, scales()]).config(&config).read();
    check_values(&checkpoint, "a.weight", |row, k| {
        MiniFormat::E2m3.decode((k % 4) as u8) * factor[row]
    });
    check_written_back(&checkpoint, layout);

    let config = compressed("mxfp4-pack-quantized", group(4, false), Value::Null);
    let packed = tensor("a.weight_packed", "U8", &[2, 16], vec![0x21; 32]);
    let (checkpoint, _) = folder(&[packed, scales()]).config(&config).read();
    check_values(&checkpoint, "a.weight", |row, k| {
        [0.5, 1.0][k % 2] * factor[row]
    });
    check_written_back(&checkpoint, layout);
}

#[test]
fn blocks_and_groups_of_fp8_are_read_as_the_configuration_says() {
    let config = |strategy: &str, field: &str, value: Value| {
        let mut weights = arguments(8, "float", strategy, json!(false));
        weights[field] = value;
        compressed("float-quantized", weights, Value::Null)
    };
    let weights = || tensor("a.weight", "F8_E4M3", &[6, 40], codes(240));
    let code = |row: usize, k: usize| e4m3(codes(240)[row * 40 + k]);
    let block = config("block", "block_structure", json!([4, 16]));
    let scales: Vec<f32> = (1..=6).map(|i| i as f32 / 8.0).collect();
    let tensors = [weights(), f32s("a.weight_scale", &[2, 3], &scales)];
    let (checkpoint, layout) = folder(&tensors).config(&block).read();
    check_values(&checkpoint, "a.weight", |row, k| {
        code(row, k) * scales[row / 4 * 3 + k / 16]
    });
    let written = check_written_back(&checkpoint, layout);
    let arguments = &written["config_groups"]["group_0"]["weights"];
    assert_eq!(arguments["strategy"], "block");
    assert_eq!(arguments["block_structure"], json!([4, 16]));
    assert_eq!(arguments["group_size"], Value::Null);
    // The older way to write it, and a shape that does not fit it.
    let older = config("block", "block_structure", json!("4x16"));
    assert_eq!(folder(&tensors).config(&older).read().0, checkpoint);
    let other = config("block", "block_structure", json!([2, 16]));
    folder(&tensors)
        .config(&other)
        .refused(&["a.weight_scale", "[3, 3]"]);

    let group = config("group", "group_size", json!(8));
    let scales: Vec<f32> = (1..=30).map(|i| i as f32 / 32.0).collect();
    let tensors = [weights(), f32s("a.weight_scale", &[6, 5], &scales)];
    let (checkpoint, _) = folder(&tensors).config(&group).read();
    check_values(&checkpoint, "a.weight", |row, k| {
        code(row, k) * scales[row * 5 + k / 8]
    });
    check_written_back(&checkpoint, layout);
}

#[test]
fn targets_and_ignore_lists_decide_what_a_module_is() {
    let channel = arguments(8, "float", "channel", json!(false));
    let tensor_wide = arguments(8, "float", "tensor", json!(false));
    let group = |targets: Value, weights: &Value| json!({ "targets": targets, "weights": weights, "format": "float-quantized" });
    let config = |ignore: Value| {
        json!({
            "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ignore,
            "config_groups": {
                "group_0": group(json!(["Linear"]), &tensor_wide),
                "group_1": group(json!(["re:.*up_proj$"]), &channel),
                "group_2": group(json!(["l.1.up_proj"]), &tensor_wide),
            },
        })
    };
    let one = |name: &str| {
        vec![
            tensor(&format!("{name}.weight"), "F8_E4M3", &[2, 4], codes(8)),
            f32s(&format!("{name}.weight_scale"), &[1], &[0.5]),
        ]
    };
    let rows = |name: &str| {
        vec![
            tensor(&format!("{name}.weight"), "F8_E4M3", &[2, 4], codes(8)),
            f32s(&format!("{name}.weight_scale"), &[2, 1], &[0.5, 0.25]),
        ]
    };
    // Names go before regular expressions, and those before classes.
    let tensors = [
        one("l.0.down_proj"),
        rows("l.0.up_proj"),
        one("l.1.up_proj"),
    ]
    .concat();
    let (checkpoint, _) = folder(&tensors).config(&config(json!([]))).read();
    let n_scales = |name: &str| match weight(&checkpoint, name).packed.scales() {
        Scales::F32 { values, .. } => values.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(n_scales("l.0.down_proj.weight"), 1);
    assert_eq!(n_scales("l.0.up_proj.weight"), 2);
    assert_eq!(n_scales("l.1.up_proj.weight"), 1);
    // The same tensors, other targets: refused by name.
    let tensors = [
        rows("l.0.down_proj"),
        rows("l.0.up_proj"),
        one("l.1.up_proj"),
    ]
    .concat();
    folder(&tensors)
        .config(&config(json!([])))
        .refused(&["l.0.down_proj.weight_scale"]);
    // Ignored and quantized all the same.
    let tensors = [
        one("l.0.down_proj"),
        rows("l.0.up_proj"),
        one("l.1.up_proj"),
    ]
    .concat();
    folder(&tensors)
        .config(&config(json!(["re:l\\.0\\..*"])))
        .refused(&["ignore", "re:l", "l.0.down_proj"]);
    // Named as quantized, and plain.
    let plain = [
        one("l.0.down_proj"),
        vec![bf16s("l.1.up_proj.weight", &[1, 1], &[1.0])],
    ]
    .concat();
    folder(&plain)
        .config(&config(json!([])))
        .refused(&["group_2", "l.1.up_proj"]);
    // Speaks of quantized weights, and there are none.
    let none = [bf16s("x.weight", &[1, 1], &[1.0])];
    folder(&none)
        .config(&fp8_dynamic())
        .refused(&["no tensor is quantized"]);
}

/// One change to a good configuration each: where, what, and words of the error.
#[test]
fn settings_that_are_not_read_are_refused_by_name() {
    let lies: &[(&str, Value, &[&str])] = &[
        ("/quant_method", json!("gptq"), &["gptq", "quant_method"]),
        ("/quant_method", json!("awq"), &["awq"]),
        ("/quant_method", json!("bitsandbytes"), &["bitsandbytes"]),
        ("/quant_method", Value::Null, &["quant_method"]),
        (
            "/quantization_status",
            json!("calibration"),
            &["quantization_status", "calibration"],
        ),
        (
            "/sparsity_config",
            json!({ "format": "sparse-24-bitmask" }),
            &["sparsity_config"],
        ),
        (
            "/transform_config",
            json!({ "config_groups": {} }),
            &["transform_config"],
        ),
        (
            "/config_groups/group_0/format",
            json!("pack-quantized"),
            &["format", "pack-quantized"],
        ),
        (
            "/config_groups/group_0/format",
            json!("marlin-24"),
            &["marlin-24"],
        ),
        ("/config_groups/group_0/format", json!("dense"), &["dense"]),
        (
            "/config_groups/group_0/format",
            json!("int-quantized"),
            &["weights.type"],
        ),
        (
            "/config_groups/group_0/targets",
            json!([]),
            &["group_0.targets"],
        ),
        (
            "/config_groups/group_0/targets",
            json!(["re:(unclosed"]),
            &["re:(unclosed"],
        ),
        (
            "/config_groups/group_0/weights/num_bits",
            json!(4),
            &["weights.num_bits", "4"],
        ),
        (
            "/config_groups/group_0/weights/num_bits",
            json!("8"),
            &["weights.num_bits"],
        ),
        (
            "/config_groups/group_0/weights/type",
            json!("int"),
            &["weights.type"],
        ),
        (
            "/config_groups/group_0/weights/symmetric",
            json!(false),
            &["weights.symmetric"],
        ),
        (
            "/config_groups/group_0/weights/dynamic",
            json!(true),
            &["weights.dynamic"],
        ),
        (
            "/config_groups/group_0/weights/actorder",
            json!("group"),
            &["actorder"],
        ),
        (
            "/config_groups/group_0/weights/strategy",
            json!("attn_head"),
            &["strategy", "attn_head"],
        ),
        (
            "/config_groups/group_0/weights/strategy",
            json!("group"),
            &["group_size"],
        ),
        (
            "/config_groups/group_0/weights/strategy",
            json!("block"),
            &["block_structure"],
        ),
        (
            "/config_groups/group_0/weights/strategy",
            json!("tensor"),
            &["a.b.weight_scale"],
        ),
        (
            "/config_groups/group_0/weights/group_size",
            json!(64),
            &["group_size", "64"],
        ),
        (
            "/config_groups/group_0/weights/block_structure",
            json!([8, 8]),
            &["block_structure"],
        ),
        (
            "/config_groups/group_0/weights/scale_dtype",
            json!("torch.uint8"),
            &["scale_dtype"],
        ),
        (
            "/config_groups/group_0/weights/codebook",
            json!("nf4"),
            &["weights.codebook", "nf4"],
        ),
        (
            "/config_groups/group_0/output_activations",
            json!({}),
            &["output_activations"],
        ),
        (
            "/config_groups/group_0/input_activations/dynamic",
            json!("often"),
            &["dynamic", "often"],
        ),
        (
            "/config_groups",
            json!({ "W4A16": ["Linear"] }),
            &["config_groups.W4A16"],
        ),
        ("/ignore", json!("lm_head"), &["ignore"]),
        ("/moving_average", json!(3), &["moving_average"]),
    ];
    for (place, value, words) in lies {
        let mut config = fp8_dynamic();
        let (parent, name) = place.rsplit_once('/').expect("a path");
        config.pointer_mut(parent).expect("there")[name] = value.clone();
        folder(&fp8_rows()).config(&config).refused(words);
    }
    folder(&fp8_rows()).config(&fp8_dynamic()).read();
}

fn hf(quantization: Value) -> String {
    let producer = json!({ "name": "modelopt", "version": "0.47.0" });
    json!({ "producer": producer, "quantization": quantization }).to_string()
}

#[test]
fn mxfp4_and_block_fp8_of_modelopt_are_read_and_written() {
    let config =
        hf(json!({ "quant_algo": "mxfp4", "group_size": 32, "kv_cache_quant_algo": null }));
    let mxfp4 = [
        tensor("a.weight", "U8", &[2, 16], vec![0x21; 32]),
        tensor("a.weight_scale", "U8", &[2, 1], vec![126, 129]),
    ];
    let (checkpoint, layout) = folder(&mxfp4).with("hf_quant_config.json", &config).read();
    assert_eq!(layout, Layout::ModelOpt);
    check_values(&checkpoint, "a.weight", |row, k| {
        [0.5, 1.0][k % 2] * [0.5, 4.0][row]
    });
    assert_eq!(
        check_written_back(&checkpoint, layout)["quant_algo"],
        "mxfp4"
    );

    // 130 by 200 weights in blocks of 128 by 128: four scales with extents of one between.
    let config = hf(json!({ "quant_algo": "fp8_pb_wo", "exclude_modules": ["lm_head*"] }));
    let scales = [0.5, 0.25, 2.0, 1.0];
    for shape in [&[2, 1, 2, 1][..], &[2, 2]] {
        let blocks = [
            tensor("a.weight", "F8_E4M3", &[130, 200], codes(26_000)),
            f32s("a.weight_scale", shape, &scales),
        ];
        let (checkpoint, _) = folder(&blocks).with("hf_quant_config.json", &config).read();
        check_values(&checkpoint, "a.weight", |row, k| {
            e4m3(codes(26_000)[row * 200 + k]) * scales[row / 128 * 2 + k / 128]
        });
        let bytes = checkpoint.to_bytes(layout).expect("its own layout");
        let file = safetensors::SafeTensors::deserialize(&bytes).expect("valid");
        assert_eq!(
            file.tensor("a.weight_scale").expect("written").shape(),
            [2, 1, 2, 1]
        );
        assert_eq!(
            check_written_back(&checkpoint, layout)["quant_algo"],
            "fp8_pb_wo"
        );
    }
    let transposed = [
        tensor("a.weight", "F8_E4M3", &[130, 100], codes(13_000)),
        f32s("a.weight_scale", &[1, 1, 2, 1], &[1.0, 2.0]),
    ];
    folder(&transposed)
        .with("hf_quant_config.json", &config)
        .refused(&["a.weight_scale", "[2, 1]"]);

    // One scale per row, and layers of different algorithms.
    let mixed = hf(json!({
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            "a": { "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN" },
            "b": { "quant_algo": "W8A16" },
        },
    }));
    let tensors = [
        tensor("a.weight", "F8_E4M3", &[2, 4], codes(8)),
        f32s("a.weight_scale", &[2], &[0.5, 0.25]),
        tensor("b.weight", "I8", &[2, 4], codes(8)),
        f32s("b.weight_scale", &[2], &[0.5, 0.25]),
    ];
    let (checkpoint, _) = folder(&tensors).with("hf_quant_config.json", &mixed).read();
    check_values(&checkpoint, "a.weight", |row, k| {
        e4m3(codes(8)[row * 4 + k]) * [0.5, 0.25][row]
    });
    assert_eq!(
        weight(&checkpoint, "b.weight").packed.format(),
        PackedFormat::Int8
    );
    folder(&tensors[..2])
        .with("hf_quant_config.json", hf(json!({ "quant_algo": "W8A16" })))
        .refused(&["a.weight", "I8 for int8"]);
}

#[test]
fn configurations_of_modelopt_must_agree() {
    let nvfp4 = [
        tensor("a.weight", "U8", &[1, 8], vec![0x21; 8]),
        tensor("a.weight_scale", "F8_E4M3", &[1, 1], vec![0x38]),
        f32s("a.weight_scale_2", &[], &[0.5]),
    ];
    let config = |algorithm: &str| json!({ "quant_method": "modelopt", "quant_algo": algorithm });
    let with = |main: &Value, second: &str| {
        let second = hf(json!({ "quant_algo": second }));
        folder(&nvfp4)
            .config(main)
            .with("hf_quant_config.json", second)
    };
    with(&config("W4A16_NVFP4"), "W4A16_NVFP4").read();
    with(&config("W4A16_NVFP4"), "FP8").refused(&["hf_quant_config.json", "a"]);
    with(&fp8_dynamic(), "W4A16_NVFP4").refused(&["hf_quant_config.json"]);
    for unread in ["NVFP4_AWQ", "NVFP4_SVD", "W4A16_AWQ", "W4A8_AWQ", "FP9"] {
        folder(&nvfp4)
            .config(&config(unread))
            .refused(&["quant_algo", unread]);
    }
    let mut grouped = config("NVFP4");
    grouped["group_size"] = json!(32);
    folder(&nvfp4)
        .config(&grouped)
        .refused(&["group_size", "32"]);
    let mut grouped = config("W4A16_NVFP4");
    grouped["config_groups"] =
        json!({ "group_0": { "weights": { "num_bits": 8, "type": "float" } } });
    folder(&nvfp4)
        .config(&grouped)
        .refused(&["config_groups.group_0.weights", "nvfp4"]);
    // A smoothed input changes what the weight means.
    let mut smoothed = nvfp4.to_vec();
    smoothed.push(f32s("a.pre_quant_scale", &[16], &[1.0; 16]));
    folder(&smoothed)
        .config(&config("W4A16_NVFP4"))
        .refused(&["a.pre_quant_scale"]);
}

#[test]
fn block_fp8_of_deepseek_is_read_and_written() {
    let config = json!({
        "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
        "weight_block_size": [128, 128],
    });
    let scales = [0.5, 0.25, 2.0, 1.0];
    let tensors = [
        tensor("m.a.weight", "F8_E4M3", &[130, 200], codes(26_000)),
        f32s("m.a.weight_scale_inv", &[2, 2], &scales),
        bf16s("m.norm.weight", &[2], &[1.0, 1.0]),
    ];
    let (checkpoint, layout) = folder(&tensors).config(&config).read();
    assert_eq!(layout, Layout::Fp8);
    let entry = weight(&checkpoint, "m.a.weight");
    assert_eq!(entry.inputs, Inputs::Dynamic);
    // The scale multiplies, whatever its name says.
    check_values(&checkpoint, "m.a.weight", |row, k| {
        e4m3(codes(26_000)[row * 200 + k]) * scales[row / 128 * 2 + k / 128]
    });
    let written = check_written_back(&checkpoint, layout);
    assert_eq!(written["weight_block_size"], json!([128, 128]));
    let with = |field: &str, value: Value| {
        let mut config = config.clone();
        config[field] = value;
        folder(&tensors).config(&config)
    };
    with("weight_block_size", json!([64, 128])).refused(&["weight_scale_inv", "[3, 2]"]);
    with("weight_block_size", json!([0, 128])).refused(&["weight_block_size"]);
    with("fmt", json!("e5m2")).refused(&["fmt", "e5m2"]);
    with("activation_scheme", json!("static")).refused(&["m.a.input_scale"]);
    with("scale_fmt", json!("log2")).refused(&["scale_fmt", "log2"]);
    with("modules_to_not_convert", json!(["m.a"])).refused(&["modules_to_not_convert", "m.a"]);
    // A weight of another method's names beside it, and scales that lost their weight.
    let mut packed = tensors.to_vec();
    packed.push(tensor("m.b.weight", "F8_E4M3", &[1, 1], vec![1]));
    folder(&packed).config(&config).refused(&["m.b.weight"]);
    folder(&tensors[1..])
        .config(&config)
        .refused(&["m.a.weight", "m.a.weight_scale_inv"]);
}
