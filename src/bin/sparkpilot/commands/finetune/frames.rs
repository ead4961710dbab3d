//! `frames`: frames of recorded drives made ready for training, chunk by chunk into a folder.
//!
//! ```text
//! frame f = number in the data set over all drives      chunk = 32 frames      shard = neighbouring chunks, as a video is decoded whole
//! chunks that the folder lacks ──pictures, teacher──> samples, videos that are broken ──> one file each
//! train --data FOLDER           all chunks of these networks ──> the samples of training on the drives, bit for bit: `ready`
//! ```
//!
//! All logs are read by every process, which is quick; videos are decoded by the shard that has their frames, those at a border by both.
//!
//! What of a video is broken stands in the chunk that lacks it, and logs that cannot be read in the first one; both are said again by
//! whoever finds the chunk there. A decoder that fails by itself is an error, so that no chunk is written that lacks what a second try gives.

use std::error::Error;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::ExitCode;

use spark_program::shards::{Part, identity, this};
use spark_program::{LastWords, about, input, tell};
use sparkpilot::onnx::{Precision, RunOptions};
use sparkpilot::shards::{
    Fingerprint, MOST_PAYLOAD_BYTES, Plan, Run, Shard, decode, file_name, has_chunks,
};
use sparkpilot::train::{PackedSamples, SAMPLES_FORMAT, SamplePacker, Teacher};

use super::arguments::MakeFrames;
use super::drives::{Drives, EVERY, Frame, Frames, Inputs};
use super::lacking::Lacking;
use super::networks::Network;
use super::run::{CameraOf, Done, usage};

/// Frames of a chunk, whatever the number of processes.
const N_FRAMES_PER_CHUNK: u64 = 32;
/// Bytes of files that are hashed at once, and of the ends of videos that tell them from others.
const PIECE: u64 = 1 << 20;

/// What `train` reads, and what it reads of it.
pub(crate) const WORK: &str = "sparkpilot finetune frames";
pub(crate) const SAMPLES: &str = "format of samples";
pub(crate) const MODEL: &str = "model";
pub(crate) const TEACHER: &str = "teacher";
pub(crate) const LOGS_CUT: &str = "logs that end early";

/// Makes what the shard still lacks, and says what it did.
pub(crate) fn make(options: &MakeFrames) -> Result<ExitCode, Box<dyn Error>> {
    let shard = match options.shard {
        Some(asked) => this(asked)?,
        None => Shard::new(1, 1)?,
    };
    let (data, folder) = (&options.data, &options.folder);
    if data.is_dir() && has_chunks(data)? {
        let data = data.display();
        return usage(&format!(
            "--data: `{data}` has chunks of frames, and is no folder of drives"
        ));
    }
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    if real(data).is_some_and(|data| real(folder) == Some(data)) {
        return usage("--folder: chunks go to another folder than that of the drives");
    }
    let model = Network::load(&options.model)?;
    let of_teacher = options.teacher.as_ref().unwrap_or(&options.model);
    let teacher = Network::load(of_teacher)?;
    let drives = Drives {
        folder: data,
        camera: options.camera.unwrap_or_default(),
        every: options.every.unwrap_or(EVERY),
        left_out: None,
    };
    let frames = Frames::of(&model.graph, &drives)?;
    let run = run_of(&drives, &frames, [&model, &teacher])?;
    let part = Part::open(folder, &run, shard, run.plan.neighbours_of(shard))?;
    let there = run.plan.neighbours_of(shard);
    let there = there.filter(|chunk| !part.left().contains(chunk));
    let lacking = lacking(folder, there)?;
    lacking.tell();
    if !lacking.is_empty() {
        tell(format!(
            "once these videos can be decoded, remove the chunks that lack them, and this command makes them again: {}",
            lacking.files().join(", ")
        ));
    }
    let mut n_made = 0;
    if !part.left().is_empty() {
        let words = "stopped: chunks that were written are gone on with, and videos that were decoded to their end need not be again";
        let _words = LastWords::new(words);
        let exact = RunOptions::new().with_precision(Precision::Fp32);
        let mut teacher = Teacher::new(&teacher.graph, &exact).map_err(about(of_teacher))?;
        let mut teach = |inputs: Inputs, packer: &mut SamplePacker| -> Done {
            let sample = teacher.sample(inputs).map_err(about(of_teacher))?;
            n_made += 1;
            Ok(packer.push(&sample)?)
        };
        write(&part, run.plan, &frames, &mut teach)?;
    }
    let items = match part.n_items(part.left()).saturating_sub(n_made) {
        0 => "frames".to_owned(),
        n_lacking => format!("frames, {n_lacking} of them without pictures"),
    };
    println!("{}", part.finish("made", &items)?);
    Ok(ExitCode::SUCCESS)
}

/// What chunks lack that are there.
fn lacking(folder: &Path, chunks: impl Iterator<Item = u64>) -> Result<Lacking, Box<dyn Error>> {
    let mut lacking = Lacking::default();
    for name in chunks.map(file_name) {
        let path = folder.join(&name);
        let chunk = decode(&input::read(&path)?).map_err(about(&path))?;
        let samples = PackedSamples::from_bytes(&chunk.payload).map_err(about(&path))?;
        lacking.add(&name, samples.left_out());
    }
    Ok(lacking)
}

/// Writes the chunks that are left, one after the other.
fn write(
    part: &Part,
    plan: Plan,
    frames: &Frames,
    teach: &mut dyn FnMut(Inputs, &mut SamplePacker) -> Done,
) -> Done {
    let left = part.left();
    let numbers = left.iter().flat_map(|&chunk| plan.items(chunk));
    let numbers: Vec<usize> = numbers.map(|number| number as usize).collect();
    let begun = |chunk: u64| {
        let mut packer = SamplePacker::default();
        for log in frames.left_out.iter().filter(|_| chunk == 0) {
            packer.leave_out_unseen(&frames.name_of(log));
        }
        packer
    };
    let mut packers = left.iter().map(|&chunk| (chunk, begun(chunk)));
    let mut current = packers.next();
    frames.each(&numbers, &mut |number, frame| {
        // Of frames without pictures nothing comes, which may be all of a chunk.
        while let Some((chunk, packer)) = current.take_if(|(chunk, _)| {
            let items = plan.items(*chunk);
            number as u64 >= items.end
        }) {
            part.write(chunk, &packer.into_bytes())?;
            current = packers.next();
        }
        let (_, packer) = current.as_mut().ok_or("a frame that nobody asked for")?;
        match frame {
            Frame::Broken(video) => packer.leave_out(&frames.name_of(video)),
            Frame::Inputs(inputs) => teach(inputs, packer)?,
        }
        check_size(packer)
    })?;
    for (chunk, packer) in current.into_iter().chain(packers) {
        part.write(chunk, &packer.into_bytes())?;
    }
    Ok(())
}

/// Refuses frames of which a chunk would hold too many bytes, with the first of them.
fn check_size(packer: &SamplePacker) -> Result<(), Box<dyn Error>> {
    let each = packer.n_bytes() / (packer.len() as u64).max(1);
    // Names of inputs and of videos stand beside.
    match each * N_FRAMES_PER_CHUNK <= MOST_PAYLOAD_BYTES - PIECE {
        true => Ok(()),
        false => Err(format!(
            "a frame of this network has {each} bytes, and a chunk of {N_FRAMES_PER_CHUNK} holds at most {} MiB: train on the drives themselves",
            MOST_PAYLOAD_BYTES >> 20
        )
        .into()),
    }
}

/// Which run it is: all that a frame hangs on.
fn run_of(
    drives: &Drives<'_>,
    frames: &Frames,
    [model, teacher]: [&Network; 2],
) -> Result<Run, Box<dyn Error>> {
    let camera = match drives.camera {
        CameraOf::Preview => "preview",
        CameraOf::Road => "road",
        CameraOf::Wide => "wide",
        CameraOf::Driver => "driver",
    };
    let n_segments = frames.segments.len();
    let identity = identity(WORK, (SAMPLES, SAMPLES_FORMAT), env!("CARGO_PKG_VERSION"))?
        .with("instruction set", spark_simd::Isa::detect().name())
        .with(MODEL, &model.hash)
        .with(TEACHER, &teacher.hash)
        .with("every", drives.every.to_string())
        .with("camera", camera)
        .with(LOGS_CUT, frames.n_cut.to_string())
        .with("drives", format!("{n_segments}, {}", hash_of(frames)?));
    Ok(Run {
        identity,
        plan: Plan::new(frames.len() as u64, N_FRAMES_PER_CHUNK)?,
    })
}

/// A hash of all logs, and of what tells videos from others without reading them whole.
fn hash_of(frames: &Frames) -> Result<String, Box<dyn Error>> {
    let mut hash = Fingerprint::new();
    for segment in &frames.segments {
        hash.add(segment.name.to_string());
        add_all(&mut hash, &segment.log).map_err(about(&segment.log))?;
        add_ends(&mut hash, &segment.video).map_err(about(&segment.video))?;
    }
    for log in &frames.left_out {
        hash.add(frames.name_of(log));
    }
    Ok(hash.hex())
}

fn add_all(hash: &mut Fingerprint, path: &Path) -> io::Result<()> {
    let (mut file, n_bytes) = input::open(path)?;
    hash.add(n_bytes.to_le_bytes());
    let mut piece = Vec::new();
    while file.by_ref().take(PIECE).read_to_end(&mut piece)? > 0 {
        hash.add(&piece);
        piece.clear();
    }
    Ok(())
}

fn add_ends(hash: &mut Fingerprint, path: &Path) -> io::Result<()> {
    let (mut file, n_bytes) = input::open(path)?;
    hash.add(n_bytes.to_le_bytes());
    for start in [0, n_bytes.saturating_sub(PIECE)] {
        file.seek(SeekFrom::Start(start))?;
        let mut piece = Vec::new();
        file.by_ref().take(PIECE).read_to_end(&mut piece)?;
        hash.add(piece);
    }
    Ok(())
}
