//! What other crates cannot name or make, each beside the nearest thing that they can: a test that
//! fails to compile for another reason than its twin would show nothing.

/// The wire format. Messages are read and written whole:
///
/// ```
/// use spark_onnx_proto::ModelProto;
/// ```
///
/// ```compile_fail,E0603
/// use spark_onnx_proto::wire::Reader;
/// ```
mod wire_format {}

/// A constant has as many numbers as its shape says, because only reading one makes it:
///
/// ```
/// use spark_onnx_proto::{Constant, Numbers};
/// fn shape(constant: &Constant) -> &[usize] {
///     constant.shape()
/// }
/// ```
///
/// ```compile_fail,E0451
/// use spark_onnx_proto::{Constant, Numbers};
/// fn made() -> Constant {
///     Constant { shape: vec![2], numbers: Numbers::F32(vec![]) }
/// }
/// ```
mod constants {}
