//! Why work under load ended early.

use spark_mem::MemError;
use spark_onnx::ModelError;
use spark_quant::QuantError;

/// Why work under load ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The device, its memory, or the compiler of its kernels.
    #[error(transparent)]
    Device(#[from] MemError),
    /// A product of matrices.
    #[error(transparent)]
    Product(#[from] QuantError),
    /// The network.
    #[error(transparent)]
    Network(#[from] ModelError),
}
