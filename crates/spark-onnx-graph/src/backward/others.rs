//! Operators whose gradient is not written, or that have none.

use super::operator::not_written;
use crate::graph::{
    ArgReduce, ConstantOfShape, ConvInteger, Custom, Dft, EyeLike, If, Loop, MatMulInteger,
    NonMaxSuppression, NonZero, OneHot, QLinearConv, QLinearMatMul, RandomLike, Range, Recurrent,
    Scan, Shape, Size, Unique,
};

not_written! {
    ArgReduce ConstantOfShape ConvInteger Custom Dft EyeLike If Loop MatMulInteger NonMaxSuppression NonZero OneHot
    QLinearConv QLinearMatMul RandomLike Range Recurrent Scan Shape Size Unique
}
