//! openpilot-shaped networks built in code, so that a fresh machine has something honest to run.
//!
//! ```text
//! driving_vision   img, big_img u8 [1,12,128,256]                                    -> outputs [1,1576]
//! driving_policy   desire_pulse [1,25,8], traffic_convention [1,2],
//!                  features_buffer [1,25,512]                                        -> outputs [1,1000]
//! dmonitoring      input_img u8 [1,1382400], calib [1,3]                             -> outputs [1,551]
//! ```
//!
//! Inputs, outputs, operators, depth and size are those of openpilot's networks as
//! far as they are known; **the weights are random** and the outputs mean nothing.
//! One seed gives the same bytes on every machine. Three facts travel in the file's
//! metadata: `spark.weights = random`, `spark.seed`, and `output_slices`, where openpilot's
//! tools look for the names of the output heads.

mod dmonitoring;
mod driving_policy;
mod driving_vision;
mod network;
mod random;

use std::path::{Path, PathBuf};

use crate::metadata;
use crate::slices::{self, OutputSlice};
use spark_onnx::ModelError;
use spark_onnx::graph::Graph;

pub use random::Stream;

/// Metadata key that says where the weights come from; [`RANDOM_WEIGHTS`] in the zoo.
pub const WEIGHTS_KEY: &str = "spark.weights";
/// Value of [`WEIGHTS_KEY`] for weights that were never trained.
pub const RANDOM_WEIGHTS: &str = "random";
/// Metadata key with the seed of the weights.
pub const SEED_KEY: &str = "spark.seed";

/// A network of the zoo.
///
/// # Examples
///
/// ```
/// use spark_openpilot::zoo::{self, ZooModel};
///
/// let graph = ZooModel::DrivingPolicy.build(0);
/// assert!(zoo::has_random_weights(&graph)); // its file says so too
/// assert_eq!(ZooModel::DrivingPolicy.output_slices()[0].name, "plan");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZooModel {
    /// Two cameras to lane lines, leads, pose and a hidden state; about 23 M parameters.
    DrivingVision,
    /// Five seconds of hidden states to a plan; about 7 M parameters.
    DrivingPolicy,
    /// The driver camera to the driver's state; about 3.5 M parameters.
    DriverMonitoring,
}

impl ZooModel {
    /// All of them, in the order in which openpilot runs them.
    pub const ALL: [Self; 3] = [
        Self::DrivingVision,
        Self::DrivingPolicy,
        Self::DriverMonitoring,
    ];

    /// Name, as openpilot's file has it without `.onnx`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DrivingVision => "driving_vision",
            Self::DrivingPolicy => "driving_policy",
            Self::DriverMonitoring => "dmonitoring_model",
        }
    }

    /// The parts of its output, in order.
    pub const fn output_slices(self) -> &'static [OutputSlice] {
        match self {
            Self::DrivingVision => slices::VISION,
            Self::DrivingPolicy => slices::POLICY,
            Self::DriverMonitoring => slices::DRIVER_MONITORING,
        }
    }

    /// The network with weights from `seed`.
    pub fn build(self, seed: u64) -> Graph {
        let mut graph = match self {
            Self::DrivingVision => driving_vision::build(seed),
            Self::DrivingPolicy => driving_policy::build(seed),
            Self::DriverMonitoring => dmonitoring::build(seed),
        };
        let properties = [
            (WEIGHTS_KEY, RANDOM_WEIGHTS.to_owned()),
            (SEED_KEY, seed.to_string()),
            (
                metadata::OUTPUT_SLICES_KEY,
                metadata::encode(self.output_slices()),
            ),
        ];
        let properties = properties.map(|(key, value)| (key.to_owned(), value));
        graph.metadata.extend(properties);
        graph
    }
}

/// The vision network with weights from `seed`; see [`ZooModel::DrivingVision`].
pub fn driving_vision(seed: u64) -> Graph {
    ZooModel::DrivingVision.build(seed)
}

/// The policy network with weights from `seed`; see [`ZooModel::DrivingPolicy`].
pub fn driving_policy(seed: u64) -> Graph {
    ZooModel::DrivingPolicy.build(seed)
}

/// The driver-monitoring network with weights from `seed`; see [`ZooModel::DriverMonitoring`].
pub fn dmonitoring(seed: u64) -> Graph {
    ZooModel::DriverMonitoring.build(seed)
}

/// Whether `graph` says that its weights were never trained.
pub fn has_random_weights(graph: &Graph) -> bool {
    graph
        .metadata
        .get(WEIGHTS_KEY)
        .is_some_and(|v| v == RANDOM_WEIGHTS)
}

/// Writes every network to `dir` (created if missing) as `NAME.onnx`, together about 135 MB,
/// and returns the files. A file that exists is replaced, in one step.
///
/// # Errors
///
/// [`ModelError::Io`] if the folder or a file cannot be written.
pub fn write_all(dir: &Path, seed: u64) -> Result<Vec<PathBuf>, ModelError> {
    std::fs::create_dir_all(dir).map_err(|source| ModelError::Io {
        path: dir.to_owned(),
        source,
    })?;
    ZooModel::ALL
        .iter()
        .map(|model| {
            let path = dir.join(format!("{}.onnx", model.name()));
            spark_onnx::file::save(&model.build(seed), &path)?;
            Ok(path)
        })
        .collect()
}

#[cfg(test)]
mod tests;
