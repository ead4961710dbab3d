//! Arguments of the commands that train, judge and merge.

use std::path::PathBuf;

use clap::Args;

use spark_program::{count, file_ending_in};
use sparkpilot::shards::Asked;

use super::run::{CameraOf, Options};

#[derive(Args)]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) options: Options,
    /// Folder of the run: checkpoints, adapter, metrics.jsonl, run.json
    #[arg(long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Say what would be trained and how long a step takes, and write nothing but decoded pictures; not in sparkpilot-mpi
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write the adapter as it begins into the run's folder, and train nothing; not in sparkpilot-mpi
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) create_adapter: bool,
    /// Write the result as JSON (schema spark-finetune/2)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "create_adapter"])]
    pub(crate) json: Option<PathBuf>,
    /// Write losses, rate and speed for TensorBoard: a new file in this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["dry_run", "create_adapter"])]
    pub(crate) tensorboard: Option<PathBuf>,
}

/// A run that was begun.
#[derive(Args)]
pub(crate) struct Begun {
    /// Folder of the run
    #[arg(long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Write the result as JSON (schema spark-finetune/2)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Frames that are made ready.
#[derive(Args)]
pub(crate) struct MakeFrames {
    /// ONNX file of the network that is to be tuned
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) model: PathBuf,
    /// Folder of recorded drives: logs and videos
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: PathBuf,
    /// One of so many frames is taken; 4 by default, five a second
    #[arg(long, value_name = "N", value_parser = count(1, 1_000_000))]
    pub(crate) every: Option<usize>,
    /// Whose pictures are taken; the small ones of the road by default
    #[arg(long, value_enum, value_name = "CAMERA")]
    pub(crate) camera: Option<CameraOf>,
    /// ONNX file of the teacher, of the same inputs and outputs; the network itself by default
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) teacher: Option<PathBuf>,
    /// Write chunks of 32 frames here, and skip those that are there; `train --data` reads them
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Make a part, from 1/N to N/N; auto: the one that the launcher says, as `sparkpilot sim run --shard` explains
    #[arg(long, value_name = "K/N|auto")]
    pub(crate) shard: Option<Asked>,
}

/// A run that is judged, by one process or several.
#[derive(Args)]
pub(crate) struct Eval {
    #[command(flatten)]
    pub(crate) begun: Begun,
    /// Ask networks about a part of the frames, from 1/N to N/N; auto: the one that the launcher says, as `sparkpilot sim run --shard` explains
    #[arg(
        long,
        value_name = "K/N|auto",
        requires = "folder",
        conflicts_with = "json"
    )]
    pub(crate) shard: Option<Asked>,
    /// Write what they say here, in chunks of 64 frames, and skip those that are there
    #[arg(long, value_name = "DIR", requires = "shard")]
    pub(crate) folder: Option<PathBuf>,
    /// Judge by the chunks that shards wrote to these folders, and read no frame
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["shard", "folder"])]
    pub(crate) merge: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) begun: Begun,
    /// Write losses, rate and speed for TensorBoard: a new file in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) tensorboard: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Merge {
    /// ONNX file of the network that the adapter was trained on
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) model: PathBuf,
    /// Folder of the adapter, as PEFT writes it too
    #[arg(long, value_name = "FOLDER")]
    pub(crate) adapter: PathBuf,
    /// ONNX file to write
    #[arg(long, value_name = "FILE.onnx", value_parser = file_ending_in(&["onnx"]))]
    pub(crate) merged: PathBuf,
}
