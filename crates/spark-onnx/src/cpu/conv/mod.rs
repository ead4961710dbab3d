//! Convolutions: direct, by Winograd's transform, depthwise, and depthwise fused with what feeds it.

/// `do_for!(i in 0 1 2 .. => body)`: the body once for every number, as the compiler does not
/// unroll a loop this long.
macro_rules! do_for {
    ($i:ident in $($number:literal)* => $body:block) => {
        $({
            let $i: usize = $number;
            $body
        })*
    };
}

pub(crate) mod depthwise;
pub(crate) mod direct;
pub(crate) mod fused;
pub(crate) mod register_tiled;
pub(crate) mod winograd;
pub(crate) mod winograd_shape;
