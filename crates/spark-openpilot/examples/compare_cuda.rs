//! The zoo's networks on a GPU, against the CPU: which kernels run, and how far results are apart.
//!
//! Run: `cargo run --release -p spark-openpilot --features cuda --example compare_cuda -- driving_policy`
//!
//! With `--stand-in` it runs where there is no GPU, on the driver of the tests. That interprets kernels' PTX where it finds NVRTC,
//! which takes seconds for a whole network, and says what each kernel took; with `SPARK_STAND_IN_KERNELS=host` they are what the
//! host's compiler makes of the same sources, which takes minutes.

#![allow(clippy::print_stdout, reason = "a program prints")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use spark_mem::{Device, DeviceKind, DeviceOptions};
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::{Dim, Graph};
use spark_onnx::tensor::TensorData;
use spark_onnx::{DType, ModelRunner, Precision, RunOptions, Tensor};
use spark_openpilot::zoo::ZooModel;
use spark_program::{Devices, Manners, Usage};
use spark_testing::driver::{Build, Persona, StandInDriver, kernels_in};
use spark_testing::numbers;

/// Run the zoo's networks on a GPU and compare them with the CPU
#[derive(Parser)]
#[command(
    name = "compare_cuda",
    after_help = "Examples:\n  \
        compare_cuda\n  \
        compare_cuda --stand-in --precision fp16 driving_vision"
)]
struct Arguments {
    /// Networks by name; all if there are none
    networks: Vec<String>,
    /// Run on the stand-in driver of the tests
    #[arg(long)]
    stand_in: bool,
    /// Seed of the random weights
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Precision: fp32 or fp16; both if it is not said
    #[arg(long)]
    precision: Option<Precision>,
}

fn main() -> ExitCode {
    let manners = Manners {
        devices: Devices::AsOpened,
        ..Manners::default()
    };
    spark_program::run_with(manners, |arguments: Arguments| compare(&arguments))
}

fn compare(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut networks = Vec::new();
    for name in &arguments.networks {
        let mut all = ZooModel::ALL.into_iter();
        let found = all.find(|model| model.name() == name);
        networks.push(found.ok_or_else(|| Usage(format!("there is no network `{name}`")))?);
    }
    if networks.is_empty() {
        networks.extend(ZooModel::ALL);
    }
    let driver = match arguments.stand_in {
        true => Some(stand_in()?),
        false => None,
    };
    let posed = driver.as_ref().map(|driver| driver.pose(Persona::Spark));
    let device = match driver {
        Some(_) => Device::cuda(0, DeviceOptions::new())?,
        None => Device::open()?,
    };
    if !matches!(device.info().kind, DeviceKind::Cuda(_)) {
        return Err("there is no GPU to compare with (`--stand-in` runs without one)".into());
    }
    println!("on {}", device.info().name);
    let outcome = compare_all(arguments, &networks, &device, driver.as_ref());
    if outcome.is_err() {
        // What the interpreter found wrong, which the driver tells by a number alone.
        for violation in posed.iter().flat_map(|posed| posed.violations()) {
            println!("{violation}");
        }
    }
    outcome
}

/// Every network in every precision that is asked for.
fn compare_all(
    arguments: &Arguments,
    networks: &[ZooModel],
    device: &Device,
    driver: Option<&StandInDriver>,
) -> Result<(), Box<dyn Error>> {
    for model in networks {
        let graph = model.build(arguments.seed);
        let inputs = inputs(&graph, arguments.seed)?;
        let precisions = match arguments.precision {
            Some(precision) => vec![precision],
            None => vec![Precision::Fp32, Precision::Fp16],
        };
        for precision in precisions {
            one(model.name(), &graph, &inputs, precision, device)?;
            if let Some(driver) = driver {
                print_costs(driver);
            }
        }
    }
    Ok(())
}

/// The stand-in driver, with the kernels of networks.
fn stand_in() -> Result<StandInDriver, Box<dyn Error>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let kernels = crates.join("spark-onnx/kernels");
    let files = kernels_in(&kernels)?;
    let files: Vec<&Path> = files.iter().map(|path| path.as_path()).collect();
    let headers = crates.join("spark-mem/kernels");
    let build = Build {
        kernels: &files,
        includes: &[&kernels, &headers],
        ..Build::default()
    };
    Ok(StandInDriver::load(&build)?)
}

/// Random inputs of the declared types and shapes.
fn inputs(graph: &Graph, seed: u64) -> Result<Vec<(String, Tensor)>, Box<dyn Error>> {
    let mut inputs = Vec::new();
    for &id in &graph.inputs {
        let value = graph.value(id);
        let dims = value.shape.iter().flatten().map(|dim| match dim {
            Dim::Known(extent) => Ok(*extent),
            open => Err(format!("input `{}` is open: {open:?}", value.name)),
        });
        let shape = dims.collect::<Result<Vec<usize>, String>>()?;
        let values = numbers(shape.iter().product(), seed ^ id.0 as u64);
        let tensor = match value.dtype {
            Some(DType::U8) => {
                let bytes = values.iter().map(|v| ((v + 1.0) * 127.5) as u8);
                Tensor::new(shape, TensorData::U8(bytes.collect()))?
            }
            _ => Tensor::from_f32(shape, values)?,
        };
        inputs.push((value.name.clone(), tensor));
    }
    Ok(inputs)
}

fn one(
    name: &str,
    graph: &Graph,
    inputs: &[(String, Tensor)],
    precision: Precision,
    device: &Device,
) -> Result<(), Box<dyn Error>> {
    let given: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let options = RunOptions::new().with_precision(precision);
    let same = ModelRunner::from_graph(graph.clone(), &options)?.run(&given)?;
    let exact = RunOptions::new().with_precision(Precision::Fp32);
    let exact = ModelRunner::from_graph(graph.clone(), &exact)?.run(&given)?;
    let start = Instant::now();
    let mut session = CudaSession::from_graph(graph.clone(), device, &options)?;
    let loaded = start.elapsed();
    let start = Instant::now();
    let got = session.run(&given)?;
    let first = start.elapsed();
    let memory = session.memory();
    println!(
        "{name} {precision}: {:.2e} of the scale from the CPU in {precision}, {:.2e} from it in fp32; loaded in {loaded:.1?}, \
         run in {first:.1?}",
        apart(&got, &same),
        apart(&got, &exact)
    );
    println!(
        "  {} launches in one graph; bytes: constants {}, arena {}, inputs {}, outputs {}",
        session.steps().len(),
        memory.constant_bytes,
        memory.arena_bytes,
        memory.input_bytes,
        memory.output_bytes
    );
    let mut kernels: BTreeMap<&str, usize> = BTreeMap::new();
    for step in session.steps() {
        *kernels.entry(step.kernel).or_default() += 1;
    }
    let kernels = kernels.iter().map(|(kernel, n)| format!("{kernel} {n}"));
    println!("  {}", kernels.collect::<Vec<_>>().join(", "));
    Ok(())
}

/// Where the time in the interpreter went, if kernels ran in it.
fn print_costs(driver: &StandInDriver) {
    let mut costs: Vec<_> = driver.take_costs().into_iter().collect();
    costs.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.time));
    for (kernel, cost) in costs {
        println!(
            "  {kernel:28} {:4} launches {:8.3} million instructions of warps {:8.2?}",
            cost.n_launches,
            cost.n_instructions as f64 / 1e6,
            cost.time
        );
    }
}

/// The greatest difference of an output, over its greatest number.
fn apart(got: &[(String, Tensor)], want: &[(String, Tensor)]) -> f64 {
    let outputs = got.iter().zip(want).map(|((_, got), (_, want))| {
        let (got, want) = (got.to_f64(), want.to_f64());
        let scale = want.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        let apart = got.iter().zip(&want).map(|(g, w)| (g - w).abs());
        // NaN is apart from everything.
        apart.fold(0.0f64, |most, v| if v <= most { most } else { v }) / scale
    });
    outputs.fold(0.0, f64::max)
}
