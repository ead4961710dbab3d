//! Races of threads of one block in global memory: what is found, and what is none.

use spark_ptx::{AccessKind, FindingKind};

use crate::support::{findings, kernel};

/// Findings of a body, whatever the order of the warps: of some order, as a race is of some.
#[track_caller]
fn races(threads: u32, body: &str) -> Vec<FindingKind> {
    let found = findings(&kernel(TILE, body), (1, threads), 512, 512);
    let all_races = found
        .iter()
        .all(|it| matches!(it, FindingKind::GlobalRaceInBlock { .. }));
    assert!(all_races, "{found:?}\n{body}");
    found
}

/// A race is found in the faulty body and none in the sound one.
#[track_caller]
fn check(threads: u32, faulty: &str, sound: &str) {
    assert!(!races(threads, faulty).is_empty(), "{faulty}");
    assert_eq!(races(threads, sound), [], "{sound}");
}

const TILE: &str = ".shared .align 16 .b8 tile[1024];";

/// Every thread writes its word of the output; `%d2` is the word of the thread whose number differs by `bit`.
fn neighbour(bit: u32) -> String {
    format!(
        "add.u64 %d1, %d30, %d29; xor.b32 %r1, %r30, {bit}; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d2, %d30;
         st.global.u32 [%d1], %r30;"
    )
}

#[test]
fn what_another_thread_wrote_is_read() {
    for (bit, sync) in [
        (1, "bar.warp.sync -1;"),
        (16, "bar.sync 0;"),
        (32, "bar.sync 0;"),
    ] {
        let body = |sync: &str| format!("{} {sync} ld.global.u32 %r2, [%d2];", neighbour(bit));
        check(64, &body(""), &body(sync));
        // The same by generic addresses, and lane by lane.
        let guarded = |sync: &str| {
            format!(
                "{} {sync} setp.ne.u32 %p1, %r30, 5; @%p1 ld.u32 %r2, [%d2];",
                neighbour(bit)
            )
        };
        check(64, &guarded(""), &guarded(sync));
    }
    // A barrier of the warp is none of the block, and a barrier before the write is too soon.
    assert!(
        !races(
            64,
            &format!(
                "{} bar.warp.sync -1; ld.global.u32 %r2, [%d2];",
                neighbour(32)
            )
        )
        .is_empty()
    );
    assert!(
        !races(
            64,
            &format!("bar.sync 0; {} ld.global.u32 %r2, [%d2];", neighbour(1))
        )
        .is_empty()
    );
    // The source of a copy in the background.
    let copy = |sync: &str| {
        format!(
            "{} {sync} mov.u64 %d3, tile; add.u64 %d3, %d3, %d29; cvt.u32.u64 %r3, %d3;
            cp.async.ca.shared.global [%r3], [%d2], 4; cp.async.wait_all;",
            neighbour(32)
        )
    };
    check(64, &copy(""), &copy("bar.sync 0;"));
}

#[test]
fn a_finding_says_who_wrote() {
    let found = races(32, &format!("{} ld.global.u32 %r2, [%d2];", neighbour(1)));
    let FindingKind::GlobalRaceInBlock {
        access,
        other,
        other_warp,
        other_lane,
        ..
    } = found[0]
    else {
        panic!("{found:?}");
    };
    assert_eq!((access, other), (AccessKind::Read, AccessKind::Write));
    assert_eq!((other_warp, other_lane), (0, 1));
    let told = found[0].to_string();
    assert!(
        told.ends_with("read after write by warp 0, lane 1, and no barrier between them"),
        "{told}"
    );
}

#[test]
fn what_another_thread_wrote_is_written() {
    // Values that are the same are no race.
    check(
        64,
        "st.global.u32 [%d30], %r30;",
        "st.global.u32 [%d30], 7;",
    );
    check(
        32,
        "st.global.u32 [%d30], %r30;",
        "st.volatile.global.u32 [%d30], %r30;",
    );
    let twice = |sync: &str| format!("{} {sync} st.global.u32 [%d2], 1000;", neighbour(32));
    check(64, &twice(""), &twice("bar.sync 0;"));
    let vector = |stride: u32| {
        format!(
            "mul.wide.u32 %d3, %r30, {stride}; add.u64 %d3, %d3, %d30; st.global.v2.u32 [%d3], {{%r30, %r30}};"
        )
    };
    check(64, &vector(0), &vector(8));
}

#[test]
fn parts_of_a_word() {
    // Halves side by side are no race; the same halves are one, of another warp.
    let halves = |bit: u32, sync: &str| {
        format!(
            "mul.wide.u32 %d1, %r30, 2; add.u64 %d1, %d1, %d30; cvt.u16.u32 %h1, %r30; st.global.u16 [%d1], %h1; {sync}
             xor.b32 %r1, %r30, {bit}; mul.wide.u32 %d2, %r1, 2; add.u64 %d2, %d2, %d30; ld.global.u16 %h2, [%d2];"
        )
    };
    check(64, &halves(32, ""), &halves(32, "bar.sync 0;"));
    assert_eq!(races(64, &halves(0, "")), []);
    // Lane by lane: threads 0 and 33 share a word and have a half each.
    let apart = |place: u32| {
        format!(
            "setp.eq.u32 %p1, %r30, 0; setp.eq.u32 %p2, %r30, 33; cvt.u16.u32 %h1, %r30;
             @%p1 st.global.u16 [%d30], %h1; @%p2 st.global.u16 [%d30+{place}], %h1;
             @%p1 ld.global.u16 %h2, [%d30]; @%p2 ld.global.u16 %h2, [%d30+{place}];"
        )
    };
    check(64, &apart(0), &apart(2));
}

#[test]
fn atomics_race_with_what_is_none() {
    let plain = "ld.global.u32 %r1, [%d30]; add.u32 %r1, %r1, 1; st.global.u32 [%d30], %r1;";
    check(64, plain, "red.global.add.u32 [%d30], 1;");
    let then_read =
        |sync: &str| format!("red.global.add.u32 [%d30], 1; {sync} ld.global.u32 %r1, [%d30];");
    check(64, &then_read(""), &then_read("bar.sync 0;"));
}

#[test]
fn an_atomic_excuses_no_race_within_its_block() {
    // Whether its result is dropped, written to a register, or read.
    for look in ["", "@%p7 add.u32 %r4, %r3, 1;", "setp.eq.u32 %p1, %r3, 63;"] {
        let counted = |sync: &str| {
            format!(
                "{} setp.ne.u32 %p7, %r30, 70; atom.global.add.u32 %r3, [%d30+300], 1; {look} {sync} ld.global.u32 %r2, [%d2];",
                neighbour(32)
            )
        };
        check(64, &counted(""), &counted("bar.sync 0;"));
    }
}

#[test]
fn blocks_learn_of_each_other_only_by_a_result_that_is_read() {
    let met = |body: &str| {
        let found = findings(&kernel("", body), (4, 32), 64, 64);
        let is_between = |it: &FindingKind| matches!(it, FindingKind::GlobalRace { .. });
        assert!(found.iter().all(is_between), "{found:?}");
        !found.is_empty()
    };
    let body = |look: &str| {
        format!(
            "setp.ne.u32 %p1, %r30, 0; @%p1 exit; mov.u32 %r1, %ctaid.x; atom.global.add.u32 %r3, [%d30+128], 1;
             {look} st.global.u32 [%d30], %r1;"
        )
    };
    assert!(met(&body("")));
    assert!(met(&body("mov.u32 %r3, 1; add.u32 %r4, %r3, 1;")));
    assert!(!met(&body("add.u32 %r4, %r3, 1;")));
    // On some way, around a loop, and after a write that some lanes do not make.
    assert!(!met(&body(
        "mov.u32 %r5, 0; L: setp.eq.u32 %p2, %r5, 0; @%p2 bra M; add.u32 %r4, %r3, 1; M: add.u32 %r5, %r5, 1;
         setp.lt.u32 %p3, %r5, 2; @%p3 bra L;"
    )));
    assert!(!met(&body(
        "setp.eq.u32 %p2, %r30, 9; @%p2 mov.u32 %r3, 1; add.u32 %r4, %r3, 1;"
    )));
}

#[test]
fn some_warps_meet_and_others_do_not() {
    // Warps 0 and 1 meet, warp 2 does not.
    let body = |reader: u32| {
        format!(
            "setp.ne.u32 %p1, %r30, 0; @%p1 bra L; st.global.u32 [%d30], 9; L: bar.warp.sync -1;
             setp.ge.u32 %p2, %r30, 64; @%p2 bra M; bar.sync 1, 64; M:
             setp.ne.u32 %p3, %r30, {reader}; @%p3 bra END; ld.global.u32 %r2, [%d30]; END:"
        )
    };
    check(96, &body(65), &body(33));
}

#[test]
fn atomics_of_a_block_race_with_those_of_another() {
    let is_between = |it: &FindingKind| matches!(it, FindingKind::GlobalRace { .. });
    for (narrow, wide) in [
        ("atom.global.cta.add.u32 %r1,", "atom.global.add.u32 %r1,"),
        (
            "red.relaxed.cta.global.add.u32",
            "red.relaxed.gpu.global.add.u32",
        ),
        ("red.global.cta.add.u32", "red.global.sys.add.u32"),
    ] {
        let body = |op: &str| format!("{op} [%d30], 1;");
        let found = findings(&kernel("", &body(narrow)), (4, 32), 64, 64);
        assert!(
            !found.is_empty() && found.iter().all(is_between),
            "{narrow}: {found:?}"
        );
        assert_eq!(findings(&kernel("", &body(wide)), (4, 32), 64, 64), []);
        assert_eq!(findings(&kernel("", &body(narrow)), (1, 64), 64, 64), []);
    }
    let loads = |scope: &str| {
        format!(
            "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r30, 0; @%p1 st.relaxed.{scope}.global.u32 [%d30], %r2;
             ld.relaxed.{scope}.global.u32 %r1, [%d30];"
        )
    };
    let found = findings(&kernel("", &loads("cta")), (4, 32), 64, 64);
    assert!(
        !found.is_empty() && found.iter().all(is_between),
        "{found:?}"
    );
    assert_eq!(findings(&kernel("", &loads("gpu")), (4, 32), 64, 64), []);
}

#[test]
fn races_are_found_after_many_barriers() {
    let after = |n: u32, sync: &str, body: &str| {
        format!(
            "mov.u32 %r10, 0; L: {sync} add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, {n}; @%p5 bra L; {body}"
        )
    };
    let body =
        |bit: u32, sync: &str| format!("{} {sync} ld.global.u32 %r2, [%d2];", neighbour(bit));
    // Of warps, and of the lanes of one, after barriers of the block: around the places where phases are counted anew.
    for n in [40, 4000, 4094, 4095, 4096, 6142, 6143, 9000] {
        for bit in [1, 32] {
            let many = |sync: &str| after(n, "bar.sync 0;", &body(bit, sync));
            check(64, &many(""), &many("bar.sync 0;"));
        }
    }
    // Of warps after barriers of the warp; of its own lanes as long as the turns are told apart.
    for n in [40, 126, 127, 128, 5000] {
        let many = |bit: u32, sync: &str| after(n, "bar.warp.sync -1;", &body(bit, sync));
        check(64, &many(32, ""), &many(32, "bar.sync 0;"));
        if n < 127 {
            check(64, &many(1, ""), &many(1, "bar.warp.sync -1;"));
        }
    }
    // A warp that meets nobody while the others use up phases.
    let lagging = "setp.ge.u32 %p1, %r30, 64; @%p1 bra LATE; mov.u32 %r10, 0; L: bar.sync 1, 64; add.u32 %r10, %r10, 1;
        setp.lt.u32 %p5, %r10, 5000; @%p5 bra L; st.global.u32 [%d30], %r30; LATE: bar.sync 0; ld.global.u32 %r2, [%d30];";
    let found = findings(
        &kernel("", &lagging.replace("%r30; LATE", "3; LATE")),
        (1, 96),
        64,
        64,
    );
    assert_eq!(found, []);
    assert!(!races(96, lagging).is_empty());
}

#[test]
fn long_loops_of_barriers_accuse_nobody() {
    // More barriers than a word of the shadow tells apart: rotation over the words of two warps.
    let body = "add.u64 %d1, %d30, %d29; xor.b32 %r1, %r30, 32; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d2, %d30;
        mov.u32 %r2, 9000; st.global.u32 [%d1], %r30;
        L: bar.sync 0; ld.global.u32 %r3, [%d2]; bar.sync 0; add.u32 %r3, %r3, 1; st.global.u32 [%d1], %r3;
        bar.warp.sync -1; sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;";
    assert_eq!(findings(&kernel("", body), (1, 64), 64, 64), []);
    // Many barriers of a warp in one phase.
    let body = "add.u64 %d1, %d30, %d29; xor.b32 %r1, %r30, 1; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d2, %d30;
        mov.u32 %r2, 5000; st.global.u32 [%d1], %r30;
        L: bar.warp.sync -1; ld.global.u32 %r3, [%d2]; bar.warp.sync -1; st.global.u32 [%d1], %r3;
        sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;";
    assert_eq!(findings(&kernel("", body), (1, 64), 64, 64), []);
}
