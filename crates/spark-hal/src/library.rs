//! Shared libraries, opened at run time and never closed.
//!
//! A driver library may have threads of its own, which run as long as the process does.

#![allow(unsafe_code, reason = "opening a library runs its initialisers")]

use libloading::Library;

use crate::reading::quote;

/// Why a library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LibraryUnavailable {
    /// None of the names leads to a library.
    #[error("cannot be opened ({reason})")]
    Missing {
        /// The linker's words about the first name.
        reason: String,
    },
    /// The library lacks a function.
    #[error("has no `{symbol}`")]
    SymbolMissing {
        /// The first symbol that is missing.
        symbol: &'static str,
    },
}

/// Opens the first of these libraries that exists, for the life of the process.
///
/// # Errors
///
/// [`LibraryUnavailable::Missing`].
pub(crate) fn open(names: &[&str]) -> Result<&'static Library, LibraryUnavailable> {
    let mut reason = "no name given".to_owned();
    for (idx, name) in names.iter().enumerate() {
        // SAFETY: opening a library runs its initialisers. These are NVIDIA's driver
        // libraries, installed by the administrator, which every CUDA program opens.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) if idx == 0 => reason = quote(&error.to_string()),
            Err(_) => {}
        }
    }
    Err(LibraryUnavailable::Missing { reason })
}

/// Whether a library has this symbol.
pub(crate) fn has_symbol(library: &Library, name: &str) -> bool {
    // SAFETY: the pointer is only compared, never called or read through.
    unsafe { library.get::<*const ()>(name.as_bytes()) }.is_ok()
}

/// Opens the first of these libraries that exists, and looks whether all these symbols are in it.
///
/// # Errors
///
/// What is missing.
pub(crate) fn probe(names: &[&str], symbols: &[&'static str]) -> Result<(), LibraryUnavailable> {
    let library = open(names)?;
    match symbols.iter().find(|name| !has_symbol(library, name)) {
        Some(symbol) => Err(LibraryUnavailable::SymbolMissing { symbol }),
        None => Ok(()),
    }
}
