//! Options of every command that runs a model: where, in which format, on how many threads.

use std::error::Error;
use std::path::Path;

use clap::Args;
use spark_program::{Devices, about, count};
use sparkpilot::hal::config::DeviceChoice;
use sparkpilot::onnx::cpu::Isa;
use sparkpilot::onnx::{Model, ModelError, Precision, RunOptions};

/// More threads than any machine of this kind has.
const MOST_THREADS: u64 = 1024;

/// How a model is run; what is left out is as the environment says.
#[derive(Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineOptions {
    /// Where to run: auto, cpu, cuda, cuda:N; SPARK_DEVICE by default
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Number format: fp32, fp16, bf16, fp8, fp4, or int8 for a file that quantises itself; what OPENPILOT_DGX_PRECISION says by default, or else fp32
    #[arg(long, value_name = "FORMAT")]
    precision: Option<Precision>,
    /// Threads; as many as pay off by default
    #[arg(long, value_name = "N", value_parser = count(1, MOST_THREADS))]
    threads: Option<usize>,
    /// Instruction set: avx512, avx2, neon or scalar; the best one of this processor by default
    #[arg(long, value_name = "NAME", value_parser = Isa::named)]
    isa: Option<Isa>,
}

impl EngineOptions {
    /// A model from a file, and what files of tensors call it: the file's name without its ending.
    ///
    /// # Errors
    ///
    /// As [`EngineOptions::run_options`]; those of loading, with the file.
    pub(crate) fn load(&self, path: &Path) -> Result<(Model, String), Box<dyn Error>> {
        let model = Model::load(path, &self.run_options()?).map_err(about::<ModelError>(path))?;
        let name = path.file_stem().unwrap_or_default();
        Ok((model, name.to_string_lossy().into_owned()))
    }

    /// As the engine takes them.
    ///
    /// # Errors
    ///
    /// [`spark_program::DeviceRefused`] for a GPU that the environment asks for and that is not there.
    pub(crate) fn run_options(&self) -> Result<RunOptions, spark_program::DeviceRefused> {
        spark_program::check_devices(Devices::AsOpened)?;
        let mut options = RunOptions::new();
        if let Some(device) = self.device {
            options = options.with_device(device);
        }
        if let Some(precision) = self.precision {
            options = options.with_precision(precision);
        }
        if let Some(threads) = self.threads {
            options = options.with_threads(threads);
        }
        if let Some(isa) = self.isa {
            options = options.with_isa(isa);
        }
        Ok(options)
    }
}
