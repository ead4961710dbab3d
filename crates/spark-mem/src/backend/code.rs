//! A kernel's code, its types taken off, and what tells one code from another.
//!
//! ```text
//! KernelSource<P> ──> KernelCode ──┬─> a GPU: an entry of an ImageSource, compiled and loaded once
//!                          │       └─> other devices: the host version
//!                          └─> KernelIdentity: which loaded code may be shared
//! ImageSource      text, headers, options, and code of it that was compiled before
//! ```
//!
//! Texts are constants of the program or made at run time; both are compared by what they say.

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use super::launch::HostFunction;

/// What kernels may include as `"spark_warp.cuh"`: tensor-core products, asynchronous copies
/// and warp reductions, which the stand-in driver emulates.
pub const WARP_HEADER: &str = include_str!("../../kernels/spark_warp.cuh");
/// The name it is included by.
pub const WARP_HEADER_NAME: &str = "spark_warp.cuh";

/// A file that kernels include: its name and its text.
pub type Header = (&'static str, &'static str);

/// Code that was compiled before: what for, as `sm_121a` (a cubin) or `compute_90` (PTX), and its
/// bytes.
pub type Image = (&'static str, &'static [u8]);

/// A text of the program or one made at run time, compared by what it says.
#[derive(Clone)]
pub(crate) enum Text {
    /// A constant of the program.
    Static(&'static str),
    /// Made at run time; clones share it.
    Shared(Arc<str>),
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

/// Bytes of the program or made at run time.
#[derive(Clone)]
pub(crate) enum Bytes {
    /// A constant of the program.
    Static(&'static [u8]),
    /// Made at run time; clones share them.
    Shared(Arc<[u8]>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Static(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// Code of an image that was compiled before.
#[derive(Clone)]
pub(crate) struct Precompiled {
    /// What it was compiled for, as its author says.
    pub(crate) target: Text,
    pub(crate) bytes: Bytes,
}

impl PartialEq for Precompiled {
    fn eq(&self, other: &Self) -> bool {
        let is_same = std::ptr::eq(&raw const *self.bytes, &raw const *other.bytes);
        self.target == other.target && (is_same || *self.bytes == *other.bytes)
    }
}

impl Eq for Precompiled {}

/// Long code costs no time here: what is equal has the same length, and lookups compare it.
impl Hash for Precompiled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.target.hash(state);
        self.bytes.len().hash(state);
    }
}

/// All that decides what an image's code is. Equal ones are compiled and loaded once.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ImageSource {
    pub(crate) file: Text,
    pub(crate) source: Text,
    pub(crate) headers: Vec<(Text, Text)>,
    pub(crate) options: Vec<Text>,
    pub(crate) precompiled: Vec<Precompiled>,
}

impl fmt::Debug for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageSource")
            .field("file", &self.file)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A source without its types, as backends take it.
pub(crate) struct KernelCode {
    pub(crate) image: Arc<ImageSource>,
    pub(crate) entry: Text,
    pub(crate) parameters: TypeId,
    /// Bytes of each argument.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(dead_code, reason = "only a driver tells them")
    )]
    pub(crate) argument_bytes: Vec<usize>,
    pub(crate) host: Option<HostFunction>,
    /// Where the host version lies before its types are taken off.
    pub(crate) host_address: Option<usize>,
}

/// All that decides what a kernel's code is and, where host versions run, what its arguments mean:
/// loaded code is shared by sources that agree in every part, and by no others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct KernelIdentity {
    image: Arc<ImageSource>,
    entry: Text,
    parameters: TypeId,
    host_address: Option<usize>,
}

impl KernelCode {
    /// Its identity on a device that runs host versions, or on one that does not. The compiler may
    /// give one function several addresses, for which a GPU need not look the code up again.
    pub(crate) fn identity(&self, runs_host_versions: bool) -> KernelIdentity {
        KernelIdentity {
            image: Arc::clone(&self.image),
            entry: self.entry.clone(),
            parameters: self.parameters,
            host_address: self.host_address.filter(|_| runs_host_versions),
        }
    }
}
