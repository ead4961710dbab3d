//! What is said of a kernel that does not end.

use spark_ptx::{Finding, FindingKind, LaunchConfig, Module, OwnedMemory};

use crate::support::{kernel, params};

const LIMIT: u64 = 50_000;

/// The only finding of a kernel that is stopped.
#[track_caller]
fn hang(ptx: &str, threads: u32) -> Finding {
    let module = Module::load(ptx).unwrap();
    let mut memory = OwnedMemory::new();
    let out = memory.allocate_u32(&[0; 2]);
    let mut config = LaunchConfig::new([1, 1, 1], [threads, 1, 1]);
    config.budget = LIMIT;
    let report = module.launch("k", &config, &params(&[out, out]), &memory, 1);
    let mut findings = report.unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.remove(0)
}

#[test]
fn lanes_that_wait_for_each_other_in_a_loop_are_named() {
    // Lane 0 takes a lock; the others try again and again, and it has no turn to give it back.
    let lock =
        "SPIN: atom.global.cas.b32 %r1, [%d30], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra SPIN;
st.global.u32 [%d30+4], %r30; atom.global.exch.b32 %r2, [%d30], 0;";
    let ptx = kernel("", lock);
    let line_of = |text| {
        let line = ptx.lines().position(|line| line.contains(text));
        line.unwrap() as u32 + 1
    };
    let finding = hang(&ptx, 32);
    let kind = FindingKind::Budget {
        limit: LIMIT,
        running: 0xffff_fffe,
        waiting: 1,
        waiting_line: line_of("+4"),
        at_barriers: 0,
    };
    assert_eq!((&finding.kind, finding.line), (&kind, line_of("SPIN")));
    let told = "it did not end within 50000 instructions; lanes 0xfffffffe of the warp run here, \
                lanes 0x1 wait, the first at line";
    assert!(finding.to_string().contains(told), "{finding}");
}

#[test]
fn warps_at_barriers_are_named() {
    let apart = "setp.ge.u32 %p1, %r30, 32; @%p1 bra WAIT; bar.sync 0;
        WAIT: ld.volatile.global.u32 %r1, [%d30]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT; bar.sync 0;";
    let finding = hang(&kernel("", apart), 64);
    let kind = FindingKind::Budget {
        limit: LIMIT,
        running: u32::MAX,
        waiting: 0,
        waiting_line: 0,
        at_barriers: 1,
    };
    assert_eq!((&finding.kind, finding.warp), (&kind, 1));
    let told = "warps 0b1 wait at barriers";
    assert!(finding.to_string().contains(told), "{finding}");
}
