//! Can a driver monitoring network learn from a recorded drive how fast the car goes and turns?
//!
//! Run: `cargo run --release -p spark-train --features drives --example learn_motion -- MODEL.onnx DRIVE [--picture FILE.svg]`
//!
//! The network's first layer is widened to two pictures, a fifth of a second apart: it begins as the network on the newest one. A new
//! head stands on its trunk; it and the first layer are trained whole, layers between that hold the rank and are not in groups under DoRA
//! adapters. Speed and turning rate
//! are taught by the car's and the sensors' own readings. The last quarter of each segment is held back, behind a gap of five seconds,
//! and nothing is chosen by it: the adapter is that of the last step. What follows a segment is taught without a gap: give segments that
//! are apart.
//!
//! What a constant has too is no result: errors stand beside those of the training part's means.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use spark_data::drive::{Dataset, DatasetOptions, Drive};
use spark_data::log::LogReader;
use spark_data::prefetch::{Prefetch, PrefetchOptions};
use spark_data::route::{SegmentFile, find_segments};
use spark_data::video::{Store, StoreOptions};
use spark_dora::loss::{Head, HeadKind};
use spark_dora::optim::LoraPlus;
use spark_dora::{Adapter, DoraConfig};
use spark_onnx::{Model, Precision, RunOptions};
use spark_onnx_graph::graph::{Dim, Graph, Op};
use spark_onnx_graph::{DType, Tensor, file};
use spark_openpilot::driver_view::{centred, driver_planes};
use spark_openpilot::frame::Yuv420;
use spark_program::{about, count, number, output, progress, tell};
use spark_train::{
    AdaptedNetwork, Event, Go, OutputHeads, Sample, Trainer, TrainerSettings, layers, with_head,
    with_outputs,
};

mod motion;

/// Output of the new head: speed and turning rate, both in standard deviations from their means.
const HEAD: &str = "motion";

/// Pictures between the older and the newer one.
const BACK: u32 = 4;

/// Shape of one picture's planes.
const PLANES: [usize; 3] = [6, 320, 160];

/// Teach a driver monitoring network the car's motion from a recorded drive
#[derive(Parser)]
#[command(name = "learn_motion", arg_required_else_help = true)]
struct Arguments {
    /// ONNX file of openpilot 0.8's driver monitoring
    #[arg(value_name = "FILE.onnx")]
    model: PathBuf,
    /// Folder of drives: logs, and videos of the small road camera
    #[arg(value_name = "FOLDER")]
    drives: PathBuf,
    /// Value on which the head stands; the first that a matrix product reads, if several read it
    #[arg(long, value_name = "NAME")]
    trunk: Option<String>,
    /// One of so many frames is taken
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count(1, 1000))]
    every: usize,
    /// How often the frames are gone through
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count(1, 1_000_000))]
    epochs: usize,
    /// Learning rate at its highest
    #[arg(long, value_name = "RATE", default_value_t = 1e-3, value_parser = number(1e-12, 10.0))]
    lr: f64,
    /// Rank of the adapters
    #[arg(long, value_name = "R", default_value_t = 4, value_parser = count(1, 4096))]
    rank: usize,
    /// Of the adapter's first values and the order of the frames
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Draws what the car did and what the network says
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

fn main() -> ExitCode {
    spark_program::run(|arguments: Arguments| -> Result<ExitCode, Box<dyn Error>> {
        learn(&arguments)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// One frame: what the network sees, and how fast the car goes (m/s) and turns (rad/s).
struct Frame {
    is_held_back: bool,
    pictures: Tensor,
    motion: [f64; 2],
}

fn learn(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let graph = file::load(&arguments.model).map_err(about(&arguments.model))?;
    let (graph, first) = widened(graph, arguments.trunk.as_deref())?;
    let frames = read(arguments)?;
    let scale = motion::Scale::of(frames.iter().filter(|f| !f.is_held_back).map(|f| f.motion));
    let sample = |frame: &Frame| -> Result<Sample, Box<dyn Error>> {
        let target = scale.scaled(frame.motion).map(|value| value as f32);
        Ok(Sample {
            inputs: vec![("input_img".to_owned(), frame.pictures.clone())],
            targets: vec![(HEAD.to_owned(), Tensor::from_f32([1, 2], target.to_vec())?)],
        })
    };
    let part = |is_held_back: bool| {
        let frames = frames
            .iter()
            .filter(move |f| f.is_held_back == is_held_back);
        frames.map(sample).collect::<Result<Vec<Sample>, _>>()
    };
    let (training, held_back) = (part(false)?, part(true)?);
    println!(
        "{} frames to train on, {} held back",
        training.len(),
        held_back.len()
    );

    let layers = layers(&graph);
    let fit = layers.iter().filter(|layer| {
        let is_whole = layer.name == first || layer.name == HEAD;
        !is_whole && layer.groups == 1 && layer.largest_rank() >= arguments.rank
    });
    let config = DoraConfig::builder(arguments.rank)
        .seed(arguments.seed)
        .exact_targets(fit.map(|layer| layer.name.as_str()))
        .modules_to_save([first.as_str(), HEAD])
        .build()?;
    let network = AdaptedNetwork::new(graph, config)?;
    println!("{}", size(network.adapter()));
    let heads = vec![OutputHeads {
        output: HEAD.to_owned(),
        heads: vec![Head {
            name: HEAD.to_owned(),
            range: 0..2,
            kind: HeadKind::Squares,
            weight: 1.0,
        }],
    }];
    let settings = TrainerSettings {
        epochs: arguments.epochs as u64,
        rates: LoraPlus {
            rate: arguments.lr,
            ..LoraPlus::default()
        },
        seed: arguments.seed,
        ..TrainerSettings::default()
    };
    let held_back_samples = (!held_back.is_empty()).then_some(&held_back);
    let mut trainer = Trainer::new(
        network,
        heads,
        &training,
        held_back_samples.map(|samples| samples as _),
        settings,
        RunOptions::new(),
    )?;
    let began = Instant::now();
    let bar = progress(None).with_message("training");
    let outcome = trainer.run(&mut |event: &Event| {
        match event {
            Event::Step {
                step, total, loss, ..
            } => {
                bar.set_length(*total);
                bar.set_position(*step);
                bar.set_message(format!("loss {loss:.3}"));
            }
            Event::Epoch {
                epoch,
                training,
                validation,
                ..
            } => {
                let held_back = validation.map_or(String::new(), |v| format!(", held back {v:.3}"));
                let line = format!("epoch {}: loss {training:.3}{held_back}", epoch + 1);
                bar.suspend(|| println!("{line}"));
            }
            _ => {}
        }
        Go::On
    })?;
    bar.finish_and_clear();
    println!(
        "{} steps in {:.0} s",
        outcome.steps,
        began.elapsed().as_secs_f64()
    );

    let exact = RunOptions::new().with_precision(Precision::Fp32);
    let merged = trainer.network().merged()?.graph;
    let mut session = Model::from_graph(merged, &exact)?.session();
    let mut rows = Vec::with_capacity(frames.len());
    for frame in &frames {
        let outputs = session.run(&[("input_img", &frame.pictures)])?;
        let said = outputs[0].1.to_f64();
        rows.push(motion::Row {
            is_held_back: frame.is_held_back,
            truth: frame.motion,
            said: scale.unscaled([said[0], said[1]]),
        });
    }
    print!("{}", motion::table(&rows, &scale));
    if let Some(path) = &arguments.picture {
        output::write(path, motion::picture(&rows, &scale))?;
    }
    Ok(())
}

fn size(adapter: &Adapter) -> String {
    format!("{} layers, {}", adapter.adapted().count(), adapter.size())
}

/// The network on two pictures, with nothing but the new head as its output; and the name of its first layer.
fn widened(graph: Graph, trunk: Option<&str>) -> Result<(Graph, String), Box<dyn Error>> {
    let on = match trunk {
        Some(name) => name.to_owned(),
        None => found_trunk(&graph)
            .ok_or("what the first matrix product reads no other does; --trunk names a value")?,
    };
    let mut graph = with_outputs(with_head(graph, &on, HEAD, 2)?, &[HEAD])?;
    let [input] = graph.inputs[..] else {
        return Err("the network has not one input".into());
    };
    let readers: Vec<usize> = (0..graph.nodes.len())
        .filter(|&at| graph.nodes[at].inputs.contains(&Some(input)))
        .collect();
    let [first] = readers[..] else {
        return Err("the network's input is not read by one layer".into());
    };
    let node = &graph.nodes[first];
    let (Op::Conv(_), Some(Some(weight))) = (&node.op, node.inputs.get(1)) else {
        return Err("the network's first layer is no convolution".into());
    };
    let (weight, name) = (*weight, first_layer(&graph)?);
    let Some(constant) = graph.value(weight).constant.clone() else {
        return Err("the weight of the network's first layer is computed".into());
    };
    let shape = constant.shape().to_vec();
    if shape.len() != 4 || shape[1] != PLANES[0] || graph.value(input).name != "input_img" {
        return Err(format!(
            "the network's first layer has weights {shape:?}, wanted [n, 6, h, w] on `input_img`"
        )
        .into());
    }
    // [older, newer]: of the older picture nothing is seen yet.
    let per_output = shape[1] * shape[2] * shape[3];
    let values = constant.to_f32();
    let both = values.chunks(per_output).flat_map(|of_newer| {
        let of_older = std::iter::repeat_n(0.0, per_output);
        of_older.chain(of_newer.iter().copied())
    });
    let shape = [shape[0], 2 * shape[1], shape[2], shape[3]];
    let tensor = Tensor::from_f32(shape, both.collect())?;
    let value = &mut graph.values[weight.0];
    value.shape = Some(shape.map(Dim::Known).to_vec());
    value.dtype = Some(DType::F32);
    value.constant = Some(Arc::new(tensor));
    let wide = [1, 2 * PLANES[0], PLANES[1], PLANES[2]];
    graph.values[input.0].shape = Some(wide.map(Dim::Known).to_vec());
    Ok((graph, name))
}

fn first_layer(graph: &Graph) -> Result<String, Box<dyn Error>> {
    let first = layers(graph).into_iter().next();
    first
        .map(|layer| layer.name)
        .ok_or_else(|| "the network has no layer".into())
}

/// What the first matrix product reads, if others read it too: where the network's own heads part.
fn found_trunk(graph: &Graph) -> Option<String> {
    let products = graph
        .nodes
        .iter()
        .filter(|node| matches!(node.op, Op::Gemm(_) | Op::MatMul(_)));
    let read: Vec<_> = products
        .filter_map(|node| node.inputs.first().copied().flatten())
        .collect();
    let first = read.first()?;
    let n = read.iter().filter(|id| *id == first).count();
    (n > 1).then(|| graph.value(*first).name.clone())
}

/// The frames of the drives, in order.
fn read(arguments: &Arguments) -> Result<Vec<Frame>, Box<dyn Error>> {
    let (mut drives, mut videos) = (Vec::new(), Vec::new());
    for segment in find_segments(&arguments.drives)? {
        let (Some(log), Some(video)) = (segment.log(), segment.file(SegmentFile::Qcamera)) else {
            tell(format!("{}: no log, or no qcamera.ts", segment.name));
            continue;
        };
        drives.push(Drive::read(&mut LogReader::open(log).map_err(about(log))?));
        videos.push(video.to_owned());
    }
    let options = DatasetOptions::default()
        .with_every(arguments.every)
        .with_path_times(Vec::new())
        .with_calibration(false);
    let dataset = Arc::new(Dataset::new(drives, options)?);
    let split = dataset.split_by_time(0.25, 5.0);
    let usable = |number: &usize| {
        let sample = dataset.sample(*number);
        sample.is_some_and(|it| it.frame.index >= BACK && it.labels.yaw_rate.is_some())
    };
    let both = split.train.iter().chain(&split.validate).copied();
    let mut order: Vec<usize> = both.filter(usable).collect();
    order.sort_unstable();
    let bar = progress(Some(order.len() as u64)).with_message("pictures");
    let folder = tempfile::tempdir()?;
    let store = Store::new(folder.path(), StoreOptions::default());
    let options = PrefetchOptions::default().with_frames_back(vec![BACK, 0]);
    let mut frames = Vec::with_capacity(order.len());
    for prepared in Prefetch::new(Arc::clone(&dataset), order, videos, &store, options) {
        let prepared = prepared?;
        let mut planes = Vec::new();
        for picture in &prepared.pictures {
            let size = picture.size();
            let picture = Yuv420 {
                width: size.width,
                height: size.height,
                y: picture.y(),
                u: picture.u(),
                v: picture.v(),
            };
            planes.extend(driver_planes(&picture)?.into_iter().map(centred));
        }
        let labels = prepared.sample.labels;
        let (Some(speed), Some(yaw_rate)) = (labels.speed, labels.yaw_rate) else {
            continue;
        };
        frames.push(Frame {
            is_held_back: split.validate.binary_search(&prepared.number).is_ok(),
            pictures: Tensor::from_f32([1, 12, PLANES[1], PLANES[2]], planes)?,
            motion: [speed.value, yaw_rate.value],
        });
        bar.set_position(frames.len() as u64);
    }
    bar.finish_and_clear();
    Ok(frames)
}
