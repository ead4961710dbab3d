//! Reports of a comparison or a run: HTML with plots in one file, Markdown, JSON; pictures of drives.
//!
//! ```text
//! Comparison --> html      one self-contained file: tables, interval plot, scatter, regressions, replays
//!            --> markdown  for a pull request
//!            --> json      for the next program; a run's is read back
//! Trace      --> replay    the road from above with cars over time, and traces of the signals (SVG)
//!            --> picture   a moment as PNG, the drive as an animated GIF (feature `pictures`)
//! ```
//!
//! A comparison's decision and reasons come first, events before metrics, primary metrics before
//! the others; the interval plot is in margins, so that every metric has the same scale.

mod html;
mod json;
mod markdown;
mod number;
#[cfg(feature = "pictures")]
mod picture;
mod plot;
mod read;
mod replay;
mod run_html;
mod tables;
#[cfg(test)]
mod tests;

pub use html::{Replay, html};
pub use json::{json, run_json};
pub use markdown::{markdown, run_markdown};
#[cfg(feature = "pictures")]
pub use picture::{PictureOptions, replay_gif, replay_png};
pub use read::read_run_json;
pub use replay::replay_svg;
pub use run_html::run_html;
