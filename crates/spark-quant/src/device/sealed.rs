//! What other crates cannot do to a tensor of a device, each beside the nearest thing that they can:
//! a test that fails to compile for another reason than its twin would show nothing.
//!
//! Kernels trust that codes and scales have the bytes of the tensor's shape.

/// Codes and scales can be read:
///
/// ```
/// use spark_quant::device::DeviceTensor;
/// fn len_bytes(tensor: &mut DeviceTensor) -> usize {
///     tensor.codes().len() + tensor.scales().len()
/// }
/// ```
///
/// ```compile_fail,E0616
/// use spark_quant::device::DeviceTensor;
/// fn shorten(tensor: &mut DeviceTensor, short: spark_mem::Buffer<u8>) {
///     tensor.codes = short;
/// }
/// ```
///
/// ```compile_fail,E0616
/// use spark_quant::device::DeviceTensor;
/// fn shorten(tensor: &mut DeviceTensor, short: spark_mem::Buffer<u8>) {
///     tensor.scales = short;
/// }
/// ```
///
/// ```compile_fail,E0070
/// use spark_quant::device::DeviceTensor;
/// fn shorten(tensor: &mut DeviceTensor, short: spark_mem::Buffer<u8>) {
///     tensor.codes() = short;
/// }
/// ```
///
/// ```compile_fail,E0594
/// use spark_quant::device::DeviceTensor;
/// fn shorten(tensor: &mut DeviceTensor, short: spark_mem::Buffer<u8>) {
///     *tensor.codes() = short;
/// }
/// ```
mod buffers {}
