//! Columns of text for terminals.
//!
//! Its own code: scripts read these lines, which have no frames and no colours and do not hang on the terminal's width,
//! all that a crate of tables would add.

use std::fmt::Write as _;

/// Rows whose columns are as wide as their widest cell; the first is a heading. Cells of numbers stand to the right.
///
/// A cell is [`on_one_line`] whatever is in it.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let rows = rows
        .iter()
        .map(|row| row.each_ref().map(|cell| on_one_line(cell)));
    let rows: Vec<[String; N]> = rows.collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let is_number =
        |cell: &str| cell.starts_with(|first: char| first.is_ascii_digit() || first == '-');
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for ((idx, cell), width) in row.iter().enumerate().zip(widths) {
            let gap = if idx == 0 { "" } else { "  " };
            // Writing to a string does not fail.
            let _ = match is_number(cell) {
                true => write!(line, "{gap}{cell:>width$}"),
                false => write!(line, "{gap}{cell:<width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A text whose control characters, line breaks among them, are written as `\u{a}`: the name of a tensor may hold any.
pub(crate) fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => line.extend(character.escape_unicode()),
            false => line.push(character),
        }
    }
    line
}

/// Bytes as people read them.
pub(crate) fn bytes(n: usize) -> String {
    const UNITS: [&str; 4] = ["bytes", "KiB", "MiB", "GiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} bytes"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["name", "bytes"], ["a", "12"], ["long one", "7"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(
            columns(&rows),
            "name      bytes\na            12\nlong one      7\n"
        );
    }

    #[test]
    fn a_cell_makes_no_line_of_its_own() {
        let rows = [["name", "n"], ["a\nb", "1"], ["c\t\u{1b}[2J", "2"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(
            columns(&rows),
            "name             n\na\\u{a}b          1\nc\\u{9}\\u{1b}[2J  2\n"
        );
    }

    #[test]
    fn bytes_have_the_unit_that_suits_them() {
        let told: Vec<String> = [0, 1023, 1536, 5 << 20, 3 << 40].map(bytes).into();
        assert_eq!(
            told,
            ["0 bytes", "1023 bytes", "1.5 KiB", "5.0 MiB", "3072.0 GiB"]
        );
    }
}
