//! Code of a GPU: one module per image, found or compiled once, whoever asks for its entries.
//!
//! ```text
//! 1  a cubin of the program's that runs on this GPU, the nearest first
//! 2  a cubin kept on disk: of the compiler that is there, of any if there is none
//! 3  NVRTC's cubin for this GPU, which is kept
//! 4  PTX of the program's, compiled by the driver; at once where there is no text to compile
//! 5  NVRTC's PTX, compiled by the driver: the compiler is older than the GPU
//! ```
//!
//! What is taken in the place of something better is logged as a warning. Which cubin runs where:
//! [`CodeTarget::runs_on`]. Threads that ask for one image wait for each other; others do not.

#![allow(unsafe_code, reason = "loads code into the CUDA driver")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys;
use spark_hal::ComputeCapability;
use spark_hal::stack::Version;
use spark_hal::stack::{CodeKind, CodeTarget, Reach};

use super::call::check;
use super::compiler::{self, ptx_target, target_of};
use super::includes;
use super::nvrtc::Nvrtc;
use crate::backend::Handle;
use crate::backend::cache::{CacheKey, KernelCache};
use crate::backend::code::{ImageSource, Precompiled, WARP_HEADER};
use crate::error::{DriverError, MemError};
use crate::lock::lock;

/// Where the module of an image is put by the thread that loads it.
type Slot = Arc<Mutex<Option<Handle>>>;

/// The images of a device.
#[derive(Debug)]
pub(super) struct Images {
    compute: Option<ComputeCapability>,
    /// The CUDA version that the driver offers.
    driver: Option<Version>,
    cache: Option<KernelCache>,
    slots: Mutex<HashMap<Arc<ImageSource>, Slot>>,
    modules: Mutex<Vec<Handle>>,
}

/// Errors of loading that say that the driver does not take this code: another kind may be taken.
/// `CUDA_ERROR_INVALID_IMAGE`, `NO_BINARY_FOR_GPU`, `INVALID_PTX`, `UNSUPPORTED_PTX_VERSION`,
/// `INVALID_SOURCE`.
const NOT_TAKEN: [i32; 5] = [200, 209, 218, 222, 300];

impl Images {
    pub(super) fn new(
        compute: Option<ComputeCapability>,
        driver: Option<Version>,
        cache: Option<KernelCache>,
    ) -> Self {
        Self {
            compute,
            driver,
            cache,
            slots: Mutex::default(),
            modules: Mutex::default(),
        }
    }

    /// The module of an image. The context is current on this thread.
    pub(super) fn module(&self, image: &Arc<ImageSource>) -> Result<Handle, MemError> {
        loop {
            let slot = Arc::clone(lock(&self.slots).entry(Arc::clone(image)).or_default());
            let mut module = lock(&slot);
            if let Some(module) = *module {
                return Ok(module);
            }
            let is_kept = |kept: &Slot| Arc::ptr_eq(kept, &slot);
            if !lock(&self.slots).get(image).is_some_and(is_kept) {
                // Whoever held it failed, and the image may have another slot by now.
                continue;
            }
            let loaded = self.first_that_loads(image);
            match &loaded {
                Ok(loaded) => *module = Some(*loaded),
                // Nothing is kept of a text that has no code.
                Err(_) => drop(lock(&self.slots).remove(image)),
            }
            return loaded;
        }
    }

    /// Unloads everything. The context is current on this thread.
    pub(super) fn unload(&self) {
        for module in lock(&self.modules).drain(..) {
            // SAFETY: loaded once, unloaded once; every launch has been waited for. Errors have no
            // receiver any more.
            let _ = unsafe { sys::cuModuleUnload(module as sys::CUmodule) };
        }
    }

    fn first_that_loads(&self, image: &ImageSource) -> Result<Handle, MemError> {
        let compute = self.compute.ok_or_else(|| MemError::NoCompiler {
            why: "the driver did not tell the GPU's compute capability".to_owned(),
        })?;
        let file = &*image.file;
        let (cubins, texts) = precompiled_for(image, compute)?;
        let mut refused = Refused::default();
        for (target, cubin) in cubins {
            match self.load(&cubin.bytes) {
                Ok(module) => return Ok(module),
                Err(error) => refused.note(file, target, other_code_may_load(error)?),
            }
        }
        // Without a text there is nothing to compile: the PTX is all there is, and what is meant.
        if image.source.is_empty() {
            let loaded = self.first_text_that_loads(file, texts, None, &mut refused)?;
            return match loaded {
                Some(module) => Ok(module),
                None => {
                    let compiler = Nvrtc::find(self.driver.clone());
                    self.kept(image, compute, compiler.as_ref())?
                        .ok_or_else(|| no_text_of(image, &refused))
                }
            };
        }
        let compiler = Nvrtc::find(self.driver.clone());
        let without_compiler = match self.kept_or_compiled(image, compute, compiler.as_ref()) {
            Err(error @ MemError::NoCompiler { .. }) => error,
            made => return made,
        };
        if let Some(module) =
            self.first_text_that_loads(file, texts, Some(&without_compiler), &mut refused)?
        {
            return Ok(module);
        }
        let Some((compiler, target)) = compiler
            .ok()
            .filter(|compiler| compiler.gives_ptx)
            .and_then(|compiler| Some((compiler, ptx_target(&compiler, compute)?)))
        else {
            return Err(without_compiler);
        };
        tracing::warn!(
            "kernel file `{file}` is compiled by the driver from PTX for {target}: {without_compiler}"
        );
        let text = compiler::compile(&compiler, image, target)?;
        Ok(self.load_text(&text)?)
    }

    /// PTX of the program's that the driver takes, the nearest first. A warning says what it stands
    /// in for, if that is something.
    fn first_text_that_loads(
        &self,
        file: &str,
        texts: Candidates<'_>,
        instead_of: Option<&MemError>,
        refused: &mut Refused,
    ) -> Result<Option<Handle>, MemError> {
        for (target, text) in texts {
            if let Some(why) = instead_of {
                tracing::warn!(
                    "kernel file `{file}` is compiled by the driver from PTX for {target}: {why}"
                );
            }
            match self.load_text(&text.bytes) {
                Ok(module) => return Ok(Some(module)),
                Err(error) => refused.note(file, target, other_code_may_load(error)?),
            }
        }
        Ok(None)
    }

    /// A cubin kept on disk that this compiler made, or any one where there is none.
    fn kept(
        &self,
        image: &ImageSource,
        compute: ComputeCapability,
        compiler: Result<&Nvrtc, &MemError>,
    ) -> Result<Option<Handle>, MemError> {
        let version = compiler.ok().map(|compiler| compiler.version);
        let Some(cache) = &self.cache else {
            return Ok(None);
        };
        if let Some(why) = includes::from_elsewhere(image) {
            tracing::warn!(
                "compiled code of kernel file `{}` is not kept: {why}; `with_header` gives a kernel its files",
                &*image.file
            );
            return Ok(None);
        }
        let kept = cache.get(&key_of(image, target_of(compute)));
        let Some(code) = kept.as_deref().and_then(|kept| code_of(kept, version)) else {
            return Ok(None);
        };
        match self.load(code) {
            Ok(module) => Ok(Some(module)),
            // Whole by its checksum and still not for this driver: compiled anew.
            Err(error) => {
                let error = other_code_may_load(error)?;
                tracing::warn!("a kept kernel does not load: {error}; compiling again");
                Ok(None)
            }
        }
    }

    /// A cubin kept on disk, or made now and kept.
    ///
    /// # Errors
    ///
    /// [`MemError::NoCompiler`] if there is none for this text and GPU, and nothing kept.
    fn kept_or_compiled(
        &self,
        image: &ImageSource,
        compute: ComputeCapability,
        compiler: Result<&Nvrtc, &MemError>,
    ) -> Result<Handle, MemError> {
        if let Some(module) = self.kept(image, compute, compiler)? {
            return Ok(module);
        }
        let target = target_of(compute);
        let compiler = compiler.map_err(|error| MemError::NoCompiler {
            why: match error {
                MemError::NoCompiler { why } => why.clone(),
                other => other.to_string(),
            },
        })?;
        let known = compiler.architectures();
        if !known.is_empty() && !known.contains(&target.sm) {
            let (major, minor) = compiler.version;
            return Err(MemError::NoCompiler {
                why: format!("NVRTC {major}.{minor} does not know {target}"),
            });
        }
        let code = compiler::compile(compiler, image, target)?;
        if let Some(cache) = &self.cache
            && includes::from_elsewhere(image).is_none()
        {
            cache.put(&key_of(image, target), &to_keep(compiler.version, &code));
        }
        Ok(self.load(&code)?)
    }

    fn load(&self, code: &[u8]) -> Result<Handle, DriverError> {
        // Aligned as the driver's own readers of files have it.
        let mut words = vec![0_u64; code.len().div_ceil(size_of::<u64>())];
        // SAFETY: the words have at least as many bytes, and both are live and apart.
        unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), words.as_mut_ptr().cast(), code.len());
        }
        let mut module: sys::CUmodule = std::ptr::null_mut();
        // SAFETY: the image is a whole ELF file, as `precompiled_for` and `code_of` have seen and the
        // compiler says, or PTX that ends with NUL; `module` is writable.
        let loaded = unsafe { sys::cuModuleLoadData(&raw mut module, words.as_ptr().cast()) };
        check("cuModuleLoadData", loaded)?;
        lock(&self.modules).push(module as Handle);
        Ok(module as Handle)
    }

    /// PTX, which must end with NUL.
    fn load_text(&self, text: &[u8]) -> Result<Handle, DriverError> {
        let end = text.iter().position(|byte| *byte == 0);
        let mut text = text[..end.unwrap_or(text.len())].to_vec();
        text.push(0);
        self.load(&text)
    }
}

/// Precompiled code that the driver did not take, as words.
#[derive(Default)]
struct Refused(String);

impl Refused {
    fn note(&mut self, file: &str, target: CodeTarget, error: DriverError) {
        tracing::warn!("the image for {target} of kernel file `{file}` does not load: {error}");
        self.0 += &format!("; its image for {target} does not load: {error}");
    }
}

fn no_text_of(image: &ImageSource, refused: &Refused) -> MemError {
    MemError::NoCompiler {
        why: format!("there is no text of `{}`{}", &*image.file, refused.0),
    }
}

/// An error after which other code is tried, as words; others end the search.
fn other_code_may_load(error: DriverError) -> Result<DriverError, MemError> {
    if NOT_TAKEN.contains(&error.code) {
        return Ok(error);
    }
    Err(error.into())
}

type Candidates<'a> = Vec<(CodeTarget, &'a Precompiled)>;

/// Cubins and PTX of the program's that run on this GPU, the nearest first.
fn precompiled_for(
    image: &ImageSource,
    compute: ComputeCapability,
) -> Result<(Candidates<'_>, Candidates<'_>), MemError> {
    let mut all = Candidates::new();
    for precompiled in &image.precompiled {
        let bad = |why| MemError::BadImage {
            file: image.file.to_string(),
            target: precompiled.target.to_string(),
            why,
        };
        let target: CodeTarget = precompiled
            .target
            .parse()
            .map_err(|_| bad("is for no architecture: names are as sm_121a and compute_90"))?;
        match target.kind {
            CodeKind::Machine if !is_whole_elf(&precompiled.bytes) => {
                return Err(bad("is no whole cubin"));
            }
            CodeKind::Ptx if !is_ptx(&precompiled.bytes) => {
                return Err(bad("is no PTX: that is text which begins with `.version`"));
            }
            CodeKind::Machine | CodeKind::Ptx => {}
        }
        if target.runs_on(compute) {
            all.push((target, precompiled));
        }
    }
    let nearness = |target: &CodeTarget| {
        let reach = match target.reach {
            Reach::Exact => 2,
            Reach::Family => 1,
            Reach::Ordinary => 0,
        };
        // Code with the instructions of the very chip, of its family, for the same minor version.
        (reach, target.sm)
    };
    all.sort_by_key(|(target, _)| std::cmp::Reverse(nearness(target)));
    Ok(all
        .into_iter()
        .partition(|(target, _)| target.kind == CodeKind::Machine))
}

/// Whether this is a PTX text: the driver looks at how code begins to tell what it is, and would read a
/// file of machine code beyond the end of its first bytes.
fn is_ptx(bytes: &[u8]) -> bool {
    let end = bytes.iter().rposition(|byte| *byte != 0);
    let text = bytes.get(..end.map_or(0, |last| last + 1));
    let Some(mut rest) = text.and_then(|text| std::str::from_utf8(text).ok()) else {
        return false;
    };
    loop {
        rest = rest.trim_start();
        rest = match rest.get(..2) {
            Some("//") => rest.split_once('\n').map_or("", |(_, rest)| rest),
            Some("/*") => rest.split_once("*/").map_or("", |(_, rest)| rest),
            _ => return rest.starts_with(".version") && !rest.contains('\0'),
        };
    }
}

/// Whether this is a 64-bit little-endian ELF file that can be executed, whose tables, and what they
/// point at, lie inside it: the driver is told where it begins and trusts it for the rest.
fn is_whole_elf(bytes: &[u8]) -> bool {
    let word = |at: usize, n: usize| -> Option<u64> {
        let mut value = [0; 8];
        value[..n].copy_from_slice(bytes.get(at..at.checked_add(n)?)?);
        Some(u64::from_le_bytes(value))
    };
    type Span = fn(usize) -> (usize, usize, Option<usize>);
    let table = |offset_at, size_at, count_at, want: usize, span: Span| {
        let begin = usize::try_from(word(offset_at, 8)?).ok()?;
        let (size, count) = (word(size_at, 2)? as usize, word(count_at, 2)? as usize);
        // Entries of another size are read at another place by somebody else.
        if (count > 0 && size != want) || (count == 0 && begin != 0) {
            return None;
        }
        for idx in 0..count {
            let entry = begin.checked_add(idx.checked_mul(size)?)?;
            bytes.get(entry..entry.checked_add(size)?)?;
            let (place, length, kind) = span(entry);
            let is_absent = match kind {
                Some(kind) => word(kind, 4)? == NOBITS,
                None => false,
            };
            let (place, length) = (word(place, 8)?, word(length, 8)?);
            let end = usize::try_from(place.checked_add(length)?).ok()?;
            if !is_absent && end > bytes.len() {
                return None;
            }
        }
        Some(())
    };
    const NOBITS: u64 = 8;
    // 64-bit, little-endian, of this version; its kind at 16: executable, as code that needs no linking is.
    const EXECUTABLE: u64 = 2;
    bytes.starts_with(b"\x7fELF\x02\x01\x01")
        && bytes.len() >= 64
        && word(16, 2) == Some(EXECUTABLE)
        // Program headers: offset at 32, size at 54, count at 56; section headers: 40, 58, 60; which
        // section holds the names: 62.
        && table(32, 54, 56, 56, |entry| (entry + 8, entry + 32, None)).is_some()
        && table(40, 58, 60, 64, |entry| (entry + 24, entry + 32, Some(entry + 4))).is_some()
        && word(62, 2) < word(60, 2).max(Some(1))
}

/// The key of an image's machine code on disk, whichever compiler made it.
fn key_of(image: &ImageSource, target: CodeTarget) -> CacheKey {
    let target = target.to_string();
    // Their number keeps headers and options apart, which follow each other.
    let n_headers = image.headers.len().to_le_bytes();
    let mut parts: Vec<&[u8]> = vec![
        image.file.as_bytes(),
        image.source.as_bytes(),
        WARP_HEADER.as_bytes(),
        target.as_bytes(),
        &n_headers,
    ];
    for (name, text) in &image.headers {
        parts.extend([name.as_bytes(), text.as_bytes()]);
    }
    parts.extend(image.options.iter().map(|option| option.as_bytes()));
    CacheKey::new(&parts)
}

/// What is kept: the compiler in one line, then its code.
fn to_keep((major, minor): (u32, u32), code: &[u8]) -> Vec<u8> {
    let mut kept = format!("NVRTC {major}.{minor}\n").into_bytes();
    kept.extend_from_slice(code);
    kept
}

/// The code that was kept, if this compiler made it or there is none to make it again, and if it is
/// a file that the driver can be told of: a checksum says only that it is what was kept.
fn code_of(kept: &[u8], compiler: Option<(u32, u32)>) -> Option<&[u8]> {
    let end = kept.iter().position(|byte| *byte == b'\n')?;
    let (line, code) = (&kept[..end], &kept[end + 1..]);
    let is_its =
        compiler.is_none_or(|(major, minor)| line == format!("NVRTC {major}.{minor}").as_bytes());
    (is_its && is_whole_elf(code)).then_some(code)
}

/// Machine code for a GPU that need not be there.
pub(crate) fn compile(
    image: &ImageSource,
    compute: ComputeCapability,
) -> Result<Vec<u8>, MemError> {
    compiler::compile(&Nvrtc::find(None)?, image, target_of(compute))
}

/// Machine code for a GPU that need not be there, kept where a device of it looks.
pub(crate) fn precompile(
    image: &ImageSource,
    compute: ComputeCapability,
    cache_dir: &Path,
) -> Result<(), MemError> {
    let (compiler, target) = (Nvrtc::find(None)?, target_of(compute));
    if image.source.is_empty() {
        return Err(no_text_of(image, &Refused::default()));
    }
    if let Some(why) = includes::from_elsewhere(image) {
        return Err(MemError::Unsupported {
            what: "keeping a kernel's code",
            why: why.to_owned(),
        });
    }
    let code = compiler::compile(&compiler, image, target)?;
    let (cache, key) = (KernelCache::new(cache_dir), key_of(image, target));
    let kept = cache.write(&key, &to_keep(compiler.version, &code));
    kept.map_err(|source| MemError::Io {
        action: "write",
        path: cache.path(&key),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_end_before_their_tables_are_not_whole() {
        let mut elf = [0_u8; 200];
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        elf[16] = 2;
        assert!(is_whole_elf(&elf));
        assert!(!is_whole_elf(&elf[..63]) && !is_whole_elf(&elf[1..]) && !is_whole_elf(&[]));
        // One section header of 64 bytes at 100, whose section lies at 150.
        elf[40] = 100;
        elf[58] = 64;
        elf[60] = 1;
        elf[124] = 150;
        elf[132] = 50;
        assert!(is_whole_elf(&elf));
        for (at, value) in [
            (132, 51),
            (40, 137),
            (60, 2),
            (131, 1),
            (139, 0xff),
            (47, 0x80),
            (58, 65),
            (62, 1),
            (60, 0),
            (4, 1),
            (5, 2),
            (6, 0),
            (16, 1),
        ] {
            let mut damaged = elf;
            damaged[at] = value;
            assert!(!is_whole_elf(&damaged), "byte {at}");
        }
        elf[104] = 8; // a section without bytes in the file
        elf[132] = 255;
        assert!(is_whole_elf(&elf));
    }

    #[test]
    fn ptx_is_text_that_begins_with_its_version() {
        for text in [
            ".version 8.0\n.target sm_80\n",
            "// made by\n/* two\nlines */ .version 9.0\n\0",
        ] {
            assert!(is_ptx(text.as_bytes()), "{text}");
        }
        let (elf, fat) = (b"\x7fELF\x02\x01\x01", b"\x50\xed\x55\xba");
        for bytes in [
            &elf[..],
            fat,
            b"",
            b"\0",
            b".target sm_80",
            b".version 8.0\0\n.target",
            b"/* .version",
            b"//",
        ] {
            assert!(!is_ptx(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn code_of_another_compiler_is_taken_only_where_there_is_none() {
        let mut code = [0_u8; 64];
        code[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        code[16] = 2;
        let kept = to_keep((12, 9), &code);
        assert_eq!(code_of(&kept, Some((12, 9))), Some(&code[..]));
        assert_eq!(code_of(&kept, Some((12, 90))), None);
        assert_eq!(code_of(&kept, None), Some(&code[..]));
        assert_eq!(code_of(b"no line", None), None);
        // What no compiler makes, under the checksum of what it is.
        assert_eq!(code_of(&to_keep((12, 9), b""), None), None);
        assert_eq!(code_of(&to_keep((12, 9), &code[..63]), None), None);
    }
}
