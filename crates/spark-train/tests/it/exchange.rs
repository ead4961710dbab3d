//! Runs that are shared out among ranks, here threads that send each other bytes: the same bits for every number of them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use spark_dora::optim::{Accumulator, AdamW, clip_by_norm};
use spark_onnx_graph::Tensor;
use spark_train::{
    AdaptedNetwork, Decay, Ended, Event, ExchangeError, Go, GradientExchange, Sample, Samples, Sum,
    TrainError, Trainer, TrainerSettings, TrainingStep, digest, digest_of_all,
};
use tempfile::tempdir;

use crate::trainer::{bits, dropping, heads, network, samples, settings};

/// Ranks as threads: a channel from each to each.
struct Threads {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
    begun: VecDeque<usize>,
}

impl Threads {
    fn ranks(n: usize) -> Vec<Self> {
        let mut ranks: Vec<Self> = (0..n)
            .map(|rank| Self {
                rank,
                to: Vec::new(),
                from: Vec::new(),
                begun: VecDeque::new(),
            })
            .collect();
        for sender in 0..n {
            for receiver in 0..n {
                let (to, from) = channel();
                ranks[sender].to.push(to);
                ranks[receiver].from.push(from);
            }
        }
        ranks
    }
}

impl GradientExchange for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn begin(&mut self, own: Vec<u8>) -> Result<(), ExchangeError> {
        self.begun.push_back(own.len());
        for to in &self.to {
            to.send(own.clone())?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let length = self.begun.pop_front().ok_or("nothing was begun")?;
        let mut all = Vec::new();
        for from in &self.from {
            let bytes = from.recv()?;
            assert_eq!(bytes.len(), length, "ranks give as many bytes");
            all.push(bytes);
        }
        Ok(all)
    }

    /// Pairs first, as networks do: another order than that of the ranks.
    fn fast_sum(&mut self, own: Vec<f32>) -> Result<Vec<f32>, ExchangeError> {
        let bytes = own.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.begin(bytes)?;
        let all = self.finish()?;
        let of = |bytes: &Vec<u8>| -> Vec<f32> {
            let (numbers, _) = bytes.as_chunks();
            numbers.iter().map(|n| f32::from_le_bytes(*n)).collect()
        };
        let mut sums: Vec<Vec<f32>> = all.iter().map(of).collect();
        while sums.len() > 1 {
            let pairs = sums.chunks(2).map(|pair| match pair {
                [a, b] => a.iter().zip(b).map(|(a, b)| a + b).collect(),
                one => one.concat(),
            });
            sums = pairs.collect();
        }
        Ok(sums.swap_remove(0))
    }
}

const BATCHES: usize = 8;

fn shared(folder: Option<&Path>) -> TrainerSettings {
    TrainerSettings {
        batch: 1,
        accumulate: BATCHES,
        epochs: 6,
        save_every: Some(3),
        ..settings(folder)
    }
}

/// What one rank came to.
#[derive(Debug, Clone, PartialEq)]
struct Came {
    bits: Vec<u32>,
    /// Of steps and epochs.
    losses: Vec<u64>,
    deviations: usize,
    largest: f64,
    ended: Ended,
}

/// A run on so many ranks; rank 0 has the folder. Gives what each came to.
fn run_on(n: usize, folder: Option<&Path>, sum: Sum, stop_after: u64, resumes: bool) -> Vec<Came> {
    run_of((n, 0.0), folder, sum, stop_after, resumes)
}

/// The same of a network with dropout.
fn run_of(
    (n, dropout): (usize, f64),
    folder: Option<&Path>,
    sum: Sum,
    stop_after: u64,
    resumes: bool,
) -> Vec<Came> {
    let one = |exchange: Threads| -> Came {
        let (training, validation) = (samples(26, 100), samples(7, 900));
        let folder = folder.filter(|_| exchange.rank() == 0);
        let options = spark_onnx::RunOptions::new().with_threads(1);
        let validation: &dyn Samples = &validation;
        let trainer = Trainer::new(
            dropping(1, dropout),
            heads(),
            &training,
            Some(validation),
            shared(folder),
            options,
        );
        let trainer = trainer.expect("settings");
        let mut trainer = trainer
            .with_exchange(Box::new(exchange), sum)
            .expect("even");
        if resumes {
            trainer.resume(&mut |_: &Event| Go::On).expect("goes on");
        }
        let mut came = Came {
            bits: Vec::new(),
            losses: Vec::new(),
            deviations: 0,
            largest: 0.0,
            ended: Ended::Done,
        };
        let outcome = trainer.run(&mut |event: &Event| {
            match event {
                Event::Step { loss, norm, .. } => {
                    came.losses.extend([loss.to_bits(), norm.to_bits()]);
                }
                Event::Epoch {
                    training,
                    validation,
                    ..
                } => {
                    let validation = validation.expect("some are held back");
                    came.losses
                        .extend([training.to_bits(), validation.to_bits()]);
                }
                Event::FastSum { deviation, .. } => {
                    came.deviations += 1;
                    came.largest = came.largest.max(*deviation);
                }
                _ => {}
            }
            match event {
                Event::Step { step, .. } if *step == stop_after => Go::Stop,
                _ => Go::On,
            }
        });
        came.ended = outcome.expect("trains").ended;
        came.bits = bits(&trainer);
        came
    };
    std::thread::scope(|scope| {
        let ranks = Threads::ranks(n).into_iter();
        let ranks: Vec<_> = ranks
            .map(|exchange| scope.spawn(move || one(exchange)))
            .collect();
        let came = ranks.into_iter().map(|rank| rank.join().expect("no panic"));
        came.collect()
    })
}

/// The same run by itself, as it is without an exchange.
fn alone() -> (Vec<u32>, usize) {
    alone_of(network(1))
}

fn alone_of(network: AdaptedNetwork) -> (Vec<u32>, usize) {
    let (training, validation) = (samples(26, 100), samples(7, 900));
    let options = spark_onnx::RunOptions::new().with_threads(1);
    let validation: &dyn Samples = &validation;
    let trainer = Trainer::new(
        network,
        heads(),
        &training,
        Some(validation),
        shared(None),
        options,
    );
    let mut trainer = trainer.expect("settings");
    let untrained = bits(&trainer);
    trainer.run(&mut |_: &Event| Go::On).expect("trains");
    let trained = bits(&trainer);
    let moved = trained.iter().zip(&untrained).filter(|(a, b)| a != b);
    let n = moved.count();
    (trained, n)
}

#[test]
fn every_number_of_ranks_has_the_bits_of_one_process() {
    let (want, n_moved) = alone();
    assert!(n_moved > want.len() / 2, "{n_moved} numbers were trained");
    let one = run_on(1, None, Sum::InOrder, u64::MAX, false);
    assert_eq!(one[0].bits, want);
    for n in [2, 4, 8] {
        for (rank, came) in run_on(n, None, Sum::InOrder, u64::MAX, false)
            .iter()
            .enumerate()
        {
            assert_eq!(came, &one[0], "rank {rank} of {n}");
        }
    }
}

/// Masks are those of batches, whichever rank computes them.
#[test]
fn every_number_of_ranks_drops_what_one_process_drops() {
    let (want, n_moved) = alone_of(dropping(1, 0.3));
    assert!(n_moved > want.len() / 2, "{n_moved} numbers were trained");
    assert_ne!(want, alone().0, "dropout acts");
    for n in [1, 2, 8] {
        for came in run_of((n, 0.3), None, Sum::InOrder, u64::MAX, false) {
            assert_eq!(came.bits, want, "{n} ranks");
        }
    }
    let folder = tempdir().expect("a folder");
    run_of((4, 0.3), Some(folder.path()), Sum::InOrder, 7, false);
    for came in run_of((2, 0.3), Some(folder.path()), Sum::InOrder, u64::MAX, true) {
        assert_eq!(came.bits, want, "4 ranks, then 2");
    }
}

#[test]
fn a_run_goes_on_with_the_same_bits_on_another_number_of_ranks() {
    let (want, _) = alone();
    for (before, after) in [(4, 2), (1, 8), (8, 1)] {
        let folder = tempdir().expect("a folder");
        let stopped = run_on(before, Some(folder.path()), Sum::InOrder, 7, false);
        assert!(stopped.iter().all(|came| came.ended == Ended::Stopped));
        let ended = run_on(after, Some(folder.path()), Sum::InOrder, u64::MAX, true);
        for came in &ended {
            assert_eq!(came.bits, want, "{before} ranks, then {after}");
            assert_eq!(came.ended, Ended::Done);
        }
    }
}

#[test]
fn the_fast_sum_says_how_far_it_lies_off_and_ranks_agree() {
    let (want, _) = alone();
    let fast = run_on(4, None, Sum::Fast, u64::MAX, false);
    assert!(fast.iter().all(|came| came == &fast[0]), "ranks differ");
    assert_ne!(fast[0].bits, want, "another order has other bits");
    assert_eq!(fast[0].deviations, 3);
    let largest = fast[0].largest;
    assert!(largest > 0.0 && largest < 1e-5, "{largest}");
    let value = |bits: &u32| f64::from(f32::from_bits(*bits));
    let pairs = fast[0].bits.iter().zip(&want);
    let off = pairs.map(|(a, b)| (value(a) - value(b)).abs());
    let off = off.fold(0.0, f64::max);
    assert!(off < 1e-2, "{off}");
}

#[test]
fn a_fast_run_goes_on_with_as_many_ranks_alone() {
    let folder = tempdir().expect("a folder");
    run_on(2, Some(folder.path()), Sum::Fast, 4, false);
    for (n, sum) in [(4, Sum::Fast), (1, Sum::InOrder)] {
        let training = samples(26, 100);
        let validation = samples(7, 900);
        let options = spark_onnx::RunOptions::new().with_threads(1);
        let run = shared(Some(folder.path()));
        let validation: &dyn Samples = &validation;
        let trainer = Trainer::new(
            network(1),
            heads(),
            &training,
            Some(validation),
            run,
            options,
        );
        let trainer = trainer.expect("settings");
        // The first of them asks nobody before it refuses.
        let exchange = Counted(n, None);
        let trainer = trainer.with_exchange(Box::new(exchange), sum);
        let mut trainer = trainer.expect("even");
        let refused = trainer.resume(&mut |_: &Event| Go::On);
        let Err(TrainError::OtherRun { what, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(what, "sum of gradients");
    }
    let again = run_on(2, Some(folder.path()), Sum::Fast, u64::MAX, true);
    assert!(again.iter().all(|came| came.ended == Ended::Done));
}

/// Rank 0 of so many, which hears its own words from all.
struct Counted(usize, Option<Vec<u8>>);

impl GradientExchange for Counted {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        self.0
    }

    fn begin(&mut self, own: Vec<u8>) -> Result<(), ExchangeError> {
        self.1 = Some(own);
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let own = self.1.take().ok_or("nothing was begun")?;
        Ok(vec![own; self.0])
    }

    fn fast_sum(&mut self, _: Vec<f32>) -> Result<Vec<f32>, ExchangeError> {
        Err("not here".into())
    }
}

#[test]
fn ranks_that_cannot_have_as_many_batches_are_refused() {
    for n in [0, 3, 16] {
        let training = samples(26, 100);
        let options = spark_onnx::RunOptions::new().with_threads(1);
        let trainer = Trainer::new(network(1), heads(), &training, None, shared(None), options);
        let trainer = trainer.expect("settings");
        let refused = trainer.with_exchange(Box::new(Counted(n, None)), Sum::InOrder);
        let Err(TrainError::Ranks { n_ranks, n_batches }) = refused else {
            panic!("{n} ranks are taken");
        };
        assert_eq!((n_ranks, n_batches), (n, BATCHES));
    }
}

/// Rank 0 of two, whose other rank has gone.
struct Lost;

impl GradientExchange for Lost {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        2
    }

    fn begin(&mut self, _: Vec<u8>) -> Result<(), ExchangeError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Vec<u8>>, ExchangeError> {
        Err("rank 1 has gone".into())
    }

    fn fast_sum(&mut self, _: Vec<f32>) -> Result<Vec<f32>, ExchangeError> {
        Err("rank 1 has gone".into())
    }
}

#[test]
fn a_rank_that_is_gone_ends_the_run_with_what_the_exchange_says() {
    for sum in [Sum::InOrder, Sum::Fast] {
        let training = samples(26, 100);
        let options = spark_onnx::RunOptions::new().with_threads(1);
        let trainer = Trainer::new(network(1), heads(), &training, None, shared(None), options);
        let trainer = trainer
            .expect("settings")
            .with_exchange(Box::new(Lost), sum);
        let mut trainer = trainer.expect("even");
        let error = trainer
            .run(&mut |_: &Event| Go::On)
            .expect_err("it is gone");
        assert_eq!(error.to_string(), "ranks: rank 1 has gone");
    }
}

/// Rank 0 of two, whose other rank computes the same, but comes to other variables.
struct Apart(VecDeque<Vec<u8>>);

impl GradientExchange for Apart {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        2
    }

    fn begin(&mut self, own: Vec<u8>) -> Result<(), ExchangeError> {
        self.0.push_back(own);
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let own = self.0.pop_front().ok_or("nothing was begun")?;
        let mut other = own.clone();
        // A checksum, which is shorter than any batch.
        if own.len() == 8 {
            other[0] ^= 1;
        }
        Ok(vec![own, other])
    }

    fn fast_sum(&mut self, own: Vec<f32>) -> Result<Vec<f32>, ExchangeError> {
        Ok(own)
    }
}

#[test]
fn ranks_that_come_to_other_variables_are_noticed_at_the_end_of_an_epoch() {
    let training = samples(26, 100);
    let options = spark_onnx::RunOptions::new().with_threads(1);
    let trainer = Trainer::new(network(1), heads(), &training, None, shared(None), options);
    let trainer = trainer.expect("settings");
    let trainer = trainer.with_exchange(Box::new(Apart(VecDeque::new())), Sum::InOrder);
    let ended = trainer.expect("even").run(&mut |_: &Event| Go::On);
    let Err(TrainError::Apart { step, rank }) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((step, rank), (3, 1));
}

#[test]
fn ranks_that_come_to_other_variables_leave_no_checkpoint_of_them() {
    let place = tempfile::tempdir().expect("a folder");
    let training = samples(26, 100);
    let options = spark_onnx::RunOptions::new().with_threads(1);
    let settings = TrainerSettings {
        save_every: Some(1),
        ..shared(Some(place.path()))
    };
    let trainer = Trainer::new(network(1), heads(), &training, None, settings, options);
    let trainer = trainer.expect("settings");
    let trainer = trainer.with_exchange(Box::new(Apart(VecDeque::new())), Sum::InOrder);
    let ended = trainer.expect("even").run(&mut |event: &Event| {
        assert!(!matches!(event, Event::Saved { .. }), "{event:?}");
        Go::On
    });
    let Err(TrainError::Apart { step, rank }) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((step, rank), (1, 1));
}

#[test]
fn the_digest_of_all_samples_sees_those_that_the_short_one_passes_over() {
    let one = samples(40, 100);
    let mut other = one.clone();
    other[1] = samples(1, 7).swap_remove(0);
    assert_eq!(
        digest(&one).expect("is read"),
        digest(&other).expect("is read")
    );
    let [one, other] = [one, other].map(|samples| digest_of_all(&samples).expect("is read"));
    assert_ne!(one, other);
    assert!(one.starts_with("40 ") && other.starts_with("40 "));
}

/// Samples that remember in which order they were asked for.
struct Remembering {
    samples: Vec<Sample>,
    asked: RefCell<Vec<usize>>,
}

impl Samples for Remembering {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn sample(&self, index: usize) -> Result<Sample, Box<dyn std::error::Error + Send + Sync>> {
        self.asked.borrow_mut().push(index);
        Ok(self.samples[index].clone())
    }
}

/// The same steps spelled out: batches one after the other, an accumulator, a bound, AdamW.
#[test]
fn steps_have_the_bits_of_their_parts_one_after_the_other() {
    let training = Remembering {
        samples: samples(24, 100),
        asked: RefCell::default(),
    };
    let settings = TrainerSettings {
        epochs: 2,
        decay: Decay::Constant,
        warm_up: 0,
        clip: Some(0.05),
        ..settings(None)
    };
    let (batch, accumulate, rates) = (settings.batch, settings.accumulate, settings.rates);
    let options = spark_onnx::RunOptions::new().with_threads(1);
    let trainer = Trainer::new(
        network(1),
        heads(),
        &training,
        None,
        settings,
        options.clone(),
    );
    let mut trainer = trainer.expect("settings");
    training.asked.borrow_mut().clear();
    let mut losses = Vec::new();
    let outcome = trainer.run(&mut |event: &Event| {
        if let Event::Step { loss, .. } = event {
            losses.push(loss.to_bits());
        }
        Go::On
    });
    assert_eq!(outcome.expect("trains").steps, 8);

    let network = network(1);
    let variables = network.adapter().variables();
    let groups = variables.optimiser_groups(rates);
    let mut optimiser = AdamW::new(groups).expect("groups");
    let shapes = [("x", vec![batch, 6])];
    let step = TrainingStep::new(&network, &heads(), &shapes, &options);
    let mut step = step.expect("plans");
    let asked = training.asked.borrow();
    for (indices, want) in asked.chunks(batch * accumulate).zip(&losses) {
        let mut accumulator = Accumulator::new(variables.all().cloned());
        let mut loss = 0.0;
        for indices in indices.chunks(batch) {
            let of = |which: fn(&Sample) -> &Tensor, width| {
                let all = indices
                    .iter()
                    .map(|&i| which(&training.samples[i]).to_f32());
                let all: Vec<f32> = all.flatten().collect();
                Tensor::from_f32([batch, width], all).expect("fits")
            };
            let x = of(|sample| &sample.inputs[0].1, 6);
            let y = of(|sample| &sample.targets[0].1, 3);
            let result = step.run(&network, &[("x", &x)], &[("y1", &y)]);
            let result = result.expect("runs");
            loss += result.loss / accumulate as f64;
            accumulator
                .add_gradients(&result.gradients)
                .expect("are added");
        }
        let mut gradients = accumulator.mean().expect("is had");
        let norm = clip_by_norm(&mut gradients, 0.05).expect("is finite");
        assert!(norm > 0.05, "the bound acts");
        optimiser.step(&gradients, 1.0).expect("a step");
        assert_eq!(loss.to_bits(), *want);
    }
    let of = |var: &candle_core::Var| -> Vec<f32> {
        let flat = var.flatten_all().and_then(|flat| flat.to_vec1());
        flat.expect("is in f32")
    };
    let want: Vec<u32> = variables.all().flat_map(of).map(f32::to_bits).collect();
    assert_eq!(bits(&trainer), want);
}

/// Two ranks, one of which says what it should not.
struct Lying {
    rank: usize,
    answers: Vec<Vec<u8>>,
}

impl GradientExchange for Lying {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        2
    }

    fn begin(&mut self, _own: Vec<u8>) -> Result<(), ExchangeError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Vec<u8>>, ExchangeError> {
        Ok(self.answers.clone())
    }

    fn fast_sum(&mut self, _own: Vec<f32>) -> Result<Vec<f32>, ExchangeError> {
        Ok(vec![0.0; 3])
    }
}

#[test]
fn ranks_that_say_what_they_should_not_are_errors() {
    let training = samples(26, 100);
    let answers = [
        (vec![], "0 of 2 ranks answer"),
        (vec![vec![0; 9]], "1 of 2 ranks answer"),
        (vec![vec![0; 9]; 3], "3 of 2 ranks answer"),
        (vec![vec![0; 9]; 2], "of another length than here"),
        (vec![vec![], vec![]], "of another length than here"),
    ];
    for (answers, why) in answers {
        for sum in [Sum::InOrder, Sum::Fast] {
            let options = spark_onnx::RunOptions::new().with_threads(1);
            let trainer = Trainer::new(network(1), heads(), &training, None, shared(None), options);
            let lying = Lying {
                rank: 1,
                answers: answers.clone(),
            };
            let trainer = trainer
                .expect("settings")
                .with_exchange(Box::new(lying), sum);
            let ended = trainer.expect("even").run(&mut |_: &Event| Go::On);
            let error = ended.expect_err("a lie").to_string();
            let is_fast = sum == Sum::Fast && error.contains("of another length than here");
            assert!(error.contains(why) || is_fast, "{error}");
        }
    }
    let options = spark_onnx::RunOptions::new().with_threads(1);
    let trainer = Trainer::new(network(1), heads(), &training, None, shared(None), options);
    let lying = Lying {
        rank: 2,
        answers: Vec::new(),
    };
    let refused = trainer
        .expect("settings")
        .with_exchange(Box::new(lying), Sum::InOrder);
    let error = refused.expect_err("no rank").to_string();
    assert!(error.contains("there is no rank 2 of 2"), "{error}");
    // A length that nobody has memory for.
    let mut lying = Lying {
        rank: 0,
        answers: vec![u64::MAX.to_le_bytes().to_vec(); 2],
    };
    let error = lying.gather(b"own").expect_err("too long").to_string();
    assert!(error.contains("more than"), "{error}");
    lying.answers.clear();
    let error = lying.share(b"own").expect_err("nobody").to_string();
    assert!(error.contains("0 of 2 ranks answer"), "{error}");
}
