//! The machine around the GPUs: processors, memory, what goes through networks and disks, temperatures.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use sparkpilot::hal::Reading;
use sparkpilot::hal::monitor::Rate;

use super::super::super::words::{gibibytes, or_unknown, speed};
use super::super::state::State;
use super::bars::{
    bar, colour, dim, draw_text, heat_style, history_lines, panel, scaled_lines, share_style,
};

/// From these percents of ten seconds on waiting is told in yellow, and in red where everything waits.
const WAITING: f32 = 10.0;

fn tenths(percent: f32) -> String {
    format!("{percent:.1}")
}

pub(super) fn draw_cpu(frame: &mut Frame<'_>, area: Rect, state: &State) {
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
    let stall = look.host.cpu_stall.as_ref();
    let waiting = or_unknown(&stall.map(|stall| tenths(stall.avg10_percent)));
    let title = format!(
        "CPU {} % of {}, waiting {waiting} %",
        or_unknown(&mean),
        each.len()
    );
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

pub(super) fn draw_memory(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(look) = &state.last else {
        return frame.render_widget(panel("memory"), area);
    };
    let host = &look.host;
    let (title, percent) = match host.memory_used_of_total() {
        Reading::Value((used, total)) => {
            let title = format!("memory {} of {} GiB", gibibytes(used), gibibytes(total));
            (title, Some(used * 100 / total.max(1)))
        }
        other => (format!("memory {}", or_unknown(&other.map(|_| ""))), None),
    };
    let swap = host.swap_used_of_total().map(|(used, total)| match total {
        0 => "no swap".to_owned(),
        _ => format!("swap {} of {} GiB", gibibytes(used), gibibytes(total)),
    });
    let pressure = host.memory.pressure.as_ref().map(|pressure| {
        format!(
            "waiting {:.1} %, all {:.1} %",
            pressure.some.avg10_percent, pressure.full.avg10_percent
        )
    });
    let is_stalling = host
        .memory
        .pressure
        .as_value()
        .is_some_and(|pressure| pressure.full.avg10_percent >= WAITING);
    let style = if is_stalling {
        colour(Color::Red)
    } else {
        Style::new()
    };
    let block = panel(&title).title_style(share_style(percent));
    let inside = block.inner(area);
    let mut lines = vec![
        Line::raw(or_unknown(&swap)),
        Line::styled(or_unknown(&pressure), style),
    ];
    let n_rows = usize::from(inside.height).saturating_sub(lines.len());
    let width = usize::from(inside.width);
    lines.extend(history_lines(Some(&state.memory), width, n_rows));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Lines that a history of rates takes with its name.
const HISTORY: usize = 2;

pub(super) fn draw_rates(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(look) = &state.last else {
        return frame.render_widget(panel("network and disks"), area);
    };
    let disks = look.host.disk_pressure.as_ref();
    let waiting = or_unknown(&disks.map(|pressure| tenths(pressure.some.avg10_percent)));
    let title = format!("in, out; for disks waiting {waiting} %");
    let mut all: Vec<&Rate> = Vec::new();
    for rates in [&look.host.networks, &look.host.disks] {
        all.extend(rates.as_value().into_iter().flatten());
    }
    if all.is_empty() {
        return draw_text(frame, area, &title, "none known yet");
    }
    // The busiest first; those that stand still keep the order of their names.
    all.sort_by(|a, b| {
        let sum = |rate: &Rate| rate.in_bytes_per_s + rate.out_bytes_per_s;
        sum(b).total_cmp(&sum(a)).then(a.name.cmp(&b.name))
    });
    let block = panel(&title);
    let inside = block.inner(area);
    let (width, height) = (usize::from(inside.width), usize::from(inside.height));
    let histories = [("networks", &state.networks), ("disks", &state.disks)];
    let n_rates = match height {
        0..7 => height,
        _ => height - histories.len() * HISTORY,
    };
    let mut lines: Vec<Line<'_>> = Vec::new();
    for rate in all.iter().take(n_rates) {
        let (into, out) = (speed(rate.in_bytes_per_s), speed(rate.out_bytes_per_s));
        let name = spark_program::printable(&rate.name);
        lines.push(Line::raw(format!("{into:>10} {out:>10}  {name}")));
    }
    if height > n_rates {
        lines.resize(n_rates, Line::default());
        for (name, history) in histories {
            let (columns, most) = scaled_lines(history, width, HISTORY - 1);
            let most = speed(most as f64);
            lines.push(Line::styled(format!("{name}, up to {most}"), dim()));
            lines.extend(columns);
        }
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

pub(super) fn draw_temperatures(frame: &mut Frame<'_>, area: Rect, state: &State) {
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
        let sensor = spark_program::printable(&one.sensor);
        let text = format!("{:>6.1} C  {sensor}", one.celsius);
        Line::styled(text, heat_style(Some(one.celsius)))
    });
    let lines = Paragraph::new(lines.collect::<Vec<_>>());
    frame.render_widget(lines.block(panel(title)), area);
}
