//! Reports as text: SVG pictures, HTML pages, tables and Markdown, written without any dependency.
//!
//! ```text
//! markup   number   colour          text that cannot break markup, numbers for people, one palette
//!    \        |        /
//!   svg ── scale ── axis            shapes in pixels; values to pixels, round ticks; grids
//!    |        |
//!    |      rows                    a name and marks per row: bars, dots, spreads
//!   table   markdown                one table as HTML, Markdown or aligned text
//!    |
//!   page                            one HTML file that needs nothing else
//! ```
//!
//! Whatever is given as text is data: pages and pictures escape it, so that a name out of a file
//! cannot become markup. What is not finite is not drawn.
//!
//! Its own code, not a crate of templates or of tables: a page is made of what a report says, text cannot be put in as markup, one table is three
//! kinds of text, reports have the same bytes wherever they are made, and `xtask` compiles it in a second.
//!
//! Deliberately absent: pixels (PNG, GIF), scripts, fonts, and files, which the caller writes.
//!
//! ```
//! use spark_drawing::{Align, Page, Rows, Scale, Svg, Table, colour};
//!
//! let mut table = Table::new([("model", Align::Left), ("ms", Align::Right)]);
//! table.row(["a<b", "1.5"]);
//! assert_eq!(table.markdown(), "| model | ms |\n|---|---:|\n| a\\<b | 1.5 |\n");
//!
//! let mut svg = Svg::new(400.0, 60.0);
//! let scale = Scale::from_zero([1.5], [100.0, 380.0]);
//! let mut rows = Rows::new(&mut svg, scale, 4.0, 1);
//! rows.name(0, "a<b");
//! rows.bar(0, [0.0, 1.5], 14.0, colour::BLUE.into());
//!
//! let mut page = Page::new("Latency");
//! page.table(&table);
//! page.picture(svg);
//! assert!(page.finish().contains("a&lt;b"));
//! ```

pub mod axis;
pub mod colour;
pub mod markdown;
pub mod markup;
pub mod number;

mod page;
mod rows;
mod scale;
mod svg;
mod table;

pub use colour::Colour;
pub use page::Page;
pub use rows::Rows;
pub use scale::{Scale, Tick};
pub use svg::{Fill, Font, Stroke, Svg};
pub use table::{Align, Cell, Table, Tone};

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
