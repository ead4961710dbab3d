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
//! A video is decoded when it is first asked for and its file is written whole or not at all. What is damaged, cut, or stands under
//! another video's name is seen by its checksums, said in the log, and made anew. The folder takes at most so many bytes: what was
//! used longest ago goes first. Where nothing can be written, a warning says so and the pictures are held in memory.
//!
//! Raw planes: lossless compression saves a third of them and costs a decoder's time at each read.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
    Memory(Vec<Yuv420>),
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
        Self {
            folder: folder.into(),
            options,
        }
    }

    /// The pictures of a video, every `every`th of them (0 counts as 1), decoded now unless they are kept.
    ///
    /// # Errors
    ///
    /// Those of decoding; [`VideoError::TooLarge`] for more than the store may take; [`VideoError::Short`] for a video without a picture.
    pub fn video(&self, path: &Path, every: u64) -> Result<StoredVideo, VideoError> {
        let every = every.max(1);
        let key = key_of(path, every)?;
        if let Some(kept) = self.kept(path, key, every) {
            return Ok(kept);
        }
        self.decode(path, key, every)
    }

    /// The same store for somebody who may cancel what it decodes.
    pub(crate) fn until(&self, cancelled: Arc<AtomicBool>) -> Self {
        let mut store = self.clone();
        store.options.video = store.options.video.with_cancelled(cancelled);
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
        let written = fs::create_dir_all(&self.folder)
            .map_err(Unkept::Io)
            .and_then(|()| {
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
        self.make_room(&file);
        let unread = || VideoError::Io {
            path: file.clone(),
            source: io::Error::other("it was written and cannot be read"),
        };
        self.kept(video, key, every).ok_or_else(unread)
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
                    bytes,
                    limit: self.options.limit_bytes,
                }));
            }
            keep(n_kept, &picture)?;
            n_kept += 1;
        }
        if n_kept == 0 {
            return Err(Unkept::Video(VideoError::Short {
                path: video.to_owned(),
                pictures: 0,
                index: 0,
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
        Ok(())
    }

    fn in_memory(&self, video: &Path, key: Key, every: u64) -> Result<StoredVideo, VideoError> {
        let mut held = Vec::new();
        let read = self.each(video, every, |_, picture| {
            held.push(picture.clone());
            Ok(())
        });
        let (size, n_pictures) = read.map_err(|error| match error {
            Unkept::Video(error) => error,
            Unkept::Io(source) => VideoError::Io {
                path: video.to_owned(),
                source,
            },
        })?;
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

    /// Removes what was used longest ago until the rest fits; `kept` stays. What cannot be looked at or removed is passed over: the
    /// next video tries again.
    fn make_room(&self, kept: &Path) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in entries.flatten() {
            let (path, metadata) = (entry.path(), entry.metadata());
            let Ok(metadata) = metadata.and_then(|it| Ok((it.modified()?, it.len()))) else {
                continue;
            };
            let is_left_behind = path.extension().is_some_and(|ending| ending == "tmp")
                && metadata.0.elapsed().is_ok_and(|age| age > STALE);
            if is_left_behind {
                let _ = fs::remove_file(&path);
            } else if path.extension().is_some_and(|ending| ending == ENDING) && path != kept {
                files.push((metadata.0, metadata.1, path));
            }
        }
        files.sort();
        let own = fs::metadata(kept).map_or(0, |metadata| metadata.len());
        let mut total = own + files.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
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
    /// decoding again.
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
                let found = held.get(number as usize);
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

/// The content of a video and what is kept of it.
fn key_of(path: &Path, every: u64) -> Result<Key, VideoError> {
    let io = |source| VideoError::Io {
        path: path.to_owned(),
        source,
    };
    let (mut file, _) = spark_files::open(path).map_err(io)?;
    let mut content = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
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
    let want = n_pictures
        .checked_mul(records)
        .map(|bytes| bytes + (HEAD + TRAILER) as u64);
    match want == Some(length) {
        true => Ok((file, size, n_pictures)),
        false => Err(short()),
    }
}
