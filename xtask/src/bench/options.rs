//! What of the benchmarks to run: all, one, or the cases that a filter names.

use std::path::PathBuf;

use super::record::Case;

/// The benchmark that the main example makes, beside the bench targets of cargo.
pub(super) const FAMILY: &str = "supercombo";

/// What to run and where to put it.
pub(crate) struct Options {
    /// Only cases whose name holds this text.
    pub(crate) filter: Option<String>,
    /// Whether few samples will do.
    pub(crate) quick: bool,
    /// Where to put the cases as JSON too.
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    pub(super) fn is_full(&self) -> bool {
        self.filter.is_none() && !self.quick
    }

    pub(super) fn wants(&self, case: &Case) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| case.name.contains(filter.as_str()))
    }
}

/// What a filter chooses from one benchmark.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice<'a> {
    Nothing,
    All,
    /// Cases whose name without the benchmark's holds this text.
    Cases(&'a str),
}

impl Options {
    /// What to run of `benchmark`, one of the targets or the main example.
    ///
    /// A filter `name`, or `name/text`, where `name` is a benchmark, chooses that benchmark
    /// alone; any other text is looked for in the cases of all.
    pub(super) fn choice(&self, benchmark: &str, targets: &[String]) -> Choice<'_> {
        let Some(filter) = self.filter.as_deref() else {
            return Choice::All;
        };
        let (first, rest) = filter.split_once('/').unwrap_or((filter, ""));
        let names_one = first == FAMILY || targets.iter().any(|name| name == first);
        match (names_one, first == benchmark) {
            (true, false) => Choice::Nothing,
            (true, true) if rest.is_empty() => Choice::All,
            (true, true) => Choice::Cases(rest),
            (false, _) => Choice::Cases(filter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn chooses(filter: Option<&str>, benchmark: &str, want: Choice<'_>) {
        let options = Options {
            filter: filter.map(str::to_owned),
            quick: false,
            json: None,
        };
        let targets = ["quant".to_owned(), "sim".to_owned()];
        assert_eq!(options.choice(benchmark, &targets), want);
    }

    #[test]
    fn without_a_filter_everything_runs() {
        chooses(None, "sim", Choice::All);
    }

    #[test]
    fn a_filter_that_names_a_benchmark_runs_it_alone() {
        chooses(Some("sim"), "sim", Choice::All);
        chooses(Some("sim/kinematic"), "sim", Choice::Cases("kinematic"));
        chooses(Some("sim/kinematic"), "quant", Choice::Nothing);
        chooses(Some("sim"), "supercombo", Choice::Nothing);
        chooses(
            Some("supercombo/driving"),
            "supercombo",
            Choice::Cases("driving"),
        );
    }

    #[test]
    fn any_other_filter_is_looked_for_everywhere() {
        chooses(Some("nvfp4"), "quant", Choice::Cases("nvfp4"));
        chooses(Some("simple"), "sim", Choice::Cases("simple"));
    }
}
