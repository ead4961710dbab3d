//! What kernels are told of a step, as `kernels/plan_*` declare it: the same fields in the same order.
//!
//! Made by `launches` alone, from a plan whose views lie inside their buffers.

use spark_mem::kernel::zerocopy::{Immutable, IntoBytes};

use crate::plan::MAX_RANK;

/// Batch axes of a product: all but the last two.
pub(super) const BATCH_AXES: usize = MAX_RANK - 2;

/// Declares structures of `repr(C)` that a kernel takes by value.
macro_rules! structures {
    ($($(#[doc = $doc:literal])* struct $name:ident { $($(#[doc = $field_doc:literal])* $field:ident: $ty:ty,)* })*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Debug, Clone, Copy, PartialEq, IntoBytes, Immutable)]
            #[repr(C)]
            pub(super) struct $name {
                $($(#[doc = $field_doc])* pub(super) $field: $ty,)*
            }
        )*
    };
}

structures! {
    /// `PlanPlace`: where a buffer, or the first element of a view, lies.
    struct Place {
        /// In bytes, from the start of the block.
        offset: u64,
        space: u32,
        storage: u32,
    }

    /// `PlanView`: strides in elements.
    struct Strided {
        place: Place,
        strides: [i64; MAX_RANK],
    }

    /// `PlanShape`: positions that threads go through, the last axis the fastest.
    struct Shape {
        n: u32,
        rank: u32,
        extents: [u32; MAX_RANK],
    }

    /// `PlanCopy`.
    struct Copy {
        shape: Shape,
        x: Strided,
        y: Strided,
    }

    /// `PlanFill`.
    struct Fill {
        shape: Shape,
        y: Strided,
        integer: i64,
        value: f32,
        unused: u32,
    }

    /// `PlanGather`.
    struct Gather {
        x: Strided,
        index: Strided,
        y: Strided,
        count: u32,
        positions: u32,
        inner: u32,
        extent: u32,
        step: u32,
        unused: u32,
    }

    /// `PlanResample`.
    struct Resample {
        shape: Shape,
        x: Strided,
        y: Strided,
        x_stride: i64,
        index: u64,
        weights: u64,
        axis: u32,
        taps: u32,
        has_weights: u32,
        unused: u32,
    }

    /// `PlanInstruction`, among the constants.
    struct Instruction {
        code: u32,
        is_integer: u32,
        to: u32,
        args: [u32; 3],
        a: f32,
        b: f32,
        value: i64,
    }

    /// `PlanProgram`.
    struct Program {
        shape: Shape,
        y: Strided,
        operands: u64,
        instructions: u64,
        n_instructions: u32,
        result: u32,
        step: u32,
        unused: u32,
    }

    /// `PlanEpilogue`.
    struct Epilogue {
        bias: Place,
        residual: Strided,
        flags: u32,
        code: u32,
        a: f32,
        b: f32,
    }

    /// `PlanConv`.
    struct Conv {
        x: Strided,
        y: Strided,
        epilogue: Epilogue,
        weights: Place,
        count: u32,
        channels: u32,
        height: u32,
        width: u32,
        in_height: u32,
        in_width: u32,
        in_per_group: u32,
        out_per_group: u32,
        kernel: [u32; 2],
        stride: [u32; 2],
        dilation: [u32; 2],
        pad: [u32; 2],
        transposed: u32,
        unused: u32,
    }

    /// `PlanMatMul`.
    struct MatMul {
        a: Strided,
        b: Strided,
        y: Strided,
        epilogue: Epilogue,
        batch: [u32; BATCH_AXES],
        count: u32,
        m: u32,
        n: u32,
        k: u32,
        scale: f32,
        unused: u32,
    }

    /// `PlanTiles`; axes of views are group, sample, row and column.
    struct Tiles {
        x: Strided,
        y: Strided,
        epilogue: Epilogue,
        weights: Place,
        pieces: u64,
        weights_stride: i64,
        m: u32,
        n: u32,
        k: u32,
        n_pieces: u32,
        k_blocks: u32,
        height: u32,
        width: u32,
        in_height: u32,
        in_width: u32,
        stride: [u32; 2],
        pad: [u32; 2],
        unused: u32,
    }

    /// `PlanPiece`, among the constants.
    struct Piece {
        dy: i32,
        dx: i32,
        offset: i32,
        bytes: u32,
    }

    /// `PlanDepthwise`.
    struct Depthwise {
        x: Strided,
        y: Strided,
        epilogue: Epilogue,
        weights: Place,
        count: u32,
        channels: u32,
        height: u32,
        width: u32,
        column_groups: u32,
        in_height: u32,
        in_width: u32,
        kernel_height: u32,
        stride: u32,
        dilation: u32,
        pad: [u32; 2],
    }

    /// `PlanBatched`: a view whose batch axes are cut in its own way.
    struct Batched {
        view: Strided,
        batch: [u32; BATCH_AXES],
    }

    /// `PlanAttention`.
    struct Attention {
        q: Batched,
        k: Batched,
        v: Batched,
        y: Batched,
        mask: Batched,
        m: u32,
        n: u32,
        d: u32,
        e: u32,
        mask_kind: u32,
        masked: u32,
        scale: f32,
        hidden: f32,
    }

    /// `PlanSoftmax`.
    struct Softmax {
        x: Strided,
        y: Strided,
        rows: u32,
        width: u32,
        log: u32,
        masked: u32,
    }

    /// `PlanNorm`.
    struct Norm {
        x: Strided,
        y: Strided,
        scale: Strided,
        bias: Strided,
        rows: u32,
        width: u32,
        of_squares: u32,
        has_scale: u32,
        has_bias: u32,
        epsilon: f32,
    }

    /// `PlanGroupNorm`.
    struct GroupNorm {
        x: Strided,
        y: Strided,
        scale: Strided,
        bias: Strided,
        samples: u32,
        groups: u32,
        per_group: u32,
        positions: u32,
        epsilon: f32,
        unused: u32,
    }

    /// `PlanReduce`.
    struct Reduce {
        x: Strided,
        y: Strided,
        kept: Shape,
        over: Shape,
        over_strides: [i64; MAX_RANK],
        kind: u32,
        unused: u32,
    }

    /// `PlanPool`.
    struct Pool {
        x: Strided,
        y: Strided,
        count: u32,
        channels: u32,
        height: u32,
        width: u32,
        in_height: u32,
        in_width: u32,
        kernel: [u32; 2],
        stride: [u32; 2],
        dilation: [u32; 2],
        pad: [u32; 2],
        pad_end: [u32; 2],
        averages: u32,
        counts_pads: u32,
        unused: [u32; 2],
    }
}

impl Strided {
    /// What stands where a step has no such operand; it is not read.
    pub(super) const NONE: Self = Self {
        place: Place {
            offset: 0,
            space: 0,
            storage: 0,
        },
        strides: [0; MAX_RANK],
    };
}

impl Batched {
    /// What stands where a step has no such operand; it is not read.
    pub(super) const NONE: Self = Self {
        view: Strided::NONE,
        batch: [1; BATCH_AXES],
    };
}
