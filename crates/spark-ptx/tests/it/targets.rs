//! What a target lacks is refused when a file is loaded, with the first target that has it.
//!
//! Expected are the answers of ptxas 13.0.88 to the same lines for sm_80, 86, 87, 89, 90, 120 and 121a.

use spark_ptx::{LoadError, Module, Target};

/// A line, and the first target with it: 80 for what all of them have; 120 for what 12.x alone has, and
/// only with a suffix.
const LINES: [(&str, u32); 36] = [
    ("redux.sync.add.s32 %r4, %r1, 0xffffffff;", 80),
    ("cp.async.ca.shared.global [%r3], [%d1], 4;", 80),
    ("cp.async.cg.shared.global [%r3], [%d1], 16;", 80),
    ("red.global.add.noftz.f16 [%d1], %h1;", 80),
    ("red.global.add.noftz.f16x2 [%d1], %r1;", 80),
    ("fma.rn.relu.bf16x2 %r4, %r1, %r1, %r1;", 80),
    ("ld.shared::cta.u32 %r4, [%r3];", 80),
    ("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d1];", 80),
    ("movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r1;", 80),
    ("ex2.approx.f16 %h2, %h1;", 80),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, \
         {%r1, %r2, %r1, %r2}, {%r1, %r2}, {%f1, %f2, %f3, %f4};",
        80,
    ),
    ("min.xorsign.abs.f32 %f2, %f1, %f1;", 86),
    ("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", 89),
    ("cvt.rn.f16x2.e5m2x2 %r1, %h1;", 89),
    (
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1, %f2, %f3, %f4}, \
         {%r1, %r2, %r1, %r2}, {%r1, %r2}, {%f1, %f2, %f3, %f4};",
        89,
    ),
    ("griddepcontrol.wait;", 90),
    ("griddepcontrol.launch_dependents;", 90),
    ("barrier.cluster.arrive; barrier.cluster.wait;", 90),
    ("fence.acq_rel.cluster;", 90),
    ("ld.relaxed.cluster.global.u32 %r4, [%d1];", 90),
    ("mov.u32 %r4, %clusterid.x;", 90),
    ("mov.u32 %r4, %cluster_ctarank;", 90),
    ("mov.u32 %r4, %aggr_smem_size;", 90),
    ("elect.sync %r4|%p1, 0xffffffff;", 90),
    ("red.global.add.noftz.bf16 [%d1], %h1;", 90),
    ("atom.global.add.noftz.bf16x2 %r4, [%d1], %r1;", 90),
    ("red.global.add.v2.f32 [%d1], {%f1, %f2};", 90),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r1};", 90),
    ("add.u16x2 %r4, %r1, %r2;", 90),
    ("max.s16x2 %r4, %r1, %r2;", 90),
    ("min.relu.s32 %r4, %r1, %r2;", 90),
    ("tanh.approx.bf16 %h2, %h1;", 90),
    ("min.f32 %f2, %f1, %f1, %f1;", 100),
    (
        "ld.global.v8.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, [%d1];",
        100,
    ),
    ("ld.global.v4.b64 {%d2, %d3, %d4, %d5}, [%d1];", 100),
    ("cvt.rn.satfinite.e2m1x2.f32 %b1, %f1, %f2;", 120),
];

fn load(target: Target, line: &str) -> Result<Module, LoadError> {
    Module::load(&format!(
        ".version 9.0\n.target {target}\n.address_size 64
.visible .entry k(.param .u64 p) {{
.reg .b64 %d<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b16 %h<9>; .reg .b8 %b<2>; .reg .pred %p<4>;
.shared .align 16 .b8 s[1024];
ld.param.u64 %d1, [p];
mov.u32 %r3, s;
{line}
ret; }}"
    ))
}

#[test]
fn every_target_has_what_ptxas_lets_it_have() {
    for (line, first) in LINES {
        for target in Target::ALL {
            let has = match first {
                120 => target.has_family_12_features(),
                first => target.capability() >= first,
            };
            match load(target, line) {
                Ok(_) => assert!(has, "{target} has no {line}"),
                Err(LoadError::NotOnTarget { needs, .. }) => {
                    assert!(!has, "{target} has {line}");
                    assert!(needs.contains(&format!("sm_{first}")), "{needs}: {line}");
                }
                Err(other) => panic!("{target}, {line}: {other}"),
            }
        }
    }
}
