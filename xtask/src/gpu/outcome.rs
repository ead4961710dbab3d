//! What a suite's output says, line by line.
//!
//! ```text
//! test a::c ... FAILED             failed, by name
//! test result: ok. 3 passed; ...   the counts: a test that prints has its outcome on a line of its own
//! figure: name = 1.5 unit (...)    a figure that a suite wants to be reported
//! ```

use std::time::Duration;

use serde_json::{Value, json};

/// How a suite ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With status 0.
    Passed,
    /// With another status, or by a signal.
    Failed,
    /// It was ended because its time was over.
    TimedOut,
    /// It could not be started.
    NotStarted,
    /// The machine lacks what it needs; which is no failure.
    Skipped,
}

impl End {
    /// One word for reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::NotStarted => "not started",
            Self::Skipped => "skipped",
        }
    }

    /// Whether the run as a whole fails by it.
    pub(super) fn is_failure(self) -> bool {
        !matches!(self, Self::Passed | Self::Skipped)
    }
}

/// What is known of one suite.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Output {
    n_passed: u64,
    failed: Vec<String>,
    figures: Vec<String>,
    has_result: bool,
}

impl Output {
    /// Takes one line in.
    pub(super) fn add(&mut self, line: &str) {
        if let Some(figure) = line.strip_prefix("figure: ") {
            self.figures.push(figure.trim().to_owned());
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.has_result = true;
            let words: Vec<&str> = counts
                .split([' ', ';'])
                .filter(|word| !word.is_empty())
                .collect();
            let pairs = words.windows(2).filter(|pair| pair[1] == "passed");
            self.n_passed += pairs
                .filter_map(|pair| pair[0].parse::<u64>().ok())
                .sum::<u64>();
        } else if let Some((name, end)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
            && end.trim().ends_with("FAILED")
        {
            self.failed.push(name.to_owned());
        }
    }

    /// Number of tests that passed.
    pub(super) fn n_passed(&self) -> u64 {
        self.n_passed
    }

    /// Names of tests that failed.
    pub(super) fn failed(&self) -> &[String] {
        &self.failed
    }

    /// Figures as the suite printed them.
    pub(super) fn figures(&self) -> &[String] {
        &self.figures
    }

    /// Whether a test program ended without running a test, which is no success.
    pub(super) fn ran_nothing(&self) -> bool {
        self.has_result && self.n_passed == 0 && self.failed.is_empty()
    }
}

/// One row of the report.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) suite: String,
    pub(super) end: End,
    /// Why, where the end alone does not say it.
    pub(super) why: Option<String>,
    pub(super) took: Duration,
    pub(super) output: Output,
    /// Name of its log in the folder of the report.
    pub(super) log: Option<String>,
}

impl Outcome {
    /// The row as one reads it.
    pub(super) fn line(&self) -> String {
        let why = self.why.as_ref().map(|why| format!(": {why}"));
        format!(
            "{:22}  {:11}  {:4} passed, {} failed, {:.1} s{}",
            self.suite,
            self.end.name(),
            self.output.n_passed(),
            self.output.failed().len(),
            self.took.as_secs_f64(),
            why.unwrap_or_default()
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "suite": self.suite,
            "end": self.end.name(),
            "why": self.why,
            "seconds": self.took.as_secs_f64(),
            "passed": self.output.n_passed(),
            "failed": self.output.failed(),
            "figures": self.output.figures(),
            "log": self.log,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_figures_are_read() {
        let mut output = Output::default();
        for line in [
            "running 3 tests",
            "test copies::arrive ... ok",
            "test copies::too_long ... FAILED",
            "test timed ... 32 scenarios",
            "figure: rollouts on the GPU over all CPU cores = 7.5 times",
            "ok",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored",
        ] {
            output.add(line);
        }
        assert_eq!(output.n_passed(), 2);
        assert_eq!(output.failed(), ["copies::too_long"]);
        assert_eq!(
            output.figures(),
            ["rollouts on the GPU over all CPU cores = 7.5 times"]
        );
        assert!(!output.ran_nothing());
    }

    #[test]
    fn a_program_of_tests_that_runs_none_is_no_success() {
        let mut output = Output::default();
        output.add("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out");
        assert!(output.ran_nothing());
        assert!(!Output::default().ran_nothing());
    }

    #[test]
    fn what_a_machine_lacks_is_no_failure() {
        assert!(!End::Skipped.is_failure());
        assert!(End::TimedOut.is_failure() && End::NotStarted.is_failure());
    }
}
