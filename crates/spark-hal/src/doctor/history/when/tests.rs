//! Every way to write a time, every day of four centuries, and text that is neither.

use super::*;

fn moment(line: &str) -> Option<String> {
    let before = Moment::of(2026, 11, 30, 0);
    let boot = Moment::of(2026, 11, 29, 0);
    let (stamp, rest) = Stamp::of(line)?;
    assert_eq!(rest, "host x", "{line}");
    Some(stamp.moment(before, boot)?.to_string())
}

#[test]
fn every_way_to_write_a_time_is_read() {
    for (line, wanted) in [
        ("2026-03-01T10:00:59 host x", "2026-03-01 10:00 UTC"),
        ("2026-03-01T10:00:00Z host x", "2026-03-01 10:00 UTC"),
        (
            "2026-03-01T00:30:00.123456+01:00 host x",
            "2026-02-28 23:30 UTC",
        ),
        ("2026-03-01T00:30:00.1-0930 host x", "2026-03-01 10:00 UTC"),
        ("2024-02-29 23:59:60 host x", "2024-03-01 00:00 UTC"),
        ("Nov 30 10:00:00 host x", "2026-11-30 10:00 UTC"),
        ("Dec  3 10:00:00 host x", "2025-12-03 10:00 UTC"),
        ("Feb 29 00:00:00 host x", "2024-02-29 00:00 UTC"),
        ("[    0.000000] host x", "2026-11-29 00:00 UTC"),
        ("[86400.123456] host x", "2026-11-30 00:00 UTC"),
    ] {
        assert_eq!(moment(line).as_deref(), Some(wanted), "{line}");
    }
}

#[test]
fn other_text_is_no_time() {
    for line in [
        "",
        "host x",
        "2026-13-01T10:00:00 host x",
        "2025-02-29T10:00:00 host x",
        "2026-03-01T24:00:00 host x",
        "2026-03-01T10:00:00east host x",
        "Feb 30 10:00:00 host x",
        "Mar 1 10:00:00 host x",
        "Mäz  1 10:00:00 host x",
        "[99999999999.0] host x",
        "[x] host x",
        "٢٠٢٦-03-01T10:00:00 host x",
    ] {
        let read = Stamp::of(line)
            .and_then(|(stamp, _)| stamp.moment(Moment::of(2026, 11, 30, 0), Some(Moment(0))));
        assert_eq!(read, None, "{line}");
    }
}

#[test]
fn every_day_of_four_centuries_is_written_as_it_is_read() {
    let (mut year, mut month, mut day) = (1970, 1, 1);
    for number in 0..146_097 {
        let moment = Moment(number * DAY_S);
        assert_eq!(Moment::of(year, month, day, 0), Some(moment));
        let wanted = format!("{year:04}-{month:02}-{day:02} 00:00 UTC");
        assert_eq!(moment.to_string(), wanted);
        day += 1;
        if Moment::of(year, month, day, 0).is_none() {
            (day, month) = (1, month + 1);
        }
        if month == 13 {
            (month, year) = (1, year + 1);
        }
    }
}
