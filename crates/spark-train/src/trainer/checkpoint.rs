//! Checkpoints: a folder for each, whole or not there.
//!
//! ```text
//! <folder>/step-00000120/adapter_config.json, adapter_model.safetensors     PEFT's files
//!                        trainer.safetensors     value., first., second.<variable>: exact values, AdamW's means
//!                        trainer.json            step, best, settings that numbers hang on
//!                        manifest.json           length and CRC-32 of each of these
//!          .step-00000120.new                    while it is written; renamed when everything is on the disk
//!          .lock                                 held by the run that writes here
//! ```
//!
//! A run that is killed leaves whole checkpoints, and at most one `.new`, which the next run removes. On resuming, the newest
//! checkpoint whose files are as its manifest says is taken; damaged ones are named and left where they are.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use candle_core::Tensor as Candle;
use serde::{Deserialize, Serialize};
use spark_dora::adapter::{CONFIG_FILE, TENSOR_FILE};
use spark_dora::optim::State;

use crate::error::{Result, TrainError};
use crate::network::AdaptedNetwork;
use crate::trainer::state::{Found, Progress};

const NUMBERS_FILE: &str = "trainer.safetensors";
const STATE_FILE: &str = "trainer.json";
const MANIFEST_FILE: &str = "manifest.json";
const LOCK_FILE: &str = ".lock";

#[derive(Serialize, Deserialize)]
struct Entry {
    bytes: u64,
    crc32: u32,
}

/// A folder of checkpoints, while this run has it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> TrainError {
    let path = path.to_owned();
    move |source| TrainError::Io { path, source }
}

impl Folder {
    /// Takes a folder, which is made if it is not there.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(failed(path))?;
        let lock_path = path.join(LOCK_FILE);
        let mut options = File::options();
        let options = options.create(true).truncate(false).write(true);
        let lock = options.open(&lock_path).map_err(failed(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(TrainError::Busy {
                    folder: path.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(&lock_path)(source)),
        }
        let folder = Self {
            path: path.to_owned(),
            _lock: lock,
        };
        folder.remove_unfinished()?;
        Ok(folder)
    }

    fn remove_unfinished(&self) -> Result<()> {
        for entry in fs::read_dir(&self.path).map_err(failed(&self.path))? {
            let path = entry.map_err(failed(&self.path))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let is_own =
                name.is_some_and(|name| name.starts_with(".step-") && name.ends_with(".new"));
            if is_own && path.is_dir() {
                fs::remove_dir_all(&path).map_err(failed(&path))?;
            }
        }
        Ok(())
    }

    /// Steps that there are checkpoints of, the newest first.
    pub(crate) fn steps(&self) -> Result<Vec<u64>> {
        let mut steps = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed(&self.path))? {
            let path = entry.map_err(failed(&self.path))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let number = name.and_then(|name| name.strip_prefix("step-"));
            let step = number.and_then(|number| number.parse::<u64>().ok());
            // Folders that somebody else named are not touched.
            steps.extend(step.filter(|&step| self.of_step(step) == path && path.is_dir()));
        }
        steps.sort_unstable_by(|a, b| b.cmp(a));
        Ok(steps)
    }

    pub(crate) fn of_step(&self, step: u64) -> PathBuf {
        self.path.join(format!("step-{step:08}"))
    }

    /// Writes a checkpoint, and removes those that are too many.
    pub(crate) fn write(
        &self,
        network: &AdaptedNetwork,
        optimiser: &State,
        progress: &Progress,
        keep: usize,
    ) -> Result<PathBuf> {
        let to = self.of_step(progress.step);
        if to.exists() && self.damage(progress.step).is_some() {
            fs::remove_dir_all(&to).map_err(failed(&to))?;
        }
        if !to.exists() {
            let new = self.path.join(format!(".step-{:08}.new", progress.step));
            let written = self.fill(&new, network, optimiser, progress);
            if written.is_err() {
                // What could not be finished takes no room.
                let _ = fs::remove_dir_all(&new);
            }
            written?;
            fs::rename(&new, &to).map_err(failed(&to))?;
            // Some file systems cannot say so, and the checkpoint is whole either way.
            if let Ok(folder) = File::open(&self.path) {
                let _ = folder.sync_all();
            }
        }
        self.remove_old(progress, keep)?;
        Ok(to)
    }

    /// Keeps the newest whole checkpoints, the one just written and the best; damaged ones stay, for somebody to look at.
    fn remove_old(&self, progress: &Progress, keep: usize) -> Result<()> {
        let best = progress.best.map(|(_, step)| step);
        let steps = self.steps()?.into_iter();
        let others = steps.filter(|&step| Some(step) != best && step != progress.step);
        let whole = others.filter(|&step| self.damage(step).is_none());
        for step in whole.skip(keep.saturating_sub(1)) {
            let path = self.of_step(step);
            fs::remove_dir_all(&path).map_err(failed(&path))?;
        }
        Ok(())
    }

    fn fill(
        &self,
        new: &Path,
        network: &AdaptedNetwork,
        optimiser: &State,
        progress: &Progress,
    ) -> Result<()> {
        fs::create_dir_all(new).map_err(failed(new))?;
        network.adapter().save(new)?;
        let numbers = new.join(NUMBERS_FILE);
        put(&numbers, &numbers_of(network, optimiser)?)?;
        let state = new.join(STATE_FILE);
        put(&state, &json(&state, progress)?)?;
        let mut manifest = BTreeMap::new();
        for name in [CONFIG_FILE, TENSOR_FILE, NUMBERS_FILE, STATE_FILE] {
            let path = new.join(name);
            let bytes = spark_files::read(&path).map_err(failed(&path))?;
            manifest.insert(name, entry(&bytes));
        }
        let path = new.join(MANIFEST_FILE);
        put(&path, &json(&path, &manifest)?)
    }

    /// What is wrong with a checkpoint; nothing if it is whole.
    pub(crate) fn damage(&self, step: u64) -> Option<String> {
        let folder = self.of_step(step);
        let path = folder.join(MANIFEST_FILE);
        let manifest = match spark_files::read(&path) {
            Ok(bytes) => serde_json::from_slice::<BTreeMap<String, Entry>>(&bytes),
            Err(error) => return Some(format!("{MANIFEST_FILE}: {error}")),
        };
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(error) => return Some(format!("{MANIFEST_FILE}: {error}")),
        };
        for name in [CONFIG_FILE, TENSOR_FILE, NUMBERS_FILE, STATE_FILE] {
            let Some(want) = manifest.get(name) else {
                return Some(format!("{MANIFEST_FILE} does not name {name}"));
            };
            match spark_files::read(&folder.join(name)) {
                Err(error) => return Some(format!("{name}: {error}")),
                Ok(bytes) => {
                    let got = entry(&bytes);
                    if (got.bytes, got.crc32) != (want.bytes, want.crc32) {
                        return Some(format!("{name} is not what was written"));
                    }
                }
            }
        }
        None
    }

    /// A checkpoint, as it was written.
    pub(crate) fn found(&self, step: u64) -> Result<Found> {
        let folder = self.of_step(step);
        let read = |name: &str| {
            let path = folder.join(name);
            spark_files::read(&path).map_err(failed(&path))
        };
        Ok(Found {
            progress: read(STATE_FILE)?,
            numbers: read(NUMBERS_FILE)?,
            folder,
        })
    }
}

fn entry(bytes: &[u8]) -> Entry {
    Entry {
        bytes: bytes.len() as u64,
        crc32: crc32fast::hash(bytes),
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    spark_files::write(path, bytes).map_err(failed(path))
}

fn json<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|source| TrainError::Json {
        path: path.to_owned(),
        source,
    })?;
    Ok((text + "\n").into_bytes())
}

fn numbers_of(network: &AdaptedNetwork, optimiser: &State) -> Result<Vec<u8>> {
    let variables = network.named_variables();
    let mut tensors: BTreeMap<String, Candle> = BTreeMap::new();
    let means = optimiser.first.iter().zip(&optimiser.second);
    for ((name, var), (first, second)) in variables.iter().zip(means) {
        tensors.insert(format!("value.{name}"), var.as_detached_tensor());
        tensors.insert(format!("first.{name}"), first.clone());
        tensors.insert(format!("second.{name}"), second.clone());
    }
    safetensors::serialize(tensors, None).map_err(|error| TrainError::Candle(error.into()))
}
