//! What the tests start: a network in miniature with its frames, and mpirun.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use sparkpilot::onnx::graph::{Dim, Gemm, Graph, MatMul, Op, Unary};
use sparkpilot::onnx::{DType, Tensor, file};

/// Numbers of each input and output.
const WIDTH: usize = 32;

/// Numbers between -1 and 1 that hang on the seed alone.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// A network of two layers, and frames for it.
pub(crate) struct Material {
    pub(crate) folder: tempfile::TempDir,
}

impl Material {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut graph = Graph::default();
        let shape = vec![Dim::Known(1), Dim::Known(WIDTH)];
        let x = graph.add_input("x", DType::F32, shape.clone());
        let gemm = Op::Gemm(Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: true,
        });
        let weight = |seed| {
            let tensor = Tensor::from_f32([WIDTH, WIDTH], numbers(WIDTH * WIDTH, seed));
            tensor.expect("fits")
        };
        let first = graph.add_constant("first.weight", weight(1));
        let second = graph.add_constant("second.weight", weight(2));
        let y = graph.add_node("first", gemm, &[Some(x), Some(first)]);
        let y = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[Some(y)]);
        let y = graph.add_node("outputs", Op::MatMul(MatMul), &[Some(y), Some(second)]);
        graph.values[y.0].shape = Some(shape);
        graph.outputs.push(y);
        let bytes = file::to_bytes(&graph).expect("is written");
        fs::write(folder.path().join("model.onnx"), bytes).expect("a writable folder");
        let made = Self { folder };
        made.frames("frames.safetensors", 40, 10);
        made
    }

    /// Writes a file of frames.
    pub(crate) fn frames(&self, name: &str, n: usize, seed: u64) -> PathBuf {
        let bytes: Vec<Vec<u8>> = (0..n as u64)
            .map(|at| {
                let frame = numbers(WIDTH, seed + at).into_iter();
                frame.flat_map(f32::to_le_bytes).collect()
            })
            .collect();
        let views = bytes.iter().enumerate().map(|(at, bytes)| {
            let view = TensorView::new(Dtype::F32, vec![1, WIDTH], bytes);
            (format!("case{at}/in/x"), view.expect("fits"))
        });
        let path = self.path(name);
        let text = safetensors::serialize(views, None).expect("is written");
        fs::write(&path, text).expect("a writable folder");
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Options of a run in the folder `run`.
    pub(crate) fn train(&self, run: &str, more: &[&str]) -> Vec<OsString> {
        let options = "train --qat fp4 --batch-size 8 --save-every 5 --threads 1";
        let mut all: Vec<OsString> = options.split(' ').map(OsString::from).collect();
        let paths = [
            ("--model", "model.onnx"),
            ("--data", "frames.safetensors"),
            ("--output", run),
        ];
        for (option, name) in paths {
            all.push(option.into());
            all.push(self.path(name).into());
        }
        all.extend(more.iter().map(OsString::from));
        all
    }

    pub(crate) fn resume(&self, run: &str) -> Vec<OsString> {
        let mut all: Vec<OsString> = ["resume", "--threads", "1", "--output"]
            .map(OsString::from)
            .into();
        all.push(self.path(run).into());
        all
    }

    /// What must be the same for every number of ranks: losses, adapter, exact values of the last checkpoint.
    pub(crate) fn bits(&self, run: &str) -> (Vec<String>, Vec<u8>, Vec<u8>) {
        let run = self.path(run);
        let adapter = run.join("adapter").join("adapter_model.safetensors");
        let adapter = fs::read(adapter).expect("an adapter");
        let last = checkpoints(&run).pop().expect("a checkpoint");
        let values = fs::read(last.join("trainer.safetensors")).expect("whole");
        (losses(&run), adapter, values)
    }
}

/// Folders of whole checkpoints, in their order.
pub(crate) fn checkpoints(run: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(run.join("checkpoints")) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("is listed").path());
    let mut whole: Vec<PathBuf> = paths
        .filter(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            name.starts_with("step-") && path.join("manifest.json").exists()
        })
        .collect();
    whole.sort();
    whole
}

/// Losses and lengths of gradients, step by step, as they are written: shortest texts of the same numbers.
fn losses(run: &Path) -> Vec<String> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let mut losses = Vec::new();
    for line in text.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        match event["event"].as_str() {
            Some("step") => losses.push(format!(
                "{} {} {}",
                event["step"], event["loss"], event["norm"]
            )),
            Some("epoch") => losses.push(format!("{} {}", event["training"], event["validation"])),
            _ => {}
        }
    }
    losses
}

/// mpirun on this machine, with more ranks than cores and as root if need be. Ranks of several kinds stand one after the other.
pub(crate) fn mpirun(kinds: &[(usize, &[OsString])]) -> Command {
    let mut command = Command::new("mpirun");
    command.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "--bind-to",
        "none",
    ]);
    command.args(["--mca", "mpi_yield_when_idle", "1"]);
    // A container without a name for itself, or with one that leads nowhere.
    command.args([
        "--mca",
        "oob_tcp_if_include",
        "lo",
        "--mca",
        "btl",
        "self,vader,tcp",
    ]);
    for (position, (n, options)) in kinds.iter().enumerate() {
        if position > 0 {
            command.arg(":");
        }
        command.args(["-n", &n.to_string()]);
        command.arg(env!("CARGO_BIN_EXE_sparkpilot-mpi"));
        command.args(*options);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs ranks to their end.
pub(crate) fn run(n: usize, options: &[OsString]) -> Output {
    mpirun(&[(n, options)]).output().expect("mpirun is there")
}

/// The same, which must go well.
#[track_caller]
pub(crate) fn succeed(n: usize, options: &[OsString]) -> String {
    let output = run(n, options);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{n} ranks: {out}\n{err}");
    out
}

pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Ranks that are running.
pub(crate) struct Running {
    mpirun: Child,
    run: PathBuf,
}

impl Running {
    pub(crate) fn start(n: usize, options: &[OsString], run: PathBuf) -> Self {
        let mut command = mpirun(&[(n, options)]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mpirun = command.spawn().expect("mpirun is there");
        Self { mpirun, run }
    }

    /// Waits until there are so many checkpoints.
    #[track_caller]
    pub(crate) fn wait_for_checkpoints(&mut self, n: usize) {
        let began = Instant::now();
        while checkpoints(&self.run).len() < n {
            assert!(began.elapsed() < Duration::from_secs(60), "no checkpoint");
            let ended = self.mpirun.try_wait().expect("is asked");
            assert!(ended.is_none(), "it ended before: {ended:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Process of a rank.
    #[track_caller]
    pub(crate) fn pid(&self, rank: usize) -> u32 {
        let found = self.ranks().into_iter().find(|(_, of)| *of == rank);
        found.expect("the rank runs").0
    }

    /// Processes of this run, with their ranks.
    pub(crate) fn ranks(&self) -> Vec<(u32, usize)> {
        let mut ranks = Vec::new();
        for entry in fs::read_dir("/proc").expect("is listed").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(pid) = name.parse() else { continue };
            let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
            let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
            let program = command.split('\0').next().unwrap_or_default();
            let run = self.run.to_string_lossy().into_owned();
            if !program.ends_with("sparkpilot-mpi") || !command.split('\0').any(|w| w == run) {
                continue;
            }
            let environment = String::from_utf8_lossy(&read("environ")).into_owned();
            let mut variables = environment.split('\0');
            let rank = variables.find_map(|line| line.strip_prefix("OMPI_COMM_WORLD_RANK="));
            ranks.extend(rank.and_then(|rank| Some((pid, rank.parse().ok()?))));
        }
        ranks
    }

    pub(crate) fn mpirun(&self) -> u32 {
        self.mpirun.id()
    }

    /// Waits for the end of mpirun and of every rank; gives how long that took, and what was said.
    #[track_caller]
    pub(crate) fn end(mut self, within: Duration) -> (Duration, Output) {
        let began = Instant::now();
        while self.mpirun.try_wait().expect("is asked").is_none() || !self.ranks().is_empty() {
            if began.elapsed() > within {
                let left = self.ranks();
                // Not to leave them behind.
                left.iter().for_each(|(pid, _)| signal(*pid, "KILL"));
                let _ = self.mpirun.kill();
                panic!("after {within:?} there still are {left:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = began.elapsed();
        (took, self.mpirun.wait_with_output().expect("is read"))
    }
}

/// Sends a signal to a process that this test has started.
#[track_caller]
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status();
    assert!(status.expect("kill is there").success(), "{name} {pid}");
}
