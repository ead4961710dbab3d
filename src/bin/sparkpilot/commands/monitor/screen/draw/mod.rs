//! The screen, from what is remembered.
//!
//! ```text
//! machine                                        every 1 s
//! ┌ GPUs ───────────────────────────────────────┐   a line each; below it what was before, where there is room
//! ┌ CPU ─────────────────┐┌ memory ─────────────┐
//! ┌ networks, disks ─────┐┌ temperatures ───────┐   where there is room
//! ┌ processes ──────────────────────────────────┐
//! what was recorded, where metrics are              where there is something to say
//! q end · space pause · …
//! ```

mod bars;
mod gpus;
mod host;
mod processes;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier};
use ratatui::widgets::{Paragraph, Wrap};

use super::super::span::words;
use super::state::State;
use bars::{bold, colour, dim};

/// The keys, as `action_of` knows them.
const KEYS: &str = "q or Esc end · space pause or go on · s sort processes · ↓ ↑ scroll GPUs";

pub(super) fn everything(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let n_gpus = state.samples.len();
    // What is left of a high screen goes to histories.
    let spare = area.height.saturating_sub(30) / 4;
    let gpu_rows = match n_gpus {
        _ if area.height < 30 => 0,
        1..=2 => 1 + spare / 2,
        3..=4 => 1,
        _ => 0,
    };
    let gpu_lines = n_gpus.max(1) * (1 + usize::from(gpu_rows)) + 2 + usize::from(n_gpus == 0);
    let middle_height = 4 + (spare / 2).max(1);
    let said_height = said_height(&state.said, area.width);
    // Head, keys and what is said; then the least of the processes.
    let fixed = 2 + said_height + middle_height;
    let gpus_height = u16::try_from(gpu_lines)
        .unwrap_or(u16::MAX)
        .min(area.height / 2)
        .min(area.height.saturating_sub(fixed + 3))
        .max(3);
    let left = area.height.saturating_sub(fixed + gpus_height);
    let rates_height = match left {
        // The busiest of the networks and disks, and the hottest sensor.
        7..10 => 3,
        10..24 => 5,
        24.. => 10,
        _ => 0,
    };
    let [head, gpus, middle, rates, processes, said, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(gpus_height),
        Constraint::Length(middle_height),
        Constraint::Length(rates_height),
        Constraint::Min(3),
        Constraint::Length(said_height),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(frame, head, state);
    gpus::draw(frame, gpus, state, usize::from(gpu_rows));
    let halves = [Constraint::Percentage(50), Constraint::Percentage(50)];
    let [left, right] = Layout::horizontal(halves).areas(middle);
    host::draw_cpu(frame, left, state);
    host::draw_memory(frame, right, state);
    let [left, right] = Layout::horizontal(halves).areas(rates);
    host::draw_rates(frame, left, state);
    host::draw_temperatures(frame, right, state);
    processes::draw(frame, processes, state);
    let text = Paragraph::new(state.said.clone()).style(colour(Color::Yellow));
    frame.render_widget(text.wrap(Wrap { trim: true }), said);
    frame.render_widget(Paragraph::new(KEYS).style(dim()), keys);
}

/// Rows for what is said: none for nothing, at most two.
fn said_height(said: &str, width: u16) -> u16 {
    let n_rows = said.chars().count().div_ceil(usize::from(width.max(1)));
    u16::try_from(n_rows).unwrap_or(2).min(2)
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let machine = state.last.as_ref().map(|look| &*look.gpus.known.machine);
    // The machine's name comes with its GPUs, which may take their time.
    let machine = machine
        .filter(|name| !name.is_empty())
        .unwrap_or("looking …");
    let mut right = format!(" every {} ", words(state.interval));
    if let Some(silence) = state.silence {
        right = format!(" NO ANSWER for {} s ", silence.as_secs());
    } else if state.is_paused {
        right = " PAUSED ".to_owned();
    }
    let is_urgent = state.silence.is_some() || state.is_paused;
    let width = u16::try_from(right.chars().count()).unwrap_or(0);
    let parts = [Constraint::Min(0), Constraint::Length(width)];
    let [left, at_right] = Layout::horizontal(parts).areas(area);
    frame.render_widget(Paragraph::new(machine).style(bold()), left);
    let style = if is_urgent {
        bold().add_modifier(Modifier::REVERSED)
    } else {
        dim()
    };
    frame.render_widget(Paragraph::new(right).style(style), at_right);
}
