//! Tests of float arithmetic: against the processor, by definition, and from the manual's tables.

mod approximations;
mod arithmetic;
mod forms;
mod selections;

use super::FloatForm;

/// The instruction, as `fma.rn.f32`.
#[track_caller]
fn form(text: &str) -> FloatForm {
    let parts: Vec<&str> = text.split('.').collect();
    FloatForm::parse(parts[0], &parts[1..]).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn check(text: &str, sources: &[u64], want: u64) {
    let got = form(text).apply(sources);
    assert_eq!(got, want, "{text} {sources:X?}: {got:X}, not {want:X}");
}
