//! Barriers: who has to come, by which instruction, and what is said of those who do not.

use spark_ptx::FindingKind;

use crate::support::{HEADER, TILE, check, check_bodies, findings, kernel, launch};

#[test]
fn producers_and_consumers_of_named_barriers() {
    // Warp 0 waits for what warp 1 wrote, and warp 1 only arrives.
    let body = |barrier: &str| {
        format!(
            "mov.u64 %d1, tile; setp.ge.u32 %p1, %r30, 32; @%p1 bra PRODUCE;
             {barrier} ld.shared.u32 %r1, [%d1]; st.global.u32 [%d30], %r1; bra END;
             PRODUCE: setp.ne.u32 %p2, %r30, 32; @%p2 bra ARRIVE; st.shared.u32 [%d1], 9;
             ARRIVE: bar.arrive 1, 64; END:"
        )
    };
    let missing = body("").replace("bar.arrive 1, 64;", "");
    let sound = body("bar.sync 1, 64;");
    check_bodies((1, 64), TILE, &missing, &sound, |finding| {
        matches!(
            finding,
            FindingKind::SharedRace { .. } | FindingKind::Uninitialised { .. }
        )
    });
    let surplus = sound.replace("bar.arrive 1, 64;", "bar.arrive 1, 96; bar.arrive 1, 96;");
    let surplus = surplus.replace("bar.sync 1, 64;", "bar.sync 1, 96;");
    let found = findings(&kernel(TILE, &surplus), (1, 96), 256, 256);
    let is_surplus = |it: &FindingKind| matches!(it, FindingKind::SurplusArrival { barrier: 1 });
    assert!(found.iter().any(is_surplus), "{found:?}");
}

#[test]
fn a_barrier_is_complete_at_its_number_of_arrivals_and_empty_again() {
    let is_alone = |it: &FindingKind| matches!(it, FindingKind::ArrivalsAlone { barrier: 1 });
    // Warps before the last one arrive, the last one waits.
    let body = |n: u32, threads: u32| {
        format!(
            "setp.ge.u32 %p1, %r30, {n}; @%p1 bra W; bar.arrive 1, {threads}; bra END; W: bar.sync 1, {threads}; END:"
        )
    };
    for warps in [3, 4] {
        let (n, last) = (32 * warps, 32 * (warps - 1));
        let (faulty, sound) = (body(last, 64), body(last, n));
        check_bodies((1, n), "", &faulty, &sound, is_alone);
    }
    // Two arrivals are a barrier of 64, and the third warp waits for ever.
    let found = findings(&kernel("", &body(64, 64)), (1, 96), 1, 1);
    let is_stuck = |it: &FindingKind| matches!(it, FindingKind::Deadlock { waiting: 4, .. });
    assert!(found.iter().any(is_stuck), "{found:?}");
    // Whoever arrives goes on, and meets the next use of the barrier, while the first wakes up.
    let pairs = "mov.u64 %d1, tile; add.u64 %d2, %d1, %d29; mov.u32 %r2, 0; setp.ge.u32 %p1, %r30, 32; @%p1 bra CONSUME;
        PRODUCE: bar.sync 2, 64; add.u32 %r3, %r30, %r2; st.shared.u32 [%d2], %r3; bar.arrive 1, 64;
        add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 20; @%p2 bra PRODUCE; bra END;
        CONSUME: bar.arrive 2, 64; bar.sync 1, 64; ld.shared.u32 %r3, [%d2+-128]; add.u64 %d3, %d30, %d29;
        st.global.u32 [%d3], %r3; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 20; @%p2 bra CONSUME; END:";
    for seed in 0..6 {
        let (out, report) = launch(&kernel(TILE, pairs), (1, 64), seed, &[0], 64);
        assert_eq!(report.findings, []);
        assert_eq!((out[32], out[63]), (19, 50));
    }
    let racing = pairs
        .replace("bar.sync 2, 64;", "")
        .replace("bar.arrive 2, 64;", "");
    check_bodies((1, 64), TILE, &racing, pairs, |finding| {
        matches!(
            finding,
            FindingKind::SharedRace { .. } | FindingKind::SurplusArrival { .. }
        )
    });
}

#[test]
fn barriers_that_some_do_not_reach() {
    let body = |skip: &str| {
        format!(
            "setp.lt.u32 %p1, %r30, {skip}; @%p1 bra L; bar.sync 1, 64; L: st.global.u32 [%d30], 1;"
        )
    };
    check_bodies((1, 64), "", &body("32"), &body("0"), |finding| {
        matches!(finding, FindingKind::Deadlock { .. })
    });
    // Half of a warp at one barrier, the other half at another.
    let divergent = "setp.lt.u32 %p1, %r30, 16; @%p1 bra L; bar.sync 0; bra M; L: bar.sync 0; M:";
    let sound = "setp.lt.u32 %p1, %r30, 16; @%p1 bra L; add.u32 %r1, %r30, 1; L: bar.sync 0;";
    check_bodies((1, 32), "", divergent, sound, |finding| {
        matches!(finding, FindingKind::DivergentBarrier { .. })
    });
    // Two warps that meet barrier 0 at different instructions.
    // A barrier whose number lanes do not agree on.
    let number = |shift: u32| format!("shr.u32 %r1, %r30, {shift}; bar.sync %r1;");
    check_bodies((1, 32), "", &number(4), &number(5), |finding| {
        matches!(finding, FindingKind::DivergentBarrier { .. })
    });
    let divergent = divergent.replace("16", "32");
    check_bodies((1, 64), "", &divergent, sound, |finding| {
        matches!(finding, FindingKind::DivergentBarrier { barrier: 0 })
    });
}

#[test]
fn aligned_instructions_that_some_lanes_pass_by() {
    let is_found = |it: &FindingKind| matches!(it, FindingKind::DivergentAligned { lanes } if lanes >> 16 == 0xffff && lanes & 1 == 0);
    // Half of the warp goes past it, and does something else.
    let around = |instruction: &str| {
        format!(
            "setp.ge.u32 %p1, %r30, 16; @%p1 bra L; {instruction}
             L: add.u64 %d1, %d30, %d29; st.global.u32 [%d1], 1;"
        )
    };
    let before = |instruction: &str| {
        around(instruction)
            .replace(" L: ", "")
            .replace("bra L", "bra L; L: add.u32 %r1, %r30, 1")
    };
    for instruction in [
        "bar.sync 0;",
        "barrier.sync.aligned 0;",
        "bar.sync 1, 32;",
        "bar.red.popc.u32 %r2, 0, %p1;",
        "barrier.cluster.wait.aligned;",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r30;",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r2, %r3, %r4, %r5}, {%r30, %r30}, {%r30}, {%r30, %r30, %r30, %r30};",
    ] {
        check_bodies(
            (1, 32),
            "",
            &around(instruction),
            &before(instruction),
            is_found,
        );
        // The same by a guard.
        let guarded = |limit: u32| {
            format!("setp.lt.u32 %p1, %r30, {limit}; @%p1 {instruction} st.global.u32 [%d30], 1;")
        };
        check_bodies((1, 32), "", &guarded(16), &guarded(32), is_found);
    }
    // Two warps, of which the second waits for the first, whose lanes only arrive.
    let arrives = |limit: u32| {
        format!(
            "setp.ge.u32 %p2, %r30, 32; @%p2 bra W; setp.ge.u32 %p1, %r30, {limit}; @%p1 bra L; bar.arrive 1, 64;
             L: add.u64 %d1, %d30, %d29; st.global.u32 [%d1], 1; bra END; W: bar.sync 1, 64; END:"
        )
    };
    check_bodies((1, 64), "", &arrives(16), &arrives(32), is_found);
    // Lanes that leave a loop sooner than others.
    let looped = |limit: &str| {
        format!(
            "and.b32 %r1, %r30, 1; mov.u32 %r2, 0; L: bar.sync 0; add.u32 %r2, %r2, 1;
             setp.lt.u32 %p1, %r2, {limit}; @%p1 bra L; st.global.u32 [%d30], 1;"
        )
    };
    let odd = looped("%r1").replace(
        "and.b32 %r1, %r30, 1",
        "and.b32 %r1, %r30, 1; add.u32 %r1, %r1, 1",
    );
    check_bodies((1, 32), "", &odd, &looped("3"), |it| {
        matches!(it, FindingKind::DivergentAligned { lanes: 0x5555_5555 })
    });
    // Inside of a function that half of the warp calls.
    let called = |limit: u32| {
        let function = ".func f() { bar.sync 0; ret; }\n";
        let body = format!("setp.lt.u32 %p1, %r30, {limit}; @%p1 call f; st.global.u32 [%d30], 1;");
        kernel("", &body).replacen(HEADER, &format!("{HEADER}{function}"), 1)
    };
    check((1, 32), (1, 1), &called(16), &called(32), is_found);
}

#[test]
fn lanes_that_come_to_an_aligned_barrier_by_another_way_are_waited_for() {
    // The way of half of the lanes stands behind the barrier, as compilers put what is rare.
    let detour = "setp.ge.u32 %p1, %r30, 16; mov.u32 %r1, 1; @%p1 bra RARE; JOIN: bar.sync 0;
        add.u64 %d1, %d30, %d29; st.global.u32 [%d1], %r1; bra END;
        RARE: mov.u32 %r1, 2; setp.eq.u32 %p2, %r30, 31; @%p2 exit; bra JOIN; END:";
    let (out, report) = launch(&kernel("", detour), (1, 64), 0, &[0], 64);
    assert_eq!(report.findings, []);
    assert_eq!((out[15], out[16], out[31]), (1, 2, 0));
    // Lanes that return before it are as good as gone, wherever their `ret` stands.
    let early = "setp.ge.u32 %p1, %r30, 40; @%p1 bra OUT; bar.sync 0; add.u64 %d1, %d30, %d29;
        st.global.u32 [%d1], 1; OUT:";
    let (out, report) = launch(&kernel("", early), (1, 64), 0, &[0], 64);
    assert_eq!((report.findings, out.iter().sum()), (vec![], 40));
}

#[test]
fn lanes_come_to_a_barrier_without_aligned_one_by_one() {
    // Two instructions, of which each lane executes one, and lanes that do not come at all.
    let apart = "mov.u64 %d1, tile; add.u64 %d2, %d1, %d29; st.shared.u32 [%d2], %r30;
        setp.ge.u32 %p3, %r30, 60; @%p3 exit; setp.lt.u32 %p1, %r30, 16; setp.lt.u32 %p2, %r30, 20;
        @%p1 bra L; barrier.red.popc.u32 %r2, 0, %p2; bra M; L: barrier.red.popc.u32 %r2, 0, %p2; add.u32 %r2, %r2, 100; M:
        xor.b32 %r1, %r30, 32; mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d3, %d1; ld.shared.u32 %r3, [%d3];
        add.u32 %r2, %r2, %r3; add.u64 %d4, %d30, %d29; st.global.u32 [%d4], %r2;";
    for seed in 0..6 {
        let (out, report) = launch(&kernel(TILE, apart), (1, 64), seed, &[0], 64);
        assert_eq!(report.findings, []);
        let want = |lane: u32| match lane {
            0..16 => 120 + (lane ^ 32),
            60.. => 0,
            _ => 20 + (lane ^ 32),
        };
        assert_eq!(out, (0..64).map(want).collect::<Vec<_>>());
    }
    // By a guard, and the others at the next one.
    let guarded = "setp.lt.u32 %p1, %r30, 16; @%p1 barrier.sync 0; @!%p1 barrier.sync 0;";
    assert_eq!(findings(&kernel("", guarded), (1, 64), 1, 1), []);
    // At two barriers they wait for ever.
    let two = guarded.replacen("sync 0", "sync 1", 1);
    let found = findings(&kernel("", &two), (1, 32), 1, 1);
    assert!(
        matches!(found[0], FindingKind::DivergentBarrier { .. }),
        "{found:?}"
    );
}

#[test]
fn threads_that_have_ended_do_not_hold_up_a_barrier() {
    let body = "setp.ge.u32 %p1, %r30, 40; @%p1 exit; bar.sync 0; add.u64 %d1, %d30, %d29; st.global.u32 [%d1], 1;";
    let (out, report) = launch(&kernel("", body), (1, 96), 0, &[0], 96);
    assert_eq!(report.findings, []);
    assert_eq!(out.iter().sum::<u32>(), 40);
}
