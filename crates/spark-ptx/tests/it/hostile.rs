//! Text that is no PTX, or wants too much, is refused with its line, quickly, and takes no memory.

use std::time::{Duration, Instant};

use spark_ptx::{LoadError, Module};

use crate::support::{HEADER, kernel};

/// The error of a text, found at once.
#[track_caller]
fn refusal(text: &str) -> LoadError {
    let start = Instant::now();
    let error = Module::load(text).err();
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "took {:?}",
        start.elapsed()
    );
    error.unwrap_or_else(|| panic!("is taken: {}", text.chars().take(200).collect::<String>()))
}

#[test]
fn every_beginning_of_a_file_is_refused_or_whole() {
    let text = kernel(
        ".shared .align 16 .b8 tile[64]; .local .align 4 .b8 depot[8];",
        "mov.u64 %d1, tile; @%p1 bra L; st.shared.v2.u32 [%d1+8], {%r1, -5}; L: setp.eq.f32 %p1|%p2, %r1, 0f3F800000;
         { .reg .pred q; call (q), f, (q); } /* comment */ shfl.sync.idx.b32 %r1|%p3, %r1, 0, 31, -1;",
    );
    for end in 0..text.len() {
        let _ = Module::load(&text[..end]);
    }
    // Every word may be missing.
    let words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
    for missing in 0..words.len() {
        let rest: String = words
            .iter()
            .enumerate()
            .filter(|it| it.0 != missing)
            .map(|it| *it.1)
            .collect();
        let _ = Module::load(&rest);
    }
    assert!(matches!(
        refusal(&text[..text.len() - 3]),
        LoadError::Syntax { .. }
    ));
}

#[test]
fn megabytes_of_garbage() {
    for piece in [
        "\u{1}", "{", "}", "(", "a ", ".reg ", ";", "\"", "/*", "0x", "[", "@", "%r<", "\u{e9}",
    ] {
        let garbage = piece.repeat(10_000_000 / piece.len());
        refusal(&garbage);
        refusal(&format!("{HEADER}.visible .entry k()\n{{\n{garbage}"));
    }
}

#[test]
fn deep_nesting() {
    let open = "{".repeat(100_000);
    let error = refusal(&format!("{HEADER}.entry k() {{ {open}"));
    assert!(matches!(
        error,
        LoadError::TooLarge {
            what: "a depth of scopes",
            line: 4,
            ..
        }
    ));
    refusal(&format!(
        "{HEADER}.global .b8 x[4] = {}1;",
        "{".repeat(1_000_000)
    ));
    refusal(&format!(
        "{HEADER}.entry k() {{ mov.b64 %r1, {};",
        "{".repeat(1_000_000)
    ));
}

#[test]
fn enormous_numbers() {
    // Registers cost nothing before they are used.
    let many =
        format!("{HEADER}.entry k() {{ .reg .b32 %r<4000000000>; mov.u32 %r3999999999, 1; ret; }}");
    assert!(Module::load(&many).is_ok());
    let used: String = (0..40_000)
        .map(|n| format!("mov.u32 %r{n}, 1;\n"))
        .collect();
    let error = refusal(&format!(
        "{HEADER}.entry k() {{ .reg .b32 %r<4000000000>; {used} }}"
    ));
    assert!(matches!(
        error,
        LoadError::TooLarge {
            what: "a number of registers",
            ..
        }
    ));
    for (declaration, what) in [
        (
            ".shared .align 4 .b8 s[1000000000];",
            "the size of shared memory",
        ),
        (
            ".shared .align 4 .b8 s[18446744073709551615];",
            "a variable's size",
        ),
        (
            ".local .align 4 .b8 s[1000000000];",
            "the size of local memory",
        ),
        (
            ".param .align 4 .b8 s[1000000000];",
            "the size of all parameters of calls",
        ),
    ] {
        let error = refusal(&format!("{HEADER}.entry k() {{ {declaration} }}"));
        assert!(
            matches!(error, LoadError::TooLarge { what: got, .. } if got == what),
            "{error}"
        );
    }
    let error = refusal(&format!(
        "{HEADER}.entry k(.param .align 8 .b8 p[40000]) {{ ret; }}"
    ));
    assert!(matches!(
        error,
        LoadError::TooLarge {
            got: 40_000,
            limit: 32_764,
            ..
        }
    ));
    let error = refusal(&format!("{HEADER}.const .b8 a[65536];\n.const .b8 b[1];"));
    assert!(matches!(
        error,
        LoadError::TooLarge {
            line: 5,
            what: "the size of constant memory",
            got: 65_537,
            ..
        }
    ));
    refusal(&format!("{HEADER}.global .align 3 .b8 x[4];"));
    refusal(&format!("{HEADER}.global .b8 x[99999999999999999999];"));
    // A terabyte of which one byte is said costs one byte.
    assert!(Module::load(&format!("{HEADER}.global .b8 x[1000000000000] = {{1}};")).is_ok());
}

#[test]
fn many_blocks_with_many_unclear_registers() {
    let body: String = (0..20_000)
        .map(|n| format!("@%p1 mov.u32 %r{n}, 1; L{n}: add.u32 %r{n}, %r{n}, 1; @%p1 bra L{n};\n"))
        .collect();
    let text = format!(
        "{HEADER}.entry k() {{ .reg .pred %p<2>; .reg .b32 %r<20000>; setp.eq.u32 %p1, 0, 0; {body} }}"
    );
    let start = Instant::now();
    assert!(Module::load(&text).is_ok());
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "took {:?}",
        start.elapsed()
    );
}

#[test]
fn many_small_kernels_load_in_linear_time() {
    // Each with a register that is perhaps unwritten, a label, shared memory and a call.
    let kernels = |n: u32| {
        let one = |n: u32| {
            format!(
                ".entry k{n}(.param .u32 p) {{ .reg .pred %p<2>; .reg .b32 %r<3>; .shared .b8 s[4]; mov.u32 %r2, {n};
                 setp.eq.u32 %p1, %r2, 7; @%p1 mov.u32 %r1, 1; call f; @%p1 bra L; add.u32 %r2, %r1, {n}; L: ret; }}\n"
            )
        };
        let all: String = (0..n).map(one).collect();
        format!("{HEADER}.func f() {{ ret; }}\n{all}")
    };
    let seconds = |n: u32| {
        let text = kernels(n);
        let start = Instant::now();
        let module = Module::load(&text).unwrap();
        assert_eq!(module.entries().len(), n as usize);
        start.elapsed().as_secs_f64()
    };
    let few = (0..3).map(|_| seconds(2_500)).fold(f64::MAX, f64::min);
    let many = (0..3).map(|_| seconds(40_000)).fold(f64::MAX, f64::min);
    // Sixteen times as many: four times that is noise, 256 times would be each with each.
    assert!(many < 64.0 * few, "{few} s, then {many} s");
}

#[test]
fn unknown_instructions_are_named_with_their_line() {
    for (instruction, part) in [
        ("frobnicate.u32 %r0, %r1;", "no such instruction"),
        ("add.u128 %r0, %r1, %r2;", ""),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r0}, %d0, %d1, 1, 1, 1;",
            "",
        ),
        ("tcgen05.alloc.cta_group::1.sync.aligned.b32 [%d0], 32;", ""),
        ("ld.global.frob.u32 %r0, [%d0];", "`.frob`"),
        ("shfl.idx.b32 %r0, %r1, 0, 31;", "without `sync`"),
        ("cvt.rs.f16x2.f32 %r0, %r1, %r2, %r3;", ""),
        ("tex.2d.v4.f32.f32 {%r0}, [%r1];", ""),
    ] {
        let error = refusal(&kernel("", &format!("\n\n{instruction}")));
        let LoadError::UnknownInstruction { line, opcode, why } = &error else {
            panic!("{instruction}: {error}");
        };
        assert_eq!(
            (*line, opcode.as_str()),
            (19, instruction.split(' ').next().unwrap_or(""))
        );
        assert!(why.contains(part), "{error}");
    }
}

#[test]
fn clusters_of_several_blocks_are_refused_by_name() {
    let with = |target: &str, directives: &str| {
        format!(
            ".version 9.0\n.target {target}\n.address_size 64\n.entry k()\n{directives}\n{{ ret; }}"
        )
    };
    for (directives, named) in [
        (".reqnctapercluster 2", ".reqnctapercluster 2, 1, 1"),
        (
            ".explicitcluster .reqnctapercluster 1, 1, 8",
            ".reqnctapercluster 1, 1, 8",
        ),
        (".reqnctapercluster 0", ".reqnctapercluster 0, 1, 1"),
        (".explicitcluster", ".explicitcluster"),
        (
            ".maxntid 64 .explicitcluster .maxclusterrank 8",
            ".explicitcluster",
        ),
        (".reqntid 64 .blocksareclusters", ".blocksareclusters"),
        (".maxclusterrank 0", ".maxclusterrank 0"),
    ] {
        let error = refusal(&with("sm_121a", directives));
        let directive = named.to_owned();
        assert_eq!(error, LoadError::Clusters { line: 5, directive });
    }
    for directives in [
        ".explicitcluster .reqnctapercluster 1, 1, 1",
        ".reqnctapercluster 1 .maxclusterrank 4",
        ".reqntid 64 .blocksareclusters .reqnctapercluster 1",
    ] {
        let loaded = Module::load(&with("sm_90", directives));
        assert!(loaded.is_ok(), "{directives}: {:?}", loaded.err());
        let error = refusal(&with("sm_87", directives));
        assert!(
            matches!(error, LoadError::NotOnTarget { needs: "sm_90", .. }),
            "{error}"
        );
    }
    refusal(&with("sm_90", ".reqnctapercluster"));
    for instruction in [
        "ld.shared::cluster.u32 %r0, [%r1];",
        "mapa.u64 %d0, %d1, %r1;",
        "cvta.shared::cluster.u64 %d0, %d1;",
        "isspacep.shared::cluster %p0, %d1;",
        "getctarank.u32 %r0, %r1;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r0], %r1, [%r2];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%d1], 16, [%r2];",
    ] {
        let error = refusal(&kernel("", instruction));
        assert!(
            matches!(error, LoadError::UnknownInstruction { .. }),
            "{error}"
        );
    }
}

#[test]
fn short_texts_that_ask_for_much() {
    // One list of labels for many branches.
    let labels = vec!["L"; 2_000].join(", ");
    let branches = "brx.idx %r0, T;\n".repeat(2_000);
    let error = refusal(&kernel(
        "",
        &format!("L: T: .branchtargets {labels};\n{branches}"),
    ));
    assert!(
        matches!(
            error,
            LoadError::TooLarge {
                what: "a number of targets of all `brx.idx`",
                ..
            }
        ),
        "{error}"
    );
    // Predicates of frames inside of frames, many copies that nobody waits for, and a long line.
    let predicates: String = (0..20_000)
        .map(|n| format!("setp.eq.u32 %p{n}, 0, 0; "))
        .collect();
    let function = format!(".func f() {{ .reg .pred %p<20000>; {predicates} call f; ret; }}\n");
    let long = format!(
        "call f; {} st.global.u32 [%d30+400], 1;",
        " ".repeat(1_000_000)
    );
    let deep = kernel("", &long).replacen(HEADER, &format!("{HEADER}{function}"), 1);
    let copies = "mov.u64 %d1, tile; cvt.u32.u64 %r1, %d1; L: cp.async.ca.shared.global [%r1], [%d31], 4; bra L;";
    let copies = kernel(".shared .align 4 .b8 tile[4];", copies);
    for (text, kind) in [
        (deep, "StackOverflow { depth: 20"),
        (copies, "Budget"),
        (kernel("", &long.replace("call f;", "")), "OutOfBounds"),
    ] {
        let module = Module::load(&text).unwrap();
        let mut memory = spark_ptx::OwnedMemory::new();
        let address = memory.allocate_u32(&[7; 64]);
        let mut config = spark_ptx::LaunchConfig::new([1, 1, 1], [32, 1, 1]);
        config.budget = 20_000_000;
        if kind == "Budget" {
            config.budget = 20_000;
        }
        let params = crate::support::params(&[address, address]);
        let report = module.launch("k", &config, &params, &memory, 1).unwrap();
        let found = report.findings.iter().map(|it| format!("{:?}", it.kind));
        assert!(
            found.clone().any(|it| it.starts_with(kind)),
            "{:?}",
            found.collect::<Vec<_>>()
        );
        assert!(report.findings.iter().all(|it| it.text.len() <= 400));
    }
}

#[test]
fn declarations_that_contradict_each_other() {
    for (declared, called) in [
        (
            ".func f(.param .b32 a);\n.func f(.param .b64 a) { ret; }\n",
            "ret;",
        ),
        (".func f();\n.func (.param .b32 r) f() { ret; }\n", "ret;"),
        (".func f();\n.entry f() { ret; }\n", "ret;"),
        (".entry f() { ret; }\n", "call f;"),
        (
            ".entry f(.param .b32 p) { ret; }\n",
            ".param .b32 a; call f, (a);",
        ),
    ] {
        refusal(&kernel("", called).replacen(HEADER, &format!("{HEADER}{declared}"), 1));
    }
    // The same twice is none.
    let twice =
        ".func f(.param .b32 a);\n.func f(.param .b32 a);\n.func f(.param .b32 b) { ret; }\n";
    let text = kernel("", "ret;").replacen(HEADER, &format!("{HEADER}{twice}"), 1);
    assert!(Module::load(&text).is_ok());
}

#[test]
fn operands_that_do_not_fit() {
    for instruction in [
        "add.u32 %r0, %r1;",
        "add.u32 %d0, %r1, %r2;",
        "add.u32 %r0, %d1, %r2;",
        "add.u32 %p0, %r1, %r2;",
        "add.u32 5, %r1, %r2;",
        "mov.u32 %r0, %r99;",
        "mov.u32 %r0, nothing;",
        "@%r1 bra L; L:",
        "bra NOWHERE;",
        "st.const.u32 [%d0], %r0;",
        "ld.global.v4.u32 {%r0, %r1}, [%d0];",
        "ld.global.u64 %r0, [%d0];",
        "cp.async.cg.shared.global [%r0], [%d0], 8;",
        "lop3.b32 %r0, %r1, %r2, %r3, 256;",
        "lop3.or.b32 %r0, %r1, %r2, %r3, 1, %p1;",
        "lop3.or.b32 %d0|%p0, %r1, %r2, %r3, 1, %p1;",
        "lop3.and.b32 %r0|_, %r1, %r2, %r3, 1, %p1;",
        "lop3.b32 %r0|%p0, %r1, %r2, %r3, 1;",
        "lop3.xor.b32 %r0|%p0, %r1, %r2, %r3, 1, %p1;",
        "call f, (%r0);",
        "mov.b64 {%r0, %r1, %r2}, %d0;",
    ] {
        let error = refusal(&kernel("", instruction));
        let fits = matches!(
            error,
            LoadError::Operand { .. } | LoadError::UnknownName { .. }
        );
        assert!(fits, "{instruction}: {error}");
    }
}

/// A program with something of every family, for mutations.
const EVERYTHING: &str = "
mov.u64 %d1, tile; add.u64 %d2, %d1, %d29; st.shared.u32 [%d2], %r30; bar.sync 0; ld.shared.v2.u32 {%r1, %r2}, [%d1+8];
mov.u64 %d3, depot; st.local.u32 [%d3+4], %r30; ld.local.u32 %r3, [%d3+4]; cvta.local.u64 %d4, %d3; ld.u8 %r4, [%d4+5];
setp.lt.u32 %p1, %r30, 17; @%p1 bra A; shfl.sync.bfly.b32 %r5|%p2, %r30, 1, 31, 0xfffe0000; bra B;
A: vote.sync.ballot.b32 %r5, %p1, 0x1ffff; B: redux.sync.add.u32 %r6, %r5, -1; bar.warp.sync -1;
cvt.u32.u64 %r7, %d2; cp.async.ca.shared.global [%r7], [%d31], 4, %r4; cp.async.commit_group; cp.async.wait_group 0;
{ .param .b32 p0; st.param.b32 [p0], %r6; .param .b32 r0; call.uni (r0), f, (p0); ld.param.b32 %r8, [r0]; }
and.b32 %r9, %r30, 3; T: .branchtargets A1, B1, A1, B1; brx.idx %r9, T; A1: add.u32 %r8, %r8, 1; B1:
atom.global.add.u32 %r10, [%d30], %r8; red.shared.max.s32 [%d1], 5; atom.global.cas.b64 %d5, [%d30+8], %d1, %d2;
bfe.u32 %r11, %r10, %r9, 64; bfi.b64 %d6, %d1, %d2, %r10, 8; shf.l.wrap.b32 %r12, %r1, %r2, %r3; prmt.b32 %r13, %r1, %r2, %r3;
div.s32 %r14, %r1, %r2; rem.s64 %d7, %d1, %d2; mul.hi.s64 %d8, %d1, %d2; add.cc.u32 %r15, %r1, %r2; addc.u32 %r15, %r15, 0;
fma.rn.f32 %r16, %r1, %r2, %r3; div.rn.f64 %d9, %d1, %d2; cvt.rzi.s32.f32 %r17, %r16; cvt.rni.s64.f64 %d10, %d9;
bar.red.popc.u32 %r18, 1, 32, %p1; bar.sync 2, 64; match.any.sync.b32 %r19, %r1, -1; selp.b64 %d11, %d1, %d2, !%p1;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%d1]; movmatrix.sync.aligned.m8n8.trans.b16 %r21, %r20;
mov.b64 {%r22, %r23}, %d11; st.global.v2.u32 [%d30+16], {%r22, %r23}; @%p1 exit; @!%p1 ret;";

const FUNCTION: &str = ".func (.param .b32 r) f(.param .b32 p) { .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.u32 %r1, [p];
setp.lt.u32 %p1, %r1, 3; @%p1 bra L; shr.u32 %r1, %r1, 1; { .param .b32 q; st.param.b32 [q], %r1; .param .b32 s; call (s), f, (q);
ld.param.u32 %r2, [s]; } L: st.param.b32 [r], %r1; ret; }\n";

#[test]
fn mutated_programs_run_or_are_refused() {
    use spark_ptx::{LaunchConfig, OwnedMemory};
    let declarations = ".shared .align 16 .b8 tile[1024]; .local .align 8 .b8 depot[16];";
    let whole =
        kernel(declarations, EVERYTHING).replacen(HEADER, &format!("{HEADER}{FUNCTION}"), 1);
    assert!(
        Module::load(&whole).is_ok(),
        "{:?}",
        Module::load(&whole).err()
    );
    let words: Vec<&str> = whole
        .split_inclusive([' ', '\n', ',', ';', '[', '.', '+'])
        .collect();
    let mut state = 12_345u64;
    let mut below = |limit: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut n_run = 0;
    for _ in 0..9000 {
        let mut mutated = words.clone();
        for _ in 0..1 + below(3) {
            let (to, from) = (below(words.len()), below(words.len()));
            match below(3) {
                0 => mutated[to] = words[from],
                1 => mutated[to] = "",
                _ => mutated.swap(to, from),
            }
        }
        let Ok(module) = Module::load(&mutated.concat()) else {
            continue;
        };
        let Some(entry) = module.entries().pop() else {
            continue;
        };
        let mut memory = OwnedMemory::new();
        let (out, given) = (memory.allocate_u32(&[0; 64]), memory.allocate_u32(&[7; 64]));
        let mut params = crate::support::params(&[out, given]);
        params.resize(entry.parameter_bytes as usize, 0);
        let mut config = LaunchConfig::new([2, 1, 1], [72, 1, 1]);
        config.budget = 20_000;
        n_run += usize::from(
            module
                .launch(&entry.name, &config, &params, &memory, 1)
                .is_ok(),
        );
    }
    assert!(n_run > 300, "{n_run}");
}
