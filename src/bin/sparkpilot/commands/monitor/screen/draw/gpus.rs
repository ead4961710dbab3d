//! GPUs, a line each, with so many rows of what was before.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use sparkpilot::hal::Reading;
use sparkpilot::hal::monitor::Sample;
use sparkpilot::hal::nvml::ThrottleReason;

use super::super::super::words::{gibibytes, or_unknown};
use super::super::state::State;
use super::bars::{bold, colour, dim, draw_text, heat_style, history_lines, panel, share_style};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, n_rows: usize) {
    let Some(look) = &state.last else {
        return frame.render_widget(panel("GPUs"), area);
    };
    let samples = &state.samples;
    let late = match &look.gpus.samples {
        Ok(_) => None,
        Err(why) if samples.is_empty() => {
            let waiting = look.gpus.unanswered.is_some();
            let before = if waiting {
                "looking:"
            } else {
                "none to watch:"
            };
            return draw_text(frame, area, "GPUs", &format!("{before} {why}"));
        }
        Err(why) => Some(why),
    };
    let inside = panel("").inner(area);
    let room = (usize::from(inside.height) / (1 + n_rows)).max(1);
    let first = state.n_scrolled.min(samples.len().saturating_sub(room));
    let mut title = "GPUs".to_owned();
    if samples.len() > room {
        let last = (first + room).min(samples.len());
        title = format!("GPUs {} to {last} of {}", first + 1, samples.len());
    }
    if let Some(why) = late {
        title = format!("{title}, as they were: {why}");
    }
    let width = usize::from(inside.width);
    let mut lines = Vec::new();
    for sample in samples.iter().skip(first).take(room) {
        let mut line = gpu_line(sample, state);
        if late.is_some() {
            line = line.style(dim());
        }
        lines.push(line);
        lines.extend(history_lines(state.gpus.get(&sample.gpu), width, n_rows));
    }
    let style = late.map_or_else(Default::default, |_| colour(Color::Red));
    let block = panel(&title).title_style(style);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// One GPU in a line: what matters most comes first, since a narrow screen cuts the end off.
fn gpu_line(sample: &Sample, state: &State) -> Line<'static> {
    let look = state.last.as_ref();
    let name = look.and_then(|look| look.gpus.known.names.get(&sample.gpu));
    let name = name.map_or("", |name| name.strip_prefix("NVIDIA ").unwrap_or(name));
    let mut parts = vec![Span::styled(format!("{} {name}", sample.gpu), bold())];
    let now = match &sample.readings {
        Ok(now) => now,
        Err(why) => {
            parts.push(Span::raw(format!("  {}", spark_program::printable(why))));
            return Line::from(parts);
        }
    };
    let busy = now.utilization_percent.as_value().copied();
    parts.push(Span::styled(
        format!("  {} %", or_unknown(&now.utilization_percent)),
        share_style(busy.map(u64::from)),
    ));
    parts.push(Span::raw(format!(
        "  {} MHz",
        or_unknown(&now.sm_clock_mhz)
    )));
    let celsius = now.temperature_c.as_value().copied();
    parts.push(Span::styled(
        format!("  {} C", or_unknown(&now.temperature_c)),
        heat_style(celsius.map(f64::from)),
    ));
    let watts = now
        .power_mw
        .as_ref()
        .map(|mw| format!("{:.0}", f64::from(*mw) / 1e3));
    let limit = now.power_limit_mw.as_value();
    let limit = limit.map_or_else(String::new, |mw| format!("/{:.0}", f64::from(*mw) / 1e3));
    parts.push(Span::raw(format!("  {}{limit} W", or_unknown(&watts))));
    let used = sample.memory_used_bytes().map(gibibytes);
    let place = if sample.is_unified { " shared" } else { "" };
    parts.push(Span::raw(format!("  {} GiB{place}", or_unknown(&used))));
    let reasons: Vec<ThrottleReason> = now.reasons_at_work().collect();
    if !reasons.is_empty() {
        let names: Vec<&str> = reasons.iter().map(|reason| reason.name()).collect();
        let is_hot = reasons.iter().any(|reason| reason.is_thermal());
        let style = if is_hot {
            colour(Color::Red)
        } else {
            colour(Color::Yellow)
        };
        parts.push(Span::styled(
            format!("  held back: {}", names.join(", ")),
            style,
        ));
    }
    // Clocks of memory tell little from one look to the next, so they come last.
    if let Reading::Value(clock) = now.memory_clock_mhz {
        parts.push(Span::styled(format!("  memory at {clock} MHz"), dim()));
    }
    Line::from(parts)
}
