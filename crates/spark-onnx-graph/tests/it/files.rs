//! Tensors in safetensors files, and views of these.

use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView as FileTensor};
use safetensors::{SafeTensors, serialize};
use spark_onnx_graph::interop::ConversionError;
use spark_onnx_graph::{DType, Element, ModelError, Tensor, TensorView};

fn check_round_trip<T: Element>(values: Vec<T>) {
    let n = values.len();
    let tensor = Tensor::from_values([n, 1], values).expect("as many");
    let empty = Tensor::zeros(T::DTYPE, [3, 0]).expect("nothing");
    let bytes = serialize([("x", &tensor), ("none", &empty)], None).expect("written");
    let file = SafeTensors::deserialize(&bytes).expect("read");
    let read = file.tensor("x").expect("in it");
    let got = Tensor::try_from(&read).expect("its type");
    assert!(got.is_bitwise(&tensor), "{got:?}");
    assert_eq!(
        Tensor::try_from(&file.tensor("none").expect("in it")).expect("nothing"),
        empty
    );

    match TensorView::try_from(&read) {
        Ok(view) => {
            assert!(view.is_bitwise(&tensor));
            let own = view.elements();
            let start = T::slice(own).expect("its type").as_ptr().cast::<u8>();
            assert!(std::ptr::eq(start, read.data().as_ptr()), "copied");
        }
        Err(error) => {
            let start = read.data().as_ptr() as usize;
            assert!(!start.is_multiple_of(align_of::<T>()), "{error}");
        }
    }
}

#[test]
fn tensors_of_every_type_are_read_as_they_were_written() {
    check_round_trip::<f32>(vec![1.5, -0.0, f32::NAN, f32::INFINITY]);
    check_round_trip::<f64>(vec![1e300, -2.5]);
    check_round_trip::<f16>([0.5, -65504.0].map(f16::from_f32).to_vec());
    check_round_trip::<bf16>([0.5, 3e38].map(bf16::from_f32).to_vec());
    check_round_trip::<i8>(vec![-128, 127]);
    check_round_trip::<i16>(vec![i16::MIN, 5]);
    check_round_trip::<i32>(vec![i32::MIN, 5]);
    check_round_trip::<i64>(vec![i64::MIN, 5]);
    check_round_trip::<u8>(vec![0, 255]);
    check_round_trip::<u16>(vec![0, 65535]);
    check_round_trip::<u32>(vec![0, u32::MAX]);
    check_round_trip::<u64>(vec![0, u64::MAX]);
    check_round_trip::<bool>(vec![true, false, true]);
}

/// `bytes` from an address that is `beyond` a multiple of 16, and the error of viewing them.
fn viewed(dtype: Dtype, shape: &[usize], bytes: &[u8], beyond: usize) -> Option<ConversionError> {
    let mut memory = vec![0u8; bytes.len() + 32];
    let first = memory.as_ptr().align_offset(16) + beyond;
    memory[first..first + bytes.len()].copy_from_slice(bytes);
    let tensor = FileTensor::new(dtype, shape.to_vec(), &memory[first..first + bytes.len()]);
    match TensorView::try_from(&tensor.expect("whole")) {
        Ok(_) => None,
        Err(ModelError::Conversion(error)) => Some(error),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn elements_are_lent_only_where_they_may_begin() {
    let bytes = [0; 16];
    assert_eq!(viewed(Dtype::F32, &[4], &bytes, 0), None);
    assert_eq!(viewed(Dtype::F32, &[4], &bytes, 4), None);
    let unaligned = ConversionError::Unaligned {
        dtype: DType::F32,
        align: 4,
    };
    assert_eq!(viewed(Dtype::F32, &[4], &bytes, 2), Some(unaligned));
    assert_eq!(viewed(Dtype::U8, &[16], &bytes, 1), None);
    assert!(viewed(Dtype::I64, &[2], &bytes, 4).is_some());
}

#[test]
fn a_byte_that_is_no_boolean_is_refused_in_a_view_and_true_in_a_copy() {
    let error = ConversionError::NotBoolean { byte: 2 };
    assert_eq!(viewed(Dtype::BOOL, &[3], &[0, 1, 2], 0), Some(error));
    let odd = FileTensor::new(Dtype::BOOL, vec![3], &[0, 1, 2]).expect("whole");
    let copy = Tensor::try_from(&odd).expect("a copy");
    assert_eq!(copy.as_slice::<bool>(), Some(&[false, true, true][..]));
}

#[test]
fn a_type_that_tensors_lack_is_refused_by_name() {
    let odd = FileTensor::new(Dtype::F8_E4M3, vec![2], &[0, 1]).expect("whole");
    let error = Tensor::try_from(&odd).expect_err("refused");
    assert_eq!(error.to_string(), "element type F8_E4M3 is not supported");
    TensorView::try_from(&odd).expect_err("refused");
}
