//! One buffer whose parts are used at the same time.

use spark_mem::{Device, LaunchShape, MemError};

use super::{N, filled, ramp, values};
use crate::kernels::{ACCUMULATE, SCALE};

pub(crate) fn one_launch_reads_and_writes_parts_of_one_buffer(device: &Device) {
    let (first, second) = (device.new_stream().unwrap(), device.new_stream().unwrap());
    let mut arena = filled(device, &first, device.private_kind(), &ramp(3 * N));
    let (scale, add) = (
        device.kernel(&SCALE).unwrap(),
        device.kernel(&ACCUMULATE).unwrap(),
    );
    let shape = LaunchShape::for_elements(N, 128).unwrap();
    let n = N as u32;
    {
        let parts = arena.parts();
        let (input, again) = (parts.read(0..N).unwrap(), parts.read(0..N).unwrap());
        let out = parts.write(N..2 * N).unwrap();
        // SAFETY: all parts have the `N` elements that the kernels touch.
        unsafe { scale.launch(&first, shape, (out, input, 2.0, n)) }.unwrap();
        // On another stream, after the first: they share the allocation.
        let sum = parts.write(2 * N..3 * N).unwrap();
        // SAFETY: as above.
        unsafe { add.launch(&second, shape, (sum, again, n)) }.unwrap();
    }
    let [sum, doubled] = arena.split_mut([2 * N..3 * N, N..2 * N]).unwrap();
    // SAFETY: as above.
    unsafe { add.launch(&first, shape, (sum, doubled.into_view(), n)) }.unwrap();
    let got = values(&arena, &second);
    let before = ramp(3 * N);
    for idx in 0..N {
        assert_eq!(got[idx], before[idx]);
        assert_eq!(got[N + idx], 2.0 * before[idx]);
        assert_eq!(
            got[2 * N + idx],
            before[2 * N + idx] + before[idx] + 2.0 * before[idx]
        );
    }
}

#[allow(clippy::reversed_empty_ranges, reason = "bad input of this test")]
pub(crate) fn parts_that_overlap_are_refused(device: &Device) {
    let mut arena = device.buffer::<f32>(device.private_kind(), 100).unwrap();
    let parts = arena.parts();
    let _input = parts.read(10..50).unwrap();
    let _out = parts.write(50..60).unwrap();
    for (start, end, lent) in [
        (49, 51, 10..50),
        (50, 51, 50..60),
        (0, 100, 10..50),
        (59, 61, 50..60),
    ] {
        match parts.write(start..end) {
            Err(MemError::Overlap { asked, lent: got }) => {
                assert_eq!((asked, got), (start..end, lent));
            }
            other => panic!("{start}..{end}: {other:?}"),
        }
    }
    let told = parts.read(55..70).unwrap_err().to_string();
    assert!(told.contains("55..70") && told.contains("50..60"), "{told}");
    assert!(parts.read(0..50).is_ok(), "what is read may be read again");
    assert!(parts.write(60..100).is_ok() && parts.write(55..55).is_ok());
    for range in [0..101, 101..101, 5..4, 0..usize::MAX] {
        assert!(matches!(
            parts.read(range.clone()),
            Err(MemError::OutOfRange { .. })
        ));
        assert!(matches!(
            parts.write(range),
            Err(MemError::OutOfRange { .. })
        ));
    }
    let overlapping = arena.split_mut([0..50, 49..100]).map(drop);
    assert!(
        matches!(overlapping, Err(MemError::Overlap { .. })),
        "{overlapping:?}"
    );
}

pub(crate) fn parts_have_types_of_their_own(device: &Device) {
    let stream = device.new_stream().unwrap();
    let mut arena = device
        .buffer::<u8>(device.private_kind(), 8 * N + 1)
        .unwrap();
    let source = filled(device, &stream, device.private_kind(), &ramp(N));
    {
        let parts = arena.parts();
        let floats = parts
            .write(4 * N..8 * N)
            .unwrap()
            .reinterpret::<f32>()
            .unwrap();
        assert_eq!((floats.len(), floats.len_bytes()), (N, 4 * N));
        stream.copy(source.view(), floats).unwrap();
        let odd = parts.read(1..5).unwrap().reinterpret::<u32>();
        assert!(
            matches!(
                odd,
                Err(MemError::Misaligned {
                    offset: 1,
                    align: 4
                })
            ),
            "{odd:?}"
        );
        let cut = parts.read(0..7).unwrap().reinterpret::<u32>();
        assert!(
            matches!(
                cut,
                Err(MemError::LengthMismatch {
                    got: 7,
                    want: 4,
                    ..
                })
            ),
            "{cut:?}"
        );
    }
    let bytes = arena.read(&stream).unwrap();
    let wanted: Vec<u8> = ramp(N)
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect();
    assert_eq!(bytes[4 * N..8 * N], wanted);
}
