//! Which files of a folder are read: indexes, numbered sets, configurations of other layouts.

use super::*;

fn index(map: &Value) -> String {
    json!({ "metadata": { "total_size": 1 }, "weight_map": map }).to_string()
}

const INDEX: &str = "model.safetensors.index.json";

#[test]
fn shards_are_read_by_their_index() {
    let all = fp8_rows();
    let (first, second) = (file(&all[..1]), file(&all[1..]));
    let map = json!({
        "a.b.weight": "m-1.safetensors", "a.b.weight_scale": "m-2.safetensors",
        "lm_head.weight": "m-2.safetensors",
    });
    let shards = |map: &Value| {
        Folder::new()
            .config(&fp8_dynamic())
            .with("m-1.safetensors", &first)
            .with("m-2.safetensors", &second)
            .with(INDEX, index(map))
    };
    let whole = folder(&all).config(&fp8_dynamic()).read();
    assert_eq!(
        shards(&map).read(),
        whole,
        "a weight and its scale in different files"
    );
    let with = |tensor: &str, place: Value| {
        let mut map = map.clone();
        map[tensor] = place;
        shards(&map)
    };
    with("a.b.weight", json!("m-3.safetensors")).refused(&["m-3.safetensors", "not in the folder"]);
    with("a.b.weight", json!("m-2.safetensors")).refused(&["a.b.weight", "m-2.safetensors"]);
    with("c.weight", json!("m-2.safetensors")).refused(&["c.weight", "does not have it"]);
    for path in [
        "../m-1.safetensors",
        "/etc/passwd",
        "x/m-1.safetensors",
        "..",
        "",
        "x\\y",
    ] {
        with("a.b.weight", json!(path)).refused(&["a.b.weight", "plain name of a file"]);
    }
    let mut fewer = map.clone();
    fewer
        .as_object_mut()
        .expect("a map")
        .remove("lm_head.weight");
    shards(&fewer).refused(&["lm_head.weight", "nothing", "has it"]);
    // A tensor in two files, and one that the index names twice.
    let both = shards(&map).with("m-1.safetensors", file(&[&all[..1], &all[2..]].concat()));
    both.refused(&["lm_head.weight", "m-1.safetensors", "m-2.safetensors"]);
    let twice = "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"a\":\"m-2.safetensors\"}}";
    shards(&map).with(INDEX, twice).refused(&["`a`", "again"]);
    shards(&map)
        .with(INDEX, "{\"weight_map\":{\"a\":7}}")
        .refused(&[INDEX]);
    shards(&map)
        .with(INDEX, index(&json!({})))
        .refused(&["no tensor"]);
    shards(&map)
        .with("model.safetensors", &first)
        .refused(&["model.safetensors", "one of them"]);
    let damaged = shards(&map).with("m-1.safetensors", &first[..20]);
    damaged.refused(&["m-1.safetensors", "safetensors file"]);
    // Writing beside an index would leave the old tensors in force.
    let folder = shards(&map);
    let error = whole
        .0
        .write_folder(&folder.0, whole.1, None)
        .expect_err("refused");
    assert!(matches!(error, QuantError::Folder { .. }), "{error}");
}

#[test]
fn several_files_without_an_index_are_a_whole_numbered_set_or_refused() {
    let all = fp8_rows();
    let name = |i: usize| format!("model-{i:05}-of-00003.safetensors");
    let set = || {
        (1..=3).fold(Folder::new().config(&fp8_dynamic()), |folder, i| {
            folder.with(&name(i), file(&all[i - 1..i]))
        })
    };
    assert_eq!(set().read(), folder(&all).config(&fp8_dynamic()).read());
    let missing = set();
    std::fs::remove_file(missing.0.join(name(2))).expect("there");
    missing.refused(&["2 of 3 files", "number 2"]);
    set()
        .with("other.safetensors", file(&all))
        .refused(&["no `model.safetensors.index.json`"]);
    set()
        .with(&name(2), file(&all[..1]))
        .refused(&["a.b.weight", "again"]);
    Folder::new().refused(&["no safetensors file"]);
    let two = Folder::new()
        .with("x.safetensors", file(&all))
        .with("y.safetensors", file(&all));
    two.refused(&["2 safetensors files"]);
}

#[test]
fn the_configuration_and_not_the_names_decides_the_layout() {
    // Names and types of FP8 are the same in three layouts.
    let tensors = [
        tensor("a.weight", "F8_E4M3", &[2, 4], codes(8)),
        f32s("a.weight_scale", &[2, 1], &[0.5, 0.25]),
    ];
    let layout_of = |config: &Value| folder(&tensors).config(config).read().1;
    assert_eq!(layout_of(&fp8_dynamic()), Layout::CompressedTensors);
    let modelopt = json!({ "quant_method": "modelopt", "quant_algo": "FP8" });
    assert_eq!(layout_of(&modelopt), Layout::ModelOpt);
    assert_eq!(layout_of(&json!({ "quant_method": "fp8" })), Layout::Fp8);
    // Inside `text_config`, as models of text and images have it.
    let nested = json!({ "text_config": { "quantization_config": fp8_dynamic() } }).to_string();
    let folder = folder(&tensors).with("config.json", nested);
    assert_eq!(folder.read().1, Layout::CompressedTensors);
    // A file that names its own layout contradicts another one.
    let own = folder
        .read()
        .0
        .to_bytes(Layout::CompressedTensors)
        .expect("representable");
    let folder = Folder::new().with("model.safetensors", own);
    folder
        .config(&modelopt)
        .refused(&["quant_method", "compressed-tensors"]);
}

#[test]
fn a_folder_written_again_keeps_no_configuration_of_the_old_layout() {
    let (checkpoint, _) = folder(&fp8_rows()).config(&fp8_dynamic()).read();
    let folder = Folder::new();
    for layout in [Layout::ModelOpt, Layout::CompressedTensors, Layout::Native] {
        checkpoint
            .write_folder(&folder.0, layout, None)
            .expect("representable");
        let (back, found) = folder.read();
        assert_eq!(found, layout);
        assert_eq!(back.entries.len(), checkpoint.entries.len());
    }
}
