//! A wave along a string, stepped on a device: the work of `zero_copy` and `explicit_copy`.
//!
//! ```text
//! CPU plucks the string ──> device steps it N_STEPS times ──> CPU measures its energy
//! ```

use std::time::{Duration, Instant};

use sparkpilot::mem::{Buffer, Device, KernelSource, LaunchShape, MemError, Read, Write};

/// Points of the string.
const N: usize = 1 << 16;
/// Steps between the CPU's first and last look.
pub(crate) const N_STEPS: usize = 300;
/// Square of the wave's speed, in points per step; below 1 the scheme is stable.
const C2: f32 = 0.25;

type Step = (Write<f32>, Read<f32>, Read<f32>, f32, u32);

const STEP: KernelSource<Step> =
    KernelSource::new("wave.cu", include_str!("wave.cu"), "wave_step_f32").with_host(
        |_: LaunchShape, (next, now, before, c2, _)| {
            for idx in 1..next.len() - 1 {
                let pull = now[idx - 1] - 2.0 * now[idx] + now[idx + 1];
                next[idx] = 2.0 * now[idx] - before[idx] + c2 * pull;
            }
        },
    );

/// What a run found.
pub(crate) struct Report {
    /// Where the CPU wrote.
    pub(crate) host_address: u64,
    /// Where the device read it.
    pub(crate) device_address: Option<u64>,
    /// Launches and waiting.
    pub(crate) duration: Duration,
    /// Energy before and after, which the scheme keeps up to rounding.
    pub(crate) energy_at_start: f64,
    pub(crate) energy: f64,
}

/// Plucks, steps, looks.
pub(crate) fn run(device: &Device) -> Result<Report, MemError> {
    let stream = device.new_stream()?;
    let step = device.kernel(&STEP)?;
    let mut before = device.shared::<f32>(N)?;
    let mut now = device.shared::<f32>(N)?;
    let mut next = device.shared::<f32>(N)?;

    let mut plucked = now.overwrite(&stream)?;
    for (idx, point) in plucked.iter_mut().enumerate() {
        let from_middle = (idx as f32 - N as f32 / 2.0) / 500.0;
        *point = (-from_middle * from_middle).exp();
    }
    let host_address = plucked.as_ptr() as u64;
    // At rest: one step ago every point was where it is.
    before.overwrite(&stream)?.copy_from_slice(&plucked);
    let energy_at_start = energy(&plucked, &plucked);
    plucked.finish()?;
    let device_address = now.device_address();

    let started = Instant::now();
    let shape = LaunchShape::for_elements(N, 256)?;
    for _ in 0..N_STEPS {
        let views = (next.view_mut(), now.view(), before.view(), C2, N as u32);
        // SAFETY: all three have the `N` points that the kernel touches.
        unsafe { step.launch(&stream, shape, views) }?;
        rotate(&mut before, &mut now, &mut next);
    }
    stream.synchronize()?;
    Ok(Report {
        host_address,
        device_address,
        duration: started.elapsed(),
        energy_at_start,
        energy: energy(&before.read(&stream)?, &now.read(&stream)?),
    })
}

fn rotate(before: &mut Buffer<f32>, now: &mut Buffer<f32>, next: &mut Buffer<f32>) {
    std::mem::swap(before, now);
    std::mem::swap(now, next);
}

/// Of motion and of stretch; the scheme keeps exactly this sum.
fn energy(before: &[f32], now: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value) * f64::from(value);
    let motion = before.iter().zip(now).map(|(b, n)| square(n - b));
    let stretch = before
        .windows(2)
        .zip(now.windows(2))
        .map(|(b, n)| f64::from(C2) * f64::from(b[1] - b[0]) * f64::from(n[1] - n[0]));
    motion.sum::<f64>() + stretch.sum::<f64>()
}
