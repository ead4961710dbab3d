//! The types of a kernel's parameters, and how arguments become addresses and bytes.
//!
//! ```text
//! parameter    argument        host version gets
//! Read<T>      View<T>         &[T]
//! Write<T>     ViewMut<T>      &mut [T]
//! f32, u32…    the number      the number
//! Struct<T>    the structure   the structure
//! (A, B, …)    a tuple         a tuple; up to 32, and tuples of tuples, which are the same list
//! ```

#![allow(unsafe_code, reason = "makes slices of a host kernel's arguments")]

use std::marker::PhantomData;
use std::sync::Arc;

use half::{bf16, f16};
use zerocopy::{Immutable, IntoBytes};

use crate::backend::launch::{Arguments, HostArgument, PARAMETER_BYTES};
use crate::buffer::view::{View, ViewMut};
use crate::element::Element;
use crate::error::MemError;
use crate::memory::allocation::{Access, Allocation};
use crate::stream::Stream;

/// A parameter `const T*` that the kernel reads.
#[derive(Debug)]
pub struct Read<T>(PhantomData<T>);

/// A parameter `T*` that the kernel writes, and may read.
#[derive(Debug)]
pub struct Write<T>(PhantomData<T>);

/// A parameter that is a structure, by value.
///
/// # Examples
///
/// ```
/// use spark_mem::kernel::zerocopy::{Immutable, IntoBytes};
/// use spark_mem::{Device, KernelSource, LaunchShape, Struct, Write};
///
/// /// `struct Tile { unsigned rows, columns; float scale; };` of the CUDA C.
/// #[derive(Clone, Copy, IntoBytes, Immutable)]
/// #[repr(C)]
/// struct Tile {
///     rows: u32,
///     columns: u32,
///     scale: f32,
/// }
///
/// const FILL: KernelSource<(Write<f32>, Struct<Tile>)> = KernelSource::new(
///     "fill.cu",
///     "struct Tile { unsigned rows, columns; float scale; };
///      extern \"C\" __global__ void fill(float* out, Tile tile) { out[threadIdx.x] = tile.scale; }",
///     "fill",
/// )
/// .with_host(|_: LaunchShape, (out, tile)| {
///     let n = (tile.rows * tile.columns) as usize;
///     out[..n].fill(tile.scale);
/// });
///
/// let device = Device::host();
/// let stream = device.new_stream()?;
/// let mut out = device.shared::<f32>(6)?;
/// let fill = device.kernel(&FILL)?;
/// let tile = Tile { rows: 2, columns: 3, scale: 0.5 };
/// // SAFETY: the kernel writes six elements of `out`, which has as many.
/// unsafe { fill.launch(&stream, LaunchShape::for_elements(6, 32)?, (out.view_mut(), tile)) }?;
/// assert_eq!(*out.read(&stream)?, [0.5; 6]);
/// # Ok::<(), spark_mem::MemError>(())
/// ```
#[derive(Debug)]
pub struct Struct<T>(PhantomData<T>);

/// A structure that a kernel takes by value: `repr(C)`, without padding, of at most 4096 bytes and
/// aligned to at most 16, which is checked when a program with such a kernel is compiled. Its
/// fields are those of the structure in CUDA C, in the same order.
///
/// Every type is one that derives zerocopy's traits, which needs no unsafe code:
/// `#[derive(Clone, Copy, IntoBytes, Immutable)]`. The crate is handed on as
/// [`kernel::zerocopy`](crate::kernel::zerocopy); a program that derives depends on it with its
/// feature `derive`.
pub trait KernelStruct: IntoBytes + Immutable + Copy + Send + Sync + 'static {}

impl<T: IntoBytes + Immutable + Copy + Send + Sync + 'static> KernelStruct for T {}

/// How large a parameter is, and what its place in a list is a multiple of. In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub struct Size {
    bytes: usize,
    align: usize,
}

impl Size {
    const fn of<T>() -> Self {
        Self {
            bytes: size_of::<T>(),
            align: align_of::<T>(),
        }
    }
}

/// The sizes of a list of parameters.
///
/// # Errors
///
/// [`MemError::ParameterBytes`] if they are more than any launch takes.
pub(crate) fn argument_bytes<P: Parameters>() -> Result<Vec<usize>, MemError> {
    let mut sizes = Vec::new();
    P::add_sizes(&mut sizes);
    let got = sizes.iter().fold(0, |end: usize, size| {
        end.next_multiple_of(size.align) + size.bytes
    });
    if got > PARAMETER_BYTES {
        return Err(MemError::ParameterBytes {
            got,
            most: PARAMETER_BYTES,
        });
    }
    Ok(sizes.iter().map(|size| size.bytes).collect())
}

/// One parameter of a kernel.
pub trait Parameter: private::Sealed + 'static {
    /// What a launch is given for it.
    type Argument<'a>;
    /// What a host version is given for it.
    type Host<'a>;
    /// Adds its size to a list.
    #[doc(hidden)]
    fn add_sizes(sizes: &mut Vec<Size>);
    /// Adds the argument to a launch.
    fn bind(argument: Self::Argument<'_>, binder: &mut Binder<'_>);
    /// The argument of a host version, the next one of those.
    ///
    /// # Safety
    ///
    /// The next argument was bound for this very parameter, and its memory may be used for `'a`.
    unsafe fn host<'a>(arguments: &mut HostArguments<'_>) -> Self::Host<'a>;
}

/// The parameters of a kernel: a tuple of up to 32, which may be tuples, and nothing else, so that
/// arguments are bound and handed to host versions in one order.
pub trait Parameters: Parameter {}

/// The arguments of a host version, one after another.
#[derive(Debug)]
pub struct HostArguments<'a>(std::slice::Iter<'a, HostArgument>);

impl<'a> HostArguments<'a> {
    pub(crate) fn new(arguments: &'a [HostArgument]) -> Self {
        Self(arguments.iter())
    }

    fn next(&mut self) -> Option<HostArgument> {
        self.0.next().copied()
    }
}

mod private {
    pub trait Sealed {}
}

/// Collects the arguments of a launch and the memory that they use.
#[derive(Debug)]
pub struct Binder<'a> {
    stream: &'a Stream,
    arguments: Arguments,
    uses: Vec<Use>,
    error: Option<MemError>,
}

/// Memory among the arguments of a launch.
#[derive(Debug)]
pub(crate) struct Use {
    allocation: Arc<Allocation>,
    bytes: std::ops::Range<usize>,
    writes: bool,
}

impl Use {
    pub(crate) fn access(&self) -> Access<'_> {
        Access::new(&self.allocation, self.bytes.clone(), self.writes)
    }
}

/// Arguments, and the memory among them.
pub(crate) type Bound = (Arguments, Vec<Use>);

impl<'a> Binder<'a> {
    pub(crate) fn new(stream: &'a Stream) -> Self {
        Self {
            stream,
            arguments: Arguments::default(),
            uses: Vec::new(),
            error: None,
        }
    }

    fn memory(&mut self, access: &Access<'_>, address: Result<u64, MemError>) {
        if self.error.is_some() {
            return;
        }
        let bound = self
            .stream
            .check_same_device(access.allocation.device())
            .and(address);
        match bound {
            Ok(address) => {
                self.arguments.push_memory(address, access.bytes.len());
                self.uses.push(Use {
                    allocation: Arc::clone(access.allocation),
                    bytes: access.bytes.clone(),
                    writes: access.writes,
                });
            }
            Err(error) => self.error = Some(error),
        }
    }

    pub(crate) fn finish(self) -> Result<Bound, MemError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok((self.arguments, self.uses)),
        }
    }
}

impl<T: Element> private::Sealed for Read<T> {}
impl<T: Element> private::Sealed for Write<T> {}
impl<T: KernelStruct> private::Sealed for Struct<T> {}

impl<T: Element> Parameter for Read<T> {
    type Argument<'a> = View<'a, T>;
    type Host<'a> = &'a [T];

    fn add_sizes(sizes: &mut Vec<Size>) {
        sizes.push(Size::of::<u64>());
    }

    fn bind(view: View<'_, T>, binder: &mut Binder<'_>) {
        let address = view.device_address();
        binder.memory(&view.access(), address);
    }

    unsafe fn host<'a>(arguments: &mut HostArguments<'_>) -> &'a [T] {
        match arguments.next() {
            Some(HostArgument::Memory { pointer, len_bytes }) if len_bytes > 0 => {
                // SAFETY: a view of this many bytes was bound, aligned for `T` because
                // allocations are and offsets are whole elements; nobody writes it: what other
                // arguments write are other allocations, or other bytes of this one.
                unsafe { std::slice::from_raw_parts(pointer.cast(), len_bytes / size_of::<T>()) }
            }
            _ => &[],
        }
    }
}

impl<T: Element> Parameter for Write<T> {
    type Argument<'a> = ViewMut<'a, T>;
    type Host<'a> = &'a mut [T];

    fn add_sizes(sizes: &mut Vec<Size>) {
        sizes.push(Size::of::<u64>());
    }

    fn bind(view: ViewMut<'_, T>, binder: &mut Binder<'_>) {
        let address = view.device_address();
        binder.memory(&view.access(), address);
    }

    unsafe fn host<'a>(arguments: &mut HostArguments<'_>) -> &'a mut [T] {
        match arguments.next() {
            Some(HostArgument::Memory { pointer, len_bytes }) if len_bytes > 0 => {
                let len = len_bytes / size_of::<T>();
                // SAFETY: as for `Read`; a view for writing is the only one of its bytes, so that
                // no other argument overlaps it.
                unsafe { std::slice::from_raw_parts_mut(pointer.cast(), len) }
            }
            _ => &mut [],
        }
    }
}

/// The next argument, which is a value.
///
/// # Safety
///
/// It was bound as a `T`.
unsafe fn value<T: Copy>(arguments: &mut HostArguments<'_>) -> T {
    let next = arguments.next();
    let Some(HostArgument::Value { pointer, len_bytes }) = next else {
        unreachable!("a value was bound, not {next:?}");
    };
    assert_eq!(len_bytes, size_of::<T>());
    // SAFETY: the caller's promise: the bytes are those of a `T`, which is `Copy`.
    unsafe { pointer.cast::<T>().read_unaligned() }
}

impl<T: KernelStruct> Parameter for Struct<T> {
    type Argument<'a> = T;
    type Host<'a> = T;

    fn add_sizes(sizes: &mut Vec<Size>) {
        const {
            assert!(size_of::<T>() > 0, "CUDA C has no structure of no bytes");
            assert!(
                size_of::<T>() <= PARAMETER_BYTES,
                "more than a launch takes"
            );
            assert!(align_of::<T>() <= 16, "aligned to more than CUDA C's types");
        }
        sizes.push(Size::of::<T>());
    }

    fn bind(structure: T, binder: &mut Binder<'_>) {
        binder.arguments.push_value(structure.as_bytes());
    }

    unsafe fn host<'a>(arguments: &mut HostArguments<'_>) -> Self::Host<'a> {
        // SAFETY: the caller's promise; `bind` took the bytes of a `T`.
        unsafe { value(arguments) }
    }
}

macro_rules! scalars {
    ($($scalar:ty),*) => {
        $(
            impl private::Sealed for $scalar {}

            impl Parameter for $scalar {
                type Argument<'a> = $scalar;
                type Host<'a> = $scalar;

                fn add_sizes(sizes: &mut Vec<Size>) {
                    sizes.push(Size::of::<$scalar>());
                }

                fn bind(number: $scalar, binder: &mut Binder<'_>) {
                    binder.arguments.push_value(&number.to_ne_bytes());
                }

                unsafe fn host<'a>(arguments: &mut HostArguments<'_>) -> Self::Host<'a> {
                    // SAFETY: the caller's promise; `bind` took the bytes of this type.
                    unsafe { value(arguments) }
                }
            }
        )*
    };
}

scalars!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16);

macro_rules! tuple {
    ($($name:ident $idx:tt),+) => {
        impl<$($name: Parameter),+> private::Sealed for ($($name,)+) {}

        impl<$($name: Parameter),+> Parameter for ($($name,)+) {
            type Argument<'a> = ($($name::Argument<'a>,)+);
            type Host<'a> = ($($name::Host<'a>,)+);

            fn add_sizes(sizes: &mut Vec<Size>) {
                $($name::add_sizes(sizes);)+
            }

            fn bind(arguments: Self::Argument<'_>, binder: &mut Binder<'_>) {
                $($name::bind(arguments.$idx, binder);)+
            }

            unsafe fn host<'a>(arguments: &mut HostArguments<'_>) -> Self::Host<'a> {
                // SAFETY: the caller's promise, for each of them in their order.
                unsafe { ($($name::host(arguments),)+) }
            }
        }

        impl<$($name: Parameter),+> Parameters for ($($name,)+) {}
    };
}

/// Tuples of the first of these, of the first two, and so on.
macro_rules! tuples {
    ([$($done:tt)*]) => {};
    ([$($done:tt)*] $name:ident $idx:tt $($rest:tt)*) => {
        tuple!($($done)* $name $idx);
        tuples!([$($done)* $name $idx,] $($rest)*);
    };
}

tuples! {
    []
    P0 0 P1 1 P2 2 P3 3 P4 4 P5 5 P6 6 P7 7
    P8 8 P9 9 P10 10 P11 11 P12 12 P13 13 P14 14 P15 15
    P16 16 P17 17 P18 18 P19 19 P20 20 P21 21 P22 22 P23 23
    P24 24 P25 25 P26 26 P27 27 P28 28 P29 29 P30 30 P31 31
}
