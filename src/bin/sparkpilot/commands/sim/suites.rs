//! Scenarios by the name of a suite, or from a file.

use std::error::Error;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use spark_program::{Usage, about, count, tell};
use sparkpilot::shards::Fingerprint;
use sparkpilot::sim::scenario::file::ScenarioFile;
use sparkpilot::sim::scenario::lateral::{lateral_steps, longitudinal_steps};
use sparkpilot::sim::scenario::ncap::{self, CarToCarRear, Protocol};
use sparkpilot::sim::scenario::{Fuzzer, Scenario, alks, beyond_the_car, built_in};

/// A list of scenarios that the library knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Suite {
    /// The algorithm harness's five
    BuiltIn,
    /// Roads and speeds that ask more than a car can do
    BeyondTheCar,
    /// Random scenarios, as many as --scenarios says
    Random,
    /// Steps of the lateral request
    LateralSteps,
    /// Steps of the longitudinal request
    LongitudinalSteps,
    /// UN R157: a car cuts in
    AlksCutIn,
    /// UN R157: the car ahead leaves the lane of a standing one
    AlksCutOut,
    /// UN R157: the car ahead brakes
    AlksLeadBrake,
    /// UN R157: something blocks the lane
    AlksBlockingTarget,
    /// UN R157: the car ahead swerves
    AlksSwervingLead,
    /// UN R157: an empty road
    AlksFreeDriving,
    /// Euro NCAP 2023: a standing car
    NcapStanding,
    /// Euro NCAP 2023: a slow car
    NcapMoving,
    /// Euro NCAP 2023: a braking car
    NcapBraking,
}

impl Suite {
    /// Its scenarios; of random ones so many.
    pub(super) fn scenarios(self, n_random: u64, seed: u64) -> Vec<Scenario> {
        let all = |rows: Vec<CarToCarRear>| rows.iter().map(CarToCarRear::scenario).collect();
        match self {
            Self::BuiltIn => built_in(seed),
            Self::BeyondTheCar => beyond_the_car(),
            Self::Random => Fuzzer::new(seed).iter(n_random).collect(),
            Self::LateralSteps => lateral_steps(),
            Self::LongitudinalSteps => longitudinal_steps(),
            Self::AlksCutIn => alks::cut_in(),
            Self::AlksCutOut => alks::cut_out(),
            Self::AlksLeadBrake => alks::lead_brake(),
            Self::AlksBlockingTarget => alks::blocking_target(),
            Self::AlksSwervingLead => alks::swerving_lead(),
            Self::AlksFreeDriving => alks::free_driving(),
            Self::NcapStanding => all(ncap::standing(Protocol::V2023)),
            Self::NcapMoving => all(ncap::moving(Protocol::V2023)),
            Self::NcapBraking => all(ncap::braking(Protocol::V2023)),
        }
    }
}

/// What scenarios are, in words: their number, and a SHA-256 of all that they say, seeds too.
pub(super) fn words_of(scenarios: &[Scenario]) -> Result<String, Box<dyn Error>> {
    let mut hash = Fingerprint::new();
    for scenario in scenarios {
        hash.add(serde_json::to_vec(scenario)?);
    }
    Ok(format!("{}, {}", scenarios.len(), hash.hex()))
}

/// Which scenarios to drive.
#[derive(Args)]
#[command(next_help_heading = "Scenarios")]
pub(super) struct Scenarios {
    /// A suite that `sim list` names
    #[arg(long, value_enum, value_name = "SUITE", conflicts_with = "file")]
    suite: Option<Suite>,
    /// A file of scenarios and sweeps, TOML or JSON
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many random scenarios; only with --suite random, 1000 by default
    #[arg(long, value_name = "N", value_parser = count(1, 1_000_000))]
    scenarios: Option<usize>,
    /// Seed of random scenarios, and of the jitter of a built-in one's road; 1 by default
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Random scenarios where nobody says how many.
const N_RANDOM: usize = 1000;

impl Scenarios {
    /// All of them, in order.
    ///
    /// # Errors
    ///
    /// [`Usage`] for options that would do nothing; those of reading a file.
    pub(super) fn load(&self) -> Result<Vec<Scenario>, Box<dyn Error>> {
        let is_random = self.suite == Some(Suite::Random);
        if self.scenarios.is_some() && !is_random {
            return Err(Usage("--scenarios goes with --suite random alone".to_owned()).into());
        }
        let is_seeded = is_random || self.suite == Some(Suite::BuiltIn);
        if self.seed.is_some() && !is_seeded {
            let told = "--seed goes with --suite random and --suite built-in alone";
            return Err(Usage(told.to_owned()).into());
        }
        const NOTHING: &str = "there is no scenario to drive";
        let scenarios = match (self.suite, &self.file) {
            (Some(suite), _) => suite.scenarios(
                self.scenarios.unwrap_or(N_RANDOM) as u64,
                self.seed.unwrap_or(1),
            ),
            (None, Some(path)) => ScenarioFile::read(path)?.iter()?.collect(),
            (None, None) => return Err(Usage("give --suite or --file".to_owned()).into()),
        };
        match (scenarios.is_empty(), &self.file) {
            (false, _) => Ok(scenarios),
            (true, Some(path)) => Err(about(path)(NOTHING).into()),
            (true, None) => Err(NOTHING.into()),
        }
    }

    /// Whether any option asks for scenarios.
    pub(super) fn is_asked_for(&self) -> bool {
        let is_listed = self.suite.is_some() || self.file.is_some();
        is_listed || self.scenarios.is_some() || self.seed.is_some()
    }

    /// The file that is read, if there is one.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }
}

/// Refuses drives that would repeat others to the last bit where all of them would, and says so where some do.
///
/// # Errors
///
/// [`Usage`] if no scenario has anything that is drawn.
pub(super) fn check_replicates(scenarios: &[Scenario], n_replicates: usize) -> Result<(), Usage> {
    if n_replicates == 1 {
        return Ok(());
    }
    let n = scenarios.len();
    let n_same = scenarios.iter().filter(|it| !it.is_random()).count();
    if n_same == n {
        return Err(Usage(format!(
            "--replicates {n_replicates}: the drives of a scenario would be the same, for none of {n} has noise (`environment.noise` of a \
             file) or a driver that dawdles"
        )));
    }
    if n_same > 0 {
        tell(format!(
            "warning: --replicates {n_replicates}: {n_same} of {n} scenarios have no noise, and the drives of each of them are the same"
        ));
    }
    Ok(())
}

/// One of several scenarios.
#[derive(Args)]
#[command(next_help_heading = "Scenarios")]
pub(super) struct Which {
    /// Which scenario, by its place from 0; the first by default
    #[arg(long, value_name = "N", conflicts_with = "name")]
    index: Option<usize>,
    /// Which scenario, by its name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Which {
    /// The one of these that is asked for.
    ///
    /// # Errors
    ///
    /// That there is none.
    pub(super) fn of<'a>(&self, scenarios: &'a [Scenario]) -> Result<&'a Scenario, String> {
        let n = scenarios.len();
        if let Some(name) = &self.name {
            let found = scenarios.iter().find(|scenario| scenario.name == *name);
            return found.ok_or_else(|| format!("none of {n} scenarios is named `{name}`"));
        }
        let index = self.index.unwrap_or(0);
        let beyond = || format!("there are {n} scenarios, counted from 0; none is number {index}");
        scenarios.get(index).ok_or_else(beyond)
    }
}
