//! Every check finds the fault that it is for, and nothing in the same kernel without it.

use spark_ptx::{AccessKind, FindingKind};

use crate::support::{HEADER, TILE, check, check_bodies, findings, kernel, launch};

#[test]
fn access_behind_an_allocation() {
    let body = |offset: u32| {
        format!(
            "add.u64 %d1, %d31, %d29; ld.global.u32 %r1, [%d1+{offset}]; st.global.u32 [%d30], %r30;"
        )
    };
    check_bodies((1, 1), "", &body(1200), &body(1020), |finding| {
        let FindingKind::OutOfBounds {
            access,
            bytes: 4,
            missed: Some(missed),
            ..
        } = finding
        else {
            return false;
        };
        *access == AccessKind::Read && missed.len == 1024 && missed.distance == 180
    });
    let before = "ld.global.u32 %r1, [%d31-4]; st.global.u32 [%d30], %r1;";
    let found = findings(&kernel("", before), (1, 1), 256, 1);
    let is_before = |missed: &spark_ptx::MissedAllocation| missed.distance == -4;
    assert!(matches!(
        &found[0],
        FindingKind::OutOfBounds { missed: Some(missed), .. } if is_before(missed)
    ));
}

#[test]
fn write_behind_shared_and_local_memory() {
    let body = |at: u32| format!("mov.u64 %d1, tile; st.shared.u32 [%d1+{at}], %r30;");
    check_bodies((1, 1), TILE, &body(1024), &body(1020), |finding| {
        matches!(
            finding,
            FindingKind::OutOfBounds {
                space: "shared",
                access: AccessKind::Write,
                ..
            }
        )
    });
    let local = ".local .align 4 .b8 depot[16];";
    let body = |at: u32| format!("mov.u64 %d1, depot; st.local.u32 [%d1+{at}], %r30;");
    let shorter = local.replace("[16]", "[13]");
    let found = findings(&kernel(&shorter, &body(12)), (1, 1), 1, 1);
    assert!(matches!(
        found[0],
        FindingKind::OutOfBounds { space: "local", .. }
    ));
    check_bodies((1, 1), local, &body(16), &body(12), |finding| {
        matches!(finding, FindingKind::OutOfBounds { space: "local", .. })
    });
}

#[test]
fn what_a_function_left_behind_is_nobodys() {
    // A function writes its local memory; afterwards the kernel reads behind the end of its own.
    let with = |at: u32| {
        let function = ".func f() { .local .align 16 .b8 own[64]; .reg .b64 %d<2>; .reg .b32 %r<2>; mov.u64 %d1, own;
            mov.u32 %r1, 5; st.local.v4.u32 [%d1], {%r1, %r1, %r1, %r1}; ret; }\n";
        let body = format!(
            "mov.u64 %d1, depot; mov.u32 %r2, 7; st.local.v4.u32 [%d1], {{%r2, %r2, %r2, %r2}};
            st.local.v4.u32 [%d1+16], {{%r2, %r2, %r2, %r2}};
            call f; ld.local.u32 %r1, [%d1+{at}]; st.global.u32 [%d30], %r1;"
        );
        let ptx = kernel(".local .align 16 .b8 depot[32];", &body);
        ptx.replacen(HEADER, &format!("{HEADER}{function}"), 1)
    };
    check((1, 1), (1, 1), &with(32), &with(28), |finding| {
        matches!(
            finding,
            FindingKind::OutOfBounds {
                space: "local",
                access: AccessKind::Read,
                ..
            }
        )
    });
    // Several words at once need the alignment of all of them.
    let vector = |at: u32| {
        with(0).replace(
            "ld.local.u32 %r1, [%d1+0]",
            &format!("ld.local.v2.u32 {{%r1, %r3}}, [%d1+{at}]"),
        )
    };
    check((1, 1), (1, 1), &vector(4), &vector(8), |finding| {
        matches!(
            finding,
            FindingKind::Misaligned {
                space: "local",
                align: 8,
                ..
            }
        )
    });
}

#[test]
fn misaligned_access() {
    let body = |at: u32| {
        format!("ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%d31+{at}]; st.global.u32 [%d30], %r1;")
    };
    check_bodies((1, 1), "", &body(4), &body(16), |finding| {
        matches!(
            finding,
            FindingKind::Misaligned {
                space: "global",
                align: 16,
                ..
            }
        )
    });
    let body = |at: u32| format!("mov.u64 %d1, tile; st.shared.u32 [%d1+{at}], %r30;");
    check_bodies((1, 1), TILE, &body(2), &body(4), |finding| {
        matches!(
            finding,
            FindingKind::Misaligned {
                space: "shared",
                align: 4,
                ..
            }
        )
    });
}

#[test]
fn shared_and_local_memory_that_nobody_wrote() {
    let faulty = "mov.u64 %d1, tile; ld.shared.u32 %r1, [%d1+8]; st.global.u32 [%d30], %r1;";
    let sound = format!("mov.u64 %d1, tile; st.shared.u32 [%d1+8], 5; {faulty}");
    check_bodies((1, 1), TILE, faulty, &sound, |finding| {
        matches!(
            finding,
            FindingKind::Uninitialised {
                space: "shared",
                ..
            }
        )
    });
    let local = ".local .align 4 .b8 depot[16];";
    let faulty = "mov.u64 %d1, depot; st.local.u16 [%d1], %r30; ld.local.u32 %r1, [%d1]; st.global.u32 [%d30], %r1;";
    let sound = faulty.replace("u16", "u32");
    check_bodies((1, 1), local, faulty, &sound, |finding| {
        matches!(finding, FindingKind::Uninitialised { space: "local", .. })
    });
}

#[test]
fn global_memory_that_nobody_wrote() {
    use spark_ptx::{LaunchConfig, Module, OwnedMemory};
    let body = "ld.global.u32 %r1, [%d31+64]; st.global.u32 [%d30], %r1;";
    let module = Module::load(&kernel("", body)).unwrap();
    for written in [0usize, 64, 65, 68] {
        let mut memory = OwnedMemory::new();
        let (out, given) = (memory.allocate(4), memory.allocate(128));
        memory.write(given, &vec![1; written]);
        let params = crate::support::params(&[out, given]);
        let config = LaunchConfig::new([1, 1, 1], [1, 1, 1]);
        let report = module.launch("k", &config, &params, &memory, 1).unwrap();
        let kinds: Vec<_> = report
            .findings
            .iter()
            .map(|finding| &finding.kind)
            .collect();
        match written {
            68 => assert_eq!(
                kinds,
                [&FindingKind::Uninitialised {
                    space: "",
                    address: 0
                }; 0]
            ),
            _ => {
                let address = given + written.max(64) as u64;
                assert_eq!(
                    kinds,
                    [&FindingKind::Uninitialised {
                        space: "global",
                        address
                    }]
                );
            }
        }
    }
}

#[test]
fn registers_that_a_lane_did_not_write() {
    let faulty = "setp.lt.u32 %p1, %r30, 16; @%p1 mov.u32 %r1, 5; st.global.u32 [%d30], %r1;";
    let sound = "setp.lt.u32 %p1, %r30, 16; @%p1 mov.u32 %r1, 5; @!%p1 mov.u32 %r1, 5; st.global.u32 [%d30], %r1;";
    let is_found = |finding: &FindingKind| *finding == FindingKind::UninitialisedRegister;
    check_bodies((1, 32), "", faulty, sound, is_found);
    // In a loop: written at its end, read at its beginning.
    let faulty = "mov.u32 %r2, 3; L: add.u32 %r1, %r3, 1; mov.u32 %r3, 1; sub.u32 %r2, %r2, 1;
        setp.ne.u32 %p1, %r2, 0; @%p1 bra L; st.global.u32 [%d30], 1;";
    let sound = format!("mov.u32 %r3, 0; {faulty}");
    check_bodies((1, 32), "", faulty, &sound, is_found);
}

#[test]
fn races_of_warps_in_shared_memory() {
    let body = |barrier: &str| {
        format!(
            "mov.u64 %d1, tile; add.u64 %d2, %d1, %d29; st.shared.u32 [%d2], %r30; {barrier}
             xor.b32 %r1, %r30, 32; mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d3, %d1;
             ld.shared.u32 %r2, [%d3]; add.u64 %d4, %d30, %d29; st.global.u32 [%d4], %r2;"
        )
    };
    check_bodies((1, 64), TILE, &body(""), &body("bar.sync 0;"), |finding| {
        matches!(
            finding,
            FindingKind::SharedRace { .. } | FindingKind::Uninitialised { .. }
        )
    });
    // A second round without a barrier writes what the other warp may still read.
    let twice =
        |barrier: &str| format!("{} {barrier} st.shared.u32 [%d2], 7;", body("bar.sync 0;"));
    check_bodies(
        (1, 64),
        TILE,
        &twice(""),
        &twice("bar.sync 0;"),
        |finding| matches!(finding, FindingKind::SharedRace { .. }),
    );
}

#[test]
fn races_of_lanes_within_a_warp() {
    let body = |barrier: &str| {
        format!(
            "mov.u64 %d1, tile; add.u64 %d2, %d1, %d29; st.shared.u32 [%d2], %r30; {barrier}
             xor.b32 %r1, %r30, 1; mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d3, %d1;
             ld.shared.u32 %r2, [%d3]; add.u64 %d4, %d30, %d29; st.global.u32 [%d4], %r2;"
        )
    };
    check_bodies(
        (1, 32),
        TILE,
        &body(""),
        &body("bar.warp.sync -1;"),
        |finding| {
            matches!(
                finding,
                FindingKind::SharedRace {
                    access: AccessKind::Read,
                    other: AccessKind::Write,
                    ..
                }
            )
        },
    );
    // A barrier of the block before it changes nothing.
    let after = |barrier: &str| format!("bar.sync 0; {}", body(barrier));
    check_bodies(
        (1, 32),
        TILE,
        &after(""),
        &after("bar.warp.sync -1;"),
        |finding| matches!(finding, FindingKind::SharedRace { .. }),
    );
    // All lanes write one word: a race if the values differ.
    let body = |value: &str| format!("mov.u64 %d1, tile; st.shared.u32 [%d1], {value};");
    check_bodies((1, 32), TILE, &body("%r30"), &body("5"), |finding| {
        matches!(
            finding,
            FindingKind::SharedRace {
                access: AccessKind::Write,
                other: AccessKind::Write,
                ..
            }
        )
    });
}

#[test]
fn bytes_side_by_side_are_no_race() {
    let body = |scale: u32| {
        format!(
            "mov.u64 %d1, tile; mul.wide.u32 %d2, %r30, {scale}; add.u64 %d2, %d1, %d2;
             cvt.u16.u32 %h1, %r30; st.shared.u8 [%d2], %h1;"
        )
    };
    check_bodies((1, 64), TILE, &body(0), &body(1), |finding| {
        matches!(finding, FindingKind::SharedRace { .. })
    });
}

#[test]
fn atomics_do_not_race_with_each_other() {
    let body = |add: &str| {
        format!(
            "mov.u64 %d1, tile; setp.ne.u32 %p1, %r30, 0; @%p1 bra L; st.shared.u32 [%d1], 0; L:
             bar.sync 0; {add} bar.sync 0; ld.shared.u32 %r2, [%d1];
             add.u64 %d4, %d30, %d29; st.global.u32 [%d4], %r2;"
        )
    };
    let atomic = body("atom.shared.add.u32 %r1, [%d1], 1;");
    let plain = body("ld.shared.u32 %r1, [%d1]; add.u32 %r1, %r1, 1; st.shared.u32 [%d1], %r1;");
    check_bodies((1, 96), TILE, &plain, &atomic, |finding| {
        matches!(finding, FindingKind::SharedRace { .. })
    });
    let (out, _) = launch(&kernel(TILE, &atomic), (1, 96), 3, &[0], 96);
    assert_eq!(out, [96; 96]);
}

const COPY: &str =
    "mov.u64 %d1, tile; cvt.u32.u64 %r1, %d1; shl.b32 %r2, %r30, 4; add.u32 %r1, %r1, %r2;
    mul.wide.u32 %d2, %r30, 16; add.u64 %d2, %d31, %d2;
    cp.async.cg.shared.global [%r1], [%d2], 16; cp.async.commit_group;";
const AFTER_COPY: &str =
    "ld.shared.u32 %r3, [%r1+4]; add.u64 %d4, %d30, %d29; st.global.u32 [%d4], %r3;";

#[test]
fn copies_that_are_not_waited_for() {
    let faulty = format!("{COPY} cp.async.wait_group 1; {AFTER_COPY}");
    let sound = format!("{COPY} cp.async.wait_group 0; {AFTER_COPY}");
    check_bodies((1, 32), TILE, &faulty, &sound, |finding| {
        matches!(finding, FindingKind::CopyNotAwaited { .. })
    });
    let (out, _) = launch(
        &kernel(TILE, &sound),
        (1, 32),
        0,
        &(0..128).collect::<Vec<_>>(),
        32,
    );
    assert_eq!(out, (0..32).map(|lane| 4 * lane + 1).collect::<Vec<u32>>());
    // Waiting is for one's own copies: others need a barrier.
    let neighbour = "xor.b32 %r4, %r1, 16; ld.shared.u32 %r3, [%r4]; st.global.u32 [%d30], 1;";
    let faulty = format!("{COPY} cp.async.wait_all; {neighbour}");
    let sound = format!("{COPY} cp.async.wait_all; bar.warp.sync -1; {neighbour}");
    check_bodies((1, 32), TILE, &faulty, &sound, |finding| {
        matches!(finding, FindingKind::SharedRace { .. })
    });
}

#[test]
fn copies_fill_with_zeros_and_refuse_more_than_they_have() {
    let body = |bytes: u32| {
        COPY.replace(", 16; cp", &format!(", 16, {bytes}; cp"))
            + " cp.async.wait_all; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; add.u32 %r4, %r4, %r5;
               add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7; st.global.u32 [%d30], %r4;"
    };
    for (bytes, want) in [(0, 0), (4, 1), (8, 3), (16, 10)] {
        let (out, report) = launch(&kernel(TILE, &body(bytes)), (1, 1), 0, &[1, 2, 3, 4], 1);
        assert_eq!((report.findings.as_slice(), out[0]), (&[][..], want));
    }
    check_bodies((1, 1), TILE, &body(20), &body(16), |finding| {
        *finding
            == FindingKind::CopySize {
                asked: 20,
                copies: 16,
            }
    });
}

#[test]
fn sources_of_copies_that_change() {
    let body =
        |to: &str| format!("{COPY} st.global.u32 [{to}], 99; cp.async.wait_all; {AFTER_COPY}");
    check_bodies((1, 1), TILE, &body("%d2"), &body("%d30+64"), |finding| {
        matches!(finding, FindingKind::CopySourceChanged { .. })
    });
}

#[test]
fn blocks_that_write_the_same_value_do_not_race() {
    let body = |value: &str| format!("mov.u32 %r1, %ctaid.x; st.global.u32 [%d30], {value};");
    let is_race = |it: &FindingKind| matches!(it, FindingKind::GlobalRace { .. });
    check_bodies((4, 1), "", &body("%r1"), &body("7"), is_race);
    // Half of a word, of which each block writes the other.
    let halves = |value: &str| format!("{} st.global.u16 [%d30+2], {value};", body("7"));
    check_bodies((4, 1), "", &halves("%r1"), &halves("0"), is_race);
    // What another block wrote is read all the same.
    let read = "mov.u32 %r1, %ctaid.x; setp.lt.u32 %p1, %r1, 2; @%p1 st.global.u32 [%d30], 7;
        @!%p1 ld.global.u32 %r2, [%d30];";
    let found = findings(&kernel("", read), (4, 1), 1, 1);
    assert!(found.iter().any(is_race), "{found:?}");
}

#[test]
fn blocks_that_race_in_global_memory() {
    let body = |index: &str| {
        format!(
            "mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, {index}, 4; add.u64 %d1, %d30, %d1;
             ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, 1; st.global.u32 [%d1], %r2;"
        )
    };
    check_bodies((8, 1), "", &body("0"), &body("%r1"), |finding| {
        matches!(finding, FindingKind::GlobalRace { .. })
    });
    let atomic = "red.global.add.u32 [%d30], 1;";
    assert_eq!(findings(&kernel("", atomic), (8, 32), 1, 1), []);
}

#[test]
fn the_last_block_may_read_what_the_others_wrote() {
    // Each block writes its word, then counts itself; whoever counts last adds all words up.
    let body = |count: &str| {
        format!(
            "mov.u32 %r1, %ctaid.x; add.u32 %r2, %r1, 1; mul.wide.u32 %d1, %r2, 4; add.u64 %d1, %d30, %d1;
             st.global.u32 [%d1], %r2; membar.gl; {count}
             setp.ne.u32 %p1, %r3, 7; @%p1 bra END; mov.u32 %r4, 8; mov.u32 %r5, 0; mov.u64 %d2, %d30;
             L: add.u64 %d2, %d2, 4; ld.global.u32 %r6, [%d2]; add.u32 %r5, %r5, %r6; sub.u32 %r4, %r4, 1;
             setp.ne.u32 %p1, %r4, 0; @%p1 bra L; st.global.u32 [%d31], %r5; END:"
        )
    };
    let sound = body("atom.global.add.u32 %r3, [%d30], 1;");
    let faulty = body("mov.u32 %r3, %r1;");
    check_bodies((8, 1), "", &faulty, &sound, |finding| {
        matches!(finding, FindingKind::GlobalRace { .. })
    });
}

#[test]
fn memory_that_nc_loads_need_unchanged() {
    let body = |load: &str| {
        format!("{load} %r1, [%d31+4]; add.u32 %r1, %r1, 1; st.global.u32 [%d31+4], %r1;")
    };
    check_bodies(
        (1, 1),
        "",
        &body("ld.global.nc.u32"),
        &body("ld.global.u32"),
        |finding| matches!(finding, FindingKind::ReadOnlyWritten { .. }),
    );
}

#[test]
fn constants_are_not_written() {
    let with = |space: &str| {
        let body = "mov.u64 %d1, table; st.global.u32 [%d1], 1;";
        kernel("", body).replacen(
            HEADER,
            &format!("{HEADER}.{space} .align 4 .u32 table = 5;\n"),
            1,
        )
    };
    check((1, 1), (1, 1), &with("const"), &with("global"), |finding| {
        matches!(finding, FindingKind::ConstantWritten { .. })
    });
}

#[test]
fn constants_are_read_as_constants_and_nothing_else_is() {
    let with = |body: &str| {
        let body = format!(
            "mov.u64 %d1, table; mov.u64 %d2, cell; {body} setp.eq.u32 %p9, %r30, 0; @%p9 st.global.u32 [%d30], %r1;"
        );
        let variables =
            ".const .align 4 .u32 table[2] = {5, 6};\n.global .align 4 .u32 cell[2] = {7, 8};\n";
        kernel("", &body).replacen(HEADER, &format!("{HEADER}{variables}"), 1)
    };
    let is_found = |wanted: &'static str| {
        move |it: &FindingKind| {
            let FindingKind::WrongSpace { access, space, .. } = it else {
                return false;
            };
            *access == AccessKind::Read && *space == wanted
        }
    };
    let (faulty, sound) = ("ld.const.u32 %r1, [%d2+4];", "ld.const.u32 %r1, [%d1+4];");
    for shape in [(1, 1), (1, 32)] {
        check(
            shape,
            (1, 1),
            &with(faulty),
            &with(sound),
            is_found("constant"),
        );
    }
    check(
        (1, 1),
        (1, 1),
        &with("ld.const.u32 %r1, [%d31];"),
        &with("ld.global.u32 %r1, [%d31];"),
        is_found("constant"),
    );
    // All lanes side by side.
    let lanes = |space: &str| {
        with(&format!(
            "add.u64 %d3, %d31, %d29; ld.{space}.u32 %r1, [%d3];"
        ))
    };
    check(
        (1, 32),
        (32, 1),
        &lanes("const"),
        &lanes("global"),
        is_found("constant"),
    );
    // Generic addresses reach both; which one an address is can be asked.
    for (faulty, sound) in [
        ("ld.global.u32 %r1, [%d1];", "ld.u32 %r1, [%d1];"),
        (
            "cvta.to.global.u64 %d3, %d1; ld.global.nc.u32 %r1, [%d3];",
            "ld.u32 %r1, [%d2];",
        ),
        (
            "isspacep.const %p1, %d2; @!%p1 ld.global.u32 %r1, [%d1]; @%p1 mov.u32 %r1, 0;",
            "isspacep.global %p1, %d1; @%p1 ld.global.u32 %r1, [%d1]; @!%p1 ld.const.u32 %r1, [%d1];",
        ),
    ] {
        check(
            (1, 1),
            (1, 1),
            &with(faulty),
            &with(sound),
            is_found("global"),
        );
    }
    let found = findings(&with("ld.const.u32 %r1, [%d1+8];"), (1, 1), 1, 1);
    assert!(
        matches!(
            found[0],
            FindingKind::OutOfBounds {
                space: "constant",
                ..
            }
        ),
        "{found:?}"
    );
    for write in [
        "st.u32 [%d1], 1;",
        "red.add.u32 [%d1], 1;",
        "red.global.add.u32 [%d1], 1;",
    ] {
        let found = findings(&with(&format!("mov.u32 %r1, 0; {write}")), (1, 1), 1, 1);
        assert!(
            matches!(found[0], FindingKind::ConstantWritten { .. }),
            "{found:?}"
        );
    }
}

#[test]
fn shuffles_from_lanes_that_are_not_there() {
    let body = |limit: u32, mask: &str| {
        format!(
            "setp.ge.u32 %p1, %r30, {limit}; @%p1 bra L; shfl.sync.idx.b32 %r1, %r30, 20, 31, {mask};
             add.u64 %d1, %d30, %d29; st.global.u32 [%d1], %r1; L:"
        )
    };
    check_bodies(
        (1, 32),
        "",
        &body(16, "0xffff"),
        &body(32, "-1"),
        |finding| *finding == FindingKind::AbsentLane { lane: 20 },
    );
    check_bodies(
        (1, 32),
        "",
        &body(32, "0x1ffff"),
        &body(32, "-1"),
        |finding| matches!(finding, FindingKind::OutsideOfMask { mask: 0x1_ffff }),
    );
    // A value from a lane that has exited, and from one that the warp never had.
    let exited = |from: u32| {
        format!(
            "setp.ge.u32 %p1, %r30, 16; @%p1 exit; shfl.sync.bfly.b32 %r1, %r30, {from}, 31, -1;"
        )
    };
    let is_absent = |it: &FindingKind| matches!(it, FindingKind::AbsentLane { lane: 16.. });
    check_bodies((1, 32), "", &exited(16), &exited(1), is_absent);
    check_bodies((1, 16), "", &exited(16), &exited(1), is_absent);
}

#[test]
fn lanes_that_have_exited_are_not_waited_for() {
    let body = "setp.ge.u32 %p1, %r30, 16; @%p1 exit; bar.warp.sync -1; setp.lt.u32 %p2, %r30, 5;
        vote.sync.ballot.b32 %r1, %p2, -1; vote.sync.all.pred %p3, !%p1, -1; selp.u32 %r2, 100, 0, %p3;
        redux.sync.add.u32 %r3, %r30, -1; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
        add.u64 %d1, %d30, %d29; st.global.u32 [%d1], %r1;";
    for threads in [16, 32] {
        let (out, report) = launch(&kernel("", body), (1, threads), 0, &[0], 32);
        assert_eq!(report.findings, []);
        let sum = 31 + 100 + 120;
        assert_eq!((out[0], out[15], out[16]), (sum, sum, 0));
    }
}

#[test]
fn members_may_each_come_by_an_instruction_of_their_own() {
    // Lanes below 8 by the second instruction, with operands of its own, and what they add shows it.
    let body = |first: &str, second: &str| {
        format!(
            "add.u32 %r1, %r30, 1; add.u32 %r2, %r30, 50; cvt.u64.u32 %d1, %r1; cvt.u64.u32 %d2, %r2;
             setp.lt.u32 %p1, %r30, 8; setp.ge.u32 %p2, %r30, 0; mov.u32 %r4, 0; mov.u32 %r5, 0;
             @%p1 bra A; {first} add.u32 %r6, %r4, 1000; bra E; A: {second} add.u32 %r6, %r5, 2000;
             E: add.u64 %d3, %d30, %d29; st.global.u32 [%d3], %r6;"
        )
    };
    let want = |first: &dyn Fn(u32) -> u32, second: &dyn Fn(u32) -> u32| -> Vec<u32> {
        let value = |lane: u32| match lane {
            0..8 => 2000 + second(lane),
            _ => 1000 + first(lane),
        };
        (0..32).map(value).collect()
    };
    #[track_caller]
    fn check(body: &str, want: &[u32]) {
        let (out, report) = launch(&kernel("", body), (1, 32), 0, &[0], 32);
        assert_eq!(report.findings, [], "{body}");
        assert_eq!(out, want, "{body}");
    }
    // Lane l brings l + 1 by the first, l + 50 by the second.
    let brought = |lane: u32| if lane < 8 { lane + 50 } else { lane + 1 };
    check(
        &body(
            "shfl.sync.bfly.b32 %r4, %r1, 9, 31, -1;",
            "shfl.sync.bfly.b32 %r5, %r2, 10, 31, -1;",
        ),
        &want(&|lane| brought(lane ^ 9), &|lane| brought(lane ^ 10)),
    );
    check(
        &body(
            "vote.sync.ballot.b32 %r4, %p1, -1;",
            "vote.sync.ballot.b32 %r5, %p2, -1;",
        ),
        &want(&|_| 255, &|_| 255),
    );
    let sum: u32 = (0..32).map(brought).sum();
    check(
        &body(
            "redux.sync.add.u32 %r4, %r1, -1;",
            "redux.sync.add.u32 %r5, %r2, -1;",
        ),
        &want(&|_| sum, &|_| sum),
    );
    check(
        &body(
            "match.any.sync.b32 %r4, %r30, -1;",
            "mov.u32 %r2, 20; match.any.sync.b32 %r5, %r2, -1;",
        ),
        &want(
            &|lane| if lane == 20 { 255 | 1 << 20 } else { 1 << lane },
            &|_| 255 | 1 << 20,
        ),
    );
    // The mask of some lanes, while the others wait for theirs elsewhere.
    check(
        &body(
            "shfl.sync.idx.b32 %r4, %r1, 8, 31, 0xffffff00;",
            "shfl.sync.idx.b32 %r5, %r2, 0, 31, 0xff;",
        ),
        &want(&|_| 9, &|_| 50),
    );
    // Half of them inside of a function.
    let function =
        ".func (.param .b32 o) g(.param .b32 a) { .reg .b32 %q<3>; ld.param.b32 %q1, [a];
        redux.sync.add.u32 %q2, %q1, -1; st.param.b32 [o], %q2; ret; }\n";
    let call = "{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r2; call.uni (q), g, (p); ld.param.b32 %r5, [q]; }";
    let ptx = kernel("", &body("redux.sync.add.u32 %r4, %r1, -1;", call));
    let ptx = ptx.replacen(HEADER, &format!("{HEADER}{function}"), 1);
    let (out, report) = launch(&ptx, (1, 32), 0, &[0], 32);
    assert_eq!((report.findings, out), (vec![], want(&|_| sum, &|_| sum)));
    // Other qualifiers, or another mask, are another instruction.
    for second in [
        "shfl.sync.up.b32 %r5, %r2, 9, 0, -1;",
        "redux.sync.add.u32 %r5, %r2, -1;",
        "shfl.sync.bfly.b32 %r5, %r2, 9, 31, -2;",
    ] {
        let body = body("shfl.sync.bfly.b32 %r4, %r1, 9, 31, -1;", second);
        let found = findings(&kernel("", &body), (1, 32), 1, 32);
        let is_found = |it: &FindingKind| matches!(it, FindingKind::DivergentBarrier { .. });
        assert!(found.iter().any(is_found), "{found:?}");
    }
}

#[test]
fn parameters_and_results_of_calls_that_nobody_stored() {
    let called = |function: &str, body: &str| {
        kernel("", body).replacen(HEADER, &format!("{HEADER}{function}\n"), 1)
    };
    let is_param = |it: &FindingKind| {
        matches!(
            it,
            FindingKind::Uninitialised {
                space: "parameter",
                ..
            }
        )
    };
    let check = |faulty: &str, sound: &str| check((1, 32), (1, 32), faulty, sound, is_param);
    let same = ".func (.param .b32 o) g(.param .b32 a) { .reg .b32 %q<2>; ld.param.b32 %q1, [a]; st.param.b32 [o], %q1; ret; }";
    let argument = |store: &str| {
        let body = format!(
            "{{ .param .b32 p; .param .b32 q; {store} call.uni (q), g, (p); ld.param.b32 %r1, [q]; }} st.global.u32 [%d30], 1;"
        );
        called(same, &body)
    };
    check(&argument(""), &argument("st.param.b32 [p], %r30;"));
    check(
        &argument("setp.ne.u32 %p1, %r30, 3; @%p1 st.param.b32 [p], %r30;"),
        &argument("st.param.b32 [p], 1;"),
    );
    // A result that only the first call stores: what it left is none of the second.
    let result = |last: u32| {
        let function = format!(
            ".func (.param .b32 o) g(.param .b32 a) {{ .reg .pred %w; .reg .b32 %q<2>; ld.param.b32 %q1, [a];
             setp.lt.u32 %w, %q1, {last}; @%w st.param.b32 [o], %q1; ret; }}"
        );
        let body = "mov.u32 %r1, 0; L: { .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call.uni (q), g, (p);
            ld.param.b32 %r2, [q]; } add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 2; @%p1 bra L; st.global.u32 [%d30], 1;";
        called(&function, body)
    };
    check(&result(1), &result(2));
    // Bytes that were stored arrive, those beside them are none.
    let parts = |read: u32| {
        let function = format!(
            ".func (.param .b32 o) g(.param .align 4 .b8 a[4]) {{ .reg .b32 %q<2>; ld.param.u8 %q1, [a+{read}]; st.param.b32 [o], %q1; ret; }}"
        );
        let body =
            "{ .param .align 4 .b8 p[4]; .param .b32 q; st.param.b8 [p+1], 7; call.uni (q), g, (p);
            ld.param.b32 %r2, [q]; } st.global.u32 [%d30], %r2;";
        called(&function, body)
    };
    check(&parts(2), &parts(1));
    let (out, _) = launch(&parts(1), (1, 1), 0, &[0], 1);
    assert_eq!(out, [7]);
}

#[test]
fn matrices_need_all_lanes() {
    let body = |limit: u32| {
        format!(
            "mov.u64 %d1, tile; shl.b32 %r1, %r30, 4; cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2;
             st.shared.v4.u32 [%d1], {{%r30, %r30, %r30, %r30}}; bar.warp.sync -1;
             setp.ge.u32 %p1, %r30, {limit}; @%p1 exit;
             ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r2, %r3, %r4, %r5}}, [%d1];"
        )
    };
    check_bodies((1, 32), TILE, &body(31), &body(32), |finding| {
        *finding == FindingKind::ExitedLanes { lanes: 1 << 31 }
    });
}

#[test]
fn kernels_that_hang_trap_or_overflow() {
    let hang = "L: setp.eq.u32 %p1, %r30, 500; @!%p1 bra L;";
    check_bodies(
        (1, 32),
        "",
        hang,
        &hang
            .replace("500", "0")
            .replace("L: setp", "mov.u32 %r30, 0; L: setp"),
        |finding| matches!(finding, FindingKind::Budget { .. }),
    );
    let trap = "setp.eq.u32 %p1, %r30, 3; @%p1 trap;";
    check_bodies((1, 32), "", trap, &trap.replace(", 3", ", 32"), |finding| {
        *finding == FindingKind::Trap
    });
    let endless = ".func f() { .local .align 4 .b8 depot[64]; call f; ret; }\n";
    let ptx = kernel("", "call f;").replacen(HEADER, &format!("{HEADER}{endless}"), 1);
    let found = findings(&ptx, (1, 32), 1, 1);
    assert!(
        matches!(found[0], FindingKind::StackOverflow { depth: 512 }),
        "{found:?}"
    );
}

#[test]
fn findings_say_where() {
    let body = ".loc 1 17 0\nst.global.u32 [%d30+512], %r30;";
    let ptx = kernel("", body) + ".file 1 \"add.cu\"\n";
    let (_, report) = launch(&ptx, (3, 40), 0, &[0], 4);
    let finding = &report.findings[0];
    assert_eq!(finding.source, Some(("add.cu".to_owned(), 17)));
    assert_eq!((finding.block, finding.count), ([0, 0, 0], 3 * 40));
    assert_eq!(finding.text, "st.global.u32 [%d30+512], %r30;");
    let shown = finding.to_string();
    assert!(shown.starts_with("kernel `k`, line "), "{shown}");
    assert!(
        shown.contains("500 bytes behind the end of the 16 bytes at 0x"),
        "{shown}"
    );
}
