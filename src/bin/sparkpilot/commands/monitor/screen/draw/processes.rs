//! Processes by name, in the order that was chosen. Nothing here ends one.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::super::super::words::size;
use super::super::state::{Process, State};
use super::bars::{dim, draw_text, panel};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let (processes, why) = state.processes();
    let title = format!("{} processes, by {}", processes.len(), state.order.word());
    if processes.is_empty() {
        return draw_text(frame, area, &title, why.as_deref().unwrap_or("none known"));
    }
    let title = match why {
        Some(why) => format!("{title}; of GPUs not known: {why}"),
        None => title,
    };
    let block = panel(&title);
    let room = usize::from(block.inner(area).height);
    let head = Line::styled("     pid   CPU %  memory  GPU  its memory  name", dim());
    // One row is for a process, and not for the names of what stands in it.
    let head = (room > 1).then_some(head);
    let lines: Vec<Line<'_>> = head
        .into_iter()
        .chain(processes.iter().take(room).map(line))
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn line(process: &Process) -> Line<'static> {
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let share = or_nothing(process.busy_percent.map(|percent| format!("{percent:.1}")));
    let memory = or_nothing(process.resident_bytes.map(size));
    let of_gpus = match (process.gpu_bytes, process.gpus.is_empty()) {
        (Some(bytes), _) => size(bytes),
        (None, true) => "-".to_owned(),
        (None, false) => "?".to_owned(),
    };
    let gpus = match process.gpus[..] {
        [] => "-".to_owned(),
        [one] => one.to_string(),
        [one, other] => format!("{one},{other}"),
        [first, ref others @ ..] => format!("{first}+{}", others.len()),
    };
    Line::raw(format!(
        "{:>8} {share:>7} {memory:>7} {gpus:>4} {of_gpus:>11}  {}",
        process.pid, process.name
    ))
}
