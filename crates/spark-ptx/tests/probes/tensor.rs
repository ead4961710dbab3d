//! Probes of what tensor cores do: `mma`, `ldmatrix`, `stmatrix`, `movmatrix`.

use spark_ptx::Target;
use spark_ptx::tensor::MmaForm;

use super::inputs::{Element, Kind, Random, floats, packed};
use super::{Agreement, Probe};

/// Warps of one probe.
const WARPS: usize = 64;

struct Mma {
    shape: &'static str,
    a: Element,
    b: Element,
    accumulator: &'static str,
    suffix: &'static str,
}

fn forms() -> Vec<Mma> {
    use Element::{Bf16, E4m3, E5m2, F16, S4, S8, Tf32, U4, U8};
    let form = |shape, a, b, accumulator| Mma {
        shape,
        a,
        b,
        accumulator,
        suffix: "",
    };
    let mut forms = vec![
        form("m16n8k8", F16, F16, "f32"),
        form("m16n8k8", F16, F16, "f16"),
        form("m16n8k16", F16, F16, "f32"),
        form("m16n8k16", F16, F16, "f16"),
        form("m16n8k8", Bf16, Bf16, "f32"),
        form("m16n8k16", Bf16, Bf16, "f32"),
        form("m16n8k4", Tf32, Tf32, "f32"),
        form("m16n8k8", Tf32, Tf32, "f32"),
    ];
    for (a, b) in [(E4m3, E4m3), (E5m2, E5m2), (E4m3, E5m2), (E5m2, E4m3)] {
        for accumulator in ["f32", "f16"] {
            forms.push(form("m16n8k16", a, b, accumulator));
            forms.push(form("m16n8k32", a, b, accumulator));
        }
    }
    for (a, b) in [(S8, S8), (U8, U8), (S8, U8), (U8, S8)] {
        forms.push(form("m16n8k16", a, b, "s32"));
        forms.push(form("m16n8k32", a, b, "s32"));
        forms.push(Mma {
            suffix: ".satfinite",
            ..form("m16n8k32", a, b, "s32")
        });
    }
    for (a, b) in [(S4, S4), (U4, U4), (S4, U4)] {
        forms.push(form("m16n8k32", a, b, "s32"));
        forms.push(form("m16n8k64", a, b, "s32"));
    }
    forms
}

fn registers(first: usize, n: usize, letter: char) -> String {
    let names: Vec<String> = (first..first + n)
        .map(|idx| format!("%{letter}{idx}"))
        .collect();
    format!("{{{}}}", names.join(", "))
}

fn mma(form: &Mma, kind: Kind, target: Target) -> Option<Probe> {
    let Mma {
        shape,
        a,
        b,
        accumulator,
        suffix,
    } = form;
    let modifiers = format!(
        "sync.aligned.{shape}.row.col{suffix}.{accumulator}.{}.{}.{accumulator}",
        a.name(),
        b.name()
    );
    let parts: Vec<&str> = modifiers.split('.').collect();
    let known = MmaForm::parse(&parts).ok()?;
    known.check_target(target).ok()?;
    let n = known.registers();
    let name = format!(
        "mma.{shape}.{accumulator}.{}.{}{suffix}.{kind:?}",
        a.name(),
        b.name()
    );
    let random = &mut Random::new(&name);
    let lanes = 32 * WARPS;
    let mut inputs = packed(random, *a, n.a * lanes, kind);
    inputs.extend(packed(random, *b, n.b * lanes, kind));
    inputs.extend(match (*accumulator, kind) {
        ("f16", _) => packed(random, Element::F16, n.c * lanes, kind),
        ("f32", Kind::Integers) => (0..n.c * lanes)
            .map(|_| (random.below(2001) as f32 - 1000.0).to_bits())
            .collect(),
        ("f32", Kind::Anything) => floats(random, n.c * lanes),
        ("f32", Kind::Numbers) => packed(random, Element::Tf32, n.c * lanes, kind),
        _ => (0..n.c * lanes)
            .map(|at| match at % 16 {
                0 => i32::MAX as u32 - random.below(1000) as u32,
                1 => i32::MIN as u32 + random.below(1000) as u32,
                _ => random.next() as u32 >> 8,
            })
            .collect(),
    });
    let body = format!(
        "mma.{modifiers} {}, {}, {}, {};",
        registers(0, n.d, 'o'),
        registers(0, n.a, 'i'),
        registers(n.a, n.b, 'i'),
        registers(n.a + n.b, n.c, 'i')
    );
    let n_in = n.a + n.b + n.c;
    Some(Probe::new(&name, &body, inputs, n_in, n.d))
}

/// Shared memory that is filled with its own words before rows of it are read.
const ROWS: &str = ".shared .align 16 .b8 rows[2048];";

fn matrices(target: Target) -> Vec<Probe> {
    let mut probes = Vec::new();
    for (count, n) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        for trans in ["", ".trans"] {
            // Lane l names row (5 l + 3) mod 32 of 16 bytes; 128 words from the input.
            let name = format!("ldmatrix.{count}{trans}");
            let inputs = super::inputs::words(&mut Random::new(&name), 4 * 32);
            let body = format!(
                ".reg .b32 %at, %row;\nmov.u32 %at, rows;\nmad.lo.u32 %at, %tid0, 16, %at;\n\
                 st.shared.v4.b32 [%at], {{%i0, %i1, %i2, %i3}};\nbar.warp.sync -1;\n\
                 mad.lo.u32 %row, %tid0, 5, 3;\nand.b32 %row, %row, 31;\nmov.u32 %at, rows;\nmad.lo.u32 %at, %row, 16, %at;\n\
                 ldmatrix.sync.aligned.m8n8.{count}{trans}.shared.b16 {}, [%at];",
                registers(0, n, 'o')
            );
            probes.push(
                Probe::new(&name, &body, inputs, 4, n)
                    .declaring(ROWS)
                    .by_blocks(32),
            );
            if target.capability() < 90 {
                continue;
            }
            let name = format!("stmatrix.{count}{trans}");
            let inputs = super::inputs::words(&mut Random::new(&name), n * 32);
            let body = format!(
                ".reg .b32 %at, %row, %zero;\nmov.u32 %zero, 0;\nmov.u32 %at, rows;\nmad.lo.u32 %at, %tid0, 16, %at;\n\
                 st.shared.v4.b32 [%at], {{%zero, %zero, %zero, %zero}};\nbar.warp.sync -1;\n\
                 mad.lo.u32 %row, %tid0, 5, 3;\nand.b32 %row, %row, 31;\nmov.u32 %at, rows;\nmad.lo.u32 %at, %row, 16, %at;\n\
                 stmatrix.sync.aligned.m8n8.{count}{trans}.shared.b16 [%at], {};\nbar.warp.sync -1;\n\
                 mov.u32 %at, rows;\nmad.lo.u32 %at, %tid0, 16, %at;\nld.shared.v4.b32 {{%o0, %o1, %o2, %o3}}, [%at];",
                registers(0, n, 'i')
            );
            probes.push(
                Probe::new(&name, &body, inputs, n, 4)
                    .declaring(ROWS)
                    .by_blocks(32),
            );
        }
    }
    let inputs = super::inputs::words(&mut Random::new("movmatrix"), 32 * 8);
    let body = "movmatrix.sync.aligned.m8n8.trans.b16 %o0, %i0;";
    probes.push(Probe::new("movmatrix", body, inputs, 1, 1));
    probes
}

pub(crate) fn all(target: Target) -> Vec<Probe> {
    let mut probes = Vec::new();
    for form in forms() {
        let is_float = !matches!(form.accumulator, "s32");
        for kind in [Kind::Integers, Kind::Numbers, Kind::Anything] {
            if !is_float && kind == Kind::Anything {
                continue;
            }
            probes.extend(mma(&form, kind, target));
        }
    }
    probes.extend(matrices(target));
    // Tensor cores have one NaN; the interpreter's is held to it bit by bit as well.
    probes
        .into_iter()
        .map(|probe| probe.agreeing(Agreement::Bits))
        .collect()
}
