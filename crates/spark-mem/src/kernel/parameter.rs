//! The types of a kernel's parameters, and how arguments become addresses and numbers.
//!
//! ```text
//! parameter   argument        host version gets
//! Read<T>     View<T>         &[T]
//! Write<T>    ViewMut<T>      &mut [T]
//! f32, u32…   the number      the number
//! ```

#![allow(unsafe_code, reason = "makes slices of a host kernel's arguments")]

use std::marker::PhantomData;
use std::sync::Arc;

use half::{bf16, f16};

use crate::backend::launch::{Argument, HostArgument};
use crate::buffer::view::{View, ViewMut};
use crate::element::Element;
use crate::error::MemError;
use crate::memory::allocation::Allocation;
use crate::stream::Stream;

/// A parameter `const T*` that the kernel reads.
#[derive(Debug)]
pub struct Read<T>(PhantomData<T>);

/// A parameter `T*` that the kernel writes, and may read.
#[derive(Debug)]
pub struct Write<T>(PhantomData<T>);

/// One parameter of a kernel.
pub trait Parameter: private::Sealed + 'static {
    /// What a launch is given for it.
    type Argument<'a>;
    /// What a host version is given for it.
    type Host<'a>;
    /// Adds the argument to a launch.
    fn bind(argument: Self::Argument<'_>, binder: &mut Binder<'_>);
    /// The argument of a host version.
    ///
    /// # Safety
    ///
    /// `argument` was bound for this very parameter, and its memory may be used for `'a`.
    unsafe fn host<'a>(argument: HostArgument) -> Self::Host<'a>;
}

/// The parameters of a kernel: a tuple of up to twelve, and nothing else, so that arguments are
/// bound and handed to host versions in one order.
pub trait Parameters: private::Sealed + 'static {
    /// What a launch is given.
    type Arguments<'a>;
    /// What a host version is given.
    type Host<'a>;
    /// Adds the arguments to a launch.
    fn bind(arguments: Self::Arguments<'_>, binder: &mut Binder<'_>);
    /// The arguments of a host version.
    ///
    /// # Safety
    ///
    /// They were bound for these very parameters, and their memory may be used for `'a`.
    unsafe fn host<'a>(arguments: &[HostArgument]) -> Self::Host<'a>;
}

mod private {
    pub trait Sealed {}
}

/// Collects the arguments of a launch and the memory that they use.
#[derive(Debug)]
pub struct Binder<'a> {
    stream: &'a Stream,
    arguments: Vec<Argument>,
    uses: Vec<(Arc<Allocation>, bool)>,
    error: Option<MemError>,
}

/// Arguments, and each piece of memory among them with whether it is written.
pub(crate) type Bound = (Vec<Argument>, Vec<(Arc<Allocation>, bool)>);

impl<'a> Binder<'a> {
    pub(crate) fn new(stream: &'a Stream) -> Self {
        Self {
            stream,
            arguments: Vec::new(),
            uses: Vec::new(),
            error: None,
        }
    }

    fn memory(
        &mut self,
        allocation: &Arc<Allocation>,
        address: Result<u64, MemError>,
        len_bytes: usize,
        writes: bool,
    ) {
        if self.error.is_some() {
            return;
        }
        let bound = self
            .stream
            .check_same_device(allocation.device())
            .and(address);
        match bound {
            Ok(address) => {
                self.arguments.push(Argument::Memory { address, len_bytes });
                self.uses.push((Arc::clone(allocation), writes));
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn scalar(&mut self, bytes: &[u8]) {
        let mut padded = [0; 8];
        let len_bytes = bytes.len().min(padded.len());
        padded[..len_bytes].copy_from_slice(&bytes[..len_bytes]);
        self.arguments.push(Argument::Scalar { bytes: padded });
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

impl<T: Element> Parameter for Read<T> {
    type Argument<'a> = View<'a, T>;
    type Host<'a> = &'a [T];

    fn bind(view: View<'_, T>, binder: &mut Binder<'_>) {
        let address = view.device_address();
        binder.memory(view.allocation(), address, view.len_bytes(), false);
    }

    unsafe fn host<'a>(argument: HostArgument) -> &'a [T] {
        match argument {
            HostArgument::Memory { pointer, len_bytes } if len_bytes > 0 => {
                // SAFETY: a view of this many bytes was bound, aligned for `T` because
                // allocations are and offsets are whole elements; nobody writes it.
                unsafe { std::slice::from_raw_parts(pointer.cast(), len_bytes / size_of::<T>()) }
            }
            _ => &[],
        }
    }
}

impl<T: Element> Parameter for Write<T> {
    type Argument<'a> = ViewMut<'a, T>;
    type Host<'a> = &'a mut [T];

    fn bind(view: ViewMut<'_, T>, binder: &mut Binder<'_>) {
        let address = view.device_address();
        binder.memory(view.allocation(), address, view.len_bytes(), true);
    }

    unsafe fn host<'a>(argument: HostArgument) -> &'a mut [T] {
        match argument {
            HostArgument::Memory { pointer, len_bytes } if len_bytes > 0 => {
                let len = len_bytes / size_of::<T>();
                // SAFETY: as for `Read`; the view was borrowed for writing, so that no
                // other argument overlaps it.
                unsafe { std::slice::from_raw_parts_mut(pointer.cast(), len) }
            }
            _ => &mut [],
        }
    }
}

macro_rules! scalars {
    ($($scalar:ty),*) => {
        $(
            impl private::Sealed for $scalar {}

            impl Parameter for $scalar {
                type Argument<'a> = $scalar;
                type Host<'a> = $scalar;

                fn bind(number: $scalar, binder: &mut Binder<'_>) {
                    binder.scalar(&number.to_ne_bytes());
                }

                unsafe fn host<'a>(argument: HostArgument) -> Self::Host<'a> {
                    let mut own = [0; size_of::<$scalar>()];
                    if let HostArgument::Scalar { bytes } = argument {
                        own.copy_from_slice(&bytes[..size_of::<$scalar>()]);
                    }
                    <$scalar>::from_ne_bytes(own)
                }
            }
        )*
    };
}

scalars!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16);

macro_rules! tuples {
    ($($($name:ident $idx:tt),+;)+) => {
        $(
            impl<$($name: Parameter),+> private::Sealed for ($($name,)+) {}

            impl<$($name: Parameter),+> Parameters for ($($name,)+) {
                type Arguments<'a> = ($($name::Argument<'a>,)+);
                type Host<'a> = ($($name::Host<'a>,)+);

                fn bind(arguments: Self::Arguments<'_>, binder: &mut Binder<'_>) {
                    $($name::bind(arguments.$idx, binder);)+
                }

                unsafe fn host<'a>(arguments: &[HostArgument]) -> Self::Host<'a> {
                    // SAFETY: the caller's promise, for each of them.
                    unsafe { ($($name::host(arguments[$idx]),)+) }
                }
            }
        )+
    };
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
}
