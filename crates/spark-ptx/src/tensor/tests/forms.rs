//! Which forms of `mma` exist, where, and with how many registers; what is refused.

use super::tile::{E2M1, E4M3, pack_a, pack_b, pack_c};
use crate::tensor::{MmaForm, TensorError};
use crate::{FormError, Target};

fn form(text: &str) -> Result<MmaForm, FormError> {
    MmaForm::parse(&text.split('.').collect::<Vec<_>>())
}

#[track_caller]
fn check_registers(text: &str, want: [usize; 4]) {
    let counts = form(text).unwrap().registers();
    assert_eq!([counts.a, counts.b, counts.c, counts.d], want, "{text}");
}

#[test]
fn register_counts_are_those_of_the_manual() {
    check_registers("sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", [2, 1, 2, 2]);
    check_registers(
        "sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        [4, 2, 4, 4],
    );
    check_registers(
        "sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
        [2, 1, 4, 4],
    );
    check_registers(
        "sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        [4, 2, 4, 4],
    );
    check_registers("sync.aligned.m16n8k16.row.col.s32.u8.s8.s32", [2, 1, 4, 4]);
    check_registers("sync.aligned.m16n8k32.row.col.s32.u4.s4.s32", [2, 1, 4, 4]);
    check_registers("sync.aligned.m16n8k64.row.col.s32.u4.s4.s32", [4, 2, 4, 4]);
    check_registers(
        "sync.aligned.m16n8k32.row.col.f16.e5m2.e4m3.f16",
        [4, 2, 2, 2],
    );
    check_registers(
        "sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32",
        [4, 2, 4, 4],
    );
    check_registers(
        "sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        [4, 2, 4, 4],
    );
}

#[test]
fn the_kind_may_stand_before_or_behind_the_shape() {
    let behind = form("sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32");
    let before = form("sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e4m3.e2m1.f32");
    assert_eq!(behind.unwrap(), before.unwrap());
    let implied =
        form("sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0");
    let written = form(
        "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
    );
    assert_eq!(implied.unwrap(), written.unwrap());
}

#[test]
fn forms_that_do_not_exist_are_refused() {
    for text in [
        "aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "sync.m16n8k16.row.col.f32.f16.f16.f32",
        "sync.aligned.row.col.f32.f16.f16.f32",
        "sync.aligned.m16n8k16.col.f32.f16.f16.f32",
        "sync.aligned.m16n8k16.row.col.f32.f16.f16",
        "sync.aligned.m16n8k16.row.col.f32.f16.f16.f16",
        "sync.aligned.m16n8k16.row.col.f16.f16.f16.f32",
        "sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16",
        "sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32",
        "sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        "sync.aligned.m16n8k4.row.col.f32.f16.f16.f32",
        "sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32",
        "sync.aligned.m16n8k32.row.col.s32.s8.u4.s32",
        "sync.aligned.m16n8k64.row.col.s32.s8.s8.s32",
        "sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f32",
        "sync.aligned.m16n8k32.row.col.f32.e4m3.e2m1.f32",
        "sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32",
        "sync.aligned.m16n8k32.row.col.kind::f8f6f4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
        "sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.f32.e2m1.e2m1.f32.ue8m0",
        "sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e2m1.f32",
        "sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f16.e2m1.e2m1.f16.ue8m0",
        "sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e2m1.f32.ue4m3",
        "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
        "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m3.e2m1.f32.ue8m0",
        "sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
        "sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3",
        "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.relu",
    ] {
        assert!(form(text).is_err(), "{text}");
    }
    for text in [
        "sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        "sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        "sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
        "sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc",
    ] {
        let error = form(text).unwrap_err();
        assert!(matches!(error, FormError::NotInterpreted { .. }), "{error}");
    }
}

/// The manual's table of targets, as ptxas 13.0.88 accepts them.
#[test]
fn forms_exist_on_the_targets_of_the_table() {
    let all = Target::ALL.to_vec();
    let from_89: Vec<Target> = all
        .iter()
        .copied()
        .filter(|target| target.capability() >= 89)
        .collect();
    let family = vec![
        Target::Sm120a,
        Target::Sm120f,
        Target::Sm121a,
        Target::Sm121f,
    ];
    for (text, want) in [
        ("sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", &all),
        ("sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", &all),
        ("sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", &all),
        ("sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32", &from_89),
        (
            "sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32",
            &family,
        ),
        (
            "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
            &family,
        ),
    ] {
        let form = form(text).unwrap();
        let has: Vec<Target> = all
            .iter()
            .copied()
            .filter(|target| form.check_target(*target).is_ok())
            .collect();
        assert_eq!(&has, want, "{text}");
    }
}

#[test]
fn wrong_register_counts_are_refused_and_leave_d_alone() {
    let form = form("sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").unwrap();
    let (a, b, c) = (vec![[0; 32]; 4], vec![[0; 32]; 2], vec![[0; 32]; 4]);
    let mut d = vec![[7; 32]; 4];
    for (a, b, c, operand) in [
        (&a[..3], &b[..], &c[..], "a"),
        (&a[..], &b[..1], &c[..], "b"),
        (&a[..], &b[..], &c[..2], "c"),
    ] {
        let error = form
            .execute(a, b, c, None, Target::Sm80, &mut d)
            .unwrap_err();
        assert!(
            matches!(error, TensorError::RegisterCount { operand: name, .. } if name == operand)
        );
    }
    let error = form
        .execute(&a, &b, &c, None, Target::Sm80, &mut d[..2])
        .unwrap_err();
    assert_eq!(
        error,
        TensorError::RegisterCount {
            operand: "d",
            got: 2,
            want: 4
        }
    );
    assert!(d.iter().flatten().all(|word| *word == 7));
}

#[test]
fn padding_bits_are_refused_wherever_they_stand() {
    let sub_byte = form("sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32").unwrap();
    let bytes = form("sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32").unwrap();
    let c = pack_c(32, |_, _| 0);
    let clean_a = pack_a(32, 8, |_, _| E2M1.code(1));
    let clean_b = pack_b(32, 8, |_, _| 0x3F);
    let mut d = vec![[0; 32]; 4];
    sub_byte
        .execute(&clean_a, &clean_b, &c, None, Target::Sm121a, &mut d)
        .unwrap();
    for bit in 0..32 {
        let mut a = clean_a.clone();
        a[3][17] ^= 1 << bit;
        let result = sub_byte.execute(&a, &clean_b, &c, None, Target::Sm121a, &mut d);
        if matches!(bit % 8, 0 | 1 | 6 | 7) {
            let want = TensorError::Padding {
                operand: "a",
                lane: 17,
                register: 3,
                byte: bit / 8,
            };
            assert_eq!(result, Err(want));
        } else {
            assert_eq!(result, Ok(()));
        }
        let mut b = clean_b.clone();
        b[1][5] ^= 1 << bit;
        let result = sub_byte.execute(&clean_a, &b, &c, None, Target::Sm121a, &mut d);
        assert_eq!(result.is_err(), bit % 8 >= 6, "bit {bit}");
    }
    // Eight-bit types have none.
    let a = pack_a(32, 8, |_, _| E4M3.code(-4));
    bytes
        .execute(
            &a,
            &pack_b(32, 8, |_, _| 0xC3),
            &c,
            None,
            Target::Sm121a,
            &mut d,
        )
        .unwrap();
}
