//! The suite on the host and on the emulated card, and what only they do.

use spark_mem::{BufferKind, Device, MemError};

use crate::conformance::{self, for_each_case};
use crate::logged;

mod host {
    use super::*;

    macro_rules! tests {
        ($($case:ident,)+) => {
            $(#[test]
            fn $case() {
                conformance::$case(&Device::host());
            })+
        };
    }
    for_each_case!(tests);
}

mod emulated {
    use super::*;

    macro_rules! tests {
        ($($case:ident,)+) => {
            $(#[test]
            fn $case() {
                conformance::$case(&Device::emulated(1 << 30));
            })+
        };
    }
    for_each_case!(tests);
}

#[test]
fn an_emulated_card_can_be_full() {
    let device = Device::emulated(10_000);
    let _most = device.buffer::<u8>(BufferKind::Device, 9000).unwrap();
    match device.buffer::<u8>(BufferKind::Device, 1001) {
        Err(MemError::OutOfMemory {
            kind: BufferKind::Device,
            asked: 1001,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    drop(device.buffer::<u8>(BufferKind::Device, 1000).unwrap());
}

#[test]
fn a_budget_refuses_with_its_figures() {
    let device = Device::host_with(1000);
    let _first = device.shared::<u8>(600).unwrap();
    match device.shared::<u8>(401) {
        Err(MemError::OverBudget {
            asked: 401,
            available: 400,
            why,
        }) => {
            assert!(why.contains("1000"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_copy_of_a_buffer_is_warned_of_once() {
    let device = Device::emulated(1 << 20);
    let stream = device.new_stream().unwrap();
    let lines = logged::during(|| {
        let mut buffer = device.shared::<f32>(10).unwrap();
        for _ in 0..3 {
            buffer.write(&stream).unwrap().fill(1.0);
            assert_eq!(buffer.read(&stream).unwrap()[9], 1.0);
        }
    });
    let warnings: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("WARN"))
        .collect();
    assert_eq!(warnings.len(), 1, "{lines:?}");
    assert!(warnings[0].contains("performance: 40 bytes"), "{lines:?}");
}

#[test]
fn shared_memory_is_not_warned_of() {
    let lines = logged::during(|| conformance::values_come_back(&Device::host()));
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn emulated_device_memory_is_no_pointer() {
    let device = Device::emulated(1 << 20);
    let buffer = device.buffer::<u8>(BufferKind::Device, 100).unwrap();
    let address = buffer.device_address().unwrap();
    assert_eq!(
        address >> 48,
        0xDEC0,
        "not canonical: using it on the host faults"
    );
}
