//! Operators without a gradient.

use super::operator::refused;
use crate::graph::{
    ConvInteger, Custom, If, Loop, MatMulInteger, NonMaxSuppression, QLinearConv, QLinearMatMul,
    Scan, Unique,
};

refused! {
    ConvInteger: "it computes with integers"
    MatMulInteger: "it computes with integers"
    QLinearConv: "it computes with integers"
    QLinearMatMul: "it computes with integers"
    NonMaxSuppression: "which boxes are kept, and how many, is decided by comparisons"
    Unique: "how many elements there are is decided by comparisons"
    If: "gradients through bodies are not known yet"
    Loop: "gradients through bodies are not known yet"
    Scan: "gradients through bodies are not known yet"
    Custom: "only whoever made the operator knows"
}
