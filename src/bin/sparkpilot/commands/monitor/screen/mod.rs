//! `sparkpilot monitor` on a terminal: the machine at a glance, drawn anew after every look.
//!
//! ```text
//! thread "looks"   every interval: Looker::look ──> Look, to the recorder and the metrics too
//! this thread      Look ──> State (histories) ──> draw ──> terminal
//!                  keys, signals ──> State, or the end
//! ```
//!
//! A library of NVIDIA's that hangs holds up neither keys nor the machine's numbers: GPUs are asked on a thread of
//! their own (`Looker`), and the screen says for how long their answer is awaited.
//! The terminal is given back as it was, also after a panic and after SIGTERM.
//!
//! Deliberately absent: anything that changes the machine, such as ending a process.

mod draw;
mod state;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::mpsc::{self, TrySendError};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use sparkpilot::hal::monitor::{Look, Looker};

use super::companions::Companions;
use state::State;

/// How long keys and signals may wait.
const A_BLINK: Duration = Duration::from_millis(100);
/// Looks that wait for the terminal.
const QUEUE: usize = 8;
/// Shares and rates of the first look are those of so long.
const BEFORE_THE_FIRST: Duration = Duration::from_millis(250);
/// Half of this is the longest that a look waits for GPUs.
const MOST_PATIENCE: Duration = Duration::from_secs(1);
/// 128 and SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

/// Whether there is a terminal to draw on and one to read keys from.
pub(crate) fn is_possible() -> bool {
    let moves_a_cursor = std::env::var_os("TERM").is_none_or(|name| name != "dumb");
    moves_a_cursor && io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Watches until a key or a signal ends it, or the time is over. The exit code if a signal ended it.
///
/// # Errors
///
/// A terminal that cannot be drawn on.
pub(crate) fn run(
    interval: Duration,
    duration: Option<Duration>,
    companions: &Arc<Companions>,
) -> Result<Option<u8>, Box<dyn Error>> {
    // Looking begins while the terminal is prepared. A terminal that stands still loses looks, and takes no memory.
    let (send, looks) = mpsc::sync_channel(QUEUE);
    let others = Arc::clone(companions);
    std::thread::Builder::new()
        .name("looks".to_owned())
        .spawn(move || look_on(interval, &send, &others))?;
    let mut state = State::new(interval);
    spark_program::postponed(|| {
        let mut terminal = ratatui::try_init()?;
        let ended = watch(&mut terminal, &mut state, &looks, duration, companions);
        ratatui::try_restore()?;
        ended
    })
}

/// Looks without end, until nobody listens.
fn look_on(interval: Duration, looks: &mpsc::SyncSender<Arc<Look>>, others: &Companions) {
    let mut looker = Looker::open();
    let mut next = Instant::now() + interval.min(BEFORE_THE_FIRST);
    loop {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let look = Arc::new(looker.look(interval.min(MOST_PATIENCE) / 2));
        others.take(&look);
        if let Err(TrySendError::Disconnected(_)) = looks.try_send(look) {
            return;
        }
        // Late looks are left out, not caught up with.
        next = (next + interval).max(Instant::now());
    }
}

fn watch(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    looks: &mpsc::Receiver<Arc<Look>>,
    duration: Option<Duration>,
    companions: &Companions,
) -> Result<Option<u8>, Box<dyn Error>> {
    let end = duration.and_then(|duration| Instant::now().checked_add(duration));
    let mut must_draw = true;
    loop {
        for look in looks.try_iter() {
            must_draw |= state.take(look);
            state.said = companions.words();
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
