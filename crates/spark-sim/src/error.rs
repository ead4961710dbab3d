//! Why a simulation input was refused.

use std::path::PathBuf;

/// Returns [`SimError::OutOfRange`] for the first number outside its range, which the error states.
macro_rules! plausible {
    ($($what:literal: $got:expr, $low:literal, $high:literal;)*) => {$(
        let got: f64 = $got;
        if !($low..=$high).contains(&got) {
            let want = concat!("between ", $low, " and ", $high);
            return Err($crate::SimError::OutOfRange { what: $what, got, want });
        }
    )*};
}
pub(crate) use plausible;

/// Why a simulation input was refused. No variant means "try again".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// Two arrays that describe the same lanes differ in length.
    #[error("`{what}` holds {got} lanes, expected {want}")]
    LengthMismatch {
        /// Which argument is wrong.
        what: &'static str,
        /// Number of lanes given.
        got: usize,
        /// Number of lanes needed.
        want: usize,
    },
    /// A number is outside the range in which it has a meaning.
    #[error("`{what}` is {got}, expected {want}")]
    OutOfRange {
        /// Name of the quantity, with its unit.
        what: &'static str,
        /// The number that was given.
        got: f64,
        /// The range it must lie in.
        want: &'static str,
    },
    /// A sensor's noise has no meaning.
    #[error("noise of `{channel}`: `{field}` is {got}, expected {want}")]
    Noise {
        /// The channel, as in [`SensorNoise`](crate::scenario::SensorNoise).
        channel: &'static str,
        /// Field of the channel.
        field: &'static str,
        /// The number that was given.
        got: f64,
        /// The range it must lie in, with its unit.
        want: &'static str,
    },
    /// Only the kinematic model has a closed-form step.
    #[error("vehicle model {model:?} has no exact step; use Euler or RK4")]
    NoExactStep {
        /// The model asked for.
        model: crate::vehicle::VehicleModel,
    },
    /// A profile over time cannot be used.
    #[error("{what}, point {point_idx}: {reason}")]
    Profile {
        /// What the profile describes.
        what: &'static str,
        /// The first offending point.
        point_idx: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A road cannot be built.
    #[error("road segment {segment_idx}: {reason}")]
    Road {
        /// The first offending segment.
        segment_idx: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A road of an OpenDRIVE file cannot be read, or is beyond what is read.
    #[error("`{path}`, road {road}: {reason}")]
    OpenDrive {
        /// The file that was read.
        path: PathBuf,
        /// The road's `id` in the file.
        road: String,
        /// What is wrong with it, or beyond what is read.
        reason: String,
    },
    /// A road has no such lane to drive in.
    #[error("road {road} has no driving lane {lane}")]
    NoLane {
        /// The road's `id` in the file.
        road: String,
        /// The lane's `id`, positive to the left of the reference line.
        lane: i32,
    },
    /// The time step is too long for the model.
    #[error("a step of {dt_s} s is too long for vehicle model {model:?}: at most {longest_s} s")]
    StepTooLong {
        /// The model asked for.
        model: crate::vehicle::VehicleModel,
        /// Step asked for, s.
        dt_s: f64,
        /// Longest stable step, s.
        longest_s: f64,
    },
    /// The closed loop does not offer the model.
    #[error("vehicle model {model:?} can be stepped on its own but not in the closed loop")]
    OpenLoopOnly {
        /// The model asked for.
        model: crate::vehicle::VehicleModel,
    },
    /// An actor of a scenario makes no sense.
    #[error("actor {actor_idx}: {reason}")]
    Actor {
        /// The first offending actor.
        actor_idx: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The GPU was asked for and cannot be had.
    #[error("no GPU to run scenarios on: {reason}")]
    NoGpu {
        /// Why there is none, or why it cannot be used.
        reason: String,
    },
    /// A GPU does not do this.
    #[error("{what} exists on the CPU only; leave `device` unset or set it to the CPU")]
    CpuOnly {
        /// What was asked for.
        what: &'static str,
    },
    /// A controller's CUDA C cannot be used.
    #[error("the controller's CUDA C: {reason}")]
    Snippet {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A search varies a parameter within two bounds.
    #[error("{parameter} is varied twice, and one would undo the other")]
    VariedTwice {
        /// What is varied.
        parameter: String,
    },
    /// A parameter is to vary that changes nothing about the scenario.
    #[error("`{parameter}` changes nothing: there is {lacks}")]
    NothingToVary {
        /// What is varied, as files call it.
        parameter: String,
        /// What the scenario lacks.
        lacks: &'static str,
    },
    /// No scenario of a search was valid.
    #[error("no scenario within the bounds could be run, the first because {why}")]
    NothingRan {
        /// What was wrong with the first one.
        why: String,
    },
    /// A file's ending says nothing that can be read or written.
    #[error("`{path}`: expected a name ending in .toml or .json")]
    FileFormat {
        /// The file that was to be read or written.
        path: PathBuf,
    },
    /// A file could not be accessed.
    #[error("cannot access `{path}`: {source}")]
    Io {
        /// The file that was to be read or written.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file is larger than makes sense.
    #[error("`{path}` holds {bytes} bytes, at most {most} are read")]
    FileTooLarge {
        /// The file that was to be read.
        path: PathBuf,
        /// Size of the file.
        bytes: u64,
        /// Largest size that is read.
        most: u64,
    },
    /// A file's text does not follow its format.
    #[error("`{path}`: {reason}")]
    Parse {
        /// The file that was read.
        path: PathBuf,
        /// What the parser said, with the place.
        reason: String,
    },
    /// A scenario in a file is not valid.
    #[error("`{path}`, scenario {number} (`{name}`): {source}")]
    InFile {
        /// The file that was read.
        path: PathBuf,
        /// Place of the scenario in the file, from 1.
        number: usize,
        /// Name of the scenario.
        name: String,
        /// What is wrong with it.
        source: Box<SimError>,
    },
    /// A recording does not follow the schema.
    #[error("`{path}`, column `{column}`{}: {fault}", row.map_or_else(String::new, |r| format!(", row {r}")))]
    Table {
        /// The file that was read or written.
        path: PathBuf,
        /// Name of the column in the file.
        column: String,
        /// From 0, if one row is at fault.
        row: Option<usize>,
        /// What is wrong with the column or the row.
        fault: crate::scenario::table_fault::TableFault,
    },
    /// Two runs do not belong together.
    #[error(
        "the baseline has {baseline} drives, the candidate {candidate}; number {first_difference} of them, counted from 0, is the first that is not of one scenario, family and replicate in both"
    )]
    NotTheSameScenarios {
        /// Drives of the baseline.
        baseline: usize,
        /// Drives of the candidate.
        candidate: usize,
        /// First drive at which index, name, family or replicate differ, from 0.
        first_difference: usize,
    },
    /// Two runs say of which scenarios they are, and these are not the same.
    #[error(
        "baseline and candidate drove different scenarios (baseline: {baseline}; candidate: {candidate})"
    )]
    OtherScenarios {
        /// What the baseline says of its scenarios.
        baseline: String,
        /// What the candidate says of its scenarios.
        candidate: String,
    },
    /// No metric has this name.
    #[error("there is no metric `{name}`")]
    NoMetric {
        /// The name that was given.
        name: String,
    },
    /// So few sign flips never show anything at this level, whatever the runs.
    #[error(
        "{n_flips} sign flips (n_flips) cannot reach level {alpha} (alpha), at least {least} are needed"
    )]
    TooFewFlips {
        /// Number of sign flips asked for.
        n_flips: usize,
        /// Probability of a false finding asked for.
        alpha: f64,
        /// Flips that reach it after allowing for the number of questions.
        least: usize,
    },
    /// A number that is to be written as JSON is not finite, and JSON has no such number.
    #[error("`{what}` is {got}, which JSON cannot express")]
    NotFinite {
        /// Whose number, and which.
        what: String,
        /// The number, NaN or infinite.
        got: f64,
    },
    /// The score of a search is not a number.
    #[error("the score of scenario `{scenario}` is not a number")]
    Score {
        /// Name of the scenario.
        scenario: String,
    },
    /// A drive cannot be drawn.
    #[error("no picture: {reason}")]
    Picture {
        /// Why it cannot be drawn.
        reason: String,
    },
    /// Something cannot be written as JSON.
    #[error("cannot be written as JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// Bytes that are to be drives are none.
    #[error("{n_bytes} bytes are not drives of a run")]
    NoDrives {
        /// Their number.
        n_bytes: usize,
    },
    /// A report of a run as JSON is none.
    #[error("this is no report of a run: {reason}")]
    SavedRun {
        /// What does not fit, with the place if the parser found it.
        reason: String,
    },
    /// A segment of the controls challenge cannot be driven.
    #[error("segment `{name}`: {reason}")]
    Segment {
        /// Name of the segment.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A network cannot be used.
    #[error("the network cannot be used: {reason}")]
    Network {
        /// Which input, output or type is not what is needed.
        reason: String,
    },
    /// A learned model did not answer.
    #[error("the learned model at step {step}: {reason}")]
    Model {
        /// Number of the step, from 0.
        step: usize,
        /// What the model said, or what is wrong with its answer.
        reason: String,
    },
}
