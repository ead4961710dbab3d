//! The screen, from what is remembered.
//!
//! ```text
//! machine                                        every 1 s
//! ┌ GPUs ───────────────────────────────────────┐   a line each; below it what was before, where there is room
//! ┌ CPU ─────────────────┐┌ memory ─────────────┐
//! ┌ network, disks ──────┐┌ temperatures ───────┐   where there is room
//! ┌ processes of GPUs ──────────────────────────┐
//! q end · space pause · …
//! ```

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

use sparkpilot::hal::Reading;
use sparkpilot::hal::monitor::{Rate, Sample};

use super::state::{History, State, used_of_total};

/// Heights of an eighth, two eighths … of a line.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// From these percents on a share is told in yellow, and in red.
const HIGH: [u64; 2] = [75, 92];

pub(super) fn everything(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let n_gpus = state.gpus.len();
    // What is left of a high screen goes to histories.
    let spare = area.height.saturating_sub(30) / 4;
    let gpu_rows = match n_gpus {
        _ if area.height < 30 => 0,
        0..=2 => 1 + spare / 2,
        3..=4 => 1,
        _ => 0,
    };
    let gpu_lines = n_gpus.max(1) * (1 + usize::from(gpu_rows)) + 2 + usize::from(n_gpus == 0);
    let gpus_height = u16::try_from(gpu_lines)
        .unwrap_or(u16::MAX)
        .min((area.height / 2).max(3));
    let rates_lines = match area.height {
        0..20 => 0,
        20..40 => 5,
        _ => 8,
    };
    let [head, gpus, middle, rates, processes, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(gpus_height),
        Constraint::Length(4 + (spare / 2).max(1)),
        Constraint::Length(rates_lines),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(frame, head, state);
    draw_gpus(frame, gpus, state, usize::from(gpu_rows));
    let halves = [Constraint::Percentage(50), Constraint::Percentage(50)];
    let [left, right] = Layout::horizontal(halves).areas(middle);
    draw_cpu(frame, left, state);
    draw_memory(frame, right, state);
    let [left, right] = Layout::horizontal(halves).areas(rates);
    draw_rates(frame, left, state);
    draw_temperatures(frame, right, state);
    draw_processes(frame, processes, state);
    let text = "q end · space pause or go on · s sort processes · ↓ ↑ scroll GPUs";
    frame.render_widget(Paragraph::new(text).style(dim()), keys);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let machine = state
        .last
        .as_ref()
        .map_or("looking …", |look| &look.machine);
    let mut right = format!(" every {} ", seconds(state.interval.as_millis()));
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

/// Each GPU is a line, with so many of its history below.
fn draw_gpus(frame: &mut Frame<'_>, area: Rect, state: &State, n_rows: usize) {
    let samples = match state.last.as_ref().map(|look| &look.gpus) {
        None => return frame.render_widget(panel("GPUs"), area),
        Some(Err(why)) => return draw_text(frame, area, "GPUs", &format!("none to watch: {why}")),
        Some(Ok(samples)) => samples,
    };
    let block = panel("GPUs");
    let inside = block.inner(area);
    let room = usize::from(inside.height) / (1 + n_rows);
    let first = state.n_scrolled.min(samples.len().saturating_sub(room));
    let block = if samples.len() > room {
        let last = (first + room).min(samples.len());
        panel(&format!(
            "GPUs {} to {} of {}",
            first + 1,
            last,
            samples.len()
        ))
    } else {
        block
    };
    let width = usize::from(inside.width);
    let mut lines = Vec::new();
    for sample in samples.iter().skip(first).take(room) {
        lines.push(gpu_line(sample, state));
        lines.extend(history_lines(state.gpus.get(&sample.gpu), width, n_rows));
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// One GPU in a line: what matters most comes first, since a narrow screen cuts the end off.
fn gpu_line(sample: &Sample, state: &State) -> Line<'static> {
    let look = state.last.as_ref();
    let name = look.and_then(|look| look.gpu_names.get(&sample.gpu));
    let name = name.map_or("", |name| name.strip_prefix("NVIDIA ").unwrap_or(name));
    let mut parts = vec![Span::styled(format!("{} {name}", sample.gpu), bold())];
    let now = match &sample.readings {
        Ok(now) => now,
        Err(why) => {
            parts.push(Span::raw(format!("  {why}")));
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
    if let Reading::Value(reasons) = &now.throttle
        && !reasons.is_empty()
    {
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
    Line::from(parts)
}

fn draw_cpu(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(look) = &state.last else {
        return frame.render_widget(panel("CPU"), area);
    };
    let each = match &look.host.busy_percent {
        Reading::Value(each) => each,
        Reading::NotSupported => return draw_text(frame, area, "CPU", "the next look tells"),
        Reading::Failed(why) => return draw_text(frame, area, "CPU", &why.to_string()),
    };
    let mean = look
        .host
        .mean_busy_percent()
        .map(|mean| format!("{mean:.0}"));
    let title = format!("CPU {} % of {}", or_unknown(&mean), each.len());
    let block = panel(&title);
    let inside = block.inner(area);
    let width = usize::from(inside.width);
    // One column for each processor, or for several where they are more: the busiest of them.
    let per_column = each.len().div_ceil(width.max(1)).max(1);
    let bars = each.chunks(per_column).map(|some| {
        let busiest = some.iter().map(|(_, percent)| *percent).fold(0.0, f32::max);
        bar(Some(busiest as u64))
    });
    let mut lines = vec![Line::from(bars.collect::<Vec<_>>())];
    let n_rows = usize::from(inside.height).saturating_sub(1);
    lines.extend(history_lines(Some(&state.busy), width, n_rows));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_memory(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(look) = &state.last else {
        return frame.render_widget(panel("memory"), area);
    };
    let memory = &look.host.memory;
    let (title, percent) = match used_of_total(look) {
        Reading::Value((used, total)) => {
            let title = format!("memory {} of {} GiB", gibibytes(used), gibibytes(total));
            (title, Some(used * 100 / total.max(1)))
        }
        other => (format!("memory {}", or_unknown(&other.map(|_| ""))), None),
    };
    let swap = memory.meminfo.swap_total_bytes.clone().and_then(|total| {
        let free = memory.meminfo.swap_free_bytes.clone();
        free.map(|free| match total {
            0 => "no swap".to_owned(),
            _ => format!(
                "swap {} of {} GiB",
                gibibytes(total.saturating_sub(free)),
                gibibytes(total)
            ),
        })
    });
    let pressure = memory.pressure.clone().map(|pressure| {
        format!(
            "waiting {:.1} %, all {:.1} %",
            pressure.some.avg10_percent, pressure.full.avg10_percent
        )
    });
    let is_stalling = memory
        .pressure
        .as_value()
        .is_some_and(|pressure| pressure.full.avg10_percent > 10.0);
    let style = if is_stalling {
        colour(Color::Red)
    } else {
        Style::new()
    };
    let text = format!("{} · {}", or_unknown(&swap), or_unknown(&pressure));
    let block = panel(&title).title_style(share_style(percent));
    let inside = block.inner(area);
    let mut lines = vec![Line::styled(text, style)];
    let n_rows = usize::from(inside.height).saturating_sub(1);
    lines.extend(history_lines(
        Some(&state.memory),
        usize::from(inside.width),
        n_rows,
    ));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_rates(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let title = "network and disks, in and out";
    let Some(look) = &state.last else {
        return frame.render_widget(panel(title), area);
    };
    let mut all: Vec<&Rate> = Vec::new();
    for rates in [&look.host.networks, &look.host.disks] {
        all.extend(rates.as_value().into_iter().flatten());
    }
    if all.is_empty() {
        return draw_text(frame, area, title, "none known yet");
    }
    // The busiest first; those that stand still keep the order of their names.
    all.sort_by(|a, b| {
        let sum = |rate: &Rate| rate.in_bytes_per_s + rate.out_bytes_per_s;
        sum(b).total_cmp(&sum(a)).then(a.name.cmp(&b.name))
    });
    let lines = all.iter().map(|rate| {
        let (into, out) = (speed(rate.in_bytes_per_s), speed(rate.out_bytes_per_s));
        Line::raw(format!(
            "{into:>10} {out:>10}  {}",
            spark_program::printable(&rate.name)
        ))
    });
    frame.render_widget(
        Paragraph::new(lines.collect::<Vec<_>>()).block(panel(title)),
        area,
    );
}

fn draw_temperatures(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let title = "temperatures";
    let Some(look) = &state.last else {
        return frame.render_widget(panel(title), area);
    };
    if look.host.temperatures.is_empty() {
        return draw_text(frame, area, title, "no sensor answers");
    }
    let mut all: Vec<_> = look.host.temperatures.iter().collect();
    // The hottest first: a low panel shows three.
    all.sort_by(|a, b| {
        b.celsius
            .total_cmp(&a.celsius)
            .then(a.sensor.cmp(&b.sensor))
    });
    let lines = all.iter().map(|one| {
        let text = format!(
            "{:>6.1} C  {}",
            one.celsius,
            spark_program::printable(&one.sensor)
        );
        Line::styled(text, heat_style(Some(one.celsius)))
    });
    frame.render_widget(
        Paragraph::new(lines.collect::<Vec<_>>()).block(panel(title)),
        area,
    );
}

fn draw_processes(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let title = format!("processes of GPUs, by {}", state.order.word());
    let processes = match state.processes() {
        Ok(processes) if processes.is_empty() => return draw_text(frame, area, &title, "none"),
        Ok(processes) => processes,
        Err(_) if state.gpus.is_empty() => return draw_text(frame, area, &title, "no GPU tells"),
        Err(why) => return draw_text(frame, area, &title, &why),
    };
    let block = panel(&title);
    let room = usize::from(block.inner(area).height);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for process in processes.iter().take(room) {
        let memory = process
            .memory_bytes
            .map_or_else(|| "?".to_owned(), gibibytes);
        lines.push(Line::raw(format!(
            "{:>8}  GPU {}  {memory:>7} GiB  {}",
            process.pid, process.gpu, process.name
        )));
    }
    if processes.len() > room
        && let Some(last) = lines.last_mut()
    {
        *last = Line::styled(format!("… and {} more", processes.len() + 1 - room), dim());
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_text(frame: &mut Frame<'_>, area: Rect, title: &str, text: &str) {
    let text = Paragraph::new(text.to_owned()).wrap(ratatui::widgets::Wrap { trim: true });
    frame.render_widget(text.block(panel(title)), area);
}

fn panel(title: &str) -> Block<'static> {
    Block::bordered()
        .border_style(dim())
        .title(format!(" {title} "))
}

/// A history as columns over so many rows, the newest at the right, so that time runs as people read.
fn history_lines(history: Option<&History>, width: usize, n_rows: usize) -> Vec<Line<'static>> {
    let history = history.into_iter().flat_map(History::newest_first);
    let mut values: Vec<Option<u64>> = history.take(width).collect();
    values.reverse();
    let indent = " ".repeat(width - values.len());
    let rows = (0..n_rows).rev().map(|row| {
        let columns = values.iter().map(|value| piece(*value, row, n_rows));
        let line = std::iter::once(Span::raw(indent.clone())).chain(columns);
        Line::from(line.collect::<Vec<_>>())
    });
    rows.collect()
}

/// A column for a share in percent.
fn bar(percent: Option<u64>) -> Span<'static> {
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

fn colour(colour: Color) -> Style {
    if spark_program::allows_colours() {
        Style::new().fg(colour)
    } else {
        Style::new()
    }
}

fn share_style(percent: Option<u64>) -> Style {
    match percent {
        Some(percent) if percent >= HIGH[1] => colour(Color::Red),
        Some(percent) if percent >= HIGH[0] => colour(Color::Yellow),
        Some(_) => colour(Color::Green),
        None => Style::new(),
    }
}

/// A GB10 slows down from about 85 C on; sensors of other parts bear more, and less.
fn heat_style(celsius: Option<f64>) -> Style {
    match celsius {
        Some(celsius) if celsius >= 85.0 => colour(Color::Red),
        Some(celsius) if celsius >= 75.0 => colour(Color::Yellow),
        _ => Style::new(),
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// What was told, or a word for what was not.
fn or_unknown<T: std::fmt::Display>(reading: &Reading<T>) -> String {
    match reading {
        Reading::Value(value) => value.to_string(),
        Reading::NotSupported => "n/a".to_owned(),
        Reading::Failed(_) => "?".to_owned(),
    }
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}

fn seconds(milliseconds: u128) -> String {
    if milliseconds.is_multiple_of(1000) {
        return format!("{} s", milliseconds / 1000);
    }
    format!("{milliseconds} ms")
}

/// Bytes per second with a unit that keeps three digits or so.
fn speed(bytes_per_s: f64) -> String {
    let steps = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")];
    for (size, unit) in steps {
        if bytes_per_s >= size {
            return format!("{:.1} {unit}", bytes_per_s / size);
        }
    }
    format!("{bytes_per_s:.0} B/s")
}
