//! `sparkpilot doctor --load 10s`: the machine at work, for the doctor to judge.

use std::time::Duration;

use spark_program::{Pulse, postponed, progress, sleep, tell};
use sparkpilot::hal::doctor::Load;
use sparkpilot::load::{self, LoadOptions};

/// What was measured, and the exit code of the signal that ended it, if one did.
pub(super) struct Loaded {
    pub(super) load: Load,
    pub(super) signal: Option<u8>,
}

/// Loads the machine for this long, or until Ctrl-C.
pub(super) fn run(duration: Duration) -> Loaded {
    let bar = progress(Some(duration.as_secs()));
    let pulse = Pulse::of(&bar);
    let mut signal = None;
    let load = postponed(|| {
        load::run(&LoadOptions::new(duration), &mut |at| {
            bar.set_message(at.work.clone());
            bar.set_position(at.done.min(at.of).as_secs());
            signal = signal.or_else(|| sleep(Duration::ZERO));
            signal.is_none()
        })
    });
    drop(pulse);
    bar.finish_and_clear();
    if let Err(why) = &load.gpu {
        tell(format_args!("no GPU was loaded: {why}"));
    }
    Loaded { load, signal }
}

/// `10s` or `2m`, from a second to ten minutes.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.strip_suffix('m') {
        Some(digits) => (digits, 60),
        None => (text.strip_suffix('s').unwrap_or(""), 1),
    };
    // The standard library's parser takes a sign too.
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u64> = digits.parse().ok().filter(|_| is_plain);
    let seconds = number.and_then(|number| number.checked_mul(unit));
    let range = LoadOptions::SHORTEST..=LoadOptions::LONGEST;
    seconds
        .map(Duration::from_secs)
        .filter(|duration| range.contains(duration))
        .ok_or_else(|| "expected a time from 1s to 10m, such as 10s or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_minutes_within_bounds() {
        for (text, seconds) in [
            ("1s", 1),
            ("10s", 10),
            ("2m", 120),
            ("600s", 600),
            ("10m", 600),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "s",
            "m",
            "0s",
            "10",
            "+5s",
            "-1s",
            "1.5s",
            "601s",
            "11m",
            "10h",
            "5 s",
            "99999999999999999999s",
            "18446744073709551615m",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
