//! The kernels of the bandwidth benchmark touch every value, and none behind the last.

use spark_mem::{KernelSource, LaunchShape, Read, Write};
use spark_testing::driver::Persona;

use crate::stand_in::{check, driver};

const SOURCE: &str = include_str!("../../kernels/bandwidth.cu");

/// Groups of four values: a grid of 64 threads goes round five times, the last time in part.
const N_GROUPS: usize = 300;
/// Fewer threads than groups.
const GRID: LaunchShape = LaunchShape {
    grid: [2, 1, 1],
    block: [32, 1, 1],
    shared_bytes: 0,
};

#[test]
fn bandwidth_kernels_touch_every_value_and_no_more() {
    if !driver().runs_ptx() {
        return;
    }
    let read: KernelSource<(Write<f32>, Read<f32>, u32)> =
        KernelSource::new("bandwidth.cu", SOURCE, "read_f32");
    let write: KernelSource<(Write<f32>, f32, u32)> =
        KernelSource::new("bandwidth.cu", SOURCE, "write_f32");
    let copy: KernelSource<(Write<f32>, Read<f32>, u32)> =
        KernelSource::new("bandwidth.cu", SOURCE, "copy_f32");
    check(Persona::Spark, |_, device| {
        let stream = device.new_stream().unwrap();
        let len = 4 * N_GROUPS;
        let mut input = device.shared::<f32>(len + 4).unwrap();
        let mut out = device.shared::<f32>(len + 4).unwrap();
        for (idx, value) in input.write(&stream).unwrap().iter_mut().enumerate() {
            *value = idx as f32;
        }

        let kernel = device.kernel(&write).unwrap();
        // SAFETY: the kernel writes `N_GROUPS` groups of four, which the buffer has.
        unsafe { kernel.launch(&stream, GRID, (out.view_mut(), 2.5, N_GROUPS as u32)) }.unwrap();
        let written = out.read(&stream).unwrap().to_vec();
        assert_eq!(written[..len], [2.5; 4 * N_GROUPS]);
        assert_eq!(written[len..], [0.0; 4], "behind the last");

        let kernel = device.kernel(&copy).unwrap();
        let views = (out.view_mut(), input.view(), N_GROUPS as u32);
        // SAFETY: the kernel copies `N_GROUPS` groups of four, which both have.
        unsafe { kernel.launch(&stream, GRID, views) }.unwrap();
        let copied = out.read(&stream).unwrap().to_vec();
        assert_eq!(copied[..len], input.read(&stream).unwrap()[..len]);
        assert_eq!(copied[len..], [0.0; 4], "behind the last");

        // A value that outweighs all others shows where it is read, and only there.
        let kernel = device.kernel(&read).unwrap();
        for at in [0, 1, 2, 3, 4 * 64, len / 2, len - 1, len] {
            input.write(&stream).unwrap().fill(1.0);
            input.write(&stream).unwrap()[at] = -1e6;
            out.write(&stream).unwrap()[0] = 0.0;
            let views = (out.view_mut(), input.view(), N_GROUPS as u32);
            // SAFETY: the kernel reads `N_GROUPS` groups of four and may write the first value.
            unsafe { kernel.launch(&stream, GRID, views) }.unwrap();
            let is_seen = out.read(&stream).unwrap()[0] == 1.0;
            assert_eq!(is_seen, at < len, "value {at}");
        }
    });
}
