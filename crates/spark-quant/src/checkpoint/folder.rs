//! A checkpoint in a folder: its configuration, and its tensors in one file or several.
//!
//! ```text
//! config.json                    quantization_config, text_config.quantization_config, or
//!                                compression_config
//! hf_quant_config.json           ModelOpt's; must say the same
//! model.safetensors              all tensors, or
//! model.safetensors.index.json   { "weight_map": { tensor: file } }, and the files it names, or
//! NAME-00001-of-00003.safetensors ...  all of them, without an index
//! ```
//!
//! Index and files must agree about every tensor, in both directions. Names in the index are plain file
//! names: a path that leaves the folder is refused before any tensor file is opened. Source: the folders that
//! Transformers and ModelOpt write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::container::{File, read_file};
use super::scheme::Scheme;
use super::{Checkpoint, Layout};
use crate::error::{QuantError, wrong_tensor};

/// Name of the index.
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// Name of a checkpoint in one file.
const WHOLE: &str = "model.safetensors";

/// A JSON file, if it is there.
pub(super) fn read_json(path: &Path) -> Result<Option<Value>, QuantError> {
    if !path.exists() {
        return Ok(None);
    }
    let text = read_file(path)?;
    let value = serde_json::from_slice(&text).map_err(|source| QuantError::Json {
        what: file_kind(path),
        source,
    })?;
    Ok(Some(value))
}

fn file_kind(path: &Path) -> &'static str {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("config.json") => "config.json",
        Some("hf_quant_config.json") => "hf_quant_config.json",
        _ => INDEX,
    }
}

/// Places of tensors, in the order of the file, names that come twice included.
#[derive(Debug)]
struct WeightMap(Vec<(String, String)>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = WeightMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("file names by tensor name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(WeightMap(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[derive(serde::Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// Which file every tensor is said to be in.
fn read_index(path: &Path) -> Result<BTreeMap<String, String>, QuantError> {
    let text = read_file(path)?;
    let index: Index = serde_json::from_slice(&text).map_err(|source| QuantError::Json {
        what: INDEX,
        source,
    })?;
    let mut places = BTreeMap::new();
    for (tensor, file) in index.weight_map.0 {
        let mut parts = Path::new(&file).components();
        let is_plain = matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(name)), None) if name == file.as_str()
        );
        if !is_plain || file.contains(['/', '\\']) {
            return Err(QuantError::ShardPath { tensor, file });
        }
        if let Some(first) = places.insert(tensor.clone(), file.clone()) {
            return Err(QuantError::DuplicateTensor {
                tensor,
                first,
                second: file,
            });
        }
    }
    Ok(places)
}

/// `NAME-00002-of-00003.safetensors` as `(NAME, 2, 3)`.
fn numbered(name: &str) -> Option<(&str, usize, usize)> {
    let stem = name.strip_suffix(".safetensors")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    Some((prefix, number.parse().ok()?, count.parse().ok()?))
}

/// Safetensors files of a folder without an index that are the checkpoint.
fn unindexed(folder: &Path) -> Result<Vec<String>, QuantError> {
    let entries = std::fs::read_dir(folder).map_err(QuantError::io(folder))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(QuantError::io(folder))?.file_name();
        if let Ok(name) = name.into_string()
            && name.ends_with(".safetensors")
            && !name.starts_with('.')
        {
            names.insert(name);
        }
    }
    if names.contains(WHOLE) {
        return Ok(vec![WHOLE.to_owned()]);
    }
    let refuse = |found: String| QuantError::Folder {
        folder: folder.display().to_string(),
        found,
        want: "model.safetensors, its index, or all files of one numbered set",
    };
    let Some(first) = names.first() else {
        return Err(refuse("no safetensors file".to_owned()));
    };
    let Some((prefix, _, count)) = numbered(first) else {
        return match names.len() {
            1 => Ok(names.into_iter().collect()),
            n => Err(refuse(format!("{n} safetensors files and no `{INDEX}`"))),
        };
    };
    let numbers: Option<BTreeSet<usize>> = names
        .iter()
        .map(|name| {
            numbered(name)
                .filter(|&(other, _, n)| other == prefix && n == count)
                .map(|(_, number, _)| number)
        })
        .collect();
    match numbers {
        Some(numbers) if numbers.len() == names.len() && numbers.iter().copied().eq(1..=count) => {
            Ok(names.into_iter().collect())
        }
        Some(numbers) => {
            let missing = (1..=count).find(|n| !numbers.contains(n)).unwrap_or(0);
            Err(refuse(format!(
                "{} of {count} files, not number {missing}",
                numbers.len()
            )))
        }
        None => Err(refuse(format!(
            "{} safetensors files of several sets and no `{INDEX}`",
            names.len()
        ))),
    }
}

/// Where a configuration may speak of quantization; the first that does counts.
const PLACES: [&str; 3] = [
    "/quantization_config",
    "/text_config/quantization_config",
    "/compression_config",
];

fn quantization_of(config: &Value) -> Option<&Value> {
    let mut found = PLACES.iter().filter_map(|place| config.pointer(place));
    found.find(|value| !value.is_null())
}

/// Removes what a configuration says of quantization, in all places.
pub(super) fn remove_quantization(config: &mut Value) {
    for place in PLACES {
        if let Some((parent, key)) = place.rsplit_once('/')
            && let Some(Value::Object(parent)) = config.pointer_mut(parent)
        {
            parent.remove(key);
        }
    }
}

impl Checkpoint {
    /// Reads what [`Checkpoint::write_folder`] or another program wrote: one safetensors file or
    /// several with their index, as `config.json` and `hf_quant_config.json` say. `quant_method` decides
    /// the layout, and quantized tensors must be what the configuration says of their module. A folder
    /// without a configuration is read as [`Checkpoint::from_bytes`] reads a file.
    ///
    /// The scales of a quantized attention cache are plain tensors; `kv_cache_scheme` is not kept.
    ///
    /// # Errors
    ///
    /// As [`Checkpoint::read`]; [`QuantError::Setting`] for a method, a field or a value that is not
    /// known, is not read here, or contradicts the tensors; [`QuantError::Json`] for a damaged
    /// configuration or index; [`QuantError::MissingShard`], [`QuantError::ShardPath`],
    /// [`QuantError::ShardContents`] and [`QuantError::DuplicateTensor`] if index and files do not agree;
    /// [`QuantError::Folder`] if it is not clear which files are meant.
    pub fn read_folder(folder: &Path) -> Result<(Self, Layout), QuantError> {
        let config = read_json(&folder.join("config.json"))?;
        let hf_config = read_json(&folder.join("hf_quant_config.json"))?;
        let main = config.as_ref().and_then(quantization_of);
        let main = main.map(Scheme::parse).transpose()?;
        let second = hf_config.as_ref().map(Scheme::parse_hf_quant_config);
        let second = second.transpose()?;

        let index_path = folder.join(INDEX);
        let index = index_path.exists().then(|| read_index(&index_path));
        let index = index.transpose()?;
        let names: Vec<String> = match &index {
            Some(places) => {
                let names: BTreeSet<&String> = places.values().collect();
                if folder.join(WHOLE).exists() && !names.iter().any(|name| *name == WHOLE) {
                    return Err(QuantError::Folder {
                        folder: folder.display().to_string(),
                        found: format!("both `{WHOLE}` and an index of other files"),
                        want: "one of them",
                    });
                }
                names.into_iter().cloned().collect()
            }
            None => unindexed(folder)?,
        };
        let mut contents = Vec::with_capacity(names.len());
        for name in &names {
            let path: PathBuf = folder.join(name);
            if index.is_some() && !path.exists() {
                return Err(QuantError::MissingShard {
                    file: name.clone(),
                    index: INDEX.to_owned(),
                });
            }
            contents.push(read_file(&path)?);
        }
        let file = merged(&names, &contents, index.as_ref())?;
        let modules: Vec<&str> = file
            .tensors
            .keys()
            .filter_map(|name| name.strip_suffix(".weight"))
            .collect();
        let scheme = match (main, second) {
            (Some(main), Some(second)) => {
                main.check_same(&second, &modules)?;
                Some(main)
            }
            (main, second) => main.or(second),
        };
        let layout = scheme
            .as_ref()
            .map_or_else(|| Self::layout_of(&file), |s| s.layout);
        Self::from_file(&file, layout, scheme.as_ref())
    }
}

/// All files as one, checked against the index.
fn merged<'a>(
    names: &[String],
    contents: &'a [Vec<u8>],
    index: Option<&BTreeMap<String, String>>,
) -> Result<File<'a>, QuantError> {
    let mut whole: Option<File<'a>> = None;
    let mut found_in: BTreeMap<String, &str> = BTreeMap::new();
    for (name, bytes) in names.iter().zip(contents) {
        let part = File::parse(bytes).map_err(|error| error.in_file(name))?;
        for tensor in part.tensors.keys() {
            if let Some(first) = found_in.insert(tensor.clone(), name) {
                return Err(QuantError::DuplicateTensor {
                    tensor: tensor.clone(),
                    first: first.to_owned(),
                    second: name.clone(),
                });
            }
        }
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => {
                let layouts = (&whole.metadata.layout, &part.metadata.layout);
                if let (Some(first), Some(second)) = layouts
                    && first != second
                {
                    return Err(wrong_tensor(name, "layout", second, format!("`{first}`")));
                }
                whole.merge(part);
            }
        }
    }
    for (tensor, place) in index.into_iter().flatten() {
        if found_in.get(tensor).is_none_or(|found| found != place) {
            return Err(QuantError::ShardContents {
                tensor: tensor.clone(),
                file: place.clone(),
                index_says: place.clone(),
                file_says: "does not have it",
            });
        }
    }
    if let Some(index) = index
        && let Some((tensor, file)) = found_in.iter().find(|(name, _)| !index.contains_key(*name))
    {
        return Err(QuantError::ShardContents {
            tensor: tensor.clone(),
            file: (*file).to_owned(),
            index_says: "nothing".to_owned(),
            file_says: "has it",
        });
    }
    whole.ok_or_else(|| QuantError::Folder {
        folder: INDEX.to_owned(),
        found: "no tensor".to_owned(),
        want: "an index that names files",
    })
}
