//! `sparkpilot monitor` on a terminal: the machine at a glance, drawn anew after every look.
//!
//! ```text
//! thread "looks"   every interval: HostSampler, Sampler ──> Look
//! this thread      Look ──> State (histories) ──> draw ──> terminal
//!                  keys, signals ──> State, or the end
//! ```
//!
//! A library of NVIDIA's that hangs holds the looks up and not the keys; NVML's calls are bounded besides.
//! The terminal is given back as it was, also after a panic and after SIGTERM.
//!
//! Deliberately absent: anything that changes the machine, such as ending a process.

mod draw;
mod look;
mod state;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use look::Looker;
use state::State;

/// How long keys and signals may wait.
const A_BLINK: Duration = Duration::from_millis(100);
/// 128 and SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

/// Whether there is a terminal to draw on and one to read keys from.
pub(crate) fn is_possible() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Watches until a key or a signal ends it, or the time is over. The exit code if a signal ended it.
///
/// # Errors
///
/// A terminal that cannot be drawn on.
pub(crate) fn run(
    interval: Duration,
    duration: Option<Duration>,
) -> Result<Option<u8>, Box<dyn Error>> {
    // Looking begins while the terminal is prepared: the first look takes longest.
    let (send, looks) = mpsc::channel();
    std::thread::Builder::new()
        .name("looks".to_owned())
        .spawn(move || {
            let mut looker = Looker::open();
            // Nobody listens any more when the program ends.
            while send.send(looker.look()).is_ok() {
                std::thread::sleep(interval);
            }
        })?;
    let mut state = State::new(interval);
    spark_program::postponed(|| {
        let mut terminal = ratatui::try_init()?;
        let ended = watch(&mut terminal, &mut state, &looks, duration);
        ratatui::try_restore()?;
        ended
    })
}

fn watch(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    looks: &mpsc::Receiver<look::Look>,
    duration: Option<Duration>,
) -> Result<Option<u8>, Box<dyn Error>> {
    let end = duration.and_then(|duration| Instant::now().checked_add(duration));
    let mut must_draw = true;
    loop {
        for look in looks.try_iter() {
            must_draw |= state.take(look);
        }
        must_draw |= state.notices_silence();
        if std::mem::take(&mut must_draw) {
            terminal.draw(|frame| draw::everything(frame, state))?;
        }
        let left = end.map_or(A_BLINK, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(None);
        }
        if event::poll(left.min(A_BLINK))? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match action_of(key) {
                    Action::End(code) => return Ok(code),
                    Action::Change(change) => {
                        change(state);
                        must_draw = true;
                    }
                    Action::Nothing => {}
                },
                Event::Resize(..) => must_draw = true,
                _ => {}
            }
        }
        if let Some(code) = spark_program::sleep(Duration::ZERO) {
            return Ok(Some(code));
        }
    }
}

enum Action {
    End(Option<u8>),
    Change(fn(&mut State)),
    Nothing,
}

/// What a key does; `draw` shows the same keys.
fn action_of(key: KeyEvent) -> Action {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control => Action::End(Some(INTERRUPTED)),
        KeyCode::Char('q') | KeyCode::Esc => Action::End(None),
        KeyCode::Char(' ') => Action::Change(State::pause_or_go_on),
        KeyCode::Char('s') => Action::Change(State::sort_by_the_next),
        KeyCode::Down | KeyCode::Char('j') => Action::Change(State::scroll_down),
        KeyCode::Up | KeyCode::Char('k') => Action::Change(State::scroll_up),
        _ => Action::Nothing,
    }
}
