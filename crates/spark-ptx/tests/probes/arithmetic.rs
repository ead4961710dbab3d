//! Probes of conversions, float and integer arithmetic: one operation a thread, on many inputs.

use spark_ptx::Target;
use spark_ptx::convert::Conversion;
use spark_ptx::float::FloatForm;

use super::inputs::{Random, floats, words};
use super::{Agreement, Probe};

/// Inputs of most probes.
const N: usize = 4096;

/// Wraps an instruction on registers of other widths than 32 bits: unpacks, computes, packs.
struct Operation {
    /// With `%d` and `%a`, `%b`, `%c` for operands.
    text: String,
    /// Bits of the result and of the operands.
    d: u32,
    operands: Vec<u32>,
}

fn register_type(bits: u32) -> &'static str {
    match bits {
        8 => ".b8",
        16 => ".b16",
        64 => ".b64",
        _ => ".b32",
    }
}

impl Operation {
    /// Body, words in, words out.
    fn body(&self) -> (String, usize, usize) {
        let mut body = String::new();
        let mut word = 0;
        let mut text = self.text.clone();
        for (bits, letter) in self.operands.iter().zip(['a', 'b', 'c']) {
            let name = format!("%{letter}x");
            body += &format!(".reg {} {name};\n", register_type(*bits));
            match bits {
                64 => {
                    body += &format!("mov.b64 {name}, {{%i{word}, %i{}}};\n", word + 1);
                    word += 2;
                }
                16 => {
                    body +=
                        &format!(".reg .b16 {name}h;\nmov.b32 {{{name}, {name}h}}, %i{word};\n");
                    word += 1;
                }
                _ => {
                    body += &format!("mov.b32 {name}, %i{word};\n");
                    word += 1;
                }
            }
            text = text.replace(&format!("%{letter}"), &name);
        }
        body += &format!(".reg {} %dx;\n", register_type(self.d));
        // A block of several instructions ends by itself.
        let end = if text.ends_with('}') { "" } else { ";" };
        body += &format!("{}{end}\n", text.replace("%d", "%dx"));
        let n_out = match self.d {
            64 => {
                body += "mov.b64 {%o0, %o1}, %dx;";
                2
            }
            16 => {
                body += ".reg .b16 %none;\nmov.b16 %none, 0;\nmov.b32 %o0, {%dx, %none};";
                1
            }
            8 => {
                body += ".reg .b16 %wide, %none;\n.reg .b8 %no;\nmov.b16 %none, 0;\ncvt.u8.u16 %no, %none;\n\
                         mov.b16 %wide, {%dx, %no};\nmov.b32 %o0, {%wide, %none};";
                1
            }
            _ => {
                body += "mov.b32 %o0, %dx;";
                1
            }
        };
        (body, word, n_out)
    }

    fn probe(&self, name: &str, inputs: impl Fn(&mut Random, usize) -> Vec<u32>) -> Probe {
        let (body, n_in, n_out) = self.body();
        let random = &mut Random::new(name);
        // Words of one operand lie together; each is a list of its own.
        let inputs: Vec<u32> = (0..n_in).flat_map(|_| inputs(random, N)).collect();
        Probe::new(name, &body, inputs, n_in, n_out)
    }
}

/// All halves, twice over so that packed sources meet others.
fn halves(random: &mut Random, _: usize) -> Vec<u32> {
    (0..65_536_u32)
        .map(|low| low | (random.next() as u32) << 16)
        .collect()
}

fn conversions(target: Target) -> Vec<Probe> {
    let mut probes = Vec::new();
    let mut add = |modifiers: &str, packed: bool| {
        let parts: Vec<&str> = modifiers.split('.').collect();
        let Ok(form) = Conversion::parse(&parts) else {
            panic!("cvt.{modifiers} is no form");
        };
        if form.check_target(target).is_err() {
            return;
        }
        let n = form.n_sources();
        assert_eq!(n == 2, packed, "{modifiers}");
        let operands = vec![form.source_bits(); n];
        let text = format!(
            "cvt.{modifiers} %d, {}",
            if n == 2 { "%a, %b" } else { "%a" }
        );
        let operation = Operation {
            text,
            d: form.destination_bits(),
            operands,
        };
        let name = format!("cvt.{modifiers}");
        let (body, n_in, n_out) = operation.body();
        let random = &mut Random::new(&name);
        let from = parts[parts.len() - 1];
        let inputs: Vec<u32> = match (from, form.source_bits()) {
            ("f16" | "bf16" | "e4m3x2" | "e5m2x2", _) => halves(random, 0),
            ("f64", _) => {
                // Values of f32 with more bits below, and any bits.
                let high = floats(random, N);
                let low = words(random, N);
                let pairs: Vec<u64> = high
                    .iter()
                    .zip(&low)
                    .enumerate()
                    .map(|(at, (high, low))| match at % 3 {
                        0 => f64::from(f32::from_bits(*high)).to_bits() ^ u64::from(*low & 0xF),
                        1 => u64::from(*high) << 32 | u64::from(*low),
                        _ => (f64::from(*high as i32) * 0.25).to_bits(),
                    })
                    .collect();
                let low = pairs.iter().map(|bits| *bits as u32);
                low.chain(pairs.iter().map(|bits| (*bits >> 32) as u32))
                    .collect()
            }
            ("f32", _) => (0..n_in)
                .flat_map(|_| {
                    let mut values = floats(random, N);
                    for (at, value) in values.iter_mut().enumerate() {
                        match at % 5 {
                            // Ties of narrow formats, and integers with halves.
                            0 => *value &= 0xFFFF_F000,
                            1 => *value &= 0xFFF8_0000,
                            2 => *value = ((random.below(8000) as f32 - 4000.0) * 0.5).to_bits(),
                            _ => {}
                        }
                    }
                    values
                })
                .collect(),
            _ => (0..n_in).flat_map(|_| words(random, N)).collect(),
        };
        let probe = Probe::new(&name, &body, inputs, n_in, n_out);
        // An H100 keeps what a NaN of bf16 holds, ptxas folds it to the one NaN.
        let is_open = modifiers == "f32.bf16";
        probes.push(probe.agreeing(if is_open {
            Agreement::Nan32
        } else {
            Agreement::Bits
        }));
    };
    for to in ["f16", "bf16"] {
        for modifiers in ["rn", "rz", "rn.relu", "rz.relu"] {
            add(&format!("{modifiers}.{to}.f32"), false);
            add(&format!("{modifiers}.{to}x2.f32"), true);
        }
    }
    for to in ["e4m3x2", "e5m2x2"] {
        for relu in ["", ".relu"] {
            add(&format!("rn.satfinite{relu}.{to}.f32"), true);
            add(&format!("rn.satfinite{relu}.{to}.f16x2"), false);
        }
        add(&format!("rn.f16x2.{to}"), false);
        add(&format!("rn.relu.f16x2.{to}"), false);
    }
    for modifiers in [
        "rna.tf32.f32",
        "rn.tf32.f32",
        "rz.tf32.f32",
        "rn.relu.tf32.f32",
    ] {
        add(modifiers, false);
    }
    add("f32.f16", false);
    add("f32.bf16", false);
    add("sat.f32.f32", false);
    add("ftz.f32.f16", false);
    for rounding in ["rni", "rzi", "rmi", "rpi"] {
        add(&format!("{rounding}.f32.f32"), false);
        add(&format!("{rounding}.ftz.f32.f32"), false);
        for to in ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"] {
            add(&format!("{rounding}.{to}.f32"), false);
        }
        for to in ["s32", "u32", "s64", "u64"] {
            add(&format!("{rounding}.{to}.f64"), false);
        }
        add(&format!("{rounding}.s32.f16"), false);
    }
    for rounding in ["rn", "rz", "rm", "rp"] {
        for from in ["s32", "u32", "s64", "u64"] {
            add(&format!("{rounding}.f32.{from}"), false);
            add(&format!("{rounding}.f64.{from}"), false);
        }
        add(&format!("{rounding}.f32.f64"), false);
        add(&format!("{rounding}.ftz.f32.f64"), false);
        add(&format!("{rounding}.f16.s32"), false);
    }
    add("sat.s16.s32", false);
    add("sat.u8.s32", false);
    add("sat.s32.u64", false);
    probes
}

fn arithmetic(target: Target) -> Vec<Probe> {
    let mut probes = Vec::new();
    let mut add = |opcode: &str, modifiers: &str, agreement: Agreement| {
        let parts: Vec<&str> = modifiers.split('.').collect();
        let form = FloatForm::parse(opcode, &parts);
        let form = form.unwrap_or_else(|error| panic!("{opcode}.{modifiers}: {error}"));
        if form.check_target(target).is_err() {
            return;
        }
        let bits = form.operand_bits();
        let operands = vec![bits; form.n_sources()];
        let list = ["%a", "%a, %b", "%a, %b, %c"][operands.len() - 1];
        let operation = Operation {
            text: format!("{opcode}.{modifiers} %d, {list}"),
            d: bits,
            operands,
        };
        let name = format!("{opcode}.{modifiers}");
        let probe = operation.probe(&name, |random, n| {
            let mut values = floats(random, n);
            if parts
                .last()
                .is_some_and(|kind| kind.starts_with("f16") || kind.starts_with("bf16"))
            {
                for value in &mut values {
                    *value ^= random.next() as u32;
                }
            }
            values
        });
        probes.push(probe.agreeing(agreement));
    };
    let nan = Agreement::Nan32;
    for rounding in ["rn", "rz", "rm", "rp"] {
        for opcode in ["add", "sub", "mul", "fma", "div", "rcp", "sqrt"] {
            add(opcode, &format!("{rounding}.f32"), nan);
            add(opcode, &format!("{rounding}.ftz.f32"), nan);
            add(opcode, &format!("{rounding}.f64"), Agreement::Nan64);
        }
        add("fma", &format!("{rounding}.sat.f32"), nan);
    }
    for opcode in ["min", "max"] {
        for modifiers in [
            "f32",
            "ftz.f32",
            "NaN.f32",
            "xorsign.abs.f32",
            "f64",
            "f16",
            "f16x2",
            "NaN.f16x2",
            "bf16x2",
            "NaN.bf16",
        ] {
            add(opcode, modifiers, Agreement::Bits);
        }
    }
    for opcode in ["add", "sub", "mul"] {
        for modifiers in [
            "rn.f16",
            "rn.f16x2",
            "rn.ftz.f16x2",
            "rn.sat.f16x2",
            "rn.bf16",
            "rn.bf16x2",
        ] {
            add(opcode, modifiers, Agreement::Bits);
        }
    }
    for modifiers in [
        "rn.f16",
        "rn.f16x2",
        "rn.relu.f16x2",
        "rn.ftz.f16x2",
        "rn.bf16",
        "rn.bf16x2",
        "rn.relu.bf16x2",
    ] {
        add("fma", modifiers, Agreement::Bits);
    }
    // What a NaN becomes is open here: ptxas folds it to itself, an H100 has one NaN for all.
    for opcode in ["abs", "neg"] {
        for modifiers in ["f32", "ftz.f32"] {
            add(opcode, modifiers, nan);
        }
        add(opcode, "f64", Agreement::Nan64);
        for modifiers in ["f16", "f16x2"] {
            add(opcode, modifiers, Agreement::NanF16);
        }
        for modifiers in ["bf16", "bf16x2"] {
            add(opcode, modifiers, Agreement::NanBf16);
        }
    }
    let near = |ulps| Agreement::Near {
        ulps,
        absolute: 0.0,
    };
    add("rcp", "approx.f32", near(1));
    add("rcp", "approx.ftz.f32", near(1));
    add("rsqrt", "approx.f32", near(2));
    add("rsqrt", "approx.ftz.f32", near(2));
    add("sqrt", "approx.f32", near(2));
    add("sqrt", "approx.ftz.f32", near(2));
    add("div", "approx.f32", near(2));
    add("div", "full.f32", near(2));
    add("ex2", "approx.f32", near(2));
    add("ex2", "approx.ftz.f32", near(2));
    // 2^-22 absolute near 1, else relative.
    add(
        "lg2",
        "approx.f32",
        Agreement::Near {
            ulps: 4,
            absolute: 2.4e-7,
        },
    );
    add("tanh", "approx.f32", near(1 << 13));
    // The bounds hold in [-100 pi, 100 pi]; inputs go beyond.
    add("sin", "approx.f32", Agreement::Open);
    add("cos", "approx.f32", Agreement::Open);
    add("rcp", "approx.ftz.f64", Agreement::Open);
    add("rsqrt", "approx.ftz.f64", Agreement::Open);
    probes
}

fn integers() -> Vec<Probe> {
    let mut probes = Vec::new();
    let mut add = |name: &str, text: &str, d: u32, operands: &[u32]| {
        let operation = Operation {
            text: text.to_owned(),
            d,
            operands: operands.to_vec(),
        };
        probes.push(operation.probe(name, words));
    };
    for op in ["add", "sub", "min", "max"] {
        for (kind, bits) in [
            ("s32", 32),
            ("u32", 32),
            ("s64", 64),
            ("u64", 64),
            ("s16", 16),
        ] {
            add(
                &format!("{op}.{kind}"),
                &format!("{op}.{kind} %d, %a, %b"),
                bits,
                &[bits, bits],
            );
        }
    }
    for (kind, bits) in [("s32", 32), ("u32", 32), ("s64", 64), ("u64", 64)] {
        for half in ["lo", "hi"] {
            add(
                &format!("mul.{half}.{kind}"),
                &format!("mul.{half}.{kind} %d, %a, %b"),
                bits,
                &[bits, bits],
            );
            add(
                &format!("mad.{half}.{kind}"),
                &format!("mad.{half}.{kind} %d, %a, %b, %c"),
                bits,
                &[bits; 3],
            );
        }
        add(
            &format!("shr.{kind}"),
            &format!("shr.{kind} %d, %a, %b"),
            bits,
            &[bits, 32],
        );
        add(
            &format!("bfe.{kind}"),
            &format!("bfe.{kind} %d, %a, %b, %c"),
            bits,
            &[bits, 32, 32],
        );
        add(
            &format!("bfind.{kind}"),
            &format!("bfind.{kind} %d, %a"),
            32,
            &[bits],
        );
        add(
            &format!("bfind.shiftamt.{kind}"),
            &format!("bfind.shiftamt.{kind} %d, %a"),
            32,
            &[bits],
        );
    }
    for kind in ["s32", "u32"] {
        add(
            &format!("mul.wide.{kind}"),
            &format!("mul.wide.{kind} %d, %a, %b"),
            64,
            &[32, 32],
        );
        add(
            &format!("mul24.lo.{kind}"),
            &format!("mul24.lo.{kind} %d, %a, %b"),
            32,
            &[32, 32],
        );
        add(
            &format!("mul24.hi.{kind}"),
            &format!("mul24.hi.{kind} %d, %a, %b"),
            32,
            &[32, 32],
        );
        add(
            &format!("sad.{kind}"),
            &format!("sad.{kind} %d, %a, %b, %c"),
            32,
            &[32; 3],
        );
        add(
            &format!("dp4a.{kind}.s32"),
            &format!("dp4a.{kind}.s32 %d, %a, %b, %c"),
            32,
            &[32; 3],
        );
        add(
            &format!("dp2a.lo.{kind}.u32"),
            &format!("dp2a.lo.{kind}.u32 %d, %a, %b, %c"),
            32,
            &[32; 3],
        );
        add(
            &format!("dp2a.hi.{kind}.s32"),
            &format!("dp2a.hi.{kind}.s32 %d, %a, %b, %c"),
            32,
            &[32; 3],
        );
    }
    for bits in [32, 64] {
        add(
            &format!("shl.b{bits}"),
            &format!("shl.b{bits} %d, %a, %b"),
            bits,
            &[bits, 32],
        );
        add(
            &format!("popc.b{bits}"),
            &format!("popc.b{bits} %d, %a"),
            32,
            &[bits],
        );
        add(
            &format!("clz.b{bits}"),
            &format!("clz.b{bits} %d, %a"),
            32,
            &[bits],
        );
        add(
            &format!("brev.b{bits}"),
            &format!("brev.b{bits} %d, %a"),
            bits,
            &[bits],
        );
        add(
            &format!("bfi.b{bits}"),
            &format!("bfi.b{bits} %d, %a, %a, %b, %c"),
            bits,
            &[bits, 32, 32],
        );
    }
    for mode in ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"] {
        add(
            &format!("prmt.b32{mode}"),
            &format!("prmt.b32{mode} %d, %a, %b, %c"),
            32,
            &[32; 3],
        );
    }
    for lut in [0x1A, 0x96, 0xE8, 0x01] {
        add(
            &format!("lop3.b32.{lut:02x}"),
            &format!("lop3.b32 %d, %a, %b, %c, {lut}"),
            32,
            &[32; 3],
        );
    }
    for direction in ["l", "r"] {
        for mode in ["wrap", "clamp"] {
            add(
                &format!("shf.{direction}.{mode}"),
                &format!("shf.{direction}.{mode}.b32 %d, %a, %b, %c"),
                32,
                &[32; 3],
            );
        }
    }
    let carry = "{ .reg .b32 %low, %high; add.cc.u32 %low, %a, %b; addc.u32 %high, %a, %c; xor.b32 %d, %low, %high; }";
    add("addc.u32", carry, 32, &[32; 3]);
    let borrow = "{ .reg .b32 %low, %high; sub.cc.u32 %low, %a, %b; subc.u32 %high, %a, %c; xor.b32 %d, %low, %high; }";
    add("subc.u32", borrow, 32, &[32; 3]);
    let mad = "{ .reg .b32 %low, %high; mad.lo.cc.u32 %low, %a, %b, %c; madc.hi.u32 %high, %a, %b, %c; xor.b32 %d, %low, %high; }";
    add("madc.hi.u32", mad, 32, &[32; 3]);
    add("slct.f32", "slct.b32.f32 %d, %a, %b, %c", 32, &[32; 3]);
    for (kind, bits) in [("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)] {
        // Divisors are never 0, and never -1, for which the manual promises nothing.
        let safe = if bits == 32 {
            "{ .reg .b32 %y; and.b32 %y, %b, 0x3FFFFFFF; or.b32 %y, %y, 1; OP %d, %a, %y; }"
        } else {
            "{ .reg .b64 %y; and.b64 %y, %b, 0x3FFFFFFFFFFF; or.b64 %y, %y, 1; OP %d, %a, %y; }"
        };
        for op in ["div", "rem"] {
            let text = safe.replace("OP", &format!("{op}.{kind}"));
            add(&format!("{op}.{kind}"), &text, bits, &[bits, bits]);
        }
    }
    let by_zero = |op: &str| format!("{{ .reg .b32 %y; and.b32 %y, %b, 0; {op} %d, %a, %y; }}");
    for op in ["div.u32", "rem.u32", "div.s32", "rem.s32"] {
        add(&format!("{op}.by_zero"), &by_zero(op), 32, &[32, 32]);
    }
    for probe in &mut probes {
        if probe.name.ends_with("by_zero") {
            probe.agreement = Agreement::Open;
        }
    }
    // set and setp on f32, NaN among the operands.
    for compare in [
        "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
    ] {
        let operation = Operation {
            text: format!("set.{compare}.u32.f32 %d, %a, %b"),
            d: 32,
            operands: vec![32, 32],
        };
        probes.push(operation.probe(&format!("set.{compare}.f32"), floats));
    }
    probes
}

pub(crate) fn all(target: Target) -> Vec<Probe> {
    let mut probes = conversions(target);
    probes.extend(arithmetic(target));
    probes.extend(integers());
    probes
}
