//! What a difference amounts to, and what becomes of the candidate.

use super::sign_flip::least_p;
use crate::metric::MetricInfo;
use serde::Serialize;
use std::fmt;

/// What one metric's difference amounts to.
///
/// ```text
///                            shown to be within the margin    not shown to be
/// shown to differ            WithinMargin                     Better | Worse | WorseBeyondMargin
/// not shown to differ        NoDifferenceShown                Undecided
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better, and perhaps by more than the margin.
    Better,
    /// Better or worse beyond chance, by less than the margin.
    WithinMargin,
    /// Within the margin, and no difference beyond chance.
    NoDifferenceShown,
    /// Worse beyond chance; whether by more than the margin is open.
    Worse,
    /// Worse by more than the margin, beyond chance.
    WorseBeyondMargin,
    /// Too much chance or too few families to say anything.
    Undecided,
}

impl Verdict {
    /// All verdicts, from the best to the worst, then the undecided.
    pub const ALL: [Self; 6] = [
        Self::Better,
        Self::WithinMargin,
        Self::NoDifferenceShown,
        Self::Worse,
        Self::WorseBeyondMargin,
        Self::Undecided,
    ];

    /// The verdict in words for reports.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::WithinMargin => "different, within the margin",
            Self::NoDifferenceShown => "no difference shown",
            Self::Worse => "worse, perhaps beyond the margin",
            Self::WorseBeyondMargin => "worse beyond the margin",
            Self::Undecided => "undecided",
        }
    }

    /// Whether it speaks against the candidate.
    pub const fn is_worse(self) -> bool {
        matches!(self, Self::Worse | Self::WorseBeyondMargin)
    }
}

/// Something that speaks against the candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A primary metric is worse beyond chance, and not shown to be so by less than its margin.
    Worse {
        /// Name of the metric.
        metric: &'static str,
        /// By how much, in its unit.
        worsening: f64,
        /// By how much at most, at one-sided level `alpha`.
        at_most: Option<f64>,
        /// How much it may.
        margin: f64,
        /// Unit of the three numbers.
        unit: &'static str,
    },
    /// An event happens more often, beyond chance.
    MoreEvents {
        /// Name of the event.
        event: &'static str,
        /// Families with more of them.
        n_new: usize,
        /// Families with fewer of them.
        n_fixed: usize,
    },
    /// Policy, not a test: a severe event in a scenario where the baseline had none.
    NewEvent {
        /// Name of the event.
        event: &'static str,
        /// Names of the scenarios.
        scenarios: Vec<String>,
    },
}

/// Why nothing can be said about the candidate as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// No scenario was driven by both.
    NothingCompared,
    /// Both drove a small part of the suite only.
    TooFewCompared {
        /// Scenarios that both drove.
        n_compared: usize,
        /// Scenarios of the suite.
        n_scenarios: usize,
    },
    /// With so few families no evidence whatever could have failed the candidate.
    TooFewFamilies {
        /// Families that were compared.
        n_families: usize,
        /// Families from which on the gate can fail.
        needed: usize,
        /// Scenarios that bear the name of another one and count together with it.
        n_repeated: usize,
    },
    /// A primary metric applies to the suite, but most of it was not measured: drives that end in
    /// a collision have no value of it.
    RarelyMeasured {
        /// Name of the metric.
        metric: &'static str,
        /// Pairs of drives in which it was measured.
        n_measured: usize,
        /// Pairs in which it was to be: both finished, and not only the baseline collided.
        n_drives: usize,
        /// Pairs in which it would have to be.
        needed: usize,
    },
    /// A primary metric was measured in fewer families than could have failed the candidate.
    MeasuredInTooFewFamilies {
        /// Name of the metric.
        metric: &'static str,
        /// Families in which it was measured.
        n_families: usize,
        /// Families from which on it can decide.
        needed: usize,
    },
    /// A primary metric may be worse by more than its margin.
    NotWithinMargin {
        /// Name of the metric.
        metric: &'static str,
        /// Families with which this spread would do, if the difference stays the same or is none.
        needed: Option<usize>,
    },
    /// A severe event happens more often, but not beyond chance.
    MoreEvents {
        /// Name of the event.
        event: &'static str,
        /// Families with more of them.
        n_new: usize,
        /// Families with fewer of them.
        n_fixed: usize,
    },
}

impl Doubt {
    /// Families with which it would be gone, where that can be said.
    pub(super) fn families_needed(&self) -> Option<usize> {
        match self {
            Self::TooFewFamilies { needed, .. } | Self::MeasuredInTooFewFamilies { needed, .. } => {
                Some(*needed)
            }
            Self::NotWithinMargin { needed, .. } => *needed,
            _ => None,
        }
    }
}

/// What becomes of the candidate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Every primary metric is shown to be no worse than its margin, and no event speaks against it.
    Pass,
    /// Something got worse beyond chance, or the policy on events was broken.
    Fail {
        /// Everything that speaks against it.
        because: Vec<Finding>,
    },
    /// Neither is shown: more families or drives may decide.
    Undecided {
        /// Everything that keeps it open.
        because: Vec<Doubt>,
        /// Families with which it could be decided, if that can be said.
        families_needed: Option<usize>,
    },
}

impl Decision {
    /// The decision in one word, as reports and files have it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "fail",
            Self::Undecided { .. } => "undecided",
        }
    }

    /// The reasons as sentences; of a pass, none.
    pub fn reasons(&self) -> Vec<String> {
        match self {
            Self::Pass => Vec::new(),
            Self::Fail { because } => because.iter().map(ToString::to_string).collect(),
            Self::Undecided { because, .. } => because.iter().map(ToString::to_string).collect(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worse {
                metric,
                worsening,
                at_most,
                margin,
                unit,
            } => {
                write!(f, "{metric} is worse by {worsening:.4}")?;
                if let Some(at_most) = at_most {
                    write!(f, ", perhaps by {at_most:.4}")?;
                }
                let space = if *unit == "1" { "" } else { " " };
                let unit = if *unit == "1" { "" } else { unit };
                write!(f, "{space}{unit} (allowed: {margin:.4})")
            }
            Self::MoreEvents {
                event,
                n_new,
                n_fixed,
            } => write!(
                f,
                "{event} more often in {n_new} families and less often in {n_fixed}"
            ),
            Self::NewEvent { event, scenarios } => {
                let first = scenarios.first().map_or("", String::as_str);
                let n = scenarios.len();
                write!(f, "policy: new {event} in {n} scenarios, first in {first}")
            }
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingCompared => f.write_str("no scenario was driven by both"),
            Self::TooFewCompared {
                n_compared,
                n_scenarios,
            } => write!(f, "both drove only {n_compared} of {n_scenarios} scenarios"),
            Self::TooFewFamilies {
                n_families,
                needed,
                n_repeated,
            } => {
                write!(
                    f,
                    "{n_families} independent families of scenarios, at least {needed} are needed"
                )?;
                match n_repeated {
                    0 => Ok(()),
                    n => write!(
                        f,
                        " ({n} scenarios bear the name of another and count with it)"
                    ),
                }
            }
            Self::RarelyMeasured {
                metric,
                n_measured,
                n_drives,
                needed,
            } => write!(
                f,
                "{metric} was measured in {n_measured} of {n_drives} pairs of drives, at least {needed} are needed; \
                 the others ended in a collision"
            ),
            Self::MeasuredInTooFewFamilies {
                metric,
                n_families,
                needed,
            } => write!(
                f,
                "{metric} was measured in {n_families} families of scenarios, at least {needed} are needed"
            ),
            Self::NotWithinMargin { metric, needed } => {
                write!(f, "{metric} is not shown to be within its margin")?;
                match needed {
                    Some(n) => write!(f, " (about {n} families would show it)"),
                    None => Ok(()),
                }
            }
            Self::MoreEvents {
                event,
                n_new,
                n_fixed,
            } => write!(
                f,
                "{event} more often in {n_new} families and less often in {n_fixed}, which may be chance"
            ),
        }
    }
}

/// What has been shown about a metric, each at its level, adjusted for the number of questions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) better: bool,
    pub(super) worse: bool,
    /// Worse by more than the margin.
    pub(super) beyond: bool,
    /// Worse by less than the margin, or not at all.
    pub(super) not_inferior: bool,
    /// Better by less than the margin, or not at all.
    pub(super) not_superior: bool,
}

impl Shown {
    pub(super) fn verdict(self) -> Verdict {
        match self {
            Self { beyond: true, .. } => Verdict::WorseBeyondMargin,
            Self {
                worse: true,
                not_inferior: false,
                ..
            } => Verdict::Worse,
            Self {
                better: true,
                not_superior: false,
                ..
            } => Verdict::Better,
            Self { worse: true, .. } | Self { better: true, .. } => Verdict::WithinMargin,
            Self {
                not_inferior: true, ..
            } => Verdict::NoDifferenceShown,
            _ => Verdict::Undecided,
        }
    }
}

/// The value that a standard normal number exceeds with probability `p` below one half.
///
/// Abramowitz, Stegun, *Handbook of Mathematical Functions*, 26.2.23: within 4.5e-4.
pub(super) fn normal_above(p: f64) -> f64 {
    let t = (-2.0 * p.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    t - above / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)))
}

/// Families with which a spread of `sd` shows that a worsening of `mean` is within `margin`, with
/// a probability of 80 %: (z(1 - alpha) + z(0.80))^2 (sd / distance)^2, where the first factor is
/// 6.2 at alpha = 0.05, and never fewer than whose flips can reach alpha. The distance is
/// that of no worsening; with as many families as that already, that of the worsening seen.
pub(super) fn families_for_margin(
    mean: f64,
    sd: f64,
    margin: f64,
    n: usize,
    alpha: f64,
    n_flips: usize,
) -> Option<usize> {
    let factor = (normal_above(alpha) + normal_above(0.2)).powi(2);
    let families = |distance: f64| -> Option<usize> {
        let needed = (factor * (sd / distance).powi(2)).ceil();
        (distance > 0.0 && needed.is_finite() && needed < 1e9).then_some(needed as usize)
    };
    let least = families(margin)?.max(least_families(1, alpha, n_flips)?);
    if least > n {
        return Some(least);
    }
    Some(families(margin - mean)?.max(n + 1))
}

/// Fewest families that show anything at a one-sided level of 5 %: 2^-5 < 0.05.
const LEAST_FAMILIES: usize = 5;
/// More families than this reach no smaller p-value: 2^-64 is nothing beside any share of flips.
const MOST_FAMILIES: usize = 64;

/// Fewest families with which one of so many questions can be answered after Holm: the smallest
/// p-value that their flips reach is at most `alpha / n_questions`. Absent if no number of
/// families reaches it with so few flips.
pub(super) fn least_families(n_questions: usize, alpha: f64, n_flips: usize) -> Option<usize> {
    let level = alpha / n_questions.max(1) as f64;
    (LEAST_FAMILIES..=MOST_FAMILIES).find(|&n| least_p(n, n_flips) <= level)
}

/// Fewest flips with which every question that may be asked can be answered at level `alpha`.
pub(super) fn least_flips(n_questions: usize, alpha: f64) -> usize {
    // A level such as 0.05 is a little off what it says.
    (n_questions as f64 / alpha * (1.0 - 1e-12)).ceil() as usize
}

/// Which way a difference of a metric is a worsening: 1 or -1.
pub(super) fn worse_sign(info: &MetricInfo) -> f64 {
    match info.direction {
        crate::metric::Direction::Lower => 1.0,
        crate::metric::Direction::Higher => -1.0,
    }
}
