//! Decoded pictures kept on disk, so that training may take them in any order.
//!
//! ```text
//! <folder>/<key>.pictures      key = SHA-256 of the video's SHA-256 and of every how many pictures one is kept
//!   head      magic, key, width, height, every; SHA-256 of these
//!   record    SHA-256 of key, number and planes; planes
//!   …
//!   trailer   number of pictures; SHA-256 of key and number
//! ```
//!
//! A video is decoded when it is first asked for and its file is written whole or not at all; two that ask at once both decode it. What is
//! damaged, cut, or stands under another video's name is seen by its checksums, said in the log, and made anew; a video that changes
//! while it is decoded is an error. The folder is brought back to its bytes after each video: what was opened longest ago goes first, and
//! while one is written it may lie above them. A file that goes while somebody has it open is on the disk until they close it. Where nothing can be written, a
//! warning says so and the pictures are held in memory, within the same number of bytes.
//!
//! Raw planes: lossless compression saves a third of them and costs a decoder's time at each read.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use super::decoder::VideoOptions;
use super::error::VideoError;
use super::pictures::Pictures;
use super::planes::{PictureSize, Yuv420};

const MAGIC: &[u8; 8] = b"SPKYUV01";
const DIGEST: usize = 32;
/// Magic, key, width, height, every, and their digest.
const HEAD: usize = 8 + DIGEST + 3 * 8 + DIGEST;
/// Number of pictures and the digest.
const TRAILER: usize = 8 + DIGEST;
const ENDING: &str = "pictures";
/// How often a file is written that others take away.
const TRIES: usize = 3;
/// What somebody who was killed left behind is not being written any more.
const STALE: Duration = Duration::from_secs(3600);

/// How a store keeps pictures.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Bytes that the folder may take, and that pictures may take in memory where it cannot be written to.
    pub limit_bytes: u64,
    /// How videos are decoded.
    pub video: VideoOptions,
}

impl Default for StoreOptions {
    /// 16 GiB: fifty minutes of the small road camera.
    fn default() -> Self {
        Self {
            limit_bytes: 16 << 30,
            video: VideoOptions::default(),
        }
    }
}

impl StoreOptions {
    /// With at most so many bytes.
    #[must_use]
    pub fn with_limit_bytes(self, limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            ..self
        }
    }

    /// With videos decoded so.
    #[must_use]
    pub fn with_video(self, video: VideoOptions) -> Self {
        Self { video, ..self }
    }
}

/// A folder of decoded pictures.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    options: StoreOptions,
    /// Bytes of pictures that are held in memory.
    held: Arc<AtomicU64>,
}

/// What tells the pictures of one video from those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key([u8; DIGEST]);

/// The pictures of a video, by number.
#[derive(Debug)]
pub struct StoredVideo {
    store: Store,
    video: PathBuf,
    key: Key,
    every: u64,
    size: PictureSize,
    n_pictures: u64,
    place: Place,
}

#[derive(Debug)]
enum Place {
    File(File),
    Memory(Held),
}

/// Pictures in memory, counted in their store.
#[derive(Debug)]
struct Held {
    pictures: Vec<Yuv420>,
    bytes: u64,
    counted_in: Arc<AtomicU64>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.counted_in.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Why a file of pictures was not written.
enum Unkept {
    Io(io::Error),
    Video(VideoError),
}

impl From<io::Error> for Unkept {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<VideoError> for Unkept {
    fn from(error: VideoError) -> Self {
        Self::Video(error)
    }
}

impl Store {
    /// The pictures in this folder, which is made when first written to.
    pub fn new(folder: impl Into<PathBuf>, options: StoreOptions) -> Self {
        let folder: PathBuf = folder.into();
        let is_here = folder.as_os_str().is_empty();
        Self {
            folder: if is_here { ".".into() } else { folder },
            options,
            held: Arc::default(),
        }
    }

    /// The pictures of a video, every `every`th of them (0 counts as 1), decoded now unless they are kept.
    ///
    /// # Errors
    ///
    /// Those of decoding; [`VideoError::TooLarge`] for more than the store may take; [`VideoError::NoPicture`] for a video without a picture.
    pub fn video(&self, path: &Path, every: u64) -> Result<StoredVideo, VideoError> {
        let every = every.max(1);
        let key = self.key_of(path, every)?;
        let video = match self.kept(path, key, every) {
            Some(kept) => {
                self.make_room(&self.file(key));
                kept
            }
            None => self.decode(path, key, every)?,
        };
        match self.options.video.size {
            Some(want) if want != video.size => Err(VideoError::Size {
                path: path.to_owned(),
                got: video.size,
                want,
            }),
            _ => Ok(video),
        }
    }

    /// The same store for somebody who may cancel what it decodes.
    pub(crate) fn until(&self, cancelled: Arc<AtomicBool>) -> Self {
        let mut store = self.clone();
        store.options.video.also_cancelled = Some(cancelled);
        store
    }

    fn file(&self, key: Key) -> PathBuf {
        let name: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.{ENDING}"))
    }

    /// What is kept and whole, as far as can be seen without reading it.
    fn kept(&self, video: &Path, key: Key, every: u64) -> Option<StoredVideo> {
        let file = self.file(key);
        match open(&file, key) {
            Ok((opened, size, n_pictures)) => {
                // Used now: others go first. Where that cannot be written the order is that of making.
                let _ = opened.set_modified(SystemTime::now());
                Some(StoredVideo {
                    store: self.clone(),
                    video: video.to_owned(),
                    key,
                    every,
                    size,
                    n_pictures,
                    place: Place::File(opened),
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(
                    "pictures in `{}` are not used: {error}; decoding again",
                    file.display()
                );
                None
            }
        }
    }

    fn decode(&self, video: &Path, key: Key, every: u64) -> Result<StoredVideo, VideoError> {
        let file = self.file(key);
        // Others who need room may take the file away before it is opened.
        for _ in 0..TRIES {
            let made = fs::create_dir_all(&self.folder).map_err(Unkept::Io);
            let written = made.and_then(|()| {
                spark_files::write_with(&file, |out| self.write(out, video, key, every))
            });
            match written {
                Ok(()) => {}
                Err(Unkept::Video(error)) => return Err(error),
                Err(Unkept::Io(error)) => {
                    tracing::warn!(
                        "pictures of `{}` cannot be kept in `{}`: {error}; they are held in memory",
                        video.display(),
                        self.folder.display()
                    );
                    return self.in_memory(video, key, every);
                }
            }
            let kept = self.kept(video, key, every);
            self.make_room(&file);
            if let Some(kept) = kept {
                return Ok(kept);
            }
        }
        tracing::warn!(
            "pictures of `{}` do not stay in `{}`, which others use too; they are held in memory",
            video.display(),
            self.folder.display()
        );
        self.in_memory(video, key, every)
    }

    /// Every picture that is kept, with its number; the size and number of them.
    fn each(
        &self,
        video: &Path,
        every: u64,
        mut keep: impl FnMut(u64, &Yuv420) -> Result<(), Unkept>,
    ) -> Result<(PictureSize, u64), Unkept> {
        let mut pictures = Pictures::open(video, &self.options.video)?;
        let mut picture = Yuv420::empty();
        let (mut n_kept, mut bytes) = (0, 0_u64);
        while pictures.next(&mut picture)? {
            if (pictures.position() - 1) % every != 0 {
                continue;
            }
            bytes += (picture.bytes().len() + DIGEST) as u64;
            if bytes + (HEAD + TRAILER) as u64 > self.options.limit_bytes {
                return Err(Unkept::Video(VideoError::TooLarge {
                    path: video.to_owned(),
                    bytes: bytes + (HEAD + TRAILER) as u64,
                    limit: self.options.limit_bytes,
                }));
            }
            keep(n_kept, &picture)?;
            n_kept += 1;
        }
        if n_kept == 0 {
            return Err(Unkept::Video(VideoError::NoPicture {
                path: video.to_owned(),
            }));
        }
        Ok((picture.size(), n_kept))
    }

    fn write(&self, out: &mut dyn Write, video: &Path, key: Key, every: u64) -> Result<(), Unkept> {
        let (_, n_pictures) = self.each(video, every, |number, picture| {
            if number == 0 {
                out.write_all(&head(key, picture.size(), every))?;
            }
            out.write_all(&record_digest(key, number, picture.bytes()))?;
            out.write_all(picture.bytes())?;
            Ok(())
        })?;
        out.write_all(&trailer(key, n_pictures))?;
        Ok(self.check_unchanged(video, key, every)?)
    }

    fn check_unchanged(&self, video: &Path, key: Key, every: u64) -> Result<(), VideoError> {
        match self.key_of(video, every)? == key {
            true => Ok(()),
            false => Err(VideoError::Changed {
                path: video.to_owned(),
            }),
        }
    }

    fn in_memory(&self, video: &Path, key: Key, every: u64) -> Result<StoredVideo, VideoError> {
        let mut held = Held {
            pictures: Vec::new(),
            bytes: 0,
            counted_in: Arc::clone(&self.held),
        };
        let limit = self.options.limit_bytes;
        let read = self.each(video, every, |_, picture| {
            let bytes = picture.bytes().len() as u64;
            held.bytes += bytes;
            let all = bytes + self.held.fetch_add(bytes, Ordering::Relaxed);
            if all > limit {
                return Err(Unkept::Video(VideoError::TooLarge {
                    path: video.to_owned(),
                    bytes: all,
                    limit,
                }));
            }
            held.pictures.push(picture.clone());
            Ok(())
        });
        let (size, n_pictures) = read.map_err(|error| match error {
            Unkept::Video(error) => error,
            Unkept::Io(source) => VideoError::Io {
                path: video.to_owned(),
                source,
            },
        })?;
        self.check_unchanged(video, key, every)?;
        Ok(StoredVideo {
            store: self.clone(),
            video: video.to_owned(),
            key,
            every,
            size,
            n_pictures,
            place: Place::Memory(held),
        })
    }

    /// Removes what was opened longest ago until the rest fits; `kept` stays. What cannot be looked at or removed is passed over: the
    /// next video tries again. What others have in the folder is nobody's here.
    fn make_room(&self, kept: &Path) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        let mut total = 0;
        for entry in entries.flatten() {
            let (path, metadata) = (entry.path(), entry.metadata());
            let name = entry.file_name();
            let Some(kind) = name.to_str().and_then(kind_of) else {
                continue;
            };
            let Ok((modified, bytes)) = metadata.and_then(|it| Ok((it.modified()?, it.len())))
            else {
                continue;
            };
            match kind {
                OwnFile::Pictures if path != kept => files.push((modified, bytes, path)),
                OwnFile::Temporary if modified.elapsed().is_ok_and(|age| age > STALE) => {
                    let _ = fs::remove_file(&path);
                    continue;
                }
                OwnFile::Pictures | OwnFile::Temporary => {}
            }
            total += bytes;
        }
        files.sort();
        for (_, bytes, path) in files {
            if total <= self.options.limit_bytes {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                tracing::info!("pictures in `{}` make room for others", path.display());
                total -= bytes;
            }
        }
    }

    /// The content of a video and what is kept of it.
    fn key_of(&self, path: &Path, every: u64) -> Result<Key, VideoError> {
        let io = |source| VideoError::Io {
            path: path.to_owned(),
            source,
        };
        let (mut file, _) = spark_files::open(path).map_err(io)?;
        let mut content = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            if self.options.video.is_cancelled() {
                return Err(VideoError::Cancelled {
                    path: path.to_owned(),
                    pictures: 0,
                });
            }
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => content.update(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io(error)),
            }
        }
        let key = Sha256::new()
            .chain_update(content.finalize())
            .chain_update(every.to_le_bytes());
        Ok(Key(key.finalize().into()))
    }
}

/// A file that stores write.
#[derive(Debug, Clone, Copy, PartialEq)]
enum OwnFile {
    Pictures,
    Temporary,
}

/// By its name: `<64 digits>.pictures`, and while it is written `.<64 digits>.pictures.<random>.tmp`.
fn kind_of(name: &str) -> Option<OwnFile> {
    let is_key =
        |text: &str| text.len() == 2 * DIGEST && text.bytes().all(|it| it.is_ascii_hexdigit());
    if name.strip_suffix(".pictures").is_some_and(is_key) {
        return Some(OwnFile::Pictures);
    }
    let (key, rest) = name.strip_prefix('.')?.split_once('.')?;
    let is_temporary = is_key(key) && rest.starts_with("pictures.") && rest.ends_with(".tmp");
    is_temporary.then_some(OwnFile::Temporary)
}

impl StoredVideo {
    /// Size of the pictures.
    pub fn size(&self) -> PictureSize {
        self.size
    }

    /// How many pictures are kept.
    pub fn len(&self) -> u64 {
        self.n_pictures
    }

    /// Whether there are none; a stored video has some.
    pub fn is_empty(&self) -> bool {
        self.n_pictures == 0
    }

    /// Whether they lie on disk, and not in memory.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// The picture of a number of the video, from 0. A damaged record is decoded again, with all others of its video.
    ///
    /// # Errors
    ///
    /// [`VideoError::NotKept`] for one that `every` passes over, [`VideoError::Short`] for one behind the end, [`VideoError::Io`]; those of
    /// decoding again, [`VideoError::Changed`] if the file is another one by then among them.
    pub fn read(&mut self, index: u64, picture: &mut Yuv420) -> Result<(), VideoError> {
        let path = || self.video.clone();
        if !index.is_multiple_of(self.every) {
            return Err(VideoError::NotKept {
                path: path(),
                index,
                every: self.every,
            });
        }
        let number = index / self.every;
        if number >= self.n_pictures {
            return Err(VideoError::Short {
                path: path(),
                pictures: self.n_pictures * self.every,
                index,
            });
        }
        let error = match self.read_record(number, picture) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        tracing::warn!(
            "picture {index} of `{}` in `{}` is damaged: {error}; decoding again",
            self.video.display(),
            self.store.file(self.key).display()
        );
        *self = self.store.decode(&self.video, self.key, self.every)?;
        self.read_record(number, picture)
            .map_err(|source| VideoError::Io {
                path: self.store.file(self.key),
                source,
            })
    }

    fn read_record(&self, number: u64, picture: &mut Yuv420) -> io::Result<()> {
        let file = match &self.place {
            Place::Memory(held) => {
                let found = held.pictures.get(number as usize);
                picture.clone_from(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                return Ok(());
            }
            Place::File(file) => file,
        };
        let record = (DIGEST + self.size.bytes()) as u64;
        let at = HEAD as u64 + number * record;
        let mut digest = [0; DIGEST];
        file.read_exact_at(&mut digest, at)?;
        let bytes = picture.resize(self.size);
        file.read_exact_at(bytes, at + DIGEST as u64)?;
        match digest == record_digest(self.key, number, bytes) {
            true => Ok(()),
            false => Err(damaged("its checksum is another")),
        }
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn head(key: Key, size: PictureSize, every: u64) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend(key.0);
    for number in [size.width as u64, size.height as u64, every] {
        head.extend(number.to_le_bytes());
    }
    let digest = Sha256::digest(&head);
    head.extend(digest);
    head
}

fn record_digest(key: Key, number: u64, planes: &[u8]) -> [u8; DIGEST] {
    let head = Sha256::new()
        .chain_update(key.0)
        .chain_update(number.to_le_bytes());
    head.chain_update(planes).finalize().into()
}

fn trailer(key: Key, n_pictures: u64) -> Vec<u8> {
    let number = n_pictures.to_le_bytes();
    let digest = Sha256::new()
        .chain_update(key.0)
        .chain_update(number)
        .finalize();
    [&number[..], &digest].concat()
}

/// Opens a file whose head, trailer and length agree; the size and number of its pictures.
fn open(path: &Path, key: Key) -> io::Result<(File, PictureSize, u64)> {
    let (file, length) = spark_files::open(path)?;
    let short = || damaged("it is too short");
    let mut begin = [0; HEAD];
    if length < (HEAD + TRAILER) as u64 {
        return Err(short());
    }
    file.read_exact_at(&mut begin, 0)?;
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&begin[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let numbers = 8 + DIGEST;
    // A stream has no larger sides; a product that overflows would be none.
    let side = |at| usize::try_from(number(at).min(1 << 14)).unwrap_or(0);
    let size = PictureSize {
        width: side(numbers),
        height: side(numbers + 8),
    };
    if begin[..] != head(key, size, number(numbers + 16))[..] {
        return Err(damaged("its head is damaged, or another video's"));
    }
    let mut end = [0; TRAILER];
    file.read_exact_at(&mut end, length - TRAILER as u64)?;
    let mut n_pictures = [0; 8];
    n_pictures.copy_from_slice(&end[..8]);
    let n_pictures = u64::from_le_bytes(n_pictures);
    if end[..] != trailer(key, n_pictures)[..] {
        return Err(damaged("its end is damaged"));
    }
    let records = (DIGEST + size.bytes()) as u64;
    let want = n_pictures.checked_mul(records);
    let want = want.and_then(|bytes| bytes.checked_add((HEAD + TRAILER) as u64));
    match want == Some(length) {
        true => Ok((file, size, n_pictures)),
        false => Err(short()),
    }
}
