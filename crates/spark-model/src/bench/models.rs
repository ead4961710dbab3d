//! Which models are measured, and loading them against the clock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{BenchError, BenchOptions};
use crate::graph::Graph;
use crate::runner::{ModelRunner, RunOptions};
use crate::zoo::ZooModel;
use crate::{ModelError, onnx};

/// Names of openpilot's models in its folder, without `.onnx`.
const OPENPILOT_NAMES: [&str; 4] = [
    "driving_vision",
    "driving_policy",
    "dmonitoring_model",
    "supercombo",
];

/// A model to measure.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// Unique name: the file's without extension, or the zoo's.
    pub(super) name: String,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Zoo { model: ZooModel, seed: u64 },
    File(PathBuf),
}

impl Candidate {
    /// The network itself.
    pub(super) fn graph(&self) -> Result<Graph, ModelError> {
        match &self.source {
            Source::Zoo { model, seed } => Ok(model.build(*seed)),
            Source::File(path) => Ok(onnx::load(path)?),
        }
    }

    /// Loads the model and says how long that took: from file or graph to a runner. Drawing
    /// the zoo's weights is not loading and not counted.
    pub(super) fn load(&self, options: &RunOptions) -> Result<(ModelRunner, Duration), ModelError> {
        match &self.source {
            Source::Zoo { model, seed } => {
                let graph = model.build(*seed);
                let start = Instant::now();
                let runner = ModelRunner::from_graph(graph, options)?;
                Ok((runner, start.elapsed()))
            }
            Source::File(path) => {
                let start = Instant::now();
                let runner = ModelRunner::load(path, options)?;
                Ok((runner, start.elapsed()))
            }
        }
    }
}

/// The models `options` ask for, in order.
///
/// # Errors
///
/// [`BenchError::Io`] if a file or folder is not there, [`BenchError::NoModels`] if the folder
/// holds none of openpilot's models.
pub(super) fn candidates(options: &BenchOptions) -> Result<Vec<Candidate>, BenchError> {
    let mut files = options.models.clone();
    if let Some(dir) = &options.models_dir {
        let entries = OPENPILOT_NAMES.map(|name| dir.join(format!("{name}.onnx")));
        std::fs::read_dir(dir).map_err(|source| BenchError::Io {
            path: dir.clone(),
            source,
        })?;
        let found: Vec<PathBuf> = entries.into_iter().filter(|path| path.is_file()).collect();
        if found.is_empty() {
            return Err(BenchError::NoModels {
                dir: dir.clone(),
                expected: OPENPILOT_NAMES
                    .map(|name| format!("{name}.onnx"))
                    .join(", "),
            });
        }
        files.extend(found);
    }
    if files.is_empty() {
        let seed = options.seed;
        let zoo = ZooModel::ALL.map(|model| Candidate {
            name: model.name().to_owned(),
            source: Source::Zoo { model, seed },
        });
        return Ok(zoo.to_vec());
    }
    // Whether a file is there is asked before anything slow begins.
    for path in &files {
        std::fs::metadata(path).map_err(|source| BenchError::Io {
            path: path.clone(),
            source,
        })?;
    }
    let mut used = BTreeMap::new();
    Ok(files
        .into_iter()
        .map(|path| {
            let stem = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let times: &mut usize = used.entry(stem.clone()).or_default();
            *times += 1;
            let name = if *times == 1 {
                stem
            } else {
                format!("{stem}_{times}")
            };
            Candidate {
                name,
                source: Source::File(path),
            }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_files_mean_the_zoo() {
        let names: Vec<String> = candidates(&BenchOptions::default())
            .expect("the zoo is always there")
            .into_iter()
            .map(|c| c.name)
            .collect();
        assert_eq!(
            names,
            ["driving_vision", "driving_policy", "dmonitoring_model"]
        );
    }

    #[test]
    fn a_folder_gives_openpilots_models_and_files_keep_their_names() {
        let dir = std::env::temp_dir().join(format!("spark-models-dir-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a writable folder");
        let with_dir = || BenchOptions {
            models_dir: Some(dir.clone()),
            ..Default::default()
        };
        assert!(matches!(
            candidates(&with_dir()),
            Err(BenchError::NoModels { .. })
        ));
        for name in ["supercombo.onnx", "driving_policy.onnx", "other.onnx"] {
            std::fs::write(dir.join(name), b"").expect("a writable folder");
        }
        let mut options = with_dir();
        options.models = vec![dir.join("other.onnx"), dir.join("other.onnx")];
        let found = candidates(&options).expect("files are there");
        let names: Vec<&str> = found.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["other", "other_2", "driving_policy", "supercombo"]);
        std::fs::remove_dir_all(&dir).expect("own folder");
        assert!(matches!(candidates(&options), Err(BenchError::Io { .. })));
    }
}
