//! Limits crossed by posed looks.

use super::super::posed::look;
use super::*;
use crate::memory::Meminfo;

fn names(news: &[Crossing]) -> Vec<(&'static str, Option<u32>)> {
    news.iter().map(|it| (it.limit.name(), it.gpu)).collect()
}

fn now(look: &mut Look) -> &mut GpuSample {
    look.gpus.samples.as_mut().unwrap()[0]
        .readings
        .as_mut()
        .unwrap()
}

/// A look with other figures of memory, in MiB.
fn with_memory(at_ms: u64, total: u64, available: u64, swap_used: u64) -> Look {
    let mut look = look(at_ms, 0);
    let text = format!(
        "MemTotal: {} kB\nMemAvailable: {} kB\nSwapTotal: 8388608 kB\nSwapFree: {} kB\n",
        total << 10,
        available << 10,
        8_388_608 - (swap_used << 10)
    );
    look.host.memory.meminfo = Meminfo::parse(&text);
    look
}

#[test]
fn a_machine_at_ease_is_no_news() {
    let mut alarm = Alarm::default();
    for at in 0..100 {
        assert_eq!(alarm.news(&look(at * 1000, 8)), []);
    }
}

#[test]
fn low_memory_is_news_once_and_again_after_it_was_well() {
    let mut alarm = Alarm::default();
    let mut news =
        |at_ms, available| names(&alarm.news(&with_memory(at_ms, 128 << 10, available, 0)));
    let low = [("low_memory", None)];
    assert_eq!(news(0, 8192), []);
    assert_eq!(news(1000, 8191), low);
    for at in 2..60 {
        assert_eq!(news(at * 1000, 100), [], "it goes on");
    }
    assert_eq!(news(60_000, 9000), []);
    assert_eq!(news(61_000, 8000), [], "it swings around its limit");
    assert_eq!(news(70_000, 9000), []);
    assert_eq!(news(80_000, 8000), low);
    // A small machine is not always low.
    let mut alarm = Alarm::default();
    assert_eq!(alarm.news(&with_memory(0, 4096, 1000, 0)), []);
    let words = &alarm.news(&with_memory(0, 4096, 400, 0))[0].words;
    assert_eq!(words, "400 MiB available, below 409");
}

#[test]
fn swap_that_grows_is_news_and_swap_that_is_full_is_not() {
    let mut alarm = Alarm::default();
    let mut news =
        |seconds: u64, used| names(&alarm.news(&with_memory(seconds * 1000, 4096, 4000, used)));
    assert_eq!(news(0, 8000), []);
    assert_eq!(news(1, 8000), []);
    assert_eq!(news(2, 100), []);
    assert_eq!(news(3, 355), []);
    assert_eq!(news(4, 356), [("growing_swap", None)]);
    assert_eq!(news(70, 600), [], "so slowly nobody minds");
}

#[test]
fn a_short_interval_takes_no_memory() {
    let mut alarm = Alarm::default();
    for at_ms in 0..10_000 {
        alarm.news(&with_memory(at_ms, 4096, 4000, 10));
    }
    assert!(alarm.swap.len() <= MOST_SWAP_LOOKS);
}

#[test]
fn heat_brakes_and_stalls_are_news() {
    let mut alarm = Alarm::default();
    let mut hot = look(0, 1);
    now(&mut hot).temperature_c = Reading::Value(86);
    now(&mut hot).throttle = Reading::Value(vec![
        ThrottleReason::SoftwareThermal,
        ThrottleReason::PowerCap,
    ]);
    if let Reading::Value(pressure) = &mut hot.host.memory.pressure {
        pressure.full.avg10_percent = 10.0;
    }
    let news = alarm.news(&hot);
    let wanted = [("stalled", None), ("hot", Some(0)), ("throttled", Some(0))];
    assert_eq!(names(&news), wanted);
    assert_eq!(news[1].words, "86 C, above 85");
    assert_eq!(news[2].words, "held back by software_thermal");
    let mut warm = look(0, 1);
    now(&mut warm).temperature_c = Reading::Value(85);
    assert_eq!(Alarm::default().news(&warm), []);
}

#[test]
fn a_clock_is_stuck_when_nothing_else_explains_it_in_four_looks() {
    let slow = |at_ms| {
        let mut slow = look(at_ms, 1);
        now(&mut slow).sm_clock_mhz = Reading::Value(850);
        slow
    };
    let mut alarm = Alarm::default();
    for at in 0..3 {
        assert_eq!(alarm.news(&slow(at * 1000)), []);
    }
    assert_eq!(names(&alarm.news(&slow(3000))), [("stuck_clock", Some(0))]);
    let changes: [fn(&mut Look); 4] = [
        |it| now(it).utilization_percent = Reading::Value(5),
        |it| now(it).throttle = Reading::Value(vec![ThrottleReason::ApplicationClocks]),
        |it| now(it).sm_clock_mhz = Reading::Value(1400),
        |it| {
            std::sync::Arc::make_mut(&mut it.gpus.known)
                .names
                .insert(0, "NVIDIA H100".to_owned());
        },
    ];
    for change in changes {
        let mut alarm = Alarm::default();
        for at in 0..10 {
            let mut look = slow(at * 1000);
            change(&mut look);
            assert_eq!(alarm.news(&look), []);
        }
    }
}

#[test]
fn gpus_that_fall_silent_are_news_and_those_that_never_spoke_are_not() {
    let mut silent = look(20_000, 1);
    silent.gpus.samples = Err("no answer for 6.0 s".to_owned());
    silent.gpus.unanswered = Some(Duration::from_secs(6));
    let mut alarm = Alarm::default();
    assert_eq!(alarm.news(&silent), []);
    assert_eq!(alarm.news(&look(0, 1)), []);
    assert_eq!(names(&alarm.news(&silent)), [("silent", None)]);
    let mut lost = look(30_000, 2);
    lost.gpus.samples.as_mut().unwrap()[1].readings = Err("fell off the bus".to_owned());
    let news = alarm.news(&lost);
    assert_eq!(names(&news), [("silent", Some(1))]);
    assert_eq!(news[0].words, "fell off the bus");
}
