//! Tests of `cvt`: every code where a format is small, rounding by definition elsewhere, and what
//! the manual and ptxas say of special values and forms.

mod forms;
mod integers;
mod scales;
mod small;
mod wide;

use super::Conversion;

/// The conversion, as `rn.f16.f32`.
#[track_caller]
fn form(text: &str) -> Conversion {
    let parts: Vec<&str> = text.split('.').collect();
    Conversion::parse(&parts).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn check(text: &str, sources: &[u64], want: u64) {
    let got = form(text).apply(sources);
    assert_eq!(got, want, "{text} {sources:X?}: {got:X}, not {want:X}");
}

fn f32_code(value: f32) -> u64 {
    u64::from(value.to_bits())
}
