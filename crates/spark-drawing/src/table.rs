//! A table, as HTML, as Markdown or as lines of text.
//!
//! Text of cells is data in each of them. A row has as many cells as there are columns: those that
//! are missing are empty, those beyond are left out.

use std::fmt::Write as _;

use crate::markdown;
use crate::markup;

/// On which side the cells of a column stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// At the left: words.
    Left,
    /// At the right: numbers, whose digits then stand below each other.
    Right,
}

/// What a text says of the thing it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// No judgement: the colour of ordinary text.
    Plain,
    /// It is good: green.
    Good,
    /// It is bad: red, and bold where there are no colours.
    Bad,
    /// It is not decided.
    Open,
    /// It matters little: grey.
    Muted,
}

impl Tone {
    /// Its class in the style of a page.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Open => "open",
            Self::Muted => "muted",
        }
    }
}

/// Text in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Text with a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// Rows of cells under headings, as HTML or as Markdown.
///
/// # Examples
///
/// ```
/// use spark_drawing::{Align, Table};
///
/// let mut table = Table::new([("model", Align::Left), ("ms", Align::Right)]);
/// table.row(["driving_policy", "2.06"]);
/// assert_eq!(table.markdown(), "| model | ms |\n|---|---:|\n| driving_policy | 2.06 |\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows: the headings of its columns.
    pub fn new<H: Into<String>>(columns: impl IntoIterator<Item = (H, Align)>) -> Self {
        let columns = columns
            .into_iter()
            .map(|(name, align)| (name.into(), align));
        Self {
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, those beyond the columns are dropped.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut row: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        row.resize(self.columns.len(), Cell::from(""));
        self.rows.push(row);
    }

    /// An element of a page.
    pub fn html(&self) -> String {
        // Writing to a string cannot fail, here and below.
        let mut html = "<div class=\"wide\"><table>\n<tr>".to_owned();
        for (heading, align) in &self.columns {
            let class = class([side(*align), ""]);
            let _ = write!(html, "<th{class}>{}</th>", markup::escape(heading));
        }
        html.push_str("</tr>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for (cell, (_, align)) in row.iter().zip(&self.columns) {
                let class = class([side(*align), cell.tone.class()]);
                let _ = write!(html, "<td{class}>{}</td>", markup::escape(&cell.text));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table></div>\n");
        html
    }

    /// GitHub's tables; each line has its break.
    pub fn markdown(&self) -> String {
        let mut text = "|".to_owned();
        for (heading, _) in &self.columns {
            let _ = write!(text, " {} |", markdown::cell(heading));
        }
        text.push_str("\n|");
        for (_, align) in &self.columns {
            text.push_str(match align {
                Align::Left => "---|",
                Align::Right => "---:|",
            });
        }
        text.push('\n');
        for row in &self.rows {
            text.push('|');
            for Cell { text: cell, tone } in row {
                let cell = markdown::cell(cell);
                let _ = match (tone, cell.as_str()) {
                    (Tone::Bad, cell) if !cell.is_empty() => write!(text, " **{cell}** |"),
                    (_, cell) => write!(text, " {cell} |"),
                };
            }
            text.push('\n');
        }
        text
    }

    /// Lines for a terminal whose columns stand below each other, two spaces apart.
    pub fn lines(&self) -> Vec<String> {
        let headings = self.columns.iter().map(|(heading, _)| heading.as_str());
        let mut rows: Vec<Vec<&str>> = vec![headings.collect()];
        for row in &self.rows {
            rows.push(row.iter().map(|cell| cell.text.as_str()).collect());
        }
        let width = |column: usize| {
            let widths = rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |row: &Vec<&str>| {
            let cells = row.iter().zip(&self.columns).zip(&widths);
            let cells = cells.map(|((cell, (_, align)), &width)| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }
}

fn side(align: Align) -> &'static str {
    match align {
        Align::Left => "l",
        Align::Right => "",
    }
}

/// The attribute for those classes that are not empty.
fn class(names: [&str; 2]) -> String {
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(" class=\"{}\"", names.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([("name", Align::Left), ("ms", Align::Right)]);
        table.row([Cell::from("a|b <c>"), Cell::toned("1.5", Tone::Bad)]);
        table.row(["long name\nof two lines"]);
        table.row(["x", "12.25", "beyond"]);
        table
    }

    #[test]
    fn names_break_no_form_of_a_table() {
        let html = table().html();
        assert!(html.contains("<td class=\"l\">a|b &lt;c&gt;</td><td class=\"bad\">1.5</td>"));
        assert_eq!(html.matches("<td").count(), 6);
        let markdown = table().markdown();
        assert_eq!(
            markdown,
            "| name | ms |\n|---|---:|\n| a\\|b \\<c\\> | **1.5** |\n\
             | long name of two lines |  |\n| x | 12.25 |\n"
        );
    }

    #[test]
    fn columns_of_lines_stand_below_each_other() {
        let mut table = Table::new([("name", Align::Left), ("ms", Align::Right)]);
        table.row(["a", "1.5"]);
        table.row(["übe", "12.25"]);
        table.row([""]);
        assert_eq!(
            table.lines(),
            ["name     ms", "a       1.5", "übe   12.25", ""]
        );
    }
}
