//! Parameters of RoiAlign, which reads regions of interest.

use super::kinds::PoolKind;

/// Parameters of [`Op::RoiAlign`](crate::graph::Op::RoiAlign), which reads regions of interest cell by cell;
/// [`region_axes`](crate::graph::region_axes) says where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoiAlign {
    /// What is taken of the samples of a cell.
    pub kind: PoolKind,
    /// What the numbers of a region mean.
    pub edges: RegionEdges,
    /// Rows and columns of cells.
    pub cells: [usize; 2],
    /// Samples of a cell along either axis; 0 for as many as it has elements, rounded up.
    pub samples: usize,
    /// Elements of the input for each unit of a region.
    pub scale: f32,
}

/// What the coordinates of a region of interest mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionEdges {
    /// 0 is the outer edge of the first element.
    HalfPixel,
    /// 0 is the centre of the first element, and no region is less than one element long.
    OutputHalfPixel,
}
