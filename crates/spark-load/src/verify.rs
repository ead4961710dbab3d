//! Whether a device computes at all, in a second: a kernel, copies, a small network.
//!
//! ```text
//! kernel    steps in registers       the CPU's, bit for bit
//! copy      to the device and back   the same bytes
//! network   `network`, in fp32       the reference interpreter's, in f64, within a ten thousandth
//! ```

use spark_mem::{Device, DeviceKind};
use spark_onnx::graph::{Graph, bind};
use spark_onnx::{ModelRunner, Precision, RunOptions, Tensor, reference};

use crate::arithmetic::Chains;
use crate::error::LoadError;
use crate::kernels;
use crate::meter::Piece as _;
use crate::network;
use spark_hal::doctor::load::Results;

/// What was tried on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The device.
    pub device: String,
    /// Each trial.
    pub lines: Vec<Line>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `kernel`, `copy` or `network`.
    pub what: &'static str,
    /// What results were held against.
    pub how: &'static str,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Right.
    Ok,
    /// Wrong, or it ended with an error.
    Failed(String),
    /// Not tried, and why.
    NotExamined(String),
}

impl Verification {
    /// Whether nothing failed.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        !self
            .lines
            .iter()
            .any(|line| matches!(line.outcome, Outcome::Failed(_)))
    }

    /// For people: a line for each trial.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.device);
        for line in &self.lines {
            let outcome = match &line.outcome {
                Outcome::Ok => "ok".to_owned(),
                Outcome::Failed(what) => format!("FAILED: {what}"),
                Outcome::NotExamined(why) => format!("not examined: {why}"),
            };
            text.push_str(&format!("  {:<8} {:<62} {outcome}\n", line.what, line.how));
        }
        text
    }

    /// For programs: schema `spark-verify/1`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let lines = self.lines.iter().map(|line| {
            let (outcome, why) = match &line.outcome {
                Outcome::Ok => ("ok", None),
                Outcome::Failed(what) => ("failed", Some(what)),
                Outcome::NotExamined(why) => ("not_examined", Some(why)),
            };
            serde_json::json!({
                "what": line.what, "held_against": line.how, "outcome": outcome, "reason": why,
            })
        });
        let lines: Vec<_> = lines.collect();
        serde_json::json!({
            "schema": "spark-verify/1", "device": self.device, "is_ok": self.is_ok(), "trials": lines,
        })
        .to_string()
    }
}

/// Tries a device.
///
/// On the CPU kernel and copy are not examined: nothing of theirs would leave it.
#[must_use]
pub fn verify(device: &Device) -> Verification {
    let is_host = device.info().kind == DeviceKind::Host;
    let on_gpu = |run: fn(&Device) -> Result<Outcome, LoadError>| match is_host {
        true => Outcome::NotExamined("no GPU is used".to_owned()),
        false => run(device).unwrap_or_else(|error| Outcome::Failed(error.to_string())),
    };
    let lines = vec![
        Line {
            what: "kernel",
            how: "multiplications and additions of the CPU, bit for bit",
            outcome: on_gpu(kernel),
        },
        Line {
            what: "copy",
            how: "the bytes that were sent, within the device and back",
            outcome: on_gpu(copy),
        },
        Line {
            what: "network",
            how: "the reference interpreter in f64, within a ten thousandth",
            outcome: run_network(device).unwrap_or_else(|error| Outcome::Failed(error.to_string())),
        },
    ];
    Verification {
        device: device.info().name.clone(),
        lines,
    }
}

/// Steps of a chain: enough that a wrong one shows, few for a driver that interprets them.
const ROUNDS: u32 = 100;

fn kernel(device: &Device) -> Result<Outcome, LoadError> {
    let stream = device.new_stream()?;
    let mut shape = kernels::grid(1);
    shape.grid[0] = 2;
    let mut chains = Chains::of(device, &stream, shape, ROUNDS)?;
    Ok(match chains.check()? {
        Results::Right { .. } => Outcome::Ok,
        Results::Wrong { what, .. } => Outcome::Failed(what),
    })
}

/// Not a whole number of pages, nor of words.
const COPY_BYTES: usize = (1 << 20) + 4099;

fn copy(device: &Device) -> Result<Outcome, LoadError> {
    let stream = device.new_stream()?;
    let byte = |idx: usize| (idx.wrapping_mul(2_654_435_761) >> 16) as u8;
    let sent: Vec<u8> = (0..COPY_BYTES).map(byte).collect();
    let kind = device.private_kind();
    let mut there = device.buffer::<u8>(kind, COPY_BYTES)?;
    let mut beside = device.buffer::<u8>(kind, COPY_BYTES)?;
    there.upload(&stream, &sent)?;
    stream.fill_bytes(beside.view_mut(), 0)?;
    stream.copy(there.view(), beside.view_mut())?;
    let mut back = vec![0_u8; COPY_BYTES];
    beside.download(&stream, &mut back)?;
    let differs = sent.iter().zip(&back).position(|(sent, back)| sent != back);
    Ok(match differs {
        None => Outcome::Ok,
        Some(at) => Outcome::Failed(format!(
            "byte {at} of {COPY_BYTES} came back as {} and not {}",
            back[at], sent[at]
        )),
    })
}

/// Largest difference, of probabilities.
const MOST_APART: f64 = 1e-4;

fn run_network(device: &Device) -> Result<Outcome, LoadError> {
    let (graph, x) = network::make()?;
    let inputs = [(network::INPUT, &x)];
    let want = reference::run(&bind(&graph, &[])?, &inputs)?;
    let got = match device.info().kind {
        DeviceKind::Host => {
            let options = RunOptions::new().with_precision(Precision::Fp32);
            ModelRunner::from_graph(graph, &options)?.run(&inputs)?
        }
        _ => match on_device(device, graph, &inputs)? {
            Ok(outputs) => outputs,
            Err(outcome) => return Ok(outcome),
        },
    };
    let numbers = |outputs: &[(String, Tensor)]| -> Vec<f64> {
        let values = outputs.iter().filter_map(|(_, tensor)| tensor.as_f32());
        values.flatten().map(|value| f64::from(*value)).collect()
    };
    let (got, want) = (numbers(&got), numbers(&want));
    if got.is_empty() || got.len() != want.len() {
        return Ok(Outcome::Failed(format!(
            "{} numbers came out and not {}",
            got.len(),
            want.len()
        )));
    }
    // What is no number is never within.
    let is_near = |(got, want): (&f64, &f64)| (got - want).abs() <= MOST_APART;
    let differs = got.iter().zip(&want).position(|pair| !is_near(pair));
    Ok(match differs {
        None => Outcome::Ok,
        Some(at) => Outcome::Failed(format!("output {at} is {} and not {}", got[at], want[at])),
    })
}

type Outputs = Vec<(String, Tensor)>;

#[cfg(feature = "cuda")]
fn on_device(
    device: &Device,
    graph: Graph,
    inputs: &[(&str, &Tensor)],
) -> Result<Result<Outputs, Outcome>, LoadError> {
    if !matches!(device.info().kind, DeviceKind::Cuda(_)) {
        return Ok(Err(no_networks()));
    }
    let options = RunOptions::new().with_precision(Precision::Fp32);
    let mut session = spark_onnx::cuda::CudaSession::from_graph(graph, device, &options)?;
    Ok(Ok(session.run(inputs)?))
}

#[cfg(not(feature = "cuda"))]
fn on_device(
    _device: &Device,
    _graph: Graph,
    _inputs: &[(&str, &Tensor)],
) -> Result<Result<Outputs, Outcome>, LoadError> {
    Ok(Err(no_networks()))
}

fn no_networks() -> Outcome {
    Outcome::NotExamined("networks run on GPUs and on the CPU".to_owned())
}
