//! Arrays of ndarray as views and tensors, and back: every element type, every way of cutting one.
//!
//! The oracle is ndarray's own iteration in logical order, and addresses where nothing may be copied.

use half::{bf16, f16};
use ndarray::{
    Array1, Array2, ArrayD, ArrayView, ArrayView0, ArrayView2, ArrayViewD, ArrayViewMut2, Axis,
    Dimension, IxDyn, ShapeBuilder, arr0, array, s,
};
use spark_onnx_graph::interop::ConversionError;
use spark_onnx_graph::{DType, Element, ModelError, Tensor, TensorView, TensorViewMut};

/// Numbers that all element types hold exactly.
fn counting(shape: &[usize]) -> ArrayD<f32> {
    let len: usize = shape.iter().product();
    let values: Vec<f32> = (0..len).map(|i| (i % 100) as f32).collect();
    ArrayD::from_shape_vec(IxDyn(shape), values).expect("as many")
}

/// Whether the view of `array` reads what ndarray reads, from the array's own memory, and is handed back as it came.
#[track_caller]
fn check_lent<T: Element, D: Dimension>(array: &ArrayView<'_, T, D>) {
    let view = TensorView::try_from(array).expect("lent");
    assert_eq!(view.shape(), array.shape());
    let tensor = view.to_tensor().expect("fits");
    let values: Vec<T> = array.iter().copied().collect();
    assert_eq!(tensor.as_slice::<T>(), Some(&values[..]));
    assert_eq!(Tensor::try_from(array).expect("fits"), tensor);
    let back = ArrayViewD::<T>::try_from(view).expect("an array again");
    assert_eq!(back, array.view().into_dyn());
    assert!(
        array.is_empty() || std::ptr::eq(back.as_ptr(), array.as_ptr()),
        "copied"
    );
}

#[track_caller]
fn check_refused<T: Element, D: Dimension>(array: &ArrayView<'_, T, D>, want: &str) {
    let error = TensorView::try_from(array).expect_err("refused");
    let is_layout = matches!(&error, ModelError::Conversion(ConversionError::Layout { shape, .. }) if shape == array.shape());
    assert!(is_layout && error.to_string().contains(want), "{error}");
    // What the error says helps.
    check_lent(&array.as_standard_layout().view());
}

/// Every way of looking at an array that reads its memory as it lies.
fn check_all_ways<T: Element>(of: fn(f32) -> T) {
    let array = counting(&[2, 3, 4]).mapv(of);
    let array = array
        .into_dimensionality::<ndarray::Ix3>()
        .expect("three axes");
    check_lent(&array.view());
    check_lent(&array.t());
    check_lent(&array.view().permuted_axes([1, 2, 0]));
    check_lent(&array.slice(s![1.., .., ..]));
    check_lent(&array.slice(s![..1, 1.., ..]));
    check_lent(&array.slice(s![1, 2, ..]));
    check_lent(&array.slice(s![1, 2, 1..3]));
    check_lent(&array.slice(s![.., 1..1, ..]));
    check_lent(&array.slice(s![0..0, .., ..;2]));
    check_lent(&array.slice(s![1, 2, 3]));
    check_lent(&array.slice(s![..1;-1, 1..2;-1, ..]));
    check_lent(
        &array
            .view()
            .into_shape_with_order((6, 4))
            .expect("dense")
            .t(),
    );
    let column_major = Array2::from_shape_vec((3, 2).f(), array.iter().copied().take(6).collect());
    check_lent(&column_major.expect("as many").view());
    let row = array.slice(s![0, 0, ..]);
    check_lent(&row.broadcast((5, 4)).expect("repeats"));
    check_lent(&row.broadcast((0, 4)).expect("repeats nothing"));
    check_lent(
        &array
            .slice(s![.., ..1, ..])
            .to_owned()
            .broadcast((2, 3, 4))
            .expect("repeats"),
    );
    check_lent(&arr0(of(7.0)).broadcast((2, 3)).expect("repeats"));
    check_lent(&array.t().broadcast((2, 4, 3, 2)).expect("repeats"));

    check_refused(&array.slice(s![.., .., 1..]), "gaps");
    check_refused(&array.slice(s![.., 1, ..]), "gaps");
    check_refused(&array.slice(s![.., .., ..;2]), "gaps");
    check_refused(&array.slice(s![.., ..;2, 0]), "gaps");
    check_refused(&array.slice(s![..;-1, .., ..]), "negative stride");
    check_refused(&array.slice(s![.., .., ..;-1]), "negative stride");
    check_refused(&array.diag(), "gaps");

    let tensor = Tensor::try_from(&array).expect("fits");
    assert_eq!((tensor.dtype(), tensor.shape()), (T::DTYPE, &[2, 3, 4][..]));
    assert_eq!(
        ArrayD::<T>::try_from(tensor).expect("the same"),
        array.into_dyn()
    );
}

#[test]
fn arrays_of_every_type_are_lent_as_they_lie() {
    check_all_ways::<f32>(|v| v);
    check_all_ways::<f64>(f64::from);
    check_all_ways::<f16>(f16::from_f32);
    check_all_ways::<bf16>(bf16::from_f32);
    check_all_ways::<i8>(|v| v as i8);
    check_all_ways::<i16>(|v| v as i16);
    check_all_ways::<i32>(|v| v as i32);
    check_all_ways::<i64>(|v| v as i64);
    check_all_ways::<u8>(|v| v as u8);
    check_all_ways::<u16>(|v| v as u16);
    check_all_ways::<u32>(|v| v as u32);
    check_all_ways::<u64>(|v| v as u64);
    check_all_ways::<bool>(|v| v % 2.0 == 1.0);
}

#[test]
fn what_another_thread_may_write_is_not_borrowed() {
    let mut array = counting(&[4, 4]);
    let (even, mut odd) = array.multi_slice_mut((s![..;2, ..], s![1..;2, ..]));
    // The rows of the one lie in the gaps of the other.
    odd.fill(0.0);
    check_refused(&even.view(), "gaps");
}

#[test]
fn strides_of_a_view_are_those_of_the_array() {
    let matrix = Array2::<f32>::zeros((3, 5));
    let strides =
        |array: &ArrayView2<'_, f32>| TensorView::try_from(array).expect("lent").strides();
    assert_eq!(strides(&matrix.view()), [5, 1]);
    assert_eq!(strides(&matrix.t()), [1, 5]);
    assert_eq!(
        strides(&matrix.row(0).broadcast((3, 5)).expect("repeats")),
        [0, 1]
    );
}

#[test]
fn a_row_major_array_is_written_where_it_lies() {
    let mut array = counting(&[3, 4]);
    let mut view = TensorViewMut::try_from(&mut array).expect("row-major");
    assert_eq!((view.dtype(), view.shape()), (DType::F32, &[3, 4][..]));
    view.as_slice_mut::<f32>().expect("of f32").fill(7.0);
    assert!(view.as_slice_mut::<f64>().is_none());
    assert!(array.iter().all(|&v| v == 7.0));

    let mut rows = array.slice_mut(s![1..2, ..]);
    let mut view = TensorViewMut::try_from(&mut rows).expect("row-major");
    view.reborrow().as_slice_mut::<f32>().expect("of f32")[3] = 1.0;
    assert_eq!(view.shape(), [1, 4]);
    assert_eq!((array[[1, 3]], array[[0, 3]]), (1.0, 7.0));

    let mut scalar = arr0(0i64);
    let mut view = TensorViewMut::try_from(&mut scalar).expect("one element");
    view.as_slice_mut::<i64>().expect("of i64")[0] = 5;
    assert_eq!(scalar.into_scalar(), 5);
    let mut nothing = Array2::<bool>::default((0, 3));
    assert_eq!(
        TensorViewMut::try_from(&mut nothing)
            .expect("nothing")
            .shape(),
        [0, 3]
    );
}

#[test]
fn what_is_written_is_row_major_without_gaps() {
    let mut array = counting(&[4, 4]);
    let mut check = |slice: &dyn Fn(&mut ArrayD<f32>) -> Option<ModelError>| {
        let error = slice(&mut array).expect("refused");
        let is_layout = matches!(
            error,
            ModelError::Conversion(ConversionError::Layout { .. })
        );
        assert!(
            is_layout && error.to_string().contains("not row-major"),
            "{error}"
        );
    };
    check(&|a| TensorViewMut::try_from(&mut a.slice_mut(s![.., 1..])).err());
    check(&|a| TensorViewMut::try_from(&mut a.slice_mut(s![..;-1, ..])).err());
    check(&|a| TensorViewMut::try_from(&mut a.view_mut().reversed_axes()).err());
}

#[test]
fn owned_arrays_and_tensors_change_hands_without_a_copy() {
    let array = counting(&[3, 4]);
    let address = array.as_ptr();
    let tensor = Tensor::try_from(array).expect("fits");
    assert!(std::ptr::eq(
        tensor.as_f32().expect("of f32").as_ptr(),
        address
    ));
    let array = Array2::<f32>::try_from(tensor).expect("two axes");
    assert!(std::ptr::eq(array.as_ptr(), address));
}

#[test]
fn what_was_cut_off_an_owned_array_is_not_in_its_tensor() {
    let mut array = counting(&[5, 2]);
    array.slice_axis_inplace(Axis(0), (1..4).into());
    let tensor = Tensor::try_from(array).expect("fits");
    assert_eq!(tensor.as_f32(), Some(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0][..]));
    let mut array = counting(&[2, 3]);
    array.slice_axis_inplace(Axis(1), (1..2).into());
    let tensor = Tensor::try_from(array).expect("fits");
    assert_eq!(
        (tensor.shape(), tensor.to_f32()),
        (&[2, 1][..], vec![1.0, 4.0])
    );
    let mut array = counting(&[2, 3]);
    array.slice_axis_inplace(Axis(0), (1..1).into());
    let tensor = Tensor::try_from(array).expect("fits");
    assert_eq!((tensor.shape(), tensor.len()), (&[0, 3][..], 0));
    let flipped = Tensor::try_from(counting(&[2, 3]).slice(s![.., ..;-1]).to_owned());
    assert_eq!(
        flipped.expect("fits").to_f32(),
        [2.0, 1.0, 0.0, 5.0, 4.0, 3.0]
    );
}

#[test]
fn another_type_or_number_of_axes_is_refused_by_name() {
    let tensor = || Tensor::from_f32([2, 3], vec![0.0; 6]).expect("as many");
    let wrong_type = Array2::<f64>::try_from(tensor()).expect_err("refused");
    assert_eq!(wrong_type.to_string(), "the tensor holds f32, not f64");
    let wrong_rank = Array1::<f32>::try_from(tensor()).expect_err("refused");
    assert_eq!(
        wrong_rank.to_string(),
        "shape [2, 3] is not that of an array of 1 axes"
    );
    let lent = tensor();
    ArrayView0::<f32>::try_from(&lent).expect_err("two axes");
    ArrayView2::<i32>::try_from(&lent).expect_err("of f32");
    let mut lent = tensor();
    ArrayViewMut2::<bool>::try_from(&mut lent).expect_err("of f32");
    let mut rows = ArrayViewMut2::<f32>::try_from(&mut lent).expect("two axes of f32");
    rows.row_mut(1).fill(2.0);
    assert_eq!(lent.to_f32(), [0.0, 0.0, 0.0, 2.0, 2.0, 2.0]);
}

#[test]
fn more_elements_than_a_tensor_may_have_are_refused_before_memory_is_taken() {
    let one = arr0(1.0f32);
    let many = one.broadcast((1 << 20, 1 << 20)).expect("repeats");
    let error = TensorView::try_from(&many).expect_err("refused");
    assert!(matches!(error, ModelError::ElementCount { .. }), "{error}");
    let error = Tensor::try_from(&many).expect_err("refused");
    assert!(matches!(error, ModelError::ElementCount { .. }), "{error}");
}

#[test]
fn a_view_with_strides_is_an_array_with_strides() {
    let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let of = |shape: &'static [usize], strides: &'static [usize]| {
        TensorView::with_strides(&values[..], shape, strides).expect("inside")
    };
    let columns: ArrayView2<'_, f32> = of(&[2, 2], &[3, 2]).try_into().expect("two axes");
    assert_eq!(columns, array![[1.0, 3.0], [4.0, 6.0]]);
    let repeated: ArrayView2<'_, f32> = of(&[3, 2], &[0, 1]).try_into().expect("two axes");
    assert_eq!(repeated, array![[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]);
    let windows: ArrayView2<'_, f32> = of(&[3, 2], &[1, 1]).try_into().expect("two axes");
    assert_eq!(windows, array![[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]);
    let one_row: ArrayView2<'_, f32> = of(&[1, 2], &[usize::MAX, 2]).try_into().expect("two axes");
    assert_eq!(one_row, array![[1.0, 3.0]]);
}
