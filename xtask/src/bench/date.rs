//! Today's date, without a date library.

use std::time::{SystemTime, UNIX_EPOCH};

/// Today in UTC, `YYYY-MM-DD`.
pub(super) fn today() -> String {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    date_of_day(since_epoch.as_secs() / 86_400)
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar.
fn date_of_day(mut days: u64) -> String {
    let is_leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_their_dates() {
        for (day, date) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_322, "2000-12-31"),
            (11_323, "2001-01-01"),
            (20_777, "2026-11-20"),
        ] {
            assert_eq!(date_of_day(day), date);
        }
    }
}
