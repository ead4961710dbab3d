//! The one `tracing` subscriber: lines on stderr, as many as `DEBUG` asks for.
//!
//! ```text
//! DEBUG=0   warning: CUDA=`2` is not understood (accepts `0` or `1`); using the default: …
//! DEBUG=1   info: work runs on the CPU: …
//! DEBUG=2   debug: spark_mem::kernel::cache: …        from here on with the module
//! DEBUG=3   trace: …
//! ```
//!
//! The word before the colon is coloured where stderr is a terminal and `NO_COLOR` is not set
//! (<https://no-color.org>). A progress bar makes room for a line.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use spark_hal::config::Config;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::progress;

/// Installs the subscriber, then reads the settings, which says what is wrong with them.
pub(crate) fn install() {
    // Read twice: the first time for the level alone, when nobody listens yet.
    let (config, _) = Config::read(|name| std::env::var_os(name));
    let lines = Lines {
        is_coloured: io::stderr().is_terminal() && allows_colours(),
        names_modules: config.debug >= 2,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(config.log_level())
        .with_ansi(false) // the lines bring their own colour, and messages are cleaned of others
        .event_format(lines)
        .with_writer(|| BesideTheBar)
        .finish();
    // It fails where there is a subscriber already; then that one listens.
    let _ = tracing::subscriber::set_global_default(subscriber);
    spark_hal::config();
}

/// Whether the user allows colours, by `NO_COLOR` (no-color.org).
#[must_use]
pub fn allows_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

struct Lines {
    is_coloured: bool,
    names_modules: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (word, colour) = match *event.metadata().level() {
            Level::ERROR => ("error", 31),
            Level::WARN => ("warning", 33),
            Level::INFO => ("info", 32),
            Level::DEBUG => ("debug", 34),
            Level::TRACE => ("trace", 35),
        };
        if self.is_coloured {
            write!(writer, "\x1b[{colour}m{word}\x1b[0m: ")?;
        } else {
            write!(writer, "{word}: ")?;
        }
        if self.names_modules {
            write!(writer, "{}: ", event.metadata().target())?;
        }
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

struct BesideTheBar;

impl Write for BesideTheBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A line that cannot be written must not end the program that it is about.
        let _ = progress::aside(|| io::stderr().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // stderr has no buffer
    }
}
