//! Any text as PTX: refused, or launched on little memory for few instructions.
//!
//! ```text
//! bytes ──load──> module ──launch──> report       nothing panics, hangs or takes much memory
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use spark_ptx::{LaunchConfig, Module, OwnedMemory};

/// A kernel with loads, stores, a branch, shared memory and a barrier.
const SEED: &str = ".version 9.0 .target sm_121a .address_size 64
.global .align 4 .u32 counter = 7;
.visible .entry k(.param .u64 out, .param .u64 in) .maxntid 64
{ .reg .pred %p<4>; .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .b64 %d<9>; .shared .align 16 .b8 tile[256];
ld.param.u64 %d1, [out]; ld.param.u64 %d2, [in]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;
add.s64 %d4, %d2, %d3; ld.global.f32 %f1, [%d4]; mov.u64 %d5, tile; add.s64 %d6, %d5, %d3;
st.shared.f32 [%d6], %f1; bar.sync 0; setp.gt.u32 %p1, %r1, 15; @%p1 bra END;
ld.shared.f32 %f2, [%d6+64]; fma.rn.f32 %f1, %f1, %f2, 0f3F800000; END:
shfl.sync.bfly.b32 %r2|%p2, %r1, 1, 31, -1; red.global.add.u32 [counter], %r2;
add.s64 %d7, %d1, %d3; st.global.f32 [%d7], %f1; ret; }
";

fuzz_target!(
    init: write_seeds(),
    |bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(module) = Module::load(text) else { return };
        let of_globals = module.globals().iter().map(|it| it.len_bytes).fold(0, u64::saturating_add);
        if of_globals > 1 << 20 {
            return;
        }
        let mut memory = OwnedMemory::new();
        let addresses = [memory.allocate(256), memory.allocate_u32(&[1; 64])];
        let mut config = LaunchConfig::new([2, 1, 1], [64, 1, 1]);
        config.budget = 5_000;
        let Ok(globals) = module.allocate_globals(&mut memory) else {
            return;
        };
        config.globals = globals;
        for entry in module.entries() {
            let mut params: Vec<u8> = addresses.iter().flat_map(|it| it.to_le_bytes()).collect();
            params.resize(entry.parameter_bytes as usize, 0);
            let _ = module.launch(&entry.name, &config, &params, &memory, 1);
        }
    }
);

/// Puts the first inputs into the folder that libFuzzer is started with.
fn write_seeds() {
    let Some(folder) = std::env::args().skip(1).find(|word| !word.starts_with('-')) else {
        return;
    };
    if std::path::Path::new(&folder).is_dir() {
        let _ = std::fs::write(format!("{folder}/seed-kernel"), SEED);
    }
}
