//! The colour of each number format.

use spark_drawing::Colour;
use spark_drawing::colour::{AMBER, BLUE, GREEN, INK, ORANGE, RED, TEAL, VIOLET};

/// Precisions in the order of the page.
pub(super) const COLOURS: [(&str, Colour); 8] = [
    ("fp32", BLUE),
    ("fp16", GREEN),
    ("bf16", AMBER),
    ("fp8", ORANGE),
    ("int8", TEAL),
    ("fp4", RED),
    ("mixed", VIOLET),
    ("calibrated", INK),
];

pub(super) fn colour(precision: &str) -> Colour {
    let found = COLOURS.iter().find(|(name, _)| *name == precision);
    found.map_or(INK, |(_, colour)| *colour)
}
