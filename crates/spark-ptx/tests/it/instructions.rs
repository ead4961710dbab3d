//! What instructions mean, family by family: vectors of the PTX manual, of NVIDIA's constant
//! folder (`ptxas` 13.0) and of public test suites.

use crate::support::{kernel, launch, value_32, value_64, warp};

#[track_caller]
fn check(instruction: &str, sources: &[u32], want: u32) {
    let got = value_32(instruction, sources);
    assert_eq!(
        got, want,
        "{instruction} of {sources:x?}: {got:#x}, not {want:#x}"
    );
}

#[track_caller]
fn check_64(instruction: &str, sources: &[u64], want: u64) {
    let got = value_64(instruction, sources);
    assert_eq!(
        got, want,
        "{instruction} of {sources:x?}: {got:#x}, not {want:#x}"
    );
}

#[track_caller]
fn check_f32(instruction: &str, sources: &[f32], want: f32) {
    let bits: Vec<u32> = sources.iter().map(|x| x.to_bits()).collect();
    check(instruction, &bits, want.to_bits());
}

#[test]
fn integer_arithmetic_wraps() {
    check("add.u32 %r0, %r1, %r2;", &[u32::MAX, 3], 2);
    check("sub.s32 %r0, %r1, %r2;", &[1, 3], -2i32 as u32);
    check("mul.lo.s32 %r0, %r1, %r2;", &[0x1_0001, 0x1_0001], 0x2_0001);
    check(
        "mul.hi.u32 %r0, %r1, %r2;",
        &[u32::MAX, u32::MAX],
        0xffff_fffe,
    );
    check("mul.hi.s32 %r0, %r1, %r2;", &[-3i32 as u32, 2], u32::MAX);
    check("mad.lo.u32 %r0, %r1, %r2, %r3;", &[5, 7, 11], 46);
    check("mad.hi.s32 %r0, %r1, %r2, %r3;", &[-3i32 as u32, 2, 5], 4);
    check(
        "mad.hi.sat.s32 %r0, %r1, %r2, %r3;",
        &[1 << 30, 8, i32::MAX as u32],
        i32::MAX as u32,
    );
    check(
        "add.sat.s32 %r0, %r1, %r2;",
        &[i32::MAX as u32, 9],
        i32::MAX as u32,
    );
    check("abs.s32 %r0, %r1;", &[i32::MIN as u32], i32::MIN as u32);
    check("neg.s32 %r0, %r1;", &[5], -5i32 as u32);
    check("sad.u32 %r0, %r1, %r2, %r3;", &[3, 10, 100], 107);
    check("sad.s32 %r0, %r1, %r2, %r3;", &[-3i32 as u32, 10, 100], 113);
    check("min.s32 %r0, %r1, %r2;", &[-1i32 as u32, 1], u32::MAX);
    check("max.u32 %r0, %r1, %r2;", &[-1i32 as u32, 1], u32::MAX);
    check("max.s32 %r0, %r1, %r2;", &[-1i32 as u32, 1], 1);
    check_64(
        "mul.hi.u64 %d0, %d1, %d2;",
        &[u64::MAX, u64::MAX],
        u64::MAX - 1,
    );
    check_64("mad.lo.s64 %d0, %d1, %d2, %d3;", &[u64::MAX, 5, 7], 2);
    check_64(
        "cvt.u32.u64 %r1, %d1; mul.wide.s32 %d0, %r1, 2;",
        &[-3i64 as u64],
        -6i64 as u64,
    );
    check_64(
        "cvt.u32.u64 %r1, %d1; mad.wide.u32 %d0, %r1, %r1, %d2;",
        &[0xffff_ffff, 5],
        0xffff_fffe_0000_0006,
    );
}

#[test]
fn numbers_of_24_bits() {
    check("mul24.lo.u32 %r0, %r1, %r2;", &[0x7f_ffff, 3], 0x017f_fffd);
    check(
        "mul24.hi.u32 %r0, %r1, %r2;",
        &[0xff_ffff, 0xff_ffff],
        0xffff_fe00,
    );
    check("mul24.lo.s32 %r0, %r1, %r2;", &[0xff_ffff, 3], -3i32 as u32);
    check("mad24.lo.u32 %r0, %r1, %r2, %r3;", &[0xff00_0002, 3, 4], 10);
}

#[test]
fn sixteen_bits() {
    let with = |body: &str| {
        format!("cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r2; {body} cvt.u32.u16 %r0, %h0;")
    };
    check(&with("add.s16 %h0, %h1, %h2;"), &[0xffff, 3], 2);
    check(&with("mul.lo.s16 %h0, %h1, %h2;"), &[0x101, 0x101], 0x201);
    check(
        &with("mul.hi.u16 %h0, %h1, %h2;"),
        &[0xffff, 0xffff],
        0xfffe,
    );
    check(&with("mul.hi.s16 %h0, %h1, %h2;"), &[0xfffd, 2], 0xffff);
    // ptxas 13.0.88 folds the first of these to the same.
    let add = |name: &str| with(&format!("cvt.u16.u32 %h3, %r3; {name} %h0, %h1, %h2, %h3;"));
    check(&add("mad.hi.u16"), &[0x101, 0xffff, 0xd583], 0xd683);
    check(&add("mad.hi.s16"), &[0xfffd, 2, 0x8000], 0x7fff);
    check(&add("mad.lo.u16"), &[0x101, 0x101, 0xffff], 0x200);
    check(&with("min.s16 %h0, %h1, %h2;"), &[0xffff, 1], 0xffff);
    check(&with("shr.s16 %h0, %h1, 4;"), &[0x8000, 0], 0xf800);
    check(&with("shl.b16 %h0, %h1, 4;"), &[0x1234, 0], 0x2340);
    check(&with("not.b16 %h0, %h1;"), &[0x1234, 0], 0xedcb);
    check(
        "cvt.u16.u32 %h1, %r1; mul.wide.u16 %r0, %h1, %h1;",
        &[0xffff],
        0xfffe_0001,
    );
    check(
        "cvt.u16.u32 %h1, %r1; mul.wide.s16 %r0, %h1, 3;",
        &[0xffff],
        -3i32 as u32,
    );
    check(
        "add.u16x2 %r0, %r1, %r2;",
        &[0xffff_0001, 0x0002_ffff],
        0x0001_0000,
    );
    check(
        "max.s16x2 %r0, %r1, %r2;",
        &[0xffff_0001, 0x0002_ffff],
        0x0002_0001,
    );
}

#[test]
fn division_truncates_and_never_fails() {
    check("div.s32 %r0, %r1, %r2;", &[-7i32 as u32, 2], -3i32 as u32);
    check("rem.s32 %r0, %r1, %r2;", &[-7i32 as u32, 2], -1i32 as u32);
    check("div.u32 %r0, %r1, %r2;", &[7, 0], u32::MAX);
    check("rem.u32 %r0, %r1, %r2;", &[7, 0], u32::MAX);
    check(
        "div.s32 %r0, %r1, %r2;",
        &[i32::MIN as u32, u32::MAX],
        i32::MIN as u32,
    );
    check_64("div.u64 %d0, %d1, %d2;", &[1 << 40, 3], (1u64 << 40) / 3);
    check_64("rem.s64 %d0, %d1, %d2;", &[-7i64 as u64, 4], -3i64 as u64);
}

#[test]
fn carries_go_from_instruction_to_instruction() {
    let add = "add.cc.u32 %r5, %r1, %r2; addc.cc.u32 %r6, %r3, %r4; addc.u32 %r0, 0, 0;";
    check(add, &[u32::MAX, 1, u32::MAX, 0], 1);
    let high = "add.cc.u32 %r5, %r1, %r2; add.u32 %r5, %r5, %r5; addc.u32 %r0, %r3, %r4;";
    check(high, &[u32::MAX, 1, 5, 6], 12);
    let sub = "sub.cc.u32 %r5, %r1, %r2; subc.u32 %r0, %r3, %r4;";
    check(sub, &[0, 1, 9, 3], 5);
    check(sub, &[1, 1, 9, 3], 6);
    let mad = "mad.lo.cc.u32 %r5, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, %r4;";
    check(mad, &[u32::MAX, u32::MAX, u32::MAX, 7], 6);
    check_64(
        "add.cc.u64 %d5, %d1, %d2; addc.u64 %d0, %d3, %d3;",
        &[u64::MAX, 1, 4],
        9,
    );
}

#[test]
fn shifts_are_clamped() {
    check("shl.b32 %r0, %r1, %r2;", &[1, 32], 0);
    check("shr.u32 %r0, %r1, %r2;", &[u32::MAX, 32], 0);
    check("shr.s32 %r0, %r1, %r2;", &[1 << 31, 40], u32::MAX);
    check_64("shl.b64 %d0, %d1, 64;", &[1], 0);
    check_64("shr.s64 %d0, %d1, 99;", &[1 << 63], u64::MAX);
    let (a, b) = (0x1234_5678, 0x9abc_def0);
    check("shf.l.clamp.b32 %r0, %r1, %r2, 44;", &[a, b], a);
    check("shf.r.clamp.b32 %r0, %r1, %r2, 44;", &[a, b], b);
    check("shf.l.wrap.b32 %r0, %r1, %r2, 44;", &[a, b], 0xcdef_0123);
    check("shf.r.wrap.b32 %r0, %r1, %r2, 44;", &[a, b], 0xef01_2345);
}

#[test]
fn bits_and_bytes() {
    // (a & b | c) ^ a
    check(
        "lop3.b32 %r0, %r1, %r2, %r3, 0x1A;",
        &[0xf0, 0xcc, 0xaa],
        (0xf0 & 0xcc | 0xaa) ^ 0xf0,
    );
    // The same, and a predicate of whether a bit is set.
    for (a, condition, or, and) in [(0xf0, 1, 1, 1), (0xf0, 0, 1, 0), (0, 1, 1, 0), (0, 0, 0, 0)] {
        for (name, want) in [("or", or), ("and", and)] {
            let test = |d: &str, q: &str| {
                format!(
                    "setp.{q}.u32 %p1, %r2, 0; mov.u32 %r4, %r1;
                     lop3.{name}.b32 {d}|%p2, %r1, %r1, %r1, 0x80, {}%p1; selp.u32 %r5, 1, 0, %p2;
                     mad.lo.u32 %r0, %r4, 2, %r5;",
                    if q == "ne" { "" } else { "!" }
                )
            };
            for body in [test("%r4", "ne"), test("_", "ne"), test("%r4", "eq")] {
                check(&body, &[a, condition], 2 * a + want);
            }
        }
    }
    check(
        "prmt.b32 %r0, %r1, %r2, 0x0A08;",
        &[0x0100_fe80, 0],
        0x8000_80ff,
    );
    check(
        "prmt.b32 %r0, %r1, %r2, 0x7604;",
        &[0x70c5_07d6, 0x6fbd_4b5c],
        0x6fbd_d65c,
    );
    let (a, b) = (0x3322_1100, 0x7766_5544);
    check("prmt.b32.f4e %r0, %r1, %r2, 1;", &[a, b], 0x4433_2211);
    check("prmt.b32.b4e %r0, %r1, %r2, 1;", &[a, b], 0x6677_0011);
    check("prmt.b32.rc8 %r0, %r1, %r2, 2;", &[a, b], 0x2222_2222);
    check("prmt.b32.ecl %r0, %r1, %r2, 2;", &[a, b], 0x3322_2222);
    check("prmt.b32.ecr %r0, %r1, %r2, 2;", &[a, b], 0x2222_1100);
    check("prmt.b32.rc16 %r0, %r1, %r2, 3;", &[a, b], 0x3322_3322);
    check("popc.b32 %r0, %r1;", &[0xf0f0], 8);
    check("clz.b32 %r0, %r1;", &[0], 32);
    check("brev.b32 %r0, %r1;", &[1], 1 << 31);
    check("bfind.u32 %r0, %r1;", &[0], u32::MAX);
    check("bfind.s32 %r0, %r1;", &[u32::MAX], u32::MAX);
    check("bfind.s32 %r0, %r1;", &[-8i32 as u32], 2);
    check("bfind.shiftamt.u32 %r0, %r1;", &[1], 31);
    check("cnot.b32 %r0, %r1;", &[0], 1);
    check_64("popc.b64 %r1, %d1; cvt.u64.u32 %d0, %r1;", &[u64::MAX], 64);
    check_64("clz.b64 %r1, %d1; cvt.u64.u32 %d0, %r1;", &[1 << 40], 23);
    check_64("brev.b64 %d0, %d1;", &[1], 1 << 63);
}

#[test]
fn fields_of_bits() {
    check("bfe.u32 %r0, %r1, 8, 8;", &[0x1234_5678], 0x56);
    check("bfe.s32 %r0, %r1, 28, 8;", &[0x9abc_def0], 0xffff_fff9);
    check("bfe.s32 %r0, %r1, 4, 0;", &[0x9abc_def0], 0);
    check("bfe.u32 %r0, %r1, %r2, 4;", &[0xffff_ffff, 260], 0xf);
    check(
        "bfi.b32 %r0, %r1, %r2, 8, 8;",
        &[0xab, 0x1111_1111],
        0x1111_ab11,
    );
    check(
        "bfi.b32 %r0, %r1, %r2, 8, 0;",
        &[0xab, 0x1111_1111],
        0x1111_1111,
    );
    check(
        "bfi.b32 %r0, %r1, %r2, 32, 8;",
        &[0xab, 0x1111_1111],
        0x1111_1111,
    );
    // For 64 bits the whole position counts, not its low byte.
    check_64(
        "mov.u32 %r1, 260; mov.u32 %r2, 8; bfe.u64 %d0, %d1, %r1, %r2;",
        &[u64::MAX],
        0,
    );
    check_64(
        "bfi.b64 %d0, %d1, %d2, 60, 8;",
        &[0xff, 0],
        0xf000_0000_0000_0000,
    );
    check("bmsk.clamp.b32 %r0, %r1, %r2;", &[4, 8], 0xff0);
    check("szext.clamp.s32 %r0, %r1, %r2;", &[0x8f, 8], 0xffff_ff8f);
}

#[test]
fn sums_of_products_of_bytes() {
    let sources = [0x8e2d_a590, 0xedea_ee14, 0x248a_9f70];
    check("dp4a.s32.s32 %r0, %r1, %r2, %r3;", &sources, 613_065_134);
    check(
        "dp4a.u32.u32 %r0, %r1, %r2, 1;",
        &[0xffff_ffff, 0x0101_0101],
        1021,
    );
    check(
        "dp2a.lo.s32.u32 %r0, %r1, %r2, 0;",
        &[0xffff_0002, 0x0000_0503],
        1,
    );
    check(
        "vabsdiff4.u32.u32.u32 %r0, %r1, %r2, %r3;",
        &[0x0102_03ff, 0x0201_0100, 0],
        0x0101_02ff,
    );
}

#[test]
fn floats_round_to_nearest_and_prefer_numbers() {
    check_f32("add.f32 %r0, %r1, %r2;", &[0.1, 0.2], 0.1 + 0.2);
    check_f32(
        "fma.rn.f32 %r0, %r1, %r2, %r3;",
        &[1.000_000_1, 1.000_000_1, -1.0],
        1.000_000_1f32.mul_add(1.000_000_1, -1.0),
    );
    check_f32("div.rn.f32 %r0, %r1, %r2;", &[1.0, 3.0], 1.0 / 3.0);
    check_f32("sqrt.rn.f32 %r0, %r1;", &[2.0], 2f32.sqrt());
    check_f32("rcp.rn.f32 %r0, %r1;", &[3.0], 1.0 / 3.0);
    check_f32("min.f32 %r0, %r1, %r2;", &[0.0, -0.0], -0.0);
    check_f32("max.f32 %r0, %r1, %r2;", &[-0.0, 0.0], 0.0);
    check_f32("max.f32 %r0, %r1, %r2;", &[f32::NAN, 2.0], 2.0);
    check(
        "min.f32 %r0, %r1, %r2;",
        &[0x7fc0_0001, 0xffc0_0000],
        0x7fff_ffff,
    );
    check(
        "sub.f32 %r0, %r1, %r1;",
        &[f32::INFINITY.to_bits()],
        0x7fff_ffff,
    );
    check_f32("add.f32 %r0, %r1, 0f3F800000;", &[1.5], 2.5);
    check_f32("neg.f32 %r0, %r1;", &[0.0], -0.0);
    check_f32("mul.f32 %r0, %r1, 0f00000001;", &[1.0], f32::from_bits(1));
    check_64(
        "fma.rn.f64 %d0, %d1, %d2, 0dBFF0000000000000;",
        &[1.1f64.to_bits(), 1.1f64.to_bits()],
        1.1f64.mul_add(1.1, -1.0).to_bits(),
    );
    check_64(
        "sqrt.rn.f64 %d0, %d1;",
        &[2f64.to_bits()],
        2f64.sqrt().to_bits(),
    );
}

#[test]
fn comparisons_with_nan() {
    let set = |name: &str, a: f32, b: f32| {
        let body = format!("setp.{name}.f32 %p1, %r1, %r2; selp.u32 %r0, 1, 0, %p1;");
        value_32(&body, &[a.to_bits(), b.to_bits()])
    };
    let nan = f32::NAN;
    for (name, of_numbers, of_nan) in [
        ("eq", 0, 0),
        ("ne", 1, 0),
        ("lt", 1, 0),
        ("le", 1, 0),
        ("gt", 0, 0),
        ("ge", 0, 0),
        ("equ", 0, 1),
        ("neu", 1, 1),
        ("ltu", 1, 1),
        ("leu", 1, 1),
        ("gtu", 0, 1),
        ("geu", 0, 1),
        ("num", 1, 0),
        ("nan", 0, 1),
    ] {
        assert_eq!(
            (set(name, 1.0, 2.0), set(name, 1.0, nan)),
            (of_numbers, of_nan),
            "{name}"
        );
    }
}

#[test]
fn flushed_comparisons_take_subnormals_for_zero() {
    let body =
        |ftz: &str| format!("setp.gt{ftz}.f32 %p1, %r1, 0f00000000; selp.u32 %r0, 1, 0, %p1;");
    check(&body(""), &[1], 1);
    check(&body(".ftz"), &[1], 0);
    check(&body(".ftz"), &[0x0080_0000], 1);
}

#[test]
fn comparisons_of_integers_and_their_logic() {
    let one = |body: &str, sources: &[u32]| {
        value_32(&format!("{body} selp.u32 %r0, 1, 0, %p1;"), sources)
    };
    assert_eq!(one("setp.lt.s32 %p1, %r1, %r2;", &[u32::MAX, 1]), 1);
    assert_eq!(one("setp.lt.u32 %p1, %r1, %r2;", &[u32::MAX, 1]), 0);
    assert_eq!(one("setp.lo.u32 %p1, %r1, %r2;", &[0, 1]), 1);
    assert_eq!(
        one(
            "setp.eq.u32 %p2, %r1, 5; setp.lt.and.u32 %p1, %r1, %r2, %p2;",
            &[5, 9]
        ),
        1
    );
    assert_eq!(
        one(
            "setp.eq.u32 %p2, %r1, 5; setp.lt.xor.u32 %p1, %r1, %r2, !%p2;",
            &[5, 9]
        ),
        1
    );
    assert_eq!(one("setp.lt.u32 %p2|%p1, %r1, %r2;", &[5, 9]), 0);
    assert_eq!(
        one("setp.lt.u32 %p2, %r1, %r2; not.pred %p1, %p2;", &[5, 9]),
        0
    );
    assert_eq!(one("mov.pred %p1, -1;", &[]), 1);
    check("set.lt.u32.s32 %r0, %r1, %r2;", &[u32::MAX, 1], u32::MAX);
    check("set.gt.f32.s32 %r0, %r1, %r2;", &[5, 1], 1f32.to_bits());
    check(
        "set.gt.u32.f16x2 %r0, %r1, %r2;",
        &[0x3c00_4000, 0x3c00_3c00],
        0xffff,
    );
    check(
        "set.eq.f16x2.f16x2 %r0, %r1, %r2;",
        &[0x3c00_4000, 0x3c00_3c00],
        0x3c00_0000,
    );
    check("slct.u32.s32 %r0, 1, 2, %r1;", &[u32::MAX], 2);
    check("slct.u32.f32 %r0, 1, 2, %r1;", &[f32::NAN.to_bits()], 2);
    check("slct.u32.f32 %r0, 1, 2, %r1;", &[(-0f32).to_bits()], 1);
}

#[test]
fn packing_begins_with_the_low_bits() {
    check_64(
        "mov.b64 {%r1, %r2}, %d1; mov.b64 %d0, {%r2, %r1};",
        &[0x1111_2222_3333_4444],
        0x3333_4444_1111_2222,
    );
    check_64(
        "mov.b64 {%h1, %h2, %h3, %h4}, %d1; mov.b64 %d0, {%h4, %h3, %h2, %h1};",
        &[0x1111_2222_3333_4444],
        0x4444_3333_2222_1111,
    );
    check(
        "mov.b32 {%h1, _}, %r1; mov.b32 %r0, {%h1, %h1};",
        &[0x1234_5678],
        0x5678_5678,
    );
}

#[test]
fn loads_extend_and_stores_cut() {
    check("ld.global.s8 %r0, [%d31];", &[0x80], 0xffff_ff80);
    check("ld.global.u8 %r0, [%d31+1];", &[0x80_ff00], 0xff);
    check("ld.global.s16 %r0, [%d31+2];", &[0x8001_0000], 0xffff_8001);
    check_64(
        "ld.global.s32 %d0, [%d31+4];",
        &[0x8000_0000_0000_0000],
        0xffff_ffff_8000_0000,
    );
    let body = "st.global.u8 [%d30+2], %r1; ld.global.u32 %r0, [%d30];";
    check(body, &[0x1234], 0x34_0000);
    let vector = "ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%d31]; sub.u32 %r0, %r8, %r6;";
    check(vector, &[1, 2, 3, 9], 7);
    let eight = "ld.global.v8.b32 {%r5, %r6, %r7, %r8, %r9, %r10, %r11, %r0}, [%d31];";
    check(eight, &[1, 2, 3, 4, 5, 6, 7, 88], 88);
}

#[test]
fn atomics_give_the_old_value() {
    let on_global = |body: &str, first: u32| {
        value_32(
            &format!("st.global.u32 [%d30], %r1; {body} ld.global.u32 %r0, [%d30];"),
            &[first],
        )
    };
    assert_eq!(on_global("atom.global.add.u32 %r2, [%d30], 5;", 7), 12);
    assert_eq!(
        on_global("atom.global.min.s32 %r2, [%d30], -5;", 7),
        -5i32 as u32
    );
    assert_eq!(
        on_global("atom.global.max.u32 %r2, [%d30], -5;", 7),
        -5i32 as u32
    );
    assert_eq!(on_global("atom.global.cas.b32 %r2, [%d30], 7, 9;", 7), 9);
    assert_eq!(on_global("atom.global.cas.b32 %r2, [%d30], 8, 9;", 7), 7);
    assert_eq!(on_global("atom.global.exch.b32 %r2, [%d30], 3;", 7), 3);
    assert_eq!(on_global("atom.global.dec.u32 %r2, [%d30], 3;", 7), 3);
    assert_eq!(
        on_global(
            "atom.global.add.f32 %r2, [%d30], 0f3F800000;",
            1f32.to_bits()
        ),
        2f32.to_bits()
    );
    // A NaN has the bits of every NaN, wherever it is added.
    let tile = ".shared .align 8 .b8 tile[16];";
    for (space, base) in [("shared", "%d2"), ("global", "%d30")] {
        let body = format!(
            "mov.u64 %d2, tile; st.{space}.u32 [{base}], 0x7fc00001; red.{space}.add.f32 [{base}], 0f3F800000;
             ld.{space}.u32 %r1, [{base}]; st.{space}.u64 [{base}+8], 0x7ff8000000000001;
             red.{space}.add.f64 [{base}+8], 0d3FF0000000000000; ld.{space}.u64 %d3, [{base}+8];
             st.global.u32 [%d30], %r1; st.global.u64 [%d30+8], %d3;"
        );
        let (out, report) = launch(&kernel(tile, &body), (1, 1), 0, &[0], 4);
        assert_eq!(report.findings, [], "{body}");
        assert_eq!(out, [0x7fff_ffff, 0, 0, 0xfff8_0000], "{body}");
    }
    // Subnormals count as zero in global memory.
    assert_eq!(
        on_global("red.global.add.f32 [%d30], 0f00000003;", 0x8000_0004),
        0
    );
    assert_eq!(
        on_global("atom.add.noftz.f16x2 %r2, [%d30], 0x3C004000;", 0x3c00_3c00),
        0x4000_4200
    );
    let inc = "st.global.u32 [%d30], 100; atom.global.inc.u32 %r1, [%d30], 101; atom.global.inc.u32 %r2, [%d30], 101;
        atom.global.inc.u32 %r3, [%d30], 101; mad.lo.u32 %r0, %r1, 1000, %r2; mad.lo.u32 %r0, %r0, 1000, %r3;";
    check(inc, &[], 100_101_000);
    check_64(
        "st.global.u64 [%d30], %d1; atom.global.add.u64 %d2, [%d30], 1; ld.global.u64 %d0, [%d30];",
        &[u64::from(u32::MAX)],
        1 << 32,
    );
}

fn lanes(body: &str) -> Vec<u32> {
    let body = format!("{body} add.u64 %d1, %d30, %d29; st.global.u32 [%d1], %r0;");
    warp("", &body, &[0], 32)
}

#[test]
fn shuffles_of_every_kind_and_width() {
    let want = |f: &dyn Fn(u32) -> u32| (0..32).map(f).collect::<Vec<u32>>();
    let up = lanes("shfl.sync.up.b32 %r0|%p1, %r30, 3, 0, -1;");
    assert_eq!(up, want(&|lane| if lane < 3 { lane } else { lane - 3 }));
    let up_16 = lanes("shfl.sync.up.b32 %r0, %r30, 3, 4096, -1;");
    assert_eq!(
        up_16,
        want(&|lane| if lane % 16 < 3 { lane } else { lane - 3 })
    );
    let down = lanes("shfl.sync.down.b32 %r1|%p1, %r30, 4, 31, -1; selp.u32 %r0, %r1, 99, %p1;");
    assert_eq!(
        down,
        want(&|lane| if lane + 4 > 31 { 99 } else { lane + 4 })
    );
    let bfly = lanes("shfl.sync.bfly.b32 %r0, %r30, 9, 31, -1;");
    assert_eq!(bfly, want(&|lane| lane ^ 9));
    // Segments of 8: c = (32 - 8) << 8 | 31.
    let idx_8 = lanes("shfl.sync.idx.b32 %r0, %r30, 13, 6175, -1;");
    assert_eq!(idx_8, want(&|lane| lane / 8 * 8 + 5));
}

#[test]
fn votes_matches_and_reductions() {
    let ballot =
        lanes("and.b32 %r1, %r30, 3; setp.eq.u32 %p1, %r1, 2; vote.sync.ballot.b32 %r0, %p1, -1;");
    assert_eq!(ballot, [0x4444_4444; 32]);
    let votes = "setp.lt.u32 %p1, %r30, 31; vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1;
        vote.sync.uni.pred %p4, %p1, -1; selp.u32 %r1, 1, 0, %p2; selp.u32 %r2, 2, 0, %p3; selp.u32 %r3, 4, 0, %p4;
        add.u32 %r0, %r1, %r2; add.u32 %r0, %r0, %r3;";
    assert_eq!(lanes(votes), [2; 32]);
    let same = lanes("shr.u32 %r1, %r30, 3; match.any.sync.b32 %r0, %r1, -1;");
    assert_eq!(
        same,
        (0..32u32)
            .map(|lane| 0xffu32 << (lane / 8 * 8))
            .collect::<Vec<_>>()
    );
    assert_eq!(lanes("match.all.sync.b32 %r0|%p1, %r30, -1;"), [0; 32]);
    assert_eq!(lanes("match.all.sync.b32 %r0|%p1, 5, -1;"), [u32::MAX; 32]);
    assert_eq!(lanes("redux.sync.add.u32 %r0, %r30, -1;"), [496; 32]);
    assert_eq!(
        lanes("sub.u32 %r1, %r30, 5; redux.sync.min.s32 %r0, %r1, -1;"),
        [-5i32 as u32; 32]
    );
    assert_eq!(lanes("redux.sync.xor.b32 %r0, %r30, -1;"), [0; 32]);
    let elected = lanes("elect.sync %r1|%p1, -1; selp.u32 %r0, 1, 0, %p1;");
    assert_eq!(elected.iter().sum::<u32>(), 1);
}

#[test]
fn lanes_of_two_branches_vote_among_themselves() {
    let body = "setp.lt.u32 %p1, %r30, 12; @%p1 bra LOW;
        redux.sync.add.u32 %r0, 1, 0xfffff000; bra END; LOW: redux.sync.add.u32 %r0, 1, 0xfff; END:";
    let want: Vec<u32> = (0..32)
        .map(|lane| if lane < 12 { 12 } else { 20 })
        .collect();
    assert_eq!(lanes(body), want);
}

#[test]
fn barriers_count_and_combine() {
    let body = "setp.lt.u32 %p1, %r30, 40; bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p2, 0, %p1;
        bar.red.or.pred %p3, 0, %p1; selp.u32 %r2, 1000, 0, %p2; selp.u32 %r3, 100, 0, %p3;
        add.u32 %r0, %r1, %r2; add.u32 %r0, %r0, %r3; add.u64 %d1, %d30, %d29; st.global.u32 [%d1], %r0;";
    let (out, report) =
        crate::support::launch(&crate::support::kernel("", body), (1, 96), 5, &[0], 96);
    assert_eq!(report.findings, []);
    assert_eq!(out, [140; 96]);
}

#[test]
fn special_registers_say_who_a_thread_is() {
    assert_eq!(
        lanes("mov.u32 %r0, %laneid;"),
        (0..32).collect::<Vec<u32>>()
    );
    assert_eq!(lanes("mov.u32 %r0, %lanemask_lt;")[5], 31);
    assert_eq!(lanes("mov.u32 %r0, %lanemask_ge;")[31], 1 << 31);
    assert_eq!(lanes("mov.u32 %r0, %ntid.x;"), [32; 32]);
    check(
        "mov.u64 %d1, %clock64; add.u32 %r3, %r30, 1; mov.u64 %d2, %clock64; setp.lt.u64 %p1, %d1, %d2; selp.u32 %r0, 1, 0, %p1;",
        &[],
        1,
    );
}

#[test]
fn matrices_come_from_shared_memory_as_fragments() {
    let declarations = ".shared .align 16 .b8 tile[512];";
    let body = |form: &str| {
        format!(
            "mov.u64 %d1, tile; shl.b32 %r1, %r30, 4; cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2;
             shl.b32 %r1, %r30, 3; mul.lo.u32 %r1, %r1, 0x10001; add.u32 %r1, %r1, 0x10000;
             add.u32 %r2, %r1, 0x20002; add.u32 %r3, %r2, 0x20002; add.u32 %r4, %r3, 0x20002;
             st.shared.v4.u32 [%d1], {{%r1, %r2, %r3, %r4}}; bar.warp.sync -1; cvt.u32.u64 %r9, %d1;
             ldmatrix.sync.aligned.m8n8.x4.{form}shared.b16 {{%r5, %r6, %r7, %r8}}, [%r9];
             add.u64 %d3, %d30, %d29; st.global.u32 [%d3], %r5; st.global.u32 [%d3+128], %r8;"
        )
    };
    // Element (row, column) of matrix j holds 64 j + 8 row + column.
    let pair = |low: u32, high: u32| low | high << 16;
    let plain = warp(declarations, &body(""), &[0], 64);
    let transposed = warp(declarations, &body("trans."), &[0], 64);
    for lane in 0..32u32 {
        let (g, t) = (lane / 4, lane % 4);
        let first = 8 * g + 2 * t;
        assert_eq!(plain[lane as usize], pair(first, first + 1));
        assert_eq!(plain[32 + lane as usize], pair(192 + first, 193 + first));
        let first = 16 * t + g;
        assert_eq!(transposed[lane as usize], pair(first, first + 8));
    }
}

#[test]
fn branches_by_index() {
    let body = "and.b32 %r1, %r30, 3; TABLE: .branchtargets A, B, C, B; brx.idx %r1, TABLE;
        A: mov.u32 %r0, 10; bra END; B: mov.u32 %r0, 20; bra END; C: mov.u32 %r0, 30; END:";
    let want: Vec<u32> = (0..32).map(|lane| [10, 20, 30, 20][lane % 4]).collect();
    assert_eq!(lanes(body), want);
}

#[test]
fn atomics_of_several_elements() {
    let body = "mov.u32 %r1, 0f3F800000; mov.u32 %r2, 0f40000000;
        atom.global.add.v2.f32 {%r3, %r4}, [%d31], {%r1, %r2}; red.global.add.v2.f32 [%d31], {%r2, %r2};
        ld.global.v2.u32 {%r5, %r6}, [%d31]; add.f32 %r0, %r6, %r4; add.f32 %r0, %r0, %r5;";
    check(body, &[0, 0], 7f32.to_bits());
}

#[test]
fn a_block_is_a_cluster_of_its_own() {
    let body = "mov.u64 %d1, tile; add.u64 %d2, %d1, %d29; st.shared.u32 [%d2], %r30;
        barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
        xor.b32 %r1, %r30, 64; mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d3, %d1;
        ld.shared.u32 %r2, [%d3]; add.u64 %d4, %d30, %d29; st.global.u32 [%d4], %r2;";
    let ptx = crate::support::kernel(".shared .align 4 .b8 tile[512];", body);
    let (out, report) = crate::support::launch(&ptx, (1, 128), 2, &[0], 128);
    assert_eq!(report.findings, []);
    assert_eq!(
        out,
        (0..128).map(|thread| thread ^ 64).collect::<Vec<u32>>()
    );
}
