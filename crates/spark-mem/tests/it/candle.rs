//! Buffers as tensors of candle and back, on every device there is without a GPU.

use candle_core::{DType, Device as CandleDevice, Tensor};
use half::{bf16, f16};
use spark_mem::{Device, Element, MemError};

fn devices() -> [Device; 2] {
    [Device::host(), Device::emulated(1 << 20)]
}

/// The address of a tensor's first element.
fn address<T: candle_core::WithDType>(tensor: &Tensor) -> usize {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        candle_core::Storage::Cpu(storage) => {
            T::cpu_storage_as_slice(storage).unwrap()[layout.start_offset()..].as_ptr() as usize
        }
        _ => unreachable!("no device but the CPU is built in"),
    }
}

#[test]
fn a_vec_becomes_a_tensor_where_it_lies() {
    let device = Device::host();
    let stream = device.new_stream().unwrap();
    let given: Vec<f32> = (0..24_u8).map(f32::from).collect();
    let place = given.as_ptr() as usize;
    let mut buffer = device.buffer_from_vec(&stream, given).unwrap();
    buffer.write(&stream).unwrap()[5] = -1.0;
    let tensor = buffer.into_tensor(&stream, (2, 3, 4)).unwrap();
    assert_eq!(device.stats().copies(), 0);
    assert_eq!(address::<f32>(&tensor), place);
    let values = tensor.to_vec3::<f32>().unwrap();
    assert_eq!(values[0][1], [4.0, -1.0, 6.0, 7.0]);
    assert_eq!(values[1][2], [20.0, 21.0, 22.0, 23.0]);
}

#[test]
fn other_buffers_become_tensors_by_one_copy() {
    for device in devices() {
        let stream = device.new_stream().unwrap();
        let mut buffer = device.shared::<f64>(6).unwrap();
        buffer
            .upload(&stream, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .unwrap();
        let before = device.stats();
        let tensor = buffer.into_tensor(&stream, (3, 2)).unwrap();
        assert_eq!(device.stats().since(&before).copies(), 1);
        let rows = tensor.to_vec2::<f64>().unwrap();
        assert_eq!(rows, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    }
}

#[test]
fn tensors_are_uploaded_in_any_order() {
    let base = Tensor::arange(0_u32, 60, &CandleDevice::Cpu).unwrap();
    let base = base.reshape((3, 4, 5)).unwrap();
    let cases = [
        base.clone(),
        base.narrow(0, 1, 2).unwrap(),
        base.narrow(1, 1, 2).unwrap(),
        base.transpose(0, 2).unwrap(),
        base.permute((1, 2, 0)).unwrap().narrow(1, 2, 3).unwrap(),
        base.narrow(2, 4, 1)
            .unwrap()
            .broadcast_as((3, 4, 6))
            .unwrap(),
        base.narrow(0, 0, 0).unwrap(),
        base.get(2).unwrap().get(1).unwrap().get(3).unwrap(),
    ];
    for device in devices() {
        let stream = device.new_stream().unwrap();
        for tensor in &cases {
            let mut buffer = device.shared::<u32>(tensor.elem_count()).unwrap();
            let before = device.stats();
            buffer.upload_tensor(&stream, tensor).unwrap();
            let copies = device.stats().since(&before);
            assert!(copies.copies() <= 1, "{:?}: {copies:?}", tensor.layout());
            let wanted = tensor.flatten_all().unwrap().to_vec1::<u32>().unwrap();
            assert_eq!(
                *buffer.read(&stream).unwrap(),
                *wanted,
                "{:?}",
                tensor.layout()
            );
        }
    }
}

fn comes_back<T: Element + candle_core::WithDType>(values: &[T]) {
    for device in devices() {
        let stream = device.new_stream().unwrap();
        let tensor = Tensor::from_slice(values, values.len(), &CandleDevice::Cpu).unwrap();
        let mut buffer = device.shared::<T>(values.len()).unwrap();
        buffer.upload_tensor(&stream, &tensor).unwrap();
        let back = buffer.into_tensor(&stream, values.len()).unwrap();
        assert_eq!(back.dtype(), T::DTYPE);
        assert_eq!(back.to_vec1::<T>().unwrap(), values);
    }
}

#[test]
fn every_shared_type_comes_back() {
    comes_back::<u8>(&[0, 1, 255]);
    comes_back::<u32>(&[0, 1, u32::MAX]);
    comes_back::<i16>(&[0, -1, i16::MIN]);
    comes_back::<i32>(&[0, -1, i32::MIN]);
    comes_back::<i64>(&[0, -1, i64::MIN]);
    comes_back::<f16>(&[f16::MAX, f16::NEG_INFINITY, f16::from_f32(0.1)]);
    comes_back::<bf16>(&[bf16::MAX, bf16::NEG_INFINITY, bf16::from_f32(0.1)]);
    comes_back::<f32>(&[f32::MIN_POSITIVE, -0.1]);
    comes_back::<f64>(&[f64::MIN_POSITIVE, -0.1]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::host();
    let stream = device.new_stream().unwrap();
    let ones = |n: usize| device.buffer_from_vec(&stream, vec![1.0_f32; n]).unwrap();
    let mut buffer = ones(6);
    let tensor = Tensor::ones((2, 4), DType::F32, &CandleDevice::Cpu).unwrap();
    for wrong in [tensor.clone(), tensor.t().unwrap()] {
        assert!(matches!(
            buffer.upload_tensor(&stream, &wrong),
            Err(MemError::LengthMismatch {
                got: 8,
                want: 6,
                ..
            })
        ));
    }
    let doubles = Tensor::ones(6, DType::F64, &CandleDevice::Cpu).unwrap();
    let refused = buffer.upload_tensor(&stream, &doubles);
    assert!(matches!(refused, Err(MemError::Candle(_))), "{refused:?}");
    assert_eq!(*buffer.read(&stream).unwrap(), [1.0; 6]);
    assert!(matches!(
        buffer.into_tensor(&stream, (2, 4)),
        Err(MemError::LengthMismatch {
            got: 8,
            want: 6,
            ..
        })
    ));
    assert!(matches!(
        ones(0).into_tensor(&stream, (usize::MAX, 2)),
        Err(MemError::SizeOverflow { .. })
    ));
    let none = ones(0).into_tensor(&stream, (0, 3)).unwrap();
    assert_eq!(none.dims(), [0, 3]);
}
