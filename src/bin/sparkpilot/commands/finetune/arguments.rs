//! Arguments of the commands that train, judge and merge.

use std::path::PathBuf;

use clap::Args;

use super::run::Options;

#[derive(Args)]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) options: Options,
    /// Folder of the run: checkpoints, adapter, metrics.jsonl, run.json
    #[arg(long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Say what would be trained and how long a step takes, and write nothing but decoded pictures
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write the adapter as it begins into the run's folder, and train nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) create_adapter: bool,
    /// Write the result as JSON
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
    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
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
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) merged: PathBuf,
}
