//! May the candidate replace the baseline? A gate with a stated rate of false alarms.
//!
//! ```text
//! pair by scenario; average replicates into their scenario, scenarios into their family
//! for every metric k, over the F families:
//!   D = worsening of the candidate, capped                        M[k] = margin of non-inferiority
//!   p_ni     sign flips against "worse by M or more"              y = D - M
//!   p_worse  sign flips against "no worse"; p_better, p_beyond likewise
//!   interval: every mean that the same flips do not reject
//!   beside:  share of families worse by more than M, with its exact upper limit (skewed worsenings)
//! for every event e (failure, collision, off the road, limit of grip, near misses), over families:
//!   p_event  exact McNemar: more of it against fewer
//! Holm over p_worse of the primary metrics and p_event      (those that nothing can reject left out)
//!
//! fail        a primary metric is worse (Holm) and not shown to be within its margin,
//!             or an event is more frequent (Holm), or the policy on new events is broken
//! undecided   else, if a primary metric is not shown to be within its margin (p_ni > alpha),
//!             or was measured on a part of the suite only, families are too few for anything
//!             to fail, too little was compared, or a severe event is more frequent, if not
//!             beyond chance
//! pass        else
//! ```
//!
//! What may be claimed, at `alpha` = 0.05:
//!
//! - A candidate that is the baseline, run with other noise, fails with at most 5 % probability,
//!   exactly, for any number of families: its worsenings are symmetric, McNemar's test is exact,
//!   and Holm holds for any dependence. Run with the same noise, it never fails. Of one metric,
//!   an interval that leaves out zero comes about in 5 % of such runs, less often where most
//!   families show no difference at all.
//! - A candidate with some primary metric at or beyond its margin passes with at most 5 %
//!   probability if that metric's worsenings are symmetric around their mean. All primaries must
//!   pass, so no correction for their number is needed (intersection-union). If rare families
//!   worsen much, the probability is larger: see `sign_flip`. Look at the share beside it.
//! - Among secondary metrics the expected share of false differences is at most 5 % under
//!   positive dependence (Benjamini-Hochberg). They decide nothing.
//!
//! What is not claimed: that the scenarios are a sample of anybody's traffic (a deterministic
//! suite has no chance in it but the choice of its scenarios); that "undecided" is "the same"; any
//! level after looking early, after repeating a failed gate with other seeds, or on scenarios the
//! candidate was tuned on; that zero events in n families mean a rate below 3/n with more than 95 %.
//!
//! Answers depend on the two runs and the options only: one thread, draws from a counter.
//!
//! Sources: beside each part in `sign_flip`, `exact` and `adjust`; margins in `metric::CATALOGUE`;
//! intersection-union tests: Berger, Technometrics 24 (1982).

mod adjust;
mod comparison;
mod exact;
mod gate;
mod options;
mod pairing;
mod sign_flip;
mod summary;
#[cfg(test)]
mod tests;
mod verdict;

pub use comparison::{Comparison, EventCase, EventComparison, MetricComparison, Regression};
pub use gate::compare;
pub use options::{CompareOptions, NewEvents};
pub use summary::{MetricSummary, summarise};
pub use verdict::{Decision, Doubt, Finding, Verdict};
