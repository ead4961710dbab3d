//! Values of options: numbers within bounds, words out of a list.

use clap::builder::{RangedU64ValueParser, TypedValueParser};

/// A whole number from `least` to `most`, both allowed.
pub fn count(least: u64, most: u64) -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(least..=most)
}

/// A number from `least` to `most`, both allowed; NaN is none.
pub fn number(
    least: f64,
    most: f64,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected a number from {least} to {most}")),
    }
}
