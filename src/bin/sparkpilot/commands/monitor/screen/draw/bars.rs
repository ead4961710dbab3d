//! What panels are made of: borders, colours, shares as bars, histories as columns.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Wrap};

use super::super::state::History;

/// Heights of an eighth, two eighths … of a line.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// From these percents on a share is told in yellow, and in red.
const HIGH: [u64; 2] = [75, 92];

pub(super) fn panel(title: &str) -> Block<'static> {
    Block::bordered()
        .border_style(dim())
        .title(format!(" {title} "))
}

pub(super) fn draw_text(frame: &mut Frame<'_>, area: Rect, title: &str, text: &str) {
    let text = Paragraph::new(text.to_owned()).wrap(Wrap { trim: true });
    frame.render_widget(text.block(panel(title)), area);
}

/// A history of shares as columns over so many rows, the newest at the right, so that time runs as people read.
pub(super) fn history_lines(
    history: Option<&History>,
    width: usize,
    n_rows: usize,
) -> Vec<Line<'static>> {
    let values = history.into_iter().flat_map(History::newest_first);
    columns(values.take(width).collect(), width, n_rows)
}

/// The same of amounts, the largest of them as high as there is room; and that one.
pub(super) fn scaled_lines(
    history: &History,
    width: usize,
    n_rows: usize,
) -> (Vec<Line<'static>>, u64) {
    let values: Vec<Option<u64>> = history.newest_first().take(width).collect();
    let most = values.iter().flatten().copied().max().unwrap_or(0);
    let share = |value: u64| {
        let share = u128::from(value) * 100 / u128::from(most.max(1));
        // Colours say that a share is high, which the highest amount so far is not.
        u64::try_from(share).unwrap_or(100)
    };
    let shares = values.iter().map(|value| value.map(share)).collect();
    let mut lines = columns(shares, width, n_rows);
    for line in &mut lines {
        for span in &mut line.spans {
            span.style = Style::new();
        }
    }
    (lines, most)
}

fn columns(mut newest_first: Vec<Option<u64>>, width: usize, n_rows: usize) -> Vec<Line<'static>> {
    newest_first.reverse();
    let values = newest_first;
    let indent = " ".repeat(width - values.len());
    let rows = (0..n_rows).rev().map(|row| {
        let columns = values.iter().map(|value| piece(*value, row, n_rows));
        let line = std::iter::once(Span::raw(indent.clone())).chain(columns);
        Line::from(line.collect::<Vec<_>>())
    });
    rows.collect()
}

/// A column for a share in percent.
pub(super) fn bar(percent: Option<u64>) -> Span<'static> {
    piece(percent, 0, 1)
}

/// What of a column of so many rows stands in one of them, counted from below. No share is so small that
/// it leaves the lowest row empty.
fn piece(percent: Option<u64>, row: usize, n_rows: usize) -> Span<'static> {
    let Some(percent) = percent else {
        return Span::styled(if row == 0 { "·" } else { " " }, dim());
    };
    let n_eighths = usize::try_from(percent.min(100)).unwrap_or(0) * n_rows * 8 / 100;
    let here = n_eighths.max(1).saturating_sub(row * 8).min(8);
    let text = here.checked_sub(1).map_or(' ', |step| BARS[step]);
    Span::styled(text.to_string(), share_style(Some(percent)))
}

pub(super) fn colour(colour: Color) -> Style {
    if spark_program::allows_colours() {
        Style::new().fg(colour)
    } else {
        Style::new()
    }
}

pub(super) fn share_style(percent: Option<u64>) -> Style {
    match percent {
        Some(percent) if percent >= HIGH[1] => colour(Color::Red),
        Some(percent) if percent >= HIGH[0] => colour(Color::Yellow),
        Some(_) => colour(Color::Green),
        None => Style::new(),
    }
}

/// A GB10 slows down from about 85 C on; sensors of other parts bear more, and less.
pub(super) fn heat_style(celsius: Option<f64>) -> Style {
    match celsius {
        Some(celsius) if celsius >= 85.0 => colour(Color::Red),
        Some(celsius) if celsius >= 75.0 => colour(Color::Yellow),
        _ => Style::new(),
    }
}

pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

pub(super) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}
