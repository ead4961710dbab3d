//! Which models are measured, and loading them against the clock.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use spark_onnx::graph::Graph;
use spark_onnx::{ModelError, file};
use spark_onnx::{ModelRunner, RunOptions};
use spark_openpilot::zoo::ZooModel;

use crate::error::BenchError;
use crate::options::BenchOptions;

/// Names of openpilot's models in its folder, without `.onnx`.
const OPENPILOT_NAMES: [&str; 4] = [
    "driving_vision",
    "driving_policy",
    "dmonitoring_model",
    "supercombo",
];

/// A model to measure.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// Unique name: the file's without extension (see [`names`]), or the zoo's.
    pub(crate) name: String,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Zoo { model: ZooModel, seed: u64 },
    File(PathBuf),
}

impl Candidate {
    /// The file it is read from, if it is.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Zoo { .. } => None,
        }
    }

    /// The network, built from its seed or read from its file.
    pub(crate) fn graph(&self) -> Result<Graph, ModelError> {
        match &self.source {
            Source::Zoo { model, seed } => Ok(model.build(*seed)),
            Source::File(path) => Ok(file::load(path)?),
        }
    }

    /// Loads the model and says how long that took: from file or graph to a runner. Drawing
    /// the zoo's weights is not loading and not counted.
    pub(crate) fn load(&self, options: &RunOptions) -> Result<(ModelRunner, Duration), ModelError> {
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
/// [`BenchError::Io`] if a file or folder is not there, or what has a model's name is no regular file;
/// [`BenchError::NoModels`] if the folder holds none of openpilot's models.
pub(crate) fn candidates(options: &BenchOptions) -> Result<Vec<Candidate>, BenchError> {
    let mut files = options.models.clone();
    if let Some(dir) = &options.models_dir {
        let entries = OPENPILOT_NAMES.map(|name| dir.join(format!("{name}.onnx")));
        std::fs::read_dir(dir).map_err(|source| BenchError::Io {
            path: dir.clone(),
            source,
        })?;
        // A link to nothing is there too: it is told below, and not passed over.
        let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
        let found: Vec<PathBuf> = entries.into_iter().filter(is_there).collect();
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
        spark_files::open(path).map_err(|source| BenchError::Io {
            path: path.clone(),
            source,
        })?;
    }
    let named = names(&files).into_iter().zip(files);
    Ok(named
        .map(|(name, path)| Candidate {
            name,
            source: Source::File(path),
        })
        .collect())
}

/// A name for each file: its own without extension, with `_` for what is no character of a line. Where a file before has that name, the first
/// number that makes a name which no other file has follows it.
fn names(files: &[PathBuf]) -> Vec<String> {
    let stem = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default();
        let of_line = |c: char| if c.is_control() { '_' } else { c };
        stem.to_string_lossy()
            .chars()
            .map(of_line)
            .collect::<String>()
    };
    let mut taken: BTreeSet<String> = files.iter().map(stem).collect();
    let mut seen = BTreeSet::new();
    let mut name = |stem: String| {
        if seen.insert(stem.clone()) {
            return stem;
        }
        let mut number = 2;
        loop {
            let name = format!("{stem}_{number}");
            if taken.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    };
    files.iter().map(stem).map(&mut name).collect()
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
    fn no_two_files_get_one_name() {
        let check = |files: &[&str], want: &[&str]| {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!(names(&files), want);
        };
        check(&["a/m.onnx", "b/m.onnx", "m.onnx"], &["m", "m_2", "m_3"]);
        check(&["a/m.onnx", "m_2.onnx", "b/m.onnx"], &["m", "m_2", "m_3"]);
        check(&["a\nb.onnx", "a\tb.onnx"], &["a_b", "a_b_2"]);
        check(&["a/m.onnx", "b/m.onnx", "m_2.onnx"], &["m", "m_3", "m_2"]);
        let twice = ["m.onnx", "m.onnx", "m_2.onnx", "m_2.onnx"];
        check(&twice, &["m", "m_3", "m_2", "m_2_2"]);
    }

    #[cfg(unix)]
    #[test]
    fn what_has_a_models_name_and_is_no_file_is_told() {
        let dir = std::env::temp_dir().join(format!("spark-onnxs-odd-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a writable folder");
        std::fs::write(dir.join("supercombo.onnx"), b"").expect("a writable folder");
        let options = BenchOptions {
            models_dir: Some(dir.clone()),
            ..Default::default()
        };
        assert_eq!(candidates(&options).map(|found| found.len()).ok(), Some(1));
        let told = |name: &str, why: &str| {
            let error = candidates(&options).expect_err("no file").to_string();
            assert!(error.contains(name) && error.contains(why), "{error}");
        };
        let link = dir.join("driving_vision.onnx");
        std::os::unix::fs::symlink("nowhere", &link).expect("a writable folder");
        told("driving_vision.onnx", "No such file");
        std::fs::remove_file(&link).expect("own link");
        std::fs::create_dir(dir.join("driving_policy.onnx")).expect("a writable folder");
        told("driving_policy.onnx", "not a regular file");
        std::fs::remove_dir_all(&dir).expect("own folder");
    }

    #[test]
    fn a_folder_gives_openpilots_models_and_files_keep_their_names() {
        let dir = std::env::temp_dir().join(format!("spark-onnxs-dir-{}", std::process::id()));
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
