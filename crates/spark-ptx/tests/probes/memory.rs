//! Probes of what lanes, warps and memory do together: shuffles, votes, atomics, copies, barriers.

use spark_ptx::Target;

use super::inputs::{Random, floats, words};
use super::{Agreement, Probe};

const SHARED: &str = ".shared .align 16 .b8 cells[4096];";

fn warp() -> Vec<Probe> {
    let mut probes = Vec::new();
    let n = 32 * 16;
    for mode in ["up", "down", "bfly", "idx"] {
        for width in [32_u32, 16, 8, 4] {
            let name = format!("shfl.{mode}.{width}");
            let random = &mut Random::new(&name);
            let clamp = (32 - width) << 8 | if mode == "up" { 0 } else { 31 };
            let mut inputs = words(random, n);
            inputs.extend((0..n).map(|_| random.next() as u32));
            let body = format!(
                ".reg .pred %ok;\nshfl.sync.{mode}.b32 %o0|%ok, %i0, %i1, {clamp}, -1;\nselp.b32 %o1, 1, 0, %ok;"
            );
            probes.push(Probe::new(&name, &body, inputs, 2, 2));
        }
    }
    let small = |name: &str| -> Vec<u32> {
        let random = &mut Random::new(name);
        (0..n)
            .map(|at| random.below(1 + at as u64 / 32) as u32)
            .collect()
    };
    let vote = "setp.eq.u32 %p, %i0, 0;\n";
    for (name, body) in [
        (
            "vote.all",
            format!("{vote}vote.sync.all.pred %q, %p, -1;\nselp.b32 %o0, 1, 0, %q;"),
        ),
        (
            "vote.any",
            format!("{vote}vote.sync.any.pred %q, %p, -1;\nselp.b32 %o0, 1, 0, %q;"),
        ),
        (
            "vote.uni",
            format!("{vote}vote.sync.uni.pred %q, %p, -1;\nselp.b32 %o0, 1, 0, %q;"),
        ),
        (
            "vote.ballot",
            format!("{vote}vote.sync.ballot.b32 %o0, %p, -1;"),
        ),
        ("match.any", "match.any.sync.b32 %o0, %i0, -1;".to_owned()),
        (
            "match.all",
            "match.all.sync.b32 %o0|%q, %i0, -1;".to_owned(),
        ),
        // Half of the warp, in divergent code.
        (
            "vote.half",
            "mov.u32 %o0, 7;\nand.b32 %x, %tid0, 16;\nsetp.ne.u32 %q, %x, 0;\n@%q bra OVER;\n\
             setp.eq.u32 %p, %i0, 0;\nvote.sync.ballot.b32 %o0, %p, 0xFFFF;\nOVER:"
                .to_owned(),
        ),
    ] {
        let body = format!(".reg .pred %p, %q;\n.reg .b32 %x;\n{body}");
        probes.push(Probe::new(name, &body, small(name), 1, 1));
    }
    for op in [
        "add.u32", "min.u32", "max.u32", "add.s32", "min.s32", "max.s32", "and.b32", "or.b32",
        "xor.b32",
    ] {
        let name = format!("redux.{op}");
        let inputs = words(&mut Random::new(&name), n);
        let body = format!("redux.sync.{op} %o0, %i0, -1;");
        probes.push(Probe::new(&name, &body, inputs, 1, 1));
    }
    let parts = "mov.u32 %o0, %laneid;\nmov.u32 %o1, %lanemask_lt;\nmov.u32 %o2, %lanemask_ge;\nmov.u32 %o3, %ntid.x;\nmov.u32 %o4, %nctaid.x;";
    probes.push(Probe::new(
        "special_registers",
        parts,
        words(&mut Random::new("special"), 256),
        1,
        5,
    ));
    probes
}

/// One thread a block, so that the order is known: an atomic on a cell that holds the first input.
fn atomics(target: Target) -> Vec<Probe> {
    let mut probes = Vec::new();
    let mut add = |op: &str, floats_in: bool, agreement: Agreement| {
        for space in ["shared", "global"] {
            let name = format!("atom.{space}.{op}");
            let random = &mut Random::new(&name);
            let n = 2048;
            let inputs = |random: &mut Random| {
                if floats_in {
                    floats(random, n)
                } else {
                    words(random, n)
                }
            };
            let mut all = inputs(random);
            all.extend(inputs(random));
            all.extend(inputs(random));
            let operands = if op.starts_with("cas") {
                "%i1, %i2"
            } else {
                "%i1"
            };
            // In global memory the thread's own output word is the cell.
            let (address, place) = if space == "shared" {
                (
                    "mad.lo.u32 %at, %tid0, 4, 0;\nmov.u32 %base, cells;\nadd.u32 %at, %at, %base;\n",
                    "%at",
                )
            } else {
                ("", "%out0")
            };
            let rounding = if op.contains("f16") { "noftz." } else { "" };
            let (kind, rest) = op.split_once('.').unwrap_or((op, ""));
            let body = format!(
                ".reg .b32 %at, %base;\n{address}st.{space}.b32 [{place}], %i0;\n\
                 atom.{space}.{kind}.{rounding}{rest} %o1, [{place}], {operands};\nld.{space}.b32 %o0, [{place}];"
            );
            probes.push(
                Probe::new(&name, &body, all, 3, 2)
                    .declaring(SHARED)
                    .agreeing(agreement),
            );
        }
    };
    for op in [
        "add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "exch.b32", "cas.b32",
        "inc.u32", "dec.u32",
    ] {
        add(op, false, Agreement::Bits);
    }
    add("add.f32", true, Agreement::Nan32);
    add("add.f16x2", false, Agreement::Bits);
    if target.capability() >= 90 {
        add("add.bf16x2", false, Agreement::Bits);
    }
    probes
}

fn copies() -> Vec<Probe> {
    let mut probes = Vec::new();
    for (cache, bytes) in [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)] {
        for asked in 0..=bytes {
            if bytes > 4 && asked % 3 != 0 && asked != bytes {
                continue;
            }
            let name = format!("cp.async.{cache}.{bytes}.of_{asked}");
            let words_of = bytes / 4;
            // Thread i copies from the i-th group of 16 bytes of the inputs.
            let inputs = words(&mut Random::new(&name), 4 * 64);
            let outputs: Vec<String> = (0..words_of)
                .map(|idx| format!("ld.shared.b32 %o{idx}, [%at+{}];", 4 * idx))
                .collect();
            let body = format!(
                ".reg .b32 %at, %base;\n.reg .b64 %from, %far;\nmov.u32 %base, cells;\nmad.lo.u32 %at, %tid0, 16, %base;\n\
                 mul.wide.u32 %far, %tid0, 12;\nadd.u64 %from, %in0, %far;\n\
                 cp.async.{cache}.shared.global [%at], [%from], {bytes}, {asked};\n\
                 cp.async.commit_group;\ncp.async.wait_group 0;\n{}",
                outputs.join("\n")
            );
            probes.push(
                Probe::new(&name, &body, inputs, 4, words_of)
                    .declaring(SHARED)
                    .by_blocks(64),
            );
        }
    }
    probes
}

fn barriers() -> Vec<Probe> {
    let inputs = |name: &str| words(&mut Random::new(name), 128);
    let mirror = ".reg .b32 %at, %base;\nmov.u32 %base, cells;\nmad.lo.u32 %at, %tid0, 4, %base;\nst.shared.b32 [%at], %i0;\n\
                  BARRIER\nsub.u32 %at, 127, %tid0;\nmad.lo.u32 %at, %at, 4, %base;\nld.shared.b32 %o0, [%at];";
    let mut probes = vec![];
    for (name, text) in [
        ("bar.sync", "bar.sync 0;"),
        ("bar.sync.count", "bar.sync 3, 128;"),
        ("barrier.sync", "barrier.sync 5;"),
    ] {
        let body = mirror.replace("BARRIER", text);
        probes.push(Probe::new(name, &body, inputs(name), 1, 1).declaring(SHARED));
    }
    for (name, text) in [
        ("bar.red.popc", "bar.red.popc.u32 %o0, 0, %p;"),
        (
            "bar.red.and",
            "bar.red.and.pred %q, 0, %p;\nselp.b32 %o0, 1, 0, %q;",
        ),
        (
            "bar.red.or",
            "bar.red.or.pred %q, 0, %p;\nselp.b32 %o0, 1, 0, %q;",
        ),
    ] {
        let body = format!(".reg .pred %p, %q;\nsetp.gt.s32 %p, %i0, 0;\n{text}");
        probes.push(Probe::new(name, &body, inputs(name), 1, 1));
    }
    probes
}

fn accesses() -> Vec<Probe> {
    let mut probes = Vec::new();
    for kind in ["u8", "s8", "u16", "s16"] {
        let name = format!("ld.{kind}");
        let inputs = words(&mut Random::new(&name), 512);
        let body = format!("ld.global.{kind} %o0, [%in0];");
        probes.push(Probe::new(&name, &body, inputs, 1, 1));
    }
    let local = ".local .align 16 .b8 own[64];\n.reg .b64 %base, %at;\n.reg .b64 %far;\n.reg .b32 %place;\nmov.u64 %base, own;\n\
                 st.local.v4.b32 [%base], {%i0, %i1, %i0, %i1};\nst.local.b32 [%base+16], %i1;\nand.b32 %place, %i0, 3;\n\
                 mul.wide.u32 %far, %place, 4;\nadd.u64 %at, %base, %far;\nld.local.b32 %o0, [%at+4];";
    let inputs = words(&mut Random::new("local"), 1024);
    probes.push(Probe::new("local_memory", local, inputs, 2, 1));
    let table = ".const .align 4 .b32 table[8] = {11, 22, 33, 44, 55};";
    let body = ".reg .b64 %base, %at, %far;\n.reg .b32 %place;\nmov.u64 %base, table;\nand.b32 %place, %i0, 7;\n\
                mul.wide.u32 %far, %place, 4;\nadd.u64 %at, %base, %far;\nld.const.b32 %o0, [%at];";
    let inputs = words(&mut Random::new("const"), 256);
    probes.push(Probe::new("constant_table", body, inputs, 1, 1).declaring(table));
    let function = ".func (.param .b32 result) twice(.param .b32 x)\n{\n.reg .b32 %a;\nld.param.b32 %a, [x];\nadd.u32 %a, %a, %a;\nst.param.b32 [result], %a;\nret;\n}";
    let body = "{\n.param .b32 argument;\n.param .b32 answer;\nst.param.b32 [argument], %i0;\ncall (answer), twice, (argument);\nld.param.b32 %o0, [answer];\n}";
    let inputs = words(&mut Random::new("call"), 256);
    probes.push(Probe::new("device_function", body, inputs, 1, 1).declaring(function));
    let nested = ".reg .pred %p, %q;\nmov.u32 %o0, 0;\nand.b32 %o0, %i0, 7;\nsetp.lt.u32 %p, %o0, 3;\n@%p bra LOW;\nadd.u32 %o0, %o0, 100;\n\
                  setp.eq.u32 %q, %o0, 105;\n@%q bra DONE;\nadd.u32 %o0, %o0, 1000;\nbra DONE;\nLOW:\nmul.lo.u32 %o0, %o0, 7;\nDONE:\nbar.warp.sync -1;\n\
                  shfl.sync.bfly.b32 %o0, %o0, 1, 31, -1;";
    let inputs = words(&mut Random::new("nested"), 512);
    probes.push(Probe::new("nested_divergence", nested, inputs, 1, 1));
    probes
}

pub(crate) fn all(target: Target) -> Vec<Probe> {
    let mut probes = warp();
    probes.extend(atomics(target));
    probes.extend(copies());
    probes.extend(barriers());
    probes.extend(accesses());
    probes
}
