//! The folder of compiled kernels: whole entries or none, whoever else writes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use spark_mem::kernel::cache::{CacheKey, KernelCache};

/// A cache directory of this test's own.
pub(crate) struct CacheDir(pub(crate) PathBuf);

impl CacheDir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cache-{}-{number}", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.0.join("kernels")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for CacheDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_kept_is_found_and_nothing_else_stays() {
    let cache = CacheDir::new();
    let kernels = KernelCache::new(&cache.0);
    let key = CacheKey::new(&[b"source"]);
    kernels.put(&key, b"code");
    assert_eq!(kernels.get(&key).as_deref(), Some(&b"code"[..]));
    let names: Vec<_> = cache.entries();
    assert_eq!(names, [kernels.path(&key)], "no temporary file stays");
}

#[test]
fn many_threads_may_keep_the_same_kernel() {
    let cache = CacheDir::new();
    let kernels = KernelCache::new(&cache.0);
    let key = CacheKey::new(&[b"source"]);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (kernels, key) = (&kernels, &key);
            scope.spawn(move || {
                for _ in 0..50 {
                    kernels.put(key, &[thread; 10_000]);
                    let code = kernels.get(key).expect("always whole");
                    assert!(code.len() == 10_000 && code.iter().all(|byte| *byte == code[0]));
                }
            });
        }
    });
    assert_eq!(cache.entries().len(), 1);
}

#[test]
fn keys_differ_in_every_part() {
    let keys = [
        CacheKey::new(&[b"ab", b"c"]),
        CacheKey::new(&[b"a", b"bc"]),
        CacheKey::new(&[b"abc"]),
        CacheKey::new(&[b"abc", b""]),
    ];
    for (idx, key) in keys.iter().enumerate() {
        assert!(!keys[..idx].contains(key), "{idx}");
    }
}

/// A process that is killed while it keeps code leaves a file that nobody would ever ask for again.
#[test]
fn what_killed_processes_left_is_removed_by_who_writes_next() {
    let cache = CacheDir::new();
    let key = CacheKey::new(&[b"source"]);
    let path = KernelCache::new(&cache.0).path(&key);
    let folder = path.parent().unwrap();
    std::fs::create_dir_all(folder).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let make = |name: String, seconds: u64| {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        let file = std::fs::File::create(folder.join(&name)).unwrap();
        file.set_modified(time).unwrap();
        folder.join(name)
    };
    let left = make(format!(".{name}.AbC123.tmp"), 2 * 3600);
    let in_use = make(format!(".{name}.Yet123.tmp"), 60);
    let somebodys = make(".notes.cubin.AbC123.tmp".to_owned(), 2 * 3600);
    let kernels = KernelCache::new(&cache.0);
    kernels.put(&key, b"code");
    assert!(!left.exists());
    let mut entries = cache.entries();
    entries.sort();
    let mut expected = [in_use, somebodys, path.clone()];
    expected.sort();
    assert_eq!(entries, expected);
    assert_eq!(kernels.get(&key).as_deref(), Some(&b"code"[..]));
}
