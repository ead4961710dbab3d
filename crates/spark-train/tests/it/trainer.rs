//! Runs of training: what they learn, that they go on where they were, and what they refuse.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use spark_dora::DoraConfig;
use spark_dora::loss::{Head, HeadKind};
use spark_dora::optim::LoraPlus;
use spark_onnx::{Precision, RunOptions};
use spark_onnx_graph::graph::{Dim, Gemm, Graph, Op, Unary};
use spark_onnx_graph::{DType, Tensor};
use spark_testing::numbers;
use spark_train::{
    AdaptedNetwork, Decay, Deployment, Ended, Evaluation, Event, Go, Outcome, OutputHeads, Sample,
    Samples, TrainError, Trainer, TrainerSettings, TrainingStep,
};
use tempfile::tempdir;

pub(crate) const SAMPLES: usize = 22;

/// Two layers; the adapter is on both.
pub(crate) fn network(seed: u64) -> AdaptedNetwork {
    dropping(seed, 0.0)
}

/// The same with dropout.
pub(crate) fn dropping(seed: u64, dropout: f64) -> AdaptedNetwork {
    let mut graph = Graph::default();
    let batch = Dim::Symbol("n".to_owned());
    let x = graph.add_input("x", DType::F32, vec![batch, Dim::Known(6)]);
    let mut value = x;
    for (layer, (n_in, n_out)) in [(6, 16), (16, 3)].into_iter().enumerate() {
        let w = Tensor::from_f32([n_out, n_in], numbers(n_in * n_out, seed + layer as u64));
        let w = graph.add_constant(format!("fc{layer}.weight"), w.expect("fits"));
        let gemm = Gemm {
            alpha: 1.0,
            beta: 1.0,
            trans_a: false,
            trans_b: true,
        };
        let y = graph.add_node(
            format!("fc{layer}"),
            Op::Gemm(gemm),
            &[Some(value), Some(w)],
        );
        let tanh = Op::Unary(Unary::Tanh);
        value = graph.add_node(format!("y{layer}"), tanh, &[Some(y)]);
    }
    graph.outputs.push(value);
    let config = DoraConfig::builder(2).dropout(dropout);
    let config = config.build().expect("settings");
    AdaptedNetwork::new(graph, config).expect("is adapted")
}

pub(crate) fn heads() -> Vec<OutputHeads> {
    vec![OutputHeads {
        output: "y1".to_owned(),
        heads: vec![Head {
            name: "all".to_owned(),
            range: 0..3,
            kind: HeadKind::Squares,
            weight: 1.0,
        }],
    }]
}

pub(crate) fn samples(n: usize, seed: u64) -> Vec<Sample> {
    let of = |index: usize| {
        let x = numbers(6, seed + index as u64);
        let target = [0.5 * x[0] - 0.2, 0.3 * x[1] * x[2], -0.4].to_vec();
        let tensor = |shape: [usize; 2], values| Tensor::from_f32(shape, values).expect("fits");
        Sample {
            inputs: vec![("x".to_owned(), tensor([1, 6], x))],
            targets: vec![("y1".to_owned(), tensor([1, 3], target))],
        }
    };
    (0..n).map(of).collect()
}

pub(crate) fn settings(folder: Option<&Path>) -> TrainerSettings {
    TrainerSettings {
        batch: 3,
        accumulate: 2,
        epochs: 8,
        rates: LoraPlus {
            rate: 0.02,
            ..LoraPlus::default()
        },
        warm_up: 3,
        save_every: Some(2),
        folder: folder.map(Path::to_path_buf),
        ..TrainerSettings::default()
    }
}

fn trainer<'d>(
    training: &'d Vec<Sample>,
    validation: Option<&'d Vec<Sample>>,
    settings: TrainerSettings,
) -> Result<Trainer<'d>, TrainError> {
    trainer_of(network(1), training, validation, settings)
}

fn trainer_of<'d>(
    network: AdaptedNetwork,
    training: &'d Vec<Sample>,
    validation: Option<&'d Vec<Sample>>,
    settings: TrainerSettings,
) -> Result<Trainer<'d>, TrainError> {
    on_threads(1, network, training, validation, settings)
}

fn on_threads<'d>(
    threads: usize,
    network: AdaptedNetwork,
    training: &'d Vec<Sample>,
    validation: Option<&'d Vec<Sample>>,
    settings: TrainerSettings,
) -> Result<Trainer<'d>, TrainError> {
    let options = RunOptions::new().with_threads(threads);
    let validation = validation.map(|samples| samples as &dyn Samples);
    Trainer::new(network, heads(), training, validation, settings, options)
}

fn quiet(_: &Event) -> Go {
    Go::On
}

/// All variables, bit by bit.
pub(crate) fn bits(trainer: &Trainer<'_>) -> Vec<u32> {
    let variables = trainer.network().adapter().variables();
    let of = |var: &candle_core::Var| -> Vec<f32> {
        let flat = var.flatten_all().and_then(|flat| flat.to_vec1());
        flat.expect("is in f32")
    };
    variables.all().flat_map(of).map(f32::to_bits).collect()
}

#[test]
fn a_run_learns_and_tells_what_it_does() {
    let (training, validation) = (samples(SAMPLES, 100), samples(7, 900));
    let folder = tempdir().expect("a folder");
    let mut events = Vec::new();
    let mut run = TrainerSettings {
        epochs: 30,
        keep: 2,
        ..settings(Some(folder.path()))
    };
    run.save_every = Some(10);
    let mut trainer = trainer(&training, Some(&validation), run).expect("settings");
    let outcome = trainer
        .run(&mut |event: &Event| {
            events.push(event.clone());
            Go::On
        })
        .expect("runs");
    // 22 samples are three steps of six, and four that wait.
    assert_eq!((outcome.steps, outcome.ended), (90, Ended::Done));
    let of_steps = events.iter().filter_map(|event| match event {
        Event::Step {
            step,
            loss,
            rate,
            norm,
            parts,
            total,
            ..
        } => {
            assert!(*norm > 0.0 && *total == 90);
            assert!((parts[0].1 - loss).abs() < 1e-9, "one head of weight 1");
            Some((*step, *loss, *rate))
        }
        _ => None,
    });
    let of_steps: Vec<(u64, f64, f64)> = of_steps.collect();
    assert_eq!(of_steps.len(), 90);
    // Three steps of warm-up, then down along half a cosine.
    assert!((of_steps[0].2 - 0.02 / 4.0).abs() < 1e-12);
    assert!((of_steps[3].2 - 0.02).abs() < 1e-12 && of_steps[89].2 < 1e-4);
    let validated: Vec<f64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Epoch { validation, .. } => *validation,
            _ => None,
        })
        .collect();
    assert_eq!(validated.len(), 30);
    assert!(validated[29] < 0.5 * validated[0], "{validated:?}");
    let best = outcome.best.expect("there is one");
    assert!(validated.iter().all(|&loss| loss >= best.0));
    // The newest two and the best one are kept.
    let mut kept: Vec<String> = std::fs::read_dir(folder.path())
        .expect("is there")
        .map(|entry| {
            entry
                .expect("reads")
                .file_name()
                .into_string()
                .expect("text")
        })
        .filter(|name| name.starts_with("step-"))
        .collect();
    kept.sort();
    assert!(
        kept.len() <= 3 && kept.contains(&"step-00000090".to_owned()),
        "{kept:?}"
    );
    assert!(
        kept.contains(&format!("step-{:08}", best.1)),
        "{kept:?} without {best:?}"
    );

    let last_bits = bits(&trainer);
    assert_eq!(trainer.take_best().expect("reads"), Some(best.1));
    assert_eq!(bits(&trainer) == last_bits, best.1 == 90);
    let mut evaluation = Evaluation::new(
        trainer.network(),
        &heads(),
        &[("x", vec![1, 6])],
        &RunOptions::new(),
    )
    .expect("plans");
    let losses = validation.iter().map(|sample| {
        let (x, target) = (&sample.inputs[0].1, &sample.targets[0].1);
        let result = evaluation.run(trainer.network(), &[("x", x)], &[("y1", target)]);
        result.expect("runs").loss
    });
    let mean = losses.sum::<f64>() / 7.0;
    assert!((mean - best.0).abs() < 1e-6 * best.0, "{mean} for {best:?}");
    trainer.resume(&mut quiet).expect("resumes");
    assert_eq!(bits(&trainer), last_bits);

    // An adapter that PEFT can read: the same network again.
    let last = folder.path().join("step-00000090");
    let base = trainer.network().base().clone();
    let again = AdaptedNetwork::open(base, &last, &Deployment::exact()).expect("opens");
    let ours = trainer.network().factors().expect("factors");
    assert_eq!(again.factors().expect("factors"), ours);
}

/// Stopped after any step and taken up by another trainer, a run has the bits of one that was not.
#[test]
fn a_run_that_was_stopped_goes_on_with_the_same_bits() {
    let (training, validation) = (samples(SAMPLES, 100), samples(4, 900));
    let trainer = |dropout, training, validation, run| {
        trainer_of(dropping(1, dropout), training, Some(validation), run)
    };
    let mut all = Vec::new();
    for (dropout, stops) in [(0.0, &[1, 2, 3, 5, 8, 13, 23][..]), (0.25, &[1, 4, 7, 14])] {
        let mut whole = trainer(dropout, &training, &validation, settings(None)).expect("settings");
        let outcome = whole.run(&mut quiet).expect("runs");
        let want = bits(&whole);
        for &stop_after in stops {
            let folder = tempdir().expect("a folder");
            let run = || settings(Some(folder.path()));
            let mut first = trainer(dropout, &training, &validation, run()).expect("settings");
            let mut stop = |event: &Event| match event {
                Event::Step { step, .. } if *step == stop_after => Go::Stop,
                _ => Go::On,
            };
            let stopped = first.run(&mut stop).expect("runs");
            assert_eq!((stopped.steps, stopped.ended), (stop_after, Ended::Stopped));
            drop(first);
            let mut second = trainer(dropout, &training, &validation, run()).expect("settings");
            assert_eq!(second.resume(&mut quiet).expect("resumes"), stop_after);
            let resumed = second.run(&mut quiet).expect("runs");
            assert_eq!(
                came_to(&resumed),
                came_to(&outcome),
                "stopped after {stop_after}"
            );
            assert_eq!(bits(&second), want, "stopped after {stop_after}");
        }
        all.push(want);
    }
    assert_ne!(all[0], all[1], "dropout acts");
}

/// The same for processes that are killed at any moment.
#[test]
fn a_run_that_was_killed_goes_on_with_the_same_bits() {
    killed(0.0, 25, &[1]);
}

/// Masks go on where they were: neither they nor anything of theirs is kept. Threads change nothing, and may change on the way.
#[test]
fn a_run_with_dropout_that_was_killed_goes_on_with_the_same_bits() {
    for threads in [&[1][..], &[2], &[1, 2]] {
        killed(0.3, 14, threads);
    }
}

/// Kills a run so many times, on one number of threads after the other, and holds what comes of it against one that was left alone.
fn killed(dropout: f64, times: usize, threads: &[usize]) {
    let training = samples(SAMPLES, 100);
    let mut whole =
        trainer_of(dropping(1, dropout), &training, None, settings(None)).expect("settings");
    let n_steps = whole.run(&mut quiet).expect("runs").steps;
    let want = bits(&whole);
    let folder = tempdir().expect("a folder");
    let (mut longest, mut came_to) = (0.12, 0);
    for (wait, threads) in numbers(times, 7).into_iter().zip(threads.iter().cycle()) {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "trainer::child_trains", "--nocapture"]);
        child.env(CHILD, folder.path());
        child.env(CHILD_DROPS, format!("{dropout} {threads}"));
        // Of inference: steps of training are f32 all the same.
        child.env("OPENPILOT_DGX_PRECISION", "bf16");
        child.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().expect("starts");
        std::thread::sleep(Duration::from_secs_f64(f64::from(wait.abs()) * longest));
        child.kill().expect("is killed");
        child.wait().expect("ends");
        let now = newest_step(folder.path());
        if now == n_steps {
            break;
        }
        // A machine with other work has to be given more time.
        if now == came_to {
            longest *= 1.4;
        }
        came_to = now;
    }
    let network = dropping(1, dropout);
    let last = trainer_of(network, &training, None, settings(Some(folder.path())));
    let mut last = last.expect("settings");
    let mut damaged = 0;
    last.resume(&mut |event: &Event| {
        damaged += u32::from(matches!(event, Event::Damaged { .. }));
        Go::On
    })
    .expect("resumes");
    last.run(&mut quiet).expect("runs");
    assert_eq!(damaged, 0, "checkpoints are whole or not there");
    assert_eq!(bits(&last), want);
}

/// The step of the newest checkpoint, 0 without any.
fn newest_step(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("is there");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let steps = names.filter_map(|name| name.strip_prefix("step-")?.parse().ok());
    steps.max().unwrap_or(0)
}

const CHILD: &str = "SPARK_TRAIN_CHILD";
const CHILD_DROPS: &str = "SPARK_TRAIN_CHILD_DROPS";

/// Run by the test above; slow enough to be killed anywhere.
#[test]
fn child_trains() {
    let Some(folder) = std::env::var_os(CHILD) else {
        return;
    };
    let training = samples(SAMPLES, 100);
    let told = std::env::var(CHILD_DROPS).expect("is told");
    let (dropout, threads) = told.split_once(' ').expect("two numbers");
    let network = dropping(1, dropout.parse().expect("a number"));
    let run = settings(Some(Path::new(&folder)));
    let threads = threads.parse().expect("a number");
    let child = on_threads(threads, network, &training, None, run);
    let mut child = child.expect("settings");
    match child.resume(&mut quiet) {
        Ok(_) | Err(TrainError::NoCheckpoint { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let mut slow = |_: &Event| {
        std::thread::sleep(Duration::from_millis(5));
        Go::On
    };
    child.run(&mut slow).expect("runs");
}

#[test]
fn damaged_checkpoints_are_named_and_passed_over() {
    let training = samples(SAMPLES, 100);
    let folder = tempdir().expect("a folder");
    let mut first = trainer(&training, None, settings(Some(folder.path()))).expect("settings");
    first.run(&mut quiet).expect("runs");
    let want = bits(&first);
    drop(first);
    for (file, expected) in [
        (
            "trainer.safetensors",
            "trainer.safetensors is not what was written",
        ),
        (
            "adapter_model.safetensors",
            "adapter_model.safetensors is not what was written",
        ),
        ("manifest.json", "manifest.json: "),
    ] {
        let newest = folder.path().join("step-00000024");
        let path = newest.join(file);
        let mut bytes = std::fs::read(&path).expect("is there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x80;
        std::fs::write(&path, bytes).expect("writes");
        let mut said = Vec::new();
        let mut again = trainer(&training, None, settings(Some(folder.path()))).expect("settings");
        let step = again.resume(&mut |event: &Event| {
            said.push(event.clone());
            Go::On
        });
        assert_eq!(step.expect("resumes"), 22, "{file}");
        let [
            Event::Damaged {
                folder: named,
                reason,
            },
        ] = &said[..]
        else {
            panic!("{file}: {said:?}");
        };
        assert_eq!(*named, newest);
        assert!(reason.starts_with(expected), "{reason}");
        // The run writes it anew, whole.
        again.run(&mut quiet).expect("runs");
        assert_eq!(bits(&again), want);
    }
}

#[test]
fn what_is_another_run_is_refused() {
    let training = samples(SAMPLES, 100);
    let folder = tempdir().expect("a folder");
    let mut first = trainer(&training, None, settings(Some(folder.path()))).expect("settings");
    first.run(&mut quiet).expect("runs");
    let busy = trainer(&training, None, settings(Some(folder.path())));
    assert!(matches!(busy, Err(TrainError::Busy { .. })), "{busy:?}");
    drop(first);

    let mut anew = trainer(&training, None, settings(Some(folder.path()))).expect("settings");
    let used = anew.run(&mut quiet);
    assert!(
        matches!(used, Err(TrainError::FolderUsed { .. })),
        "{used:?}"
    );
    drop(anew);

    let refused = |training: &Vec<Sample>, run: TrainerSettings, network: AdaptedNetwork| {
        let mut other = trainer_of(network, training, None, run).expect("settings");
        let error = other.resume(&mut quiet).expect_err("is another run");
        assert!(matches!(error, TrainError::OtherRun { .. }), "{error}");
        error.to_string()
    };
    let run = || settings(Some(folder.path()));
    let rate = TrainerSettings { seed: 5, ..run() };
    let said = refused(&training, rate, network(1));
    assert!(
        said.ends_with("seed was 0 and is 5: this is another run"),
        "{said}"
    );
    let decay = TrainerSettings {
        decay: Decay::Linear,
        ..run()
    };
    let said = refused(&training, decay, network(1));
    assert!(said.contains("decay was Cosine and is Linear"), "{said}");
    let said = refused(&training, run(), network(3));
    assert!(said.contains("network was "), "{said}");
    let said = refused(&training, run(), dropping(1, 0.1));
    assert!(
        said.contains("adapter's lora_dropout was 0.0 and is 0.1"),
        "{said}"
    );
    let said = refused(&samples(20, 100), run(), network(1));
    assert!(said.contains("count of samples was 22 and is 20"), "{said}");
    let held_back = samples(4, 7);
    let mut other = trainer(&training, Some(&held_back), run()).expect("settings");
    let said = other.resume(&mut quiet).expect_err("is another run");
    assert!(
        said.to_string().contains("held back was none and is 4 "),
        "{said}"
    );
}

#[test]
fn steps_in_other_precisions_are_refused() {
    let shapes = [("x", vec![2, 6])];
    for precision in Precision::ALL {
        let options = RunOptions::new().with_precision(precision);
        let planned = TrainingStep::new(&network(1), &heads(), &shapes, &options);
        match precision {
            Precision::Fp32 => assert!(planned.is_ok()),
            _ => {
                let error = planned.expect_err("is not exact").to_string();
                let said = format!("computed in fp32, not in {precision};");
                assert!(error.contains(&said), "{error}");
            }
        }
    }
}

#[test]
fn steps_without_finite_numbers_are_skipped_and_counted() {
    let mut training = samples(SAMPLES, 100);
    training[3].inputs[0].1 = Tensor::from_f32([1, 6], vec![f32::NAN; 6]).expect("fits");
    let run = TrainerSettings {
        epochs: 2,
        ..settings(None)
    };
    let mut trainer = trainer(&training, None, run).expect("settings");
    let before = bits(&trainer);
    let (mut skipped, mut made) = (0, 0);
    let outcome = trainer.run(&mut |event: &Event| {
        match event {
            Event::Skipped { loss, in_a_row, .. } => {
                assert!(loss.is_nan() && *in_a_row == 1);
                skipped += 1;
            }
            Event::Step { loss, .. } => {
                assert!(loss.is_finite());
                made += 1;
            }
            _ => {}
        }
        Go::On
    });
    assert_eq!(outcome.expect("runs").steps, 6);
    assert!(skipped >= 1 && skipped + made == 6, "{skipped} and {made}");
    assert_ne!(bits(&trainer), before);

    let all_bad: Vec<Sample> = vec![training[3].clone(); SAMPLES];
    let run = TrainerSettings {
        most_skipped: 4,
        ..settings(None)
    };
    let mut trainer = trainer_of(network(1), &all_bad, None, run).expect("settings");
    let ended = trainer.run(&mut quiet);
    assert!(
        matches!(
            ended,
            Err(TrainError::Diverged {
                step: 5,
                in_a_row: 5
            })
        ),
        "{ended:?}"
    );
    // No rate is to blame where no step was ever made.
    let said = ended.expect_err("is an error").to_string();
    assert!(said.contains("samples may be too large"), "{said}");
    assert_eq!(bits(&trainer), before, "nothing was learnt from nothing");
}

#[test]
fn settings_and_samples_that_fit_no_run_are_refused() {
    let training = samples(SAMPLES, 100);
    let said = |training: &Vec<Sample>, run: TrainerSettings| {
        let trainer = trainer(training, None, run);
        trainer.expect_err("is refused").to_string()
    };
    let few = samples(5, 1);
    assert_eq!(
        said(&few, settings(None)),
        "one step takes 6 samples, there are 5"
    );
    let none = TrainerSettings {
        batch: 0,
        ..settings(None)
    };
    assert_eq!(
        said(&training, none),
        "setting `batch` is 0, wanted a number above 0, or from 0 on for rates"
    );
    let mut rate = settings(None);
    rate.rates.rate = f64::NAN;
    assert!(said(&training, rate).starts_with("setting `rate` is NaN"));

    let mut unlike = training.clone();
    unlike[7].inputs[0].1 = Tensor::from_f32([1, 5], vec![0.0; 5]).expect("fits");
    let mut trainer = trainer(&unlike, None, settings(None)).expect("settings");
    let error = trainer.run(&mut quiet).expect_err("does not fit");
    assert!(matches!(error, TrainError::UnlikeSamples { .. }), "{error}");
    let mut two = training.clone();
    for sample in &mut two {
        sample.inputs[0].1 = Tensor::from_f32([2, 6], vec![0.0; 12]).expect("fits");
    }
    let mut trainer = trainer_of(network(1), &two, None, settings(None)).expect("settings");
    let error = trainer.run(&mut quiet).expect_err("is no sample");
    assert!(matches!(error, TrainError::NotOneSample { .. }), "{error}");
}

#[test]
fn a_run_ends_when_nothing_gets_better() {
    let training = samples(SAMPLES, 100);
    let run = TrainerSettings {
        epochs: 50,
        patience: Some(2),
        rates: LoraPlus {
            rate: 0.0,
            ..LoraPlus::default()
        },
        ..settings(None)
    };
    let validation = samples(3, 5);
    let mut trainer = trainer(&training, Some(&validation), run).expect("settings");
    let outcome = trainer.run(&mut quiet).expect("runs");
    // One that is the best, and three that are no better.
    assert_eq!((outcome.ended, outcome.steps), (Ended::Patience, 4 * 3));
}

/// The newest checkpoints that somebody damaged are no reason to throw whole ones away.
#[test]
fn damaged_checkpoints_do_not_count_among_those_that_are_kept() {
    let training = samples(SAMPLES, 100);
    let folder = tempdir().expect("a folder");
    let run = || TrainerSettings {
        keep: 1,
        save_every: Some(1),
        ..settings(Some(folder.path()))
    };
    let stop_at = |last: u64| {
        move |event: &Event| match event {
            Event::Step { step, .. } if *step == last => Go::Stop,
            _ => Go::On,
        }
    };
    let mut first = trainer(&training, None, run()).expect("settings");
    first.run(&mut stop_at(5)).expect("runs");
    drop(first);
    // As a later one, cut off by a full disk that nobody noticed.
    let damaged = folder.path().join("step-00000009");
    std::fs::create_dir(&damaged).expect("makes");
    for other in ["step-1", "step-+3", "step-00000002.txt"] {
        std::fs::write(folder.path().join(other), "mine").expect("writes");
    }
    std::fs::write(folder.path().join(".step-hand.new"), "mine").expect("writes");
    let mut second = trainer(&training, None, run()).expect("settings");
    assert_eq!(second.resume(&mut quiet).expect("resumes"), 5);
    second.run(&mut stop_at(6)).expect("runs");
    drop(second);
    assert!(damaged.is_dir(), "somebody may want to look at it");
    let mut third = trainer(&training, None, run()).expect("settings");
    assert_eq!(third.resume(&mut quiet).expect("resumes"), 6);
    for other in ["step-1", "step-+3", "step-00000002.txt", ".step-hand.new"] {
        assert!(folder.path().join(other).is_file(), "{other} is not ours");
    }
}

#[test]
fn a_refused_resume_changes_nothing() {
    let training = samples(SAMPLES, 100);
    let folder = tempdir().expect("a folder");
    let mut first = trainer(&training, None, settings(Some(folder.path()))).expect("settings");
    first.run(&mut quiet).expect("runs");
    drop(first);
    let before: Vec<_> = std::fs::read_dir(folder.path())
        .expect("is there")
        .collect();
    let other = TrainerSettings {
        seed: 9,
        ..settings(Some(folder.path()))
    };
    let mut second = trainer(&training, None, other).expect("settings");
    let fresh = bits(&second);
    second.resume(&mut quiet).expect_err("is another run");
    assert_eq!(bits(&second), fresh);
    let refused = second.run(&mut quiet);
    assert!(
        matches!(refused, Err(TrainError::FolderUsed { .. })),
        "{refused:?}"
    );
    let after: Vec<_> = std::fs::read_dir(folder.path())
        .expect("is there")
        .collect();
    assert_eq!(after.len(), before.len());
    drop(second);

    // Other samples of the same count, another count of steps under a schedule.
    let refused = |training: &Vec<Sample>, run: TrainerSettings| {
        let mut other = trainer(training, None, run).expect("settings");
        other
            .resume(&mut quiet)
            .expect_err("is another run")
            .to_string()
    };
    let said = refused(&samples(SAMPLES, 101), settings(Some(folder.path())));
    assert!(said.contains("samples was "), "{said}");
    let longer = TrainerSettings {
        epochs: 9,
        ..settings(Some(folder.path()))
    };
    let said = refused(&training, longer);
    assert!(said.contains("steps in all was 24 and is 27"), "{said}");
    let empty = tempdir().expect("a folder");
    let said = refused(&training, settings(Some(empty.path())));
    assert!(
        said.ends_with("there is no whole checkpoint to go on from"),
        "{said}"
    );
}

#[test]
fn a_run_that_ended_for_want_of_progress_does_not_go_on() {
    let (training, validation) = (samples(SAMPLES, 100), samples(3, 5));
    let folder = tempdir().expect("a folder");
    let run = || {
        let mut run = TrainerSettings {
            epochs: 50,
            patience: Some(2),
            ..settings(Some(folder.path()))
        };
        run.rates.rate = 0.0;
        run
    };
    let mut first = trainer(&training, Some(&validation), run()).expect("settings");
    let outcome = first.run(&mut quiet).expect("runs");
    drop(first);
    let mut second = trainer(&training, Some(&validation), run()).expect("settings");
    second.resume(&mut quiet).expect("resumes");
    let again = second.run(&mut quiet).expect("runs");
    assert_eq!(came_to(&again), came_to(&outcome));
}

#[test]
fn an_observer_can_stop_at_a_checkpoint() {
    let training = samples(SAMPLES, 100);
    let folder = tempdir().expect("a folder");
    let mut run = trainer(&training, None, settings(Some(folder.path()))).expect("settings");
    let outcome = run.run(&mut |event: &Event| match event {
        Event::Saved { .. } => Go::Stop,
        _ => Go::On,
    });
    let outcome = outcome.expect("runs");
    assert_eq!((outcome.steps, outcome.ended), (2, Ended::Stopped));
}

#[test]
fn a_run_with_results_that_are_computed_again_goes_on_with_them() {
    let training = samples(SAMPLES, 100);
    let mut whole = trainer(&training, None, settings(None)).expect("is a run");
    whole.run(&mut quiet).expect("runs");
    let folder = tempdir().expect("a folder");
    let of = |recompute| TrainerSettings {
        recompute,
        ..settings(Some(folder.path()))
    };
    let mut begun = trainer(&training, None, of(true)).expect("is a run");
    let stops = |event: &Event| match event {
        Event::Step { step: 5, .. } => Go::Stop,
        _ => Go::On,
    };
    begun.run(&mut { stops }).expect("runs");
    drop(begun);
    let mut other = trainer(&training, None, of(false)).expect("is a run");
    let error = other.resume(&mut quiet).expect_err("has other settings");
    assert!(
        matches!(&error, TrainError::OtherRun { what, .. } if what == "recompute"),
        "{error}"
    );
    drop(other);
    let mut resumed = trainer(&training, None, of(true)).expect("is a run");
    assert_eq!(resumed.resume(&mut quiet).expect("is there"), 5);
    resumed.run(&mut quiet).expect("runs");
    assert_eq!(bits(&resumed), bits(&whole));
}

/// What does not hang on the time.
fn came_to(outcome: &Outcome) -> (u64, Option<(f64, u64)>, Ended) {
    (outcome.steps, outcome.best, outcome.ended)
}
