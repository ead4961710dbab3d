//! A run of training: samples in an order, steps, checkpoints, the best epoch.
//!
//! ```text
//! for step in 0..total:
//!     gradients = mean over `accumulate` batches of the epoch's order        same bits for any number of threads, and of ranks that
//!                                                                           share them out (`shards`)
//!     no finite number? skipped, counted, after more than `most_skipped` in a row an error
//!     gradients are bounded, AdamW moves the variables
//!     every `save_every` steps a checkpoint
//!     at the end of an epoch: loss of the samples held back, best so far?
//! ```
//!
//! Where a run is, is one number: the step. The order of an epoch follows from the seed and its number, masks of dropout from the adapter's
//! seed, the layer and the batch's number in the run (step * `accumulate` + its number in the step), whichever rank computes it: a run that is
//! resumed, or shared out, makes the steps that it would have made, with the same bits.

mod checkpoint;
mod event;
mod order;
mod packed;
mod samples;
mod settings;
mod shards;
mod state;
mod stored;

use std::path::Path;
use std::time::{Duration, Instant};

use candle_core::Var;
use spark_dora::DoraError;
use spark_dora::optim::{AdamW, clip_by_norm};
use spark_onnx::RunOptions;
use spark_onnx_graph::Tensor;

use crate::error::{Result, TrainError};
use crate::exact::exact;
use crate::exchange::{GradientExchange, Single, finish_all};
use crate::loss::OutputHeads;
use crate::network::AdaptedNetwork;
use crate::step::{Evaluation, TrainingStep};
use checkpoint::Folder;
pub use event::{Event, Go, Observer};
use order::order;
pub use packed::{LeftOut, PackedSamples, SAMPLES_FORMAT, SamplePacker};
use samples::batch;
pub(crate) use samples::evenly_spread;
pub use samples::{Sample, Samples, digest, digest_of_all};
pub use settings::{Decay, TrainerSettings};
pub use shards::Sum;
use shards::Summed;
use state::{Found, Progress};
pub use stored::{SampleRange, SampleWriter, StoredSamples};

/// First steps of a run with fast sums that are made in order too.
const STEPS_MEASURED: u64 = 3;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All steps were made.
    Done,
    /// The observer said so.
    Stopped,
    /// No epoch was better for longer than the settings bear.
    Patience,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Steps made or skipped, those before resuming among them.
    pub steps: u64,
    /// Best loss of an epoch, and the step after it.
    pub best: Option<(f64, u64)>,
    /// Why it ended.
    pub ended: Ended,
    /// Which part of the time of its steps a run waited for samples, 0 to 1; evaluations and checkpoints are not counted.
    pub waiting: f64,
}

/// What trains an adapter on samples.
pub struct Trainer<'d> {
    network: AdaptedNetwork,
    heads: Vec<OutputHeads>,
    training: &'d dyn Samples,
    validation: Option<&'d dyn Samples>,
    settings: TrainerSettings,
    options: RunOptions,
    exchange: Box<dyn GradientExchange + 'd>,
    sum: Sum,
    /// Steps with fast sums that are made in order too.
    to_measure: u64,
    folder: Option<Folder>,
    optimiser: AdamW,
    progress: Progress,
    is_resumed: bool,
    /// The last step that a checkpoint was written after.
    saved: Option<u64>,
    /// How long the last step waited for its samples.
    waiting: Duration,
}

impl std::fmt::Debug for Trainer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("settings", &self.settings)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

impl<'d> Trainer<'d> {
    /// A run of these settings. It takes the folder of checkpoints, if the settings name one; what is in it stays, and is read
    /// by [`Trainer::resume`] alone.
    ///
    /// # Errors
    ///
    /// [`TrainError::Setting`]; [`TrainError::NotExact`] for options of another precision than fp32; [`TrainError::Sample`] for samples
    /// that cannot be read, some of which tell runs apart; [`TrainError::TooFewSamples`] for less than one step; [`TrainError::Busy`] if another run writes
    /// to the folder; [`TrainError::Io`].
    pub fn new(
        network: AdaptedNetwork,
        heads: Vec<OutputHeads>,
        training: &'d dyn Samples,
        validation: Option<&'d dyn Samples>,
        settings: TrainerSettings,
        options: RunOptions,
    ) -> Result<Self> {
        settings.check()?;
        let options = exact(&options)?;
        settings.steps_per_epoch(training.len())?;
        let folder = settings.folder.as_deref().map(Folder::take).transpose()?;
        let groups = network.adapter().variables();
        let optimiser = AdamW::new(groups.optimiser_groups(settings.rates))?;
        let progress = Progress {
            step: 0,
            made: 0,
            n_samples: training.len(),
            sum: 0.0,
            count: 0,
            best: None,
            waited: 0,
            settings: run_of(&settings, &network, &heads, [Some(training), validation])?,
        };
        Ok(Self {
            network,
            heads,
            training,
            validation: validation.filter(|samples| !samples.is_empty()),
            settings,
            options,
            exchange: Box::new(Single::new()),
            sum: Sum::InOrder,
            to_measure: STEPS_MEASURED,
            folder,
            optimiser,
            progress,
            is_resumed: false,
            saved: None,
            waiting: Duration::ZERO,
        })
    }

    /// The same run, shared out among ranks: each computes every so manieth batch of a step, and of the samples held back. Rank 0 has the folder;
    /// the settings of the others name none. All ranks must be given the same run, and their observers must
    /// stop it at the same step.
    ///
    /// # Errors
    ///
    /// [`TrainError::Ranks`] unless every rank has as many batches of a step as the others; [`TrainError::Exchange`] for a rank that there
    /// is not.
    pub fn with_exchange(
        mut self,
        exchange: Box<dyn GradientExchange + 'd>,
        sum: Sum,
    ) -> Result<Self> {
        let (n_ranks, n_batches) = (exchange.size(), self.settings.accumulate);
        if n_ranks == 0 || !n_batches.is_multiple_of(n_ranks) {
            return Err(TrainError::Ranks { n_ranks, n_batches });
        }
        let rank = exchange.rank();
        if rank >= n_ranks {
            let why = format!("there is no rank {rank} of {n_ranks}");
            return Err(TrainError::Exchange(why.into()));
        }
        if sum == Sum::Fast {
            // Another number of ranks would go on with other bits.
            let named = (Sum::SETTING.to_owned(), format!("fast, {n_ranks} ranks"));
            self.progress.settings.push(named);
        }
        (self.exchange, self.sum) = (exchange, sum);
        Ok(self)
    }

    /// Says to the other ranks that this one is done. They wait for each other; there is no step afterwards.
    ///
    /// # Errors
    ///
    /// [`TrainError::Exchange`].
    pub fn leave(&mut self) -> Result<()> {
        self.exchange.leave().map_err(TrainError::Exchange)
    }

    /// Goes on from the newest whole checkpoint of the folder, of which rank 0 tells the others. Gives the step.
    ///
    /// # Errors
    ///
    /// [`TrainError::NoCheckpoint`] if there is none; [`TrainError::OtherRun`] if it is that of another network, of other settings,
    /// samples or layers, and nothing is changed then; [`TrainError::Io`].
    pub fn resume(&mut self, observer: &mut dyn Observer) -> Result<u64> {
        let found = match self.exchange.rank() {
            0 => self.newest(observer)?,
            _ => None,
        };
        let found = found.map_or(Vec::new(), |found| found.to_bytes());
        let found = self.exchange.share(&found).map_err(TrainError::Exchange)?;
        let Some(found) = Found::of_bytes(&found) else {
            return Err(TrainError::NoCheckpoint {
                folder: self.settings.folder.clone().unwrap_or_default(),
            });
        };
        let progress = found.progress()?;
        self.hold_against(&progress, found.folder())?;
        let state = found.read(progress.made, &self.network)?;
        self.optimiser.resume(state)?;
        self.progress = progress;
        self.saved = Some(self.progress.step);
        self.is_resumed = true;
        Ok(self.progress.step)
    }

    /// The newest whole checkpoint of the folder.
    fn newest(&self, observer: &mut dyn Observer) -> Result<Option<Found>> {
        let Some(folder) = &self.folder else {
            return Ok(None);
        };
        for step in folder.steps()? {
            match folder.damage(step) {
                None => return Ok(Some(folder.found(step)?)),
                Some(reason) => {
                    let folder = folder.of_step(step);
                    observer.event(&Event::Damaged { folder, reason });
                }
            }
        }
        Ok(None)
    }

    /// Refuses what would make other numbers than the run that is resumed.
    fn hold_against(&self, was: &Progress, folder: &Path) -> Result<()> {
        let other = |what: &str, was: String, is: String| {
            Err(TrainError::OtherRun {
                folder: folder.to_owned(),
                what: what.to_owned(),
                was,
                is,
            })
        };
        let (n_was, n_is) = (was.n_samples, self.training.len());
        if n_was != n_is {
            return other("count of samples", n_was.to_string(), n_is.to_string());
        }
        for (name, is) in &self.progress.settings {
            let mut known = was.settings.iter();
            match known.find(|(known, _)| known == name) {
                Some((_, was)) if was == is => {}
                Some((_, was)) => return other(name, was.clone(), is.clone()),
                None => return other(name, "not written".to_owned(), is.clone()),
            }
        }
        let is_ours = |name: &String| self.progress.settings.iter().any(|(own, _)| own == name);
        if let Some((name, was)) = was.settings.iter().find(|(name, _)| !is_ours(name)) {
            return other(name, was.clone(), "not set".to_owned());
        }
        Ok(())
    }

    /// The network, trained as far as it is.
    pub fn network(&self) -> &AdaptedNetwork {
        &self.network
    }

    /// The same, to keep.
    pub fn into_network(self) -> AdaptedNetwork {
        self.network
    }

    /// Trains to the end, or until the observer stops it.
    ///
    /// # Errors
    ///
    /// As [`TrainingStep::new`] and [`TrainingStep::run`]; [`TrainError::Sample`], [`TrainError::UnlikeSamples`] and
    /// [`TrainError::NotOneSample`] for samples that cannot be had or do not fit together; [`TrainError::Diverged`];
    /// [`TrainError::Io`] if a checkpoint cannot be written.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        let per_epoch = self.settings.steps_per_epoch(self.training.len())?;
        let total = total_steps(&self.settings, self.training.len())?;
        let schedule = self.settings.schedule(total);
        if let Some(folder) = self.folder.as_ref().filter(|_| !self.is_resumed)
            && !folder.steps()?.is_empty()
        {
            return Err(TrainError::FolderUsed {
                folder: self.settings.folder.clone().unwrap_or_default(),
            });
        }
        self.is_resumed = true;
        self.exchange.steps_begin();
        let mut step = None;
        let mut evaluations = Vec::new();
        let mut in_a_row = 0;
        let started = (Instant::now(), self.progress.step);
        let mut ended = Ended::Done;
        let (mut waited, mut took) = (Duration::ZERO, Duration::ZERO);
        let mut taken: Option<(u64, Vec<usize>)> = None;
        // A run that had ended so before it was resumed.
        let is_patient = |progress: &Progress| {
            let patience = self.settings.patience;
            patience.is_none_or(|most| progress.waited <= most)
        };
        if !is_patient(&self.progress) {
            return Ok(Outcome {
                steps: self.progress.step,
                best: self.progress.best,
                ended: Ended::Patience,
                waiting: 0.0,
            });
        }
        while self.progress.step < total {
            let epoch = self.progress.step / per_epoch;
            if taken.as_ref().is_none_or(|(of, _)| *of != epoch) {
                taken = Some((epoch, order(self.training.len(), self.settings.seed, epoch)));
            }
            let indices = taken.as_ref().map_or(&[][..], |(_, order)| order);
            let of_step = self.settings.batch * self.settings.accumulate;
            let from = (self.progress.step % per_epoch) as usize * of_step;
            let indices = indices[from..from + of_step].to_vec();
            let factor = schedule.factor(self.progress.step);
            let began = Instant::now();
            self.waiting = Duration::ZERO;
            let made = self.one_step(&mut step, &indices, factor)?;
            let of_this = began.elapsed();
            waited += self.waiting;
            took += of_this;
            self.progress.step += 1;
            let mut fast = None;
            let event = match made {
                Made::Step {
                    loss,
                    parts,
                    norm,
                    deviation,
                } => {
                    fast = deviation;
                    in_a_row = 0;
                    self.progress.made = self.progress.made.saturating_add(1);
                    self.progress.sum += loss;
                    self.progress.count = self.progress.count.saturating_add(1);
                    let done = self.progress.step - started.1;
                    let left = (total - self.progress.step) as f64 / done as f64;
                    let left = started.0.elapsed().as_secs_f64() * left;
                    Event::Step {
                        step: self.progress.step,
                        total,
                        epoch,
                        loss,
                        parts,
                        rate: self.settings.rates.rate * factor,
                        norm,
                        samples_per_second: of_step as f64 / of_this.as_secs_f64(),
                        waiting: part(self.waiting, of_this),
                        remaining: Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX),
                    }
                }
                Made::Nothing { loss } => {
                    in_a_row += 1;
                    Event::Skipped {
                        step: self.progress.step,
                        loss,
                        in_a_row,
                    }
                }
            };
            let mut go = observer.event(&event);
            if let Some(deviation) = fast {
                let step = self.progress.step;
                if observer.event(&Event::FastSum { step, deviation }) == Go::Stop {
                    go = Go::Stop;
                }
            }
            if in_a_row > self.settings.most_skipped {
                return Err(TrainError::Diverged {
                    step: self.progress.step,
                    in_a_row,
                });
            }
            let is_end_of_epoch = self.progress.step.is_multiple_of(per_epoch);
            if is_end_of_epoch {
                let event = self.end_of_epoch(epoch, &mut evaluations)?;
                if observer.event(&event) == Go::Stop {
                    go = Go::Stop;
                }
                if matches!(event, Event::Epoch { is_best: true, .. })
                    && self.save(observer)? == Go::Stop
                {
                    go = Go::Stop;
                }
            }
            let saves = self.settings.save_every;
            if saves.is_some_and(|every| self.progress.step.is_multiple_of(every))
                && self.save(observer)? == Go::Stop
            {
                go = Go::Stop;
            }
            if go == Go::Stop {
                ended = Ended::Stopped;
                break;
            }
            let patience = self.settings.patience;
            if is_end_of_epoch && patience.is_some_and(|most| self.progress.waited > most) {
                ended = Ended::Patience;
                break;
            }
        }
        match ended {
            // Maybe of this rank alone.
            Ended::Stopped => self.write(observer)?,
            Ended::Done | Ended::Patience => self.save(observer)?,
        };
        Ok(Outcome {
            steps: self.progress.step,
            best: self.progress.best,
            ended,
            waiting: part(waited, took),
        })
    }

    /// Sets the variables to those after the best epoch, if the folder has a checkpoint of it; gives the step. To judge and to ship:
    /// a run goes on from its last checkpoint ([`Trainer::resume`]).
    ///
    /// # Errors
    ///
    /// [`TrainError::Io`] and [`TrainError::OtherRun`] if the checkpoint cannot be read.
    pub fn take_best(&mut self) -> Result<Option<u64>> {
        let (Some(folder), Some((_, step))) = (&self.folder, self.progress.best) else {
            return Ok(None);
        };
        if step != self.progress.step {
            if folder.damage(step).is_some() {
                return Ok(None);
            }
            let found = folder.found(step)?;
            found.read(self.progress.made, &self.network)?;
        }
        Ok(Some(step))
    }

    /// A checkpoint of what all ranks have come to.
    fn save(&mut self, observer: &mut dyn Observer) -> Result<Go> {
        if self.saved != Some(self.progress.step) {
            self.compare_variables()?;
        }
        self.write(observer)
    }

    /// A checkpoint, unless this step has one.
    fn write(&mut self, observer: &mut dyn Observer) -> Result<Go> {
        if self.saved == Some(self.progress.step) {
            return Ok(Go::On);
        }
        self.saved = Some(self.progress.step);
        let Some(folder) = &self.folder else {
            return Ok(Go::On);
        };
        let state = self.optimiser.state();
        let path = folder.write(&self.network, state, &self.progress, self.settings.keep)?;
        Ok(observer.event(&Event::Saved {
            step: self.progress.step,
            folder: path,
        }))
    }

    /// Gradients over the batches of one step, and the step.
    fn one_step(
        &mut self,
        step: &mut Option<TrainingStep>,
        indices: &[usize],
        factor: f64,
    ) -> Result<Made> {
        let groups = self.network.adapter().variables();
        let variables: Vec<Var> = groups.all().cloned().collect();
        let mut exchange = std::mem::replace(&mut self.exchange, Box::new(Single::new()));
        let summed = self.summed(exchange.as_mut(), &variables, step, indices);
        self.exchange = exchange;
        let Summed {
            loss,
            parts,
            mut gradients,
            deviation,
        } = summed?;
        if !loss.is_finite() {
            return Ok(Made::Nothing { loss });
        }
        let limit = self.settings.clip.unwrap_or(f64::INFINITY);
        let norm = match clip_by_norm(&mut gradients, limit) {
            Ok(norm) => norm,
            Err(DoraError::NotFinite { .. }) => return Ok(Made::Nothing { loss }),
            Err(error) => return Err(error.into()),
        };
        self.optimiser.step(&gradients, factor)?;
        Ok(Made::Step {
            loss,
            parts,
            norm,
            deviation,
        })
    }

    /// What the batches of one step come to on all ranks.
    fn summed(
        &mut self,
        exchange: &mut dyn GradientExchange,
        variables: &[Var],
        step: &mut Option<TrainingStep>,
        indices: &[usize],
    ) -> Result<Summed> {
        let (sum, size) = (self.sum, self.settings.batch);
        let is_measured = sum == Sum::Fast && self.to_measure > 0;
        self.to_measure -= u64::from(is_measured);
        let n_batches = indices.len() / size;
        let first_pass = self.progress.step.wrapping_mul(n_batches as u64);
        let mut waited = Duration::ZERO;
        let mut compute = |n: usize| {
            let indices = &indices[n * size..(n + 1) * size];
            let began = Instant::now();
            let sample = batch(self.training, indices)?;
            waited += began.elapsed();
            let (inputs, targets) = (lent(&sample.inputs), self.taught(&sample.targets));
            let step = match step {
                Some(step) => step,
                None => {
                    let planned = match self.settings.recompute {
                        true => TrainingStep::recomputing,
                        false => TrainingStep::new,
                    };
                    let shapes = shapes(&inputs);
                    let planned = planned(&self.network, &self.heads, &shapes, &self.options);
                    step.insert(planned?)
                }
            };
            let pass = first_pass.wrapping_add(n as u64);
            step.run_pass(&self.network, pass, &inputs, &targets)
        };
        let summed = match sum {
            Sum::InOrder => shards::in_order(exchange, variables, n_batches, &mut compute),
            Sum::Fast => shards::fast(exchange, variables, n_batches, is_measured, &mut compute),
        };
        self.waiting = waited;
        summed
    }

    /// Targets of the outputs that are taught.
    fn taught<'t>(&self, targets: &'t [(String, Tensor)]) -> Vec<(&'t str, &'t Tensor)> {
        let mut taught = lent(targets);
        taught.retain(|(name, _)| self.heads.iter().any(|heads| heads.output == *name));
        taught
    }

    fn end_of_epoch(
        &mut self,
        epoch: u64,
        evaluations: &mut Vec<(usize, Evaluation)>,
    ) -> Result<Event> {
        let training = self.progress.sum / self.progress.count as f64;
        (self.progress.sum, self.progress.count) = (0.0, 0);
        let validation = match self.validation {
            None => None,
            Some(samples) => Some(self.mean_loss(samples, evaluations)?),
        };
        let loss = validation.unwrap_or(training);
        let is_best = match self.progress.best {
            None => loss.is_finite(),
            Some((best, _)) => loss < best,
        };
        self.compare_variables()?;
        if is_best {
            self.progress.best = Some((loss, self.progress.step));
            self.progress.waited = 0;
        } else {
            self.progress.waited = self.progress.waited.saturating_add(1);
        }
        Ok(Event::Epoch {
            epoch,
            training,
            validation,
            is_best,
        })
    }

    /// Every rank makes every step by itself: were one to come to other numbers, all that follows would be no run of any settings.
    fn compare_variables(&mut self) -> Result<()> {
        if self.exchange.size() == 1 {
            return Ok(());
        }
        let own = self.network.fingerprint_of_variables()?.into_bytes();
        self.exchange.begin(own).map_err(TrainError::Exchange)?;
        let all = finish_all(self.exchange.as_mut()).map_err(TrainError::Exchange)?;
        match all.iter().position(|other| *other != all[0]) {
            None => Ok(()),
            Some(rank) => {
                let step = self.progress.step;
                Err(TrainError::Apart { step, rank })
            }
        }
    }

    /// The mean loss over all samples: whole batches, and what is left as one. Ranks take turns, and each adds up all.
    fn mean_loss(
        &mut self,
        samples: &dyn Samples,
        evaluations: &mut Vec<(usize, Evaluation)>,
    ) -> Result<f64> {
        let all: Vec<usize> = (0..samples.len()).collect();
        let batches: Vec<&[usize]> = all.chunks(self.settings.batch).collect();
        let (rank, size) = (self.exchange.rank(), self.exchange.size());
        let mut sum = 0.0;
        for round in batches.chunks(size) {
            let own = match round.get(rank) {
                Some(indices) => self.loss_of(samples, indices, evaluations)?,
                None => f64::NAN,
            };
            let own = own.to_le_bytes().to_vec();
            self.exchange.begin(own).map_err(TrainError::Exchange)?;
            let losses = finish_all(self.exchange.as_mut()).map_err(TrainError::Exchange)?;
            for (indices, bytes) in round.iter().zip(losses) {
                let loss = bytes.first_chunk().copied().map(f64::from_le_bytes);
                sum += loss.unwrap_or(f64::NAN) * indices.len() as f64;
            }
        }
        Ok(sum / samples.len() as f64)
    }

    /// The mean loss of one batch.
    fn loss_of(
        &self,
        samples: &dyn Samples,
        indices: &[usize],
        evaluations: &mut Vec<(usize, Evaluation)>,
    ) -> Result<f64> {
        let sample = batch(samples, indices)?;
        let (inputs, targets) = (lent(&sample.inputs), self.taught(&sample.targets));
        let known = evaluations.iter().position(|(n, _)| *n == indices.len());
        let at = match known {
            Some(at) => at,
            None => {
                let shapes = shapes(&inputs);
                let evaluation =
                    Evaluation::new(&self.network, &self.heads, &shapes, &self.options)?;
                evaluations.push((indices.len(), evaluation));
                evaluations.len() - 1
            }
        };
        let evaluated = evaluations[at].1.run(&self.network, &inputs, &targets)?;
        Ok(evaluated.loss)
    }
}

/// All that the numbers of a run hang on, by name.
fn run_of(
    settings: &TrainerSettings,
    network: &AdaptedNetwork,
    heads: &[OutputHeads],
    [training, validation]: [Option<&dyn Samples>; 2],
) -> Result<Vec<(String, String)>> {
    let mut named = settings.of_numbers();
    if settings.decay != Decay::Constant {
        let total = total_steps(settings, training.map_or(0, |samples| samples.len()))?;
        named.push(("steps in all".to_owned(), total.to_string()));
    }
    named.extend(network.identity());
    named.push(("heads".to_owned(), format!("{heads:?}")));
    for (name, samples) in [("samples", training), ("held back", validation)] {
        let digest = match samples.filter(|samples| !samples.is_empty()) {
            Some(samples) => digest(samples)?,
            None => "none".to_owned(),
        };
        named.push((name.to_owned(), digest));
    }
    Ok(named)
}

fn total_steps(settings: &TrainerSettings, n_samples: usize) -> Result<u64> {
    let total = settings.steps_per_epoch(n_samples)?;
    let total = total.saturating_mul(settings.epochs);
    Ok(total.min(settings.max_steps.unwrap_or(u64::MAX)))
}

/// Of a whole, which may be nothing.
fn part(of: Duration, whole: Duration) -> f64 {
    match whole.is_zero() {
        true => 0.0,
        false => of.as_secs_f64() / whole.as_secs_f64(),
    }
}

enum Made {
    Step {
        loss: f64,
        parts: Vec<(String, f64)>,
        norm: f64,
        deviation: Option<f64>,
    },
    Nothing {
        loss: f64,
    },
}

fn lent(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    let tensors = tensors.iter();
    tensors
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

fn shapes<'n>(inputs: &[(&'n str, &Tensor)]) -> Vec<(&'n str, Vec<usize>)> {
    let inputs = inputs.iter();
    inputs
        .map(|(name, tensor)| (*name, tensor.shape().to_vec()))
        .collect()
}
