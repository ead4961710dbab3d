//! How many instructions of warps the interpreter runs in a second, all checks on.
//!
//! Run: `cargo run --release --example throughput -p spark-ptx`, with `-- global` for the loops of that name alone

#![allow(clippy::print_stdout, reason = "prints what it measured")]

use std::time::Instant;

use spark_ptx::{LaunchConfig, Module, OwnedMemory};

/// Loops of one kind each. `%r1` counts down, `%d3` and `%d4` are places in memory.
const LOOPS: [(&str, &str); 6] = [
    (
        "arithmetic",
        "mad.lo.u32 %r2, %r2, %r3, %r4; xor.b32 %r3, %r2, %r4; add.u32 %r4, %r3, 7;
         fma.rn.f32 %r5, %r6, %r6, %r5; add.f32 %r6, %r6, %r5; mul.f32 %r6, %r6, %r7;",
    ),
    (
        "doubles",
        "fma.rn.f64 %d5, %d6, %d6, %d5; add.rn.f64 %d6, %d6, %d5; mul.rn.f64 %d6, %d6, %d7;",
    ),
    (
        "addresses",
        "mul.wide.u32 %d5, %r3, 4; add.s64 %d6, %d5, %d6; shl.b64 %d5, %d6, 2;
         cvt.u32.u64 %r4, %d6; setp.lt.u32 %p2, %r4, %r3; selp.b32 %r3, %r4, %r3, %p2;",
    ),
    (
        "shared",
        "st.shared.u32 [%d4], %r2; ld.shared.u32 %r3, [%d4]; add.u32 %r2, %r2, %r3;
         ld.shared.u32 %r4, [%d4];",
    ),
    (
        "global",
        "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d3]; ld.global.u32 %r6, [%d8];
         st.global.u32 [%d8], %r2; st.global.v4.u32 [%d3], {%r2, %r3, %r4, %r5};",
    ),
    (
        "divergent",
        "and.b32 %r5, %r30, 1; setp.eq.u32 %p2, %r5, 0; @%p2 bra EVEN; add.u32 %r2, %r2, 3;
         mul.lo.u32 %r2, %r2, %r3; bra JOIN; EVEN: sub.u32 %r2, %r2, 1; JOIN: add.u32 %r4, %r4, %r2;",
    ),
];

fn kernel(body: &str) -> String {
    format!(
        ".version 9.0 .target sm_121a .address_size 64
.visible .entry k(.param .u64 memory)
{{
.reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %d<16>;
.shared .align 16 .b8 place[8192];
ld.param.u64 %d1, [memory];
mov.u32 %r30, %tid.x; mov.u32 %r29, %ctaid.x; mov.u32 %r28, %ntid.x;
mad.lo.u32 %r27, %r29, %r28, %r30;
mul.wide.u32 %d3, %r27, 16; add.s64 %d3, %d3, %d1;
mul.wide.u32 %d8, %r27, 4; add.s64 %d8, %d8, %d1; add.s64 %d8, %d8, 1048576;
mov.u64 %d2, place; mul.wide.u32 %d4, %r30, 4; add.s64 %d4, %d4, %d2;
mov.u32 %r2, 1; mov.u32 %r3, 2; mov.u32 %r4, 3; mov.u32 %r5, 0; mov.f32 %r6, 0f3F800000; mov.f32 %r7, 0f3F000000;
mov.f64 %d5, 0d3FF0000000000000; mov.f64 %d6, 0d3FE0000000000000; mov.f64 %d7, 0d3FE0000000000000;
mov.u32 %r1, 2000;
LOOP:
{body}
sub.u32 %r1, %r1, 1;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra LOOP;
ret;
}}"
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut memory = OwnedMemory::new();
    let address = memory.allocate_with(&vec![0; 4 << 20]);
    let config = LaunchConfig::new([16, 1, 1], [256, 1, 1]);
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|it| it == name);
    if let Some(unknown) = wanted.iter().find(|it| LOOPS.iter().all(|of| of.0 != **it)) {
        let names = LOOPS.map(|of| of.0).join(", ");
        return Err(format!("no loop is called `{unknown}`; there are {names}").into());
    }
    for (name, body) in LOOPS.into_iter().filter(|it| is_wanted(it.0)) {
        let module = Module::load(&kernel(body))?;
        let params = address.to_le_bytes();
        let mut best = 0f64;
        for _ in 0..3 {
            let start = Instant::now();
            let report = module.launch("k", &config, &params, &memory, 1)?;
            let rate = report.instructions as f64 / start.elapsed().as_secs_f64() / 1e6;
            best = best.max(rate);
            assert!(report.findings.is_empty(), "{}", report.findings[0]);
        }
        println!("{name:12} {best:7.1} million instructions of warps per second and thread");
    }
    Ok(())
}
