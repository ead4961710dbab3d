//! docs/operators.md: what becomes of each ONNX operator, made from what is known anyway.
//!
//! ```text
//! spark-onnx/tests/it/onnx_suite.txt   outcome of every case, and its operator ──┐
//! file::supported_operators            names that a file may hold ──────────────┼─> docs/operators.md
//! samples::every_operator              operands that must be known ─────────────┘
//! ```
//!
//! `cargo xtask tidy` starts the test that compares the page, and with `--write` rewrites it. What the outcomes mean
//! `conformance.rs` of `spark-onnx` says, which writes the list.
//!
//! Deliberately absent: element types, of which no list says which are supported.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::file::supported_operators;
use crate::operators::deciding_operands;
use crate::samples::{every_operator, spelled_out, versions};
use spark_onnx_proto::text;
use spark_testing::settings;

const RANDOM: &str = "random";

/// The list of outcomes, read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Suite {
    /// Versions of what the cases come from.
    source: String,
    n_random: usize,
    cases: Vec<ListedCase>,
}

/// One case of the list; random models that pass are not among them.
#[derive(Debug, PartialEq, Eq)]
struct ListedCase {
    kind: String,
    /// Of the one node of its model; empty if that has several.
    operator: String,
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Pass,
    NotExecuted(String),
    Refused(String),
    Wrong(String),
}

impl Outcome {
    fn parse(text: &str) -> Self {
        let (outcome, reason) = text.split_once(": ").unwrap_or((text, ""));
        let reason = reason.to_owned();
        match outcome {
            "pass" => Self::Pass,
            "pass, not executed" => Self::NotExecuted(reason),
            "refused" => Self::Refused(reason),
            "wrong" => Self::Wrong(reason),
            other => panic!("the list of outcomes has `{other}`"),
        }
    }

    fn passes(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::Wrong(_))
    }

    fn is_executed(&self) -> bool {
        matches!(self, Self::Pass)
    }

    /// What is said of it beyond that it passes, and why.
    fn remark(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Pass => None,
            Self::NotExecuted(reason) => Some(("not executed", reason)),
            Self::Refused(reason) => Some(("refused", reason)),
            Self::Wrong(reason) => Some(("wrong", reason)),
        }
    }
}

impl Suite {
    fn parse(list: &str) -> Self {
        let mut suite = Self::default();
        let (mut outcome, mut kind, mut operator) = (Outcome::Pass, "", "");
        let lines = list.lines();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(source) = line.strip_prefix("source: ") {
                suite.source = source.to_owned();
            } else if let Some(rest) = line.strip_prefix("random: ") {
                let number = rest.split(',').next().and_then(|n| n.parse().ok());
                suite.n_random = number.expect("the number of random models");
            } else if let Some(names) = line.strip_prefix("    ") {
                for word in names.split_whitespace() {
                    if let Some(named) = word.strip_suffix(':') {
                        (kind, operator) = named.split_once('/').unwrap_or((named, ""));
                        continue;
                    }
                    suite.cases.push(ListedCase {
                        kind: kind.to_owned(),
                        operator: operator.to_owned(),
                        outcome: outcome.clone(),
                    });
                }
            } else {
                outcome = Outcome::parse(line);
            }
        }
        suite
    }

    /// Those that are no random models.
    fn own(&self) -> impl Iterator<Item = &ListedCase> {
        self.cases.iter().filter(|case| case.kind != RANDOM)
    }

    /// Two sentences: of the suite's cases, and of random models.
    fn totals(&self) -> String {
        let count = |is: fn(&Outcome) -> bool| self.own().filter(|c| is(&c.outcome)).count();
        let random = || self.cases.iter().filter(|case| case.kind == RANDOM);
        let of_random = |is: fn(&Outcome) -> bool| random().filter(|c| is(&c.outcome)).count();
        let not_executed = |is: &Outcome| matches!(is, Outcome::NotExecuted(_));
        format!(
            "{} of {} cases pass, of which the executor refuses {}; {} are refused, {} wrong.\n\
             > {} of {} random models pass, of which the executor refuses {}.",
            count(Outcome::passes),
            self.own().count(),
            count(not_executed),
            count(|is| matches!(is, Outcome::Refused(_))),
            count(|is| matches!(is, Outcome::Wrong(_))),
            self.n_random - of_random(|is| !is.passes()),
            self.n_random,
            of_random(not_executed),
        )
    }
}

/// What the table says of one operator.
#[derive(Debug, Default)]
struct Row {
    n_cases: usize,
    n_passed: usize,
    n_executed: usize,
    /// How many cases something is said of: what, and why.
    remarks: BTreeMap<(&'static str, String), usize>,
}

impl Row {
    fn add(&mut self, operator: &str, outcome: &Outcome) {
        self.n_cases += 1;
        self.n_passed += usize::from(outcome.passes());
        self.n_executed += usize::from(outcome.is_executed());
        if let Some((what, reason)) = outcome.remark() {
            let key = (what, in_its_row(operator, reason));
            *self.remarks.entry(key).or_default() += 1;
        }
    }

    /// The row as Markdown; `known` are the operands that must be known.
    fn line(&self, operator: &str, known: Option<&BTreeSet<usize>>) -> String {
        let remarks = self.remarks.iter();
        let mut remarks: Vec<String> = remarks
            .map(|((what, reason), n)| format!("{n} {what}: {reason}"))
            .collect();
        if self.n_cases == 0 {
            remarks.push("no case".to_owned());
        }
        if let Some(known) = known {
            let operands: Vec<String> = known.iter().map(usize::to_string).collect();
            remarks.push(format!("known before: {}", operands.join(", ")));
        }
        let remarks = remarks.join("; ").replace('|', "\\|");
        let Self {
            n_cases,
            n_passed,
            n_executed,
            ..
        } = self;
        let line = format!("| {operator} | {n_cases} | {n_passed} | {n_executed} | {remarks} |");
        line.replace("|  |", "| |")
    }
}

/// A reason without what the operator's own row says already.
fn in_its_row(operator: &str, reason: &str) -> String {
    let reason = reason
        .strip_prefix(&format!("{operator}: "))
        .unwrap_or(reason);
    let bare = reason.strip_prefix("operator ").unwrap_or(reason);
    let bare = bare.strip_prefix("ai.onnx::").unwrap_or(bare);
    match bare.strip_prefix(operator) {
        Some(rest) if rest.starts_with(" is not supported") => "not supported".to_owned(),
        _ => reason.to_owned(),
    }
}

/// Of every operator in its normal form, the operands whose elements must be known before it runs, in any of its forms.
fn known_operands() -> BTreeMap<String, BTreeSet<usize>> {
    let mut known: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for sample in every_operator() {
        for node in &sample.graph.nodes {
            let operands = deciding_operands(&node.op);
            if !operands.is_empty() {
                let of = known.entry(node.op.name().to_owned()).or_default();
                of.extend(operands);
            }
        }
    }
    known
}

const NOTE: &str = "\
<!-- Generated from crates/spark-onnx/tests/it/onnx_suite.txt and the operators that spark-onnx-graph reads; do not edit.
     Rewrite with `cargo xtask tidy --write`. -->
";

const MEANING: &str = "\
A case passes if every result of every data set is right: from the interpreter (but for nine large networks, for which it
takes minutes), and from the executor unless that refuses the graph. Inputs are given when it runs, those too that say shapes.
Where results are as long as values say (positions that are not zero, boxes that are kept, elements that differ), a `Model` runs
them as they are, and the interpreter with inputs made constants and cut in two by `split_at_values`. Integers of 2 and 4 bits
and floats of 4 and 8 are compared as the wider types that they are held as.
";

const COLUMNS: &str = "\
- `executed`: cases that pass in a `Model` too, which interprets operators whose lengths values say. The suite gives weights as inputs, where networks have constants.
- `known before`: operands, counted from 0, whose elements must be known before the operator is planned. They are constants,
  follow from shapes, or come from inputs that a plan is made for the elements of; where a run computes them, the operator is
  interpreted.
- `no case`: the suite has none; samples of this repository have.
- Before operator set 7 an operator is read where its form is that of 7.

| operator | cases | pass | executed | remarks |
|---|--:|--:|--:|---|
";

/// Operators of files that this crate's own samples hold.
fn sampled() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for sample in every_operator() {
        names.extend(
            sample
                .graph
                .nodes
                .iter()
                .map(|node| node.op.name().to_owned()),
        );
    }
    for case in versions::cases().into_iter().chain(spelled_out::cases()) {
        let graph = case.model.graph.expect("a graph");
        names.extend(graph.node.iter().map(|node| match text(&node.domain) {
            "" => text(&node.op_type).to_owned(),
            domain => format!("{domain}::{}", text(&node.op_type)),
        }));
    }
    names
}

fn page(suite: &Suite) -> String {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let supported = supported_operators();
    for name in &supported {
        rows.entry(name).or_default();
    }
    let (mut n_together, mut n_together_passed) = (0, 0);
    for case in suite.own() {
        match case.operator.as_str() {
            "" => {
                n_together += 1;
                n_together_passed += usize::from(case.outcome.passes());
            }
            operator => rows
                .entry(operator)
                .or_default()
                .add(operator, &case.outcome),
        }
    }
    let known = known_operands();
    let mut page = format!("{NOTE}\n# Operators\n\n");
    let _ = writeln!(
        page,
        "What becomes of every case of the ONNX project's own tests, as it is, and of random models with the results of\n\
         onnxruntime ({}); `cargo xtask onnx-suite` runs them.\n\n> {}\n\n{MEANING}",
        suite.source,
        suite.totals()
    );
    let _ = write!(
        page,
        "The table has the cases that hold one operator alone. Of {n_together} others {n_together_passed} pass: networks, and \
         operators as the nodes that\nthe specification spells them out in.\n\n{COLUMNS}"
    );
    for (operator, row) in &rows {
        let _ = writeln!(page, "{}", row.line(operator, known.get(*operator)));
    }
    page
}

fn listed() -> Suite {
    let list = workspace().join("crates/spark-onnx/tests/it/onnx_suite.txt");
    Suite::parse(&std::fs::read_to_string(list).expect("the list of outcomes"))
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn operators_page_is_up_to_date() {
    let want = page(&listed());
    let path = workspace().join("docs/operators.md");
    if settings::bless() {
        std::fs::write(&path, &want).expect("docs/operators.md is writable");
    }
    let got = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "run `cargo xtask tidy --write`");
}

#[test]
fn every_operator_has_a_case_or_a_sample() {
    let suite = listed();
    let sampled = sampled();
    let untried = supported_operators().into_iter().filter(|name| {
        let has_case = suite.own().any(|case| case.operator == *name);
        !has_case && !sampled.contains(name)
    });
    assert_eq!(untried.collect::<Vec<_>>(), [""; 0]);
}

const LIST: &str = "\
# a comment
source: onnx 1, onnxruntime 2
random: 3, those not named here pass

pass
    node: abs_expanded
    node/Abs: abs
        abs_example
pass, not executed: Abs: u64 arithmetic is not supported
    node/Abs: abs_uint64
    random: abs_0

refused: operator ai.onnx::DeformConv is not supported (why)
    node/DeformConv: deform

wrong: element 0 is 1 | 2
    node/ai.onnx.ml::Scaler: scaler
    random: abs_2
";

#[test]
fn every_line_of_the_list_counts() {
    let suite = Suite::parse(LIST);
    assert_eq!((suite.n_random, suite.own().count()), (3, 6));
    let totals = suite.totals();
    let start = "4 of 6 cases pass, of which the executor refuses 1; 1 are refused, 1 wrong.";
    assert!(totals.starts_with(start), "{totals}");
    assert!(
        totals.contains("2 of 3 random models pass, of which the executor refuses 1"),
        "{totals}"
    );
}

#[test]
fn a_row_says_what_does_not_pass_and_why() {
    let page = page(&Suite::parse(LIST));
    for row in [
        "| Abs | 3 | 3 | 2 | 1 not executed: u64 arithmetic is not supported |",
        "| DeformConv | 1 | 0 | 0 | 1 refused: not supported |",
        "| ai.onnx.ml::Scaler | 1 | 0 | 0 | 1 wrong: element 0 is 1 \\| 2 |",
        "| com.microsoft::FastGelu | 0 | 0 | 0 | no case |",
        "| Reshape | 0 | 0 | 0 | no case; known before: 1 |",
    ] {
        assert!(page.lines().any(|line| line == row), "{row}\n{page}");
    }
    assert!(page.contains("Of 1 others 1 pass"), "{page}");
}
