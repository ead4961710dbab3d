//! Registers that are read and were not written: each activation of a function has its own, and values that
//! are carried and thrown away accuse nobody.

use spark_ptx::FindingKind;

use crate::support::{HEADER, check, check_bodies, findings, kernel, launch};

fn is_found(finding: &FindingKind) -> bool {
    *finding == FindingKind::UninitialisedRegister
}

#[test]
fn every_activation_of_a_function_has_registers_of_its_own() {
    // `%x2` is written in activations whose argument is 0.
    let function = ".func (.param .b32 r) f(.param .b32 a) {
        .reg .b32 %x<4>; .reg .pred %q; ld.param.b32 %x1, [a]; setp.eq.u32 %q, %x1, 0; @%q mov.u32 %x2, 4;
        add.u32 %x3, %x2, 1; st.param.b32 [r], %x3; ret; }\n";
    let with = |function: &str, arguments: &[u32]| {
        let call = |argument: &u32| {
            format!(
                "{{ .param .b32 a; .param .b32 r; st.param.b32 [a], {argument}; call.uni (r), f, (a);
                 ld.param.b32 %r2, [r]; }} st.global.u32 [%d30], %r2;\n"
            )
        };
        let body: String = arguments.iter().map(call).collect();
        kernel("", &body).replacen(HEADER, &format!("{HEADER}{function}"), 1)
    };
    let shape = (1, 32);
    check(
        shape,
        (1, 1),
        &with(function, &[1]),
        &with(function, &[0]),
        is_found,
    );
    check(
        shape,
        (1, 1),
        &with(function, &[0, 1]),
        &with(function, &[0, 0]),
        is_found,
    );
    // What a caller has written stays written when it calls itself.
    let recursive = |before: &str, after: &str| {
        let function = format!(
            ".func (.param .b32 r) f(.param .b32 a) {{
            .reg .b32 %x<5>; .reg .pred %q; ld.param.b32 %x1, [a]; setp.lt.u32 %q, %x1, 9; {before}
            setp.ge.u32 %q, %x1, 3; mov.u32 %x4, 0; @%q bra END;
            {{ .param .b32 b; .param .b32 s; add.u32 %x3, %x1, 1; st.param.b32 [b], %x3; call.uni (s), f, (b);
            ld.param.b32 %x4, [s]; }} END: {after} add.u32 %x4, %x4, %x2; st.param.b32 [r], %x4; ret; }}\n"
        );
        with(&function, &[0])
    };
    let write = "@%q mov.u32 %x2, %x1;";
    let late = "setp.eq.u32 %q, %x1, 3; @%q mov.u32 %x2, %x1;";
    check(
        shape,
        (1, 1),
        &recursive("", late),
        &recursive(write, ""),
        is_found,
    );
    let (out, _) = launch(&recursive(write, ""), shape, 0, &[0], 1);
    assert_eq!(out, [1 + 2 + 3]);
}

#[test]
fn a_shuffle_gives_what_its_source_has_written() {
    // One lane asks for a place for all of them.
    let aggregated = |source: &str| {
        format!(
            "setp.eq.u32 %p1, %r30, 0; @!%p1 bra J; atom.global.add.u32 %r2, [%d30], 32;
             J: shfl.sync.idx.b32 %r4, %r2, {source}, 31, -1; add.u32 %r4, %r4, %r30;
             mul.wide.u32 %d1, %r4, 4; add.u64 %d1, %d1, %d30; st.global.u32 [%d1+4], %r4;"
        )
    };
    check_bodies((1, 32), "", &aggregated("1"), &aggregated("0"), is_found);
    // The same through a chain, in a loop and by two instructions.
    let chain = |first: &str| {
        format!(
            "setp.ne.u32 %p1, %r30, {first}; @%p1 bra J; mov.u32 %r2, 7; J: mov.u32 %r3, 0;
             L: mov.b32 %r5, %r2; shfl.sync.idx.b32 %r2, %r5, 3, 31, -1; add.u32 %r3, %r3, 1;
             setp.lt.u32 %p2, %r3, 3; @%p2 bra L; add.u64 %d1, %d30, %d29; st.global.u32 [%d1], %r2;"
        )
    };
    check_bodies((1, 32), "", &chain("4"), &chain("3"), is_found);
    let apart = |source: &str| {
        format!(
            "setp.eq.u32 %p1, %r30, 0; @!%p1 bra J; mov.u32 %r2, 9; shfl.sync.idx.b32 %r4, %r2, {source}, 31, -1; bra K;
             J: shfl.sync.idx.b32 %r4, %r2, {source}, 31, -1; K: add.u64 %d1, %d30, %d29; st.global.u32 [%d1], %r4;"
        )
    };
    check_bodies((1, 32), "", &apart("5"), &apart("0"), is_found);
    // A result that was written before is as its source all the same; a guard keeps it.
    let again = |guard: &str| {
        format!(
            "setp.eq.u32 %p1, %r30, 40; @!%p1 bra J; mov.u32 %r2, 9; J: mov.u32 %r4, 1;
             {guard} mov.u32 %r4, %r2; st.global.u32 [%d30], %r4;"
        )
    };
    check_bodies((1, 32), "", &again(""), &again("@%p1"), is_found);
    // The lane's number is no value that is carried.
    let lane = "setp.eq.u32 %p1, %r30, 0; @!%p1 bra J; mov.u32 %r2, 0; J: shfl.sync.idx.b32 %r4, %r30, %r2, 31, -1;";
    let found = findings(&kernel("", lane), (1, 32), 1, 1);
    assert!(found.iter().any(is_found), "{found:?}");
}

#[test]
fn results_of_atomics_that_only_a_move_reads_are_read() {
    // What a block has learned by them excuses it, so that only the first of these is a race.
    let body = |learn: &str| {
        format!(
            "mov.u32 %r1, %ctaid.x; atom.global.add.u32 %r2, [%d30], 1; {learn} st.global.u32 [%d30+4], %r1;
             st.global.u32 [%d31], %r3;"
        )
    };
    let (faulty, sound) = (body("mov.u32 %r3, 5;"), body("mov.b32 %r3, %r2;"));
    let is_race = |it: &FindingKind| matches!(it, FindingKind::GlobalRace { .. });
    check(
        (4, 1),
        (1, 4),
        &kernel("", &faulty),
        &kernel("", &sound),
        is_race,
    );
}
