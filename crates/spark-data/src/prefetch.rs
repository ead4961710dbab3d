//! Samples with their pictures, prepared by a thread while others are used.
//!
//! ```text
//! order ──> thread: labels, pictures from the store ──so many bytes, and one sample more──> next()
//! ```
//!
//! What comes is what would come without a thread: the same samples in the same order. What goes wrong with one sample is said in its
//! place, and the next one follows. Whoever drops it waits for no decoder.
//!
//! Deliberately absent: batches and networks' inputs, which trainers make of it.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::drive::{Dataset, Sample};
use crate::video::{Store, StoredVideo, VideoError, Yuv420};

/// What is prepared of each sample, and how far ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefetchOptions {
    /// Bytes of samples that wait to be used: the next one is prepared while fewer wait, and may go beyond them by itself.
    pub bytes: usize,
    /// Which pictures of a sample: so many frames of the video before its own, 0 that itself.
    pub frames_back: Vec<u32>,
    /// Videos whose files stay open; of drives beyond these the least recently used is opened again.
    pub open_videos: usize,
}

impl Default for PrefetchOptions {
    /// 256 MiB; the frame itself; 64 videos.
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            frames_back: vec![0],
            open_videos: 64,
        }
    }
}

impl PrefetchOptions {
    /// With so many bytes ahead.
    #[must_use]
    pub fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// With these pictures of each sample, in this order.
    #[must_use]
    pub fn with_frames_back(self, frames_back: Vec<u32>) -> Self {
        Self {
            frames_back,
            ..self
        }
    }

    /// With so many videos open.
    #[must_use]
    pub fn with_open_videos(self, open_videos: usize) -> Self {
        Self {
            open_videos,
            ..self
        }
    }
}

/// Why a sample has no pictures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrefetchError {
    /// The data set has no such sample.
    #[error("there is no sample {number}")]
    NoSample {
        /// The number.
        number: usize,
    },
    /// No video was named for the drive.
    #[error("sample {number}: no video was named for drive {drive}")]
    NoVideo {
        /// The sample.
        number: usize,
        /// Which drive of the data set.
        drive: usize,
    },
    /// The video begins later than a picture that the sample needs.
    #[error("sample {number} is picture {index} of its video, and {back} before it there is none")]
    NoPicture {
        /// The sample.
        number: usize,
        /// Which picture of the video the sample's is.
        index: u32,
        /// How far back one was asked for.
        back: u32,
    },
    /// The video has fewer pictures than the drive has frames: which of them are missing nobody can say.
    #[error(
        "sample {number}: the video of drive {drive} has {pictures} pictures, its log {frames} frames"
    )]
    Pictures {
        /// The sample.
        number: usize,
        /// Which drive of the data set.
        drive: usize,
        /// Pictures of the video.
        pictures: u64,
        /// Frames of the log.
        frames: u64,
    },
    /// The video gives no picture. A video that is broken is decoded once; its other samples share the reason.
    #[error("sample {number}: {source}")]
    Video {
        /// The sample.
        number: usize,
        /// Why.
        source: Arc<VideoError>,
    },
}

/// A sample with its pictures.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// Its number in the data set.
    pub number: usize,
    /// Labels and frame.
    pub sample: Sample,
    /// As [`PrefetchOptions::frames_back`] says.
    pub pictures: Vec<Yuv420>,
}

/// Samples in an order, prepared ahead.
#[derive(Debug)]
pub struct Prefetch {
    shared: Arc<Shared>,
    cancelled: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    waited: Duration,
}

type Item = Result<Prepared, PrefetchError>;

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Told when something was put in or taken out, and when it is over.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Item>,
    bytes: usize,
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, guard: MutexGuard<'a, Waiting>) -> MutexGuard<'a, Waiting> {
        self.changed
            .wait(guard)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(item: &Item) -> usize {
    let pictures = item.as_ref().map_or(&[][..], |it| &it.pictures);
    let of_pictures: usize = pictures.iter().map(|picture| picture.bytes().len()).sum();
    // Labels and errors count as well: there may be any number of them.
    of_pictures + size_of::<Item>() + 1024
}

impl Prefetch {
    /// Prepares the samples of these numbers. `videos` are the files of the data set's camera, one for each of its drives.
    pub fn new(
        dataset: Arc<Dataset>,
        order: Vec<usize>,
        videos: Vec<PathBuf>,
        store: &Store,
        options: PrefetchOptions,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut worker = Worker {
            dataset,
            videos,
            store: store.until(Arc::clone(&cancelled)),
            options,
            open: VecDeque::new(),
            broken: HashMap::new(),
            short: HashMap::new(),
        };
        let (of_thread, is_cancelled) = (Arc::clone(&shared), Arc::clone(&cancelled));
        let thread = std::thread::spawn(move || {
            for number in order {
                let mut waiting = of_thread.lock();
                let is_over = || is_cancelled.load(Ordering::Relaxed);
                let has_room =
                    |it: &Waiting| it.items.is_empty() || it.bytes < worker.options.bytes;
                while !has_room(&waiting) && !is_over() {
                    waiting = of_thread.wait(waiting);
                }
                drop(waiting);
                if is_over() {
                    break;
                }
                let item = worker.prepare(number);
                let mut waiting = of_thread.lock();
                waiting.bytes += bytes_of(&item);
                waiting.items.push_back(item);
                of_thread.changed.notify_all();
            }
            of_thread.lock().is_over = true;
            of_thread.changed.notify_all();
        });
        Self {
            shared,
            cancelled,
            thread: Some(thread),
            waited: Duration::ZERO,
        }
    }

    /// How long `next` has waited for samples that were not ready.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl Iterator for Prefetch {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let begun = Instant::now();
        let mut waiting = self.shared.lock();
        loop {
            if let Some(item) = waiting.items.pop_front() {
                waiting.bytes -= bytes_of(&item);
                self.shared.changed.notify_all();
                self.waited += begun.elapsed();
                return Some(item);
            }
            if waiting.is_over {
                return None;
            }
            // A thread that is gone without a word has panicked; its panic is passed on.
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                drop(waiting);
                if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
                    std::panic::resume_unwind(panic);
                }
                return None;
            }
            let glance = Duration::from_millis(100);
            let waited = self.shared.changed.wait_timeout(waiting, glance);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        // Under the lock, so that the thread does not look before and sleep after.
        drop(self.shared.lock());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It sees the flag within some hundredths of a second. A panic in it has no receiver any more.
            let _ = thread.join();
        }
    }
}

struct Worker {
    dataset: Arc<Dataset>,
    videos: Vec<PathBuf>,
    store: Store,
    options: PrefetchOptions,
    /// Drive and video; the one used last stands last.
    open: VecDeque<(usize, StoredVideo)>,
    /// Drives whose videos could not be opened, and why.
    broken: HashMap<usize, Arc<VideoError>>,
    /// Drives whose videos lack pictures: how many they have, and how many the log.
    short: HashMap<usize, [u64; 2]>,
}

impl Worker {
    fn prepare(&mut self, number: usize) -> Item {
        let sample = self.dataset.sample(number);
        let sample = sample.ok_or(PrefetchError::NoSample { number })?;
        let index = sample.frame.index;
        let mut pictures = Vec::with_capacity(self.options.frames_back.len());
        for back in self.options.frames_back.clone() {
            let Some(wanted) = index.checked_sub(back) else {
                return Err(PrefetchError::NoPicture {
                    number,
                    index,
                    back,
                });
            };
            let mut picture = Yuv420::empty();
            let video = self.video(number, sample.drive)?;
            let read = video.read(wanted.into(), &mut picture);
            read.map_err(|source| PrefetchError::Video {
                number,
                source: Arc::new(source),
            })?;
            pictures.push(picture);
        }
        Ok(Prepared {
            number,
            sample,
            pictures,
        })
    }

    /// A video that lacks pictures would give others in their places.
    fn check_number(
        &mut self,
        number: usize,
        drive: usize,
        video: &StoredVideo,
    ) -> Result<(), PrefetchError> {
        let frames = self.dataset.drives()[drive].frames_of(self.dataset.camera());
        let frames = frames.iter().map(|frame| u64::from(frame.index) + 1).max();
        match frames {
            Some(frames) if video.len() < frames => {
                self.short.insert(drive, [video.len(), frames]);
                Err(PrefetchError::Pictures {
                    number,
                    drive,
                    pictures: video.len(),
                    frames,
                })
            }
            _ => Ok(()),
        }
    }

    fn video(&mut self, number: usize, drive: usize) -> Result<&mut StoredVideo, PrefetchError> {
        let found = self.open.iter().position(|(of, _)| *of == drive);
        let entry = match found.and_then(|place| self.open.remove(place)) {
            Some(entry) => entry,
            None => {
                let path = self.videos.get(drive);
                let path = path.ok_or(PrefetchError::NoVideo { number, drive })?;
                if let Some(&[pictures, frames]) = self.short.get(&drive) {
                    return Err(PrefetchError::Pictures {
                        number,
                        drive,
                        pictures,
                        frames,
                    });
                }
                if let Some(source) = self.broken.get(&drive) {
                    let source = Arc::clone(source);
                    return Err(PrefetchError::Video { number, source });
                }
                let video = self.store.video(path, 1).map_err(|source| {
                    let source = Arc::new(source);
                    self.broken.insert(drive, Arc::clone(&source));
                    PrefetchError::Video { number, source }
                })?;
                self.check_number(number, drive, &video)?;
                while self.open.len() >= self.options.open_videos.max(1) {
                    self.open.pop_front();
                }
                (drive, video)
            }
        };
        self.open.push_back(entry);
        match self.open.back_mut() {
            Some((_, video)) => Ok(video),
            None => Err(PrefetchError::NoVideo { number, drive }),
        }
    }
}
