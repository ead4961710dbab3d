//! One palette for all pictures and pages.
//!
//! Deliberately absent: colours out of data. A [`Colour`] is one of these, so that it needs no escaping.

use std::fmt;

/// A colour of the palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour(&'static str);

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Text and the lines that matter.
pub const INK: Colour = Colour("#26292e");
/// Text that explains and may be passed over.
pub const MUTED: Colour = Colour("#7a828c");
/// Lines behind the marks, such as those of a scale.
pub const GRID: Colour = Colour("#dfe3e8");
/// Areas behind the marks, such as bands and table headings.
pub const SHADE: Colour = Colour("#eceff2");
/// The background of pages and pictures.
pub const PAPER: Colour = Colour("#ffffff");
/// What others are compared with.
pub const BLUE: Colour = Colour("#4c6a92");
/// The thing that is compared, the newer of two.
pub const ORANGE: Colour = Colour("#d1683c");
/// A result that is good or allowed.
pub const GREEN: Colour = Colour("#2f8f5b");
/// A result that is bad or forbidden.
pub const RED: Colour = Colour("#c23b3b");
/// A third series, beside [`BLUE`] and [`ORANGE`].
pub const AMBER: Colour = Colour("#c99a1b");
/// A fourth series, beside [`BLUE`], [`ORANGE`] and [`AMBER`].
pub const VIOLET: Colour = Colour("#7d5ba6");
/// A fifth series, beside [`BLUE`], [`ORANGE`], [`AMBER`] and [`VIOLET`].
pub const TEAL: Colour = Colour("#1f9aa8");
