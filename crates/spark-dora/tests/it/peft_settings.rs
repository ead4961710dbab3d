//! Every setting of PEFT's acts or is refused by name.

use candle_core::{DType, Device, Tensor};
use candle_nn::{Embedding, Linear};
use serde_json::{Value, json};
use spark_dora::adapter::{CONFIG_FILE, TENSOR_FILE};
use spark_dora::{Adapter, AdapterFiles, DoraConfig, DoraError, Init};

use crate::adapter::{Folder, Tensors, linear, open};

/// Modules whose names nest and overlap.
const NAMES: [&str; 8] = [
    "layers.1.proj",
    "layers.11.proj",
    "layers.1.out_proj",
    "proj",
    "out.proj",
    "my.default_layer",
    "default.fc",
    "fc",
];

/// An adapter of `rank` on `names`, as PEFT's files, with settings changed by `change`.
fn folder(names: &[&str], rank: usize, change: impl FnOnce(&mut Value)) -> Folder {
    let folder = Folder::new("settings");
    let config = DoraConfig::builder(rank)
        .init(Init::Random)
        .build()
        .unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    for name in names {
        adapter.linear(name, &linear(6, 5, 1)).unwrap();
    }
    adapter.save(&folder.0).unwrap();
    make_foreign(&folder, |tensors| tensors, change);
    folder
}

/// Rewrites both files as another program would, without this crate's metadata.
fn make_foreign(
    folder: &Folder,
    tensors: impl FnOnce(Tensors) -> Tensors,
    change: impl FnOnce(&mut Value),
) {
    let path = folder.0.join(TENSOR_FILE);
    let old = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    candle_core::safetensors::save(&tensors(old), &path).unwrap();
    let path = folder.0.join(CONFIG_FILE);
    let mut json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    std::fs::write(&path, json.to_string()).unwrap();
}

/// Ranks and scalings of the adapted of `names`, offered in this order.
fn offered(folder: &Folder, names: &[&str]) -> Result<Vec<(String, usize, f64)>, DoraError> {
    let mut adapter = open(&folder.0)?;
    for name in names {
        adapter.linear(name, &linear(6, 5, 1))?;
    }
    adapter.finish()?;
    let of = |name: &str| {
        let factors = adapter.factors(name).unwrap();
        (name.to_owned(), factors.rank(), factors.scaling())
    };
    Ok(adapter.adapted().map(of).collect())
}

fn scaling(folder: &Folder, names: &[&str], name: &str) -> f64 {
    let layers = offered(folder, names).unwrap();
    layers.iter().find(|(n, ..)| n == name).unwrap().2
}

#[test]
fn alpha_follows_the_first_pattern_of_the_file() {
    let alpha = |patterns: &str, name: &str| {
        // Written as text: a JSON value would sort the keys.
        let folder = folder(&NAMES, 2, |json| json["alpha_pattern"] = json!("PATTERNS"));
        let path = folder.0.join(CONFIG_FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"PATTERNS\"", patterns)).unwrap();
        2.0 * scaling(&folder, &NAMES, name)
    };
    let shorter_first = r#"{"proj": 10, "layers.1.proj": 20}"#;
    assert_eq!(
        alpha(shorter_first, "layers.1.proj"),
        10.0,
        "the first, not the longest"
    );
    assert_eq!(
        alpha(shorter_first, "layers.1.out_proj"),
        4.0,
        "whole parts only"
    );
    let longer_first = r#"{"layers.1.proj": 20, "proj": 10}"#;
    assert_eq!(alpha(longer_first, "layers.1.proj"), 20.0);
    assert_eq!(alpha(longer_first, "layers.11.proj"), 10.0);
    let expressions = r#"{"^proj": 30, "layers\\.\\d+\\.(out_)?proj": 50, ".*fc": 60}"#;
    assert_eq!(alpha(expressions, "proj"), 30.0);
    assert_eq!(alpha(expressions, "out.proj"), 4.0);
    assert_eq!(alpha(expressions, "layers.1.out_proj"), 50.0);
    assert_eq!(alpha(expressions, "default.fc"), 60.0);
}

#[test]
fn a_pattern_that_cannot_be_matched_is_refused_by_name() {
    for (setting, value) in [
        ("alpha_pattern", json!({"(?!fc).*": 4})),
        ("rank_pattern", json!({"(?!fc).*": 2})),
        ("target_modules", json!("(?!fc).*")),
        ("exclude_modules", json!("(?!fc).*")),
    ] {
        let folder = folder(&["fc"], 2, |json| json[setting] = value);
        let error = open(&folder.0).err().expect("refused");
        assert!(matches!(&error, DoraError::Unsupported { name, .. } if *name == setting));
        assert!(error.to_string().contains("(?!fc).*"), "{error}");
    }
}

#[test]
fn ranks_are_those_of_the_tensors_and_settings_that_differ_are_refused() {
    for rslora in [false, true] {
        let folder = folder(&["a.fc", "b.fc"], 3, |json| {
            json["r"] = json!(5);
            json["lora_alpha"] = json!(6);
            json["use_rslora"] = json!(rslora);
            json["rank_pattern"] = json!({"fc": 3});
        });
        let want = if rslora { 6.0 / 3f64.sqrt() } else { 2.0 };
        for (name, rank, scaling) in offered(&folder, &["a.fc", "b.fc"]).unwrap() {
            assert_eq!((rank, scaling), (3, want), "{name}");
        }
    }
    let folder = folder(&["a.fc", "b.fc"], 3, |json| {
        json["rank_pattern"] = json!({"b.fc": 4})
    });
    match offered(&folder, &["a.fc", "b.fc"]).unwrap_err() {
        DoraError::Rank {
            layer,
            tensors: 3,
            settings: 4,
        } => assert_eq!(layer, "b.fc"),
        other => panic!("{other}"),
    }
}

#[test]
fn settings_that_are_absent_are_pefts_defaults() {
    let wide = || linear(10, 9, 1);
    let folder = Folder::new("defaults");
    let config = DoraConfig::builder(8).build().unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    adapter.linear("fc", &wide()).unwrap();
    adapter.save(&folder.0).unwrap();
    make_foreign(
        &folder,
        |tensors| tensors,
        |json| *json = json!({"peft_type": "LORA", "use_dora": true, "target_modules": ["fc"]}),
    );
    let mut adapter = open(&folder.0).unwrap();
    adapter.linear("fc", &wide()).unwrap();
    let factors = adapter.factors("fc").unwrap();
    assert_eq!((factors.rank(), factors.scaling()), (8, 1.0));
}

#[test]
fn tensors_and_targets_must_mean_the_same_layers() {
    let names = ["a.fc", "b.fc"];
    type Change = fn(&mut Value);
    let left_out: [(&str, Change); 4] = [
        ("not listed", |j| j["target_modules"] = json!(["a.fc"])),
        ("another expression", |j| j["target_modules"] = json!("a.*")),
        ("excluded", |j| j["exclude_modules"] = json!(["b.fc"])),
        ("excluded by expression", |j| {
            j["exclude_modules"] = json!("b.*")
        }),
    ];
    for (what, change) in left_out {
        match offered(&folder(&names, 2, change), &names).unwrap_err() {
            DoraError::NotTargeted { layer } => assert_eq!(layer, "b.fc", "{what}"),
            other => panic!("{what}: {other}"),
        }
    }
    // Meant, without tensors: PEFT would draw new ones.
    for targets in [json!(["fc"]), json!("[abc].fc")] {
        let folder = folder(&names, 2, |j| j["target_modules"] = targets);
        assert_eq!(offered(&folder, &names).unwrap().len(), 2);
        match offered(&folder, &["a.fc", "b.fc", "c.fc"]).unwrap_err() {
            DoraError::Tensors { missing, .. } => assert_eq!(missing, ["c.fc"]),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn layers_to_transform_choose_among_layers() {
    let all = [
        "layers.0.fc",
        "layers.1.fc",
        "other.1.fc",
        "x.layers.1.e.0.fc",
    ];
    for (indices, pattern, want) in [
        (json!([1]), json!(null), vec!["x.layers.1.e.0.fc"]),
        (
            json!(1),
            json!("layers"),
            vec!["layers.1.fc", "x.layers.1.e.0.fc"],
        ),
        (
            json!([1]),
            json!(["other", "layers"]),
            vec!["layers.1.fc", "other.1.fc", "x.layers.1.e.0.fc"],
        ),
        (json!([0, 7]), json!(["layers"]), vec!["layers.0.fc"]),
        (json!([]), json!(null), all.to_vec()),
    ] {
        let folder = folder(&want, 2, |json| {
            json["target_modules"] = json!(["fc"]);
            json["layers_to_transform"] = indices.clone();
            json["layers_pattern"] = pattern.clone();
        });
        let adapted = offered(&folder, &all).unwrap();
        let names: Vec<_> = adapted.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, want, "{indices} {pattern}");
    }
    let folder = folder(&["fc"], 2, |json| {
        json["target_modules"] = json!("fc");
        json["layers_to_transform"] = json!([1]);
    });
    assert!(matches!(
        open(&folder.0).err(),
        Some(DoraError::Unsupported { .. })
    ));
}

#[test]
fn the_adapters_name_is_dropped_as_a_part_of_its_own_only() {
    let folder = folder(&NAMES, 2, |_| {});
    let with_name = |tensors: Tensors| {
        let rename = |name: String| match name.strip_suffix(".weight") {
            Some(stem) => format!("{stem}.default.weight"),
            None => format!("{name}.default.weight"),
        };
        tensors
            .into_iter()
            .map(|(name, t)| (rename(name), t))
            .collect()
    };
    make_foreign(&folder, with_name, |_| {});
    assert_eq!(offered(&folder, &NAMES).unwrap().len(), NAMES.len());
}

#[test]
fn two_tensors_for_one_variable_are_refused() {
    let folder = folder(&["fc"], 2, |_| {});
    let twice = |mut tensors: Tensors| {
        let a = tensors["base_model.model.fc.lora_A.weight"].clone();
        tensors.insert("base_model.model.fc.lora_A.default.weight".to_owned(), a);
        tensors
    };
    make_foreign(&folder, twice, |_| {});
    match open(&folder.0).err() {
        Some(DoraError::Duplicate { name }) => assert_eq!(name, "fc.lora_A.weight"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tensors_must_go_with_use_dora_and_with_the_kind_of_layer() {
    let plain = folder(&["fc"], 2, |json| json["use_dora"] = json!(false));
    match offered(&plain, &["fc"]).unwrap_err() {
        DoraError::MagnitudeWithoutDora { layer } => assert_eq!(layer, "fc"),
        other => panic!("{other}"),
    }
    let lora = folder(&["fc"], 2, |_| {});
    let without = |tensors: Tensors| {
        let keep = |(name, _): &(String, Tensor)| !name.contains("magnitude");
        tensors.into_iter().filter(keep).collect()
    };
    make_foreign(&lora, without, |_| {});
    match offered(&lora, &["fc"]).unwrap_err() {
        DoraError::Tensors { missing, .. } => assert_eq!(missing, ["fc.lora_magnitude_vector"]),
        other => panic!("{other}"),
    }
    // B's bias, and a linear layer's tensors for an embedding.
    let biased = folder(&["fc"], 2, |_| {});
    let with_bias = |mut tensors: Tensors| {
        let bias = Tensor::zeros(6, DType::F32, &Device::Cpu).unwrap();
        tensors.insert("base_model.model.fc.lora_B.bias".to_owned(), bias);
        tensors
    };
    make_foreign(&biased, with_bias, |_| {});
    match offered(&biased, &["fc"]).unwrap_err() {
        DoraError::Tensors { unexpected, .. } => {
            assert_eq!(unexpected, ["base_model.model.fc.lora_B.bias"]);
        }
        other => panic!("{other}"),
    }
    let folder = folder(&["fc"], 2, |_| {});
    let weight = Tensor::ones((5, 6), DType::F32, &Device::Cpu).unwrap();
    let error = open(&folder.0)
        .unwrap()
        .embedding("fc", &Embedding::new(weight, 6))
        .unwrap_err();
    match error {
        DoraError::Tensors { unexpected, .. } => {
            assert_eq!(unexpected, ["fc.lora_A.weight", "fc.lora_B.weight"]);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn settings_of_other_methods_are_refused_by_name() {
    for (key, value) in [
        ("lora_bias", json!(true)),
        ("fan_in_fan_out", json!(true)),
        ("trainable_token_indices", json!([1, 2])),
        ("alora_invocation_tokens", json!([7])),
        ("ensure_weight_tying", json!(true)),
        ("kasa_config", json!({"beta": 1.0})),
        ("velora_config", json!({"rank": 1})),
        ("monteclora_config", json!({"samples": 1})),
        ("arrow_config", json!({"top_k": 1})),
        ("megatron_config", json!({"x": 1})),
        ("use_bdlora", json!({"x": 1})),
        ("target_parameters", json!(["w"])),
        ("init_lora_weights", json!("lora_ga")),
        ("init_lora_weights", json!("pissa_niter_4")),
        ("peft_type", json!("ADALORA")),
    ] {
        let folder = folder(&["fc"], 2, |json| json[key] = value);
        match open(&folder.0).err() {
            Some(DoraError::Unsupported { name, .. }) => assert_eq!(name, key),
            other => panic!("{key}: {other:?}"),
        }
    }
    // Switched off, or without effect on what was trained.
    for (key, value) in [
        ("modules_to_save", json!([])),
        ("loftq_config", json!({})),
        ("init_lora_weights", json!(false)),
        ("init_lora_weights", json!("mica")),
        ("eva_config", json!({"rho": 2.0})),
        ("qalora_group_size", json!(16)),
        ("megatron_core", json!("megatron.core")),
        ("rank_pattern", json!(null)),
    ] {
        let folder = folder(&["fc"], 2, |json| json[key] = value);
        assert_eq!(offered(&folder, &["fc"]).unwrap().len(), 1, "{key}");
    }
}

/// What PEFT would make of written settings: the modules it adapts, with rank and alpha.
fn as_peft_reads(config: &DoraConfig, names: &[&str]) -> Vec<(String, usize, f64)> {
    let of = |name: &&str| {
        let layer = config.layer(name).unwrap()?;
        Some(((*name).to_owned(), layer.rank, layer.alpha))
    };
    names.iter().filter_map(of).collect()
}

#[test]
fn written_settings_name_each_module_in_full_and_mean_no_other() {
    let names = [
        "proj",
        "out.proj",
        "layers.1.proj",
        "layers.11.proj",
        "layersX1.proj",
        "1.proj",
        "fc{2}",
        "a.fc{2}",
        "fc",
        "b.fc",
        "c.b.fc",
    ];
    let config = DoraConfig::builder(4)
        .alpha(5.0)
        .targets(["proj", "fc{2}", "fc"])
        .exclude(["c.b.fc"])
        .rank("^proj", 2)
        .rank(r"layers\.\d+\.proj", 3)
        .alpha_of("^fc", 7.0)
        .alpha_of("layers.1.proj", 9.0)
        .alpha_of("fc{2}", 11.0)
        .build()
        .unwrap();
    let want = as_peft_reads(&config, &names);
    assert_eq!(want.len(), names.len() - 1);
    let folder = Folder::new("written");
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    for name in names {
        adapter.linear(name, &linear(6, 5, 1)).unwrap();
    }
    adapter.finish().unwrap();
    adapter.save(&folder.0).unwrap();
    let written = open(&folder.0).unwrap().config().clone();
    assert_eq!(as_peft_reads(&written, &names), want);
    // In any order of the patterns, since PEFT sorts them when it saves.
    let mut turned = written.clone();
    turned.rank_pattern = Default::default();
    turned.alpha_pattern = Default::default();
    let ranks: Vec<_> = written.rank_pattern.iter().collect();
    for (pattern, rank) in ranks.into_iter().rev() {
        turned.rank_pattern.insert(pattern, *rank);
    }
    let alphas: Vec<_> = written.alpha_pattern.iter().collect();
    for (pattern, alpha) in alphas.into_iter().rev() {
        turned.alpha_pattern.insert(pattern, *alpha);
    }
    assert_eq!(as_peft_reads(&turned, &names), want);

    // Without a module left out, the list of names is enough.
    let json = |folder: &Folder| -> Value {
        serde_json::from_slice(&std::fs::read(folder.0.join(CONFIG_FILE)).unwrap()).unwrap()
    };
    let whole = self::folder(&NAMES, 2, |_| {});
    let mut sorted = NAMES.to_vec();
    sorted.sort_unstable();
    assert_eq!(json(&whole)["target_modules"], json!(sorted));
    assert_eq!(json(&folder)["exclude_modules"], json!(null));
}

#[test]
fn kohyas_layers_of_both_kinds_are_not_written_as_one() {
    let folder = Folder::new("kohya-mixed");
    let t = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
    let mut tensors = Tensors::new();
    for module in ["a", "b"] {
        tensors.insert(format!("lora_unet_{module}.lora_down.weight"), t(&[2, 5]));
        tensors.insert(format!("lora_unet_{module}.lora_up.weight"), t(&[6, 2]));
    }
    tensors.insert("lora_unet_a.dora_scale".to_owned(), t(&[6, 1]));
    let path = folder.0.join("kohya.safetensors");
    candle_core::safetensors::save(&tensors, &path).unwrap();
    let mut adapter = Adapter::open_kohya(&path, DType::F32, &Device::Cpu).unwrap();
    adapter.linear("a", &linear(6, 5, 1)).unwrap();
    adapter.linear("b", &linear(6, 5, 1)).unwrap();
    adapter.finish().unwrap();
    match adapter.save(&folder.0).unwrap_err() {
        DoraError::MixedMethods { layers } => assert_eq!(layers, ["b"]),
        other => panic!("{other}"),
    }
}

#[test]
fn names_that_kohyas_files_cannot_tell_apart_are_refused() {
    let folder = Folder::new("kohya-names");
    let t = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
    let tensors = Tensors::from([
        ("lora_unet_a_b.lora_down.weight".to_owned(), t(&[2, 5])),
        ("lora_unet_a_b.lora_up.weight".to_owned(), t(&[6, 2])),
    ]);
    let path = folder.0.join("kohya.safetensors");
    candle_core::safetensors::save(&tensors, &path).unwrap();
    let mut adapter = Adapter::open_kohya(&path, DType::F32, &Device::Cpu).unwrap();
    adapter.linear("a.b", &linear(6, 5, 1)).unwrap();
    let other: Result<_, _> = adapter.linear("a_b", &linear(6, 5, 1));
    assert!(matches!(other, Err(DoraError::Duplicate { name }) if name == "a_b"));
}

#[test]
fn variables_are_f32_or_f64() {
    let folder = folder(&["fc"], 2, |_| {});
    for dtype in [DType::BF16, DType::F16, DType::U8] {
        let config = DoraConfig::builder(2).build().unwrap();
        for adapter in [
            Adapter::new(config, dtype, &Device::Cpu),
            Adapter::open(&folder.0, dtype, &Device::Cpu),
            Adapter::open_kohya(&folder.0.join(TENSOR_FILE), dtype, &Device::Cpu),
        ] {
            let error = adapter.err().expect("refused");
            assert!(matches!(error, DoraError::Unsupported { .. }), "{error}");
            assert!(error.to_string().contains(&format!("{dtype:?}")), "{error}");
        }
    }
    for dtype in [DType::F32, DType::F64] {
        let config = DoraConfig::builder(2).build().unwrap();
        let mut adapter = Adapter::new(config, dtype, &Device::Cpu).unwrap();
        let base = linear(6, 5, 1).weight().to_dtype(DType::BF16).unwrap();
        adapter.linear("fc", &Linear::new(base, None)).unwrap();
        let variables = adapter.variables();
        assert!(variables.all().all(|var| var.dtype() == dtype));
    }
}

#[test]
fn kohyas_names_are_no_patterns_and_misshapen_factors_are_refused() {
    let folder = Folder::new("kohya-patterns");
    let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
    let mut tensors = Tensors::new();
    let layers = [
        ("a", 8f32),
        ("[a]", 1.0),
        ("aa", 16.0),
        ("a+", 2.0),
        ("z", 64.0),
        ("a|z", 1.0),
        ("(", 4.0),
    ];
    for (module, alpha) in layers {
        tensors.insert(
            format!("lora_unet_{module}.lora_down.weight"),
            ones(&[4, 5]),
        );
        tensors.insert(format!("lora_unet_{module}.lora_up.weight"), ones(&[6, 4]));
        let alpha = Tensor::new(alpha, &Device::Cpu).unwrap();
        tensors.insert(format!("lora_unet_{module}.alpha"), alpha);
    }
    let path = folder.0.join("kohya.safetensors");
    candle_core::safetensors::save(&tensors, &path).unwrap();
    let files = AdapterFiles::open(&path).unwrap();
    let modules = files.modules().unwrap();
    for (module, alpha) in layers {
        let name = format!("lora_unet_{module}");
        let told = modules.iter().find(|it| it.name == name).unwrap();
        assert_eq!(
            (told.alpha, told.scaling),
            (f64::from(alpha), f64::from(alpha) / 4.0),
            "{module}"
        );
    }
    let alpha = Tensor::new(9f32, &Device::Cpu).unwrap();
    tensors.insert("lora_unet_a.alpha".to_owned(), alpha);
    let other = folder.0.join("other.safetensors");
    candle_core::safetensors::save(&tensors, &other).unwrap();
    let found = files
        .difference(&AdapterFiles::open(&other).unwrap())
        .unwrap();
    assert_eq!(found.settings, ["alpha"]);
    assert!(!found.is_within(1e9));

    // Factors that have no product, and a magnitude of other rows.
    for (up, magnitude) in [(ones(&[6, 3]), 6), (ones(&[6, 4]), 3)] {
        tensors.insert("lora_unet_a.lora_up.weight".to_owned(), up);
        tensors.insert("lora_unet_a.dora_scale".to_owned(), ones(&[magnitude, 1]));
        candle_core::safetensors::save(&tensors, &other).unwrap();
        let told = AdapterFiles::open(&other).and_then(|files| files.modules());
        assert!(matches!(told, Err(DoraError::Shape { .. })), "{told:?}");
    }
}
