//! The pictures of a video, one after another.
//!
//! ```text
//! a thread reads ahead ──pictures, at most two──> next()
//!                      <──used ones, to be filled──
//! ```

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::decoder::{Decoder, VideoOptions, join_soon};
use super::error::VideoError;
use super::planes::{PictureSize, Yuv420};
use super::y4m::{Y4mError, Y4mReader};

/// Pictures that are read ahead.
const AHEAD: usize = 2;
/// How long a wait is not interrupted.
const GLANCE: Duration = Duration::from_millis(20);
/// What is read of the decoder's pipe at once.
const PIPE_BYTES: usize = 1 << 16;

/// The pictures of a video, decoded while they are used. Memory is that of a few pictures, however long it is.
///
/// # Examples
///
/// ```no_run
/// use spark_data::video::{Pictures, VideoOptions, Yuv420};
///
/// let mut pictures = Pictures::open("qcamera.ts".as_ref(), &VideoOptions::default())?;
/// let mut picture = Yuv420::empty();
/// while pictures.next(&mut picture)? {
///     println!("{}: {}", pictures.position() - 1, picture.y().len());
/// }
/// # Ok::<(), spark_data::video::VideoError>(())
/// ```
#[derive(Debug)]
pub struct Pictures {
    path: PathBuf,
    options: VideoOptions,
    decoder: Decoder,
    filled: Option<Receiver<Read>>,
    used: Sender<Yuv420>,
    thread: Option<JoinHandle<()>>,
    n_read: u64,
    /// Whether the last picture has been read, and the decoder was content.
    is_over: bool,
}

/// What the thread that reads ahead has to say.
type Read = Result<Yuv420, Y4mError>;

impl Pictures {
    /// Starts the decoder.
    ///
    /// # Errors
    ///
    /// [`VideoError::Io`], [`VideoError::UnknownContainer`], [`VideoError::NoDecoder`], [`VideoError::NotStarted`].
    pub fn open(path: &Path, options: &VideoOptions) -> Result<Self, VideoError> {
        let (decoder, stdout) = Decoder::start(path, options)?;
        let (filled, receiver) = mpsc::sync_channel(AHEAD);
        let (used, returned) = mpsc::channel();
        let thread = std::thread::spawn(move || read_ahead(stdout, &filled, &returned));
        Ok(Self {
            path: path.to_owned(),
            options: options.clone(),
            decoder,
            filled: Some(receiver),
            used,
            thread: Some(thread),
            n_read: 0,
            is_over: false,
        })
    }

    /// The next picture; false when there is none, and the decoder found nothing wrong.
    ///
    /// # Errors
    ///
    /// [`VideoError::Decoder`] for a damaged video, [`VideoError::Size`], [`VideoError::Stream`], [`VideoError::Stalled`]. Nothing
    /// comes after an error.
    pub fn next(&mut self, picture: &mut Yuv420) -> Result<bool, VideoError> {
        let Some(filled) = self.filled.as_ref().filter(|_| !self.is_over) else {
            return Ok(false);
        };
        let begun = Instant::now();
        let read = loop {
            match filled.recv_timeout(self.options.patience.min(GLANCE)) {
                Ok(read) => break read,
                Err(RecvTimeoutError::Disconnected) => {
                    self.filled = None;
                    return self.end().map(|()| false);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let (path, pictures) = (self.path.clone(), self.n_read);
            if self.options.cancelled.load(Ordering::Relaxed) {
                self.give_up();
                return Err(VideoError::Cancelled { path, pictures });
            }
            if begun.elapsed() >= self.options.patience {
                self.give_up();
                return Err(VideoError::Stalled {
                    path,
                    pictures,
                    waited: self.options.patience,
                });
            }
        };
        match read {
            Ok(read) => self.accept(read, picture).map(|()| true),
            Err(source) => {
                self.filled = None;
                // A decoder that fails in the middle of a picture has the better reason.
                if matches!(source, Y4mError::Cut { .. }) {
                    self.end()?;
                }
                self.give_up();
                let path = self.path.clone();
                Err(VideoError::Stream { path, source })
            }
        }
    }

    fn accept(&mut self, read: Yuv420, picture: &mut Yuv420) -> Result<(), VideoError> {
        let got = read.size();
        if let Some(want) = self.options.size.filter(|want| *want != got) {
            self.give_up();
            let path = self.path.clone();
            return Err(VideoError::Size { path, got, want });
        }
        let before = std::mem::replace(picture, read);
        // The thread may have ended.
        let _ = self.used.send(before);
        self.n_read += 1;
        Ok(())
    }

    /// The picture of this number, from 0; those between are passed over.
    ///
    /// # Errors
    ///
    /// [`VideoError::Backwards`], [`VideoError::Short`]; as [`Pictures::next`].
    pub fn skip_to(&mut self, index: u64, picture: &mut Yuv420) -> Result<(), VideoError> {
        let path = || self.path.clone();
        if index < self.n_read {
            return Err(VideoError::Backwards {
                path: path(),
                index,
                next: self.n_read,
            });
        }
        while self.n_read <= index {
            if !self.next(picture)? {
                return Err(VideoError::Short {
                    path: self.path.clone(),
                    pictures: self.n_read,
                    index,
                });
            }
        }
        Ok(())
    }

    /// The number of the picture that comes next.
    pub fn position(&self) -> u64 {
        self.n_read
    }

    /// Size of the pictures that the options ask for, if they do.
    pub fn wanted_size(&self) -> Option<PictureSize> {
        self.options.size
    }

    /// Waits for the decoder, which has written all it had.
    fn end(&mut self) -> Result<(), VideoError> {
        self.is_over = true;
        let ended = self.decoder.finish(self.options.patience);
        let ended = ended.map_err(|source| VideoError::Io {
            path: self.path.clone(),
            source,
        })?;
        ended.map_err(|(status, said)| VideoError::Decoder {
            path: self.path.clone(),
            pictures: self.n_read,
            status,
            said,
        })
    }

    fn give_up(&mut self) {
        self.is_over = true;
        self.filled = None;
        self.decoder.kill();
    }
}

impl Drop for Pictures {
    fn drop(&mut self) {
        // The thread ends when it can neither read nor hand on.
        self.give_up();
        join_soon(&mut self.thread);
    }
}

/// Reads until the stream ends, goes wrong, or nobody wants more.
fn read_ahead(stdout: ChildStdout, filled: &SyncSender<Read>, used: &Receiver<Yuv420>) {
    let stream = BufReader::with_capacity(PIPE_BYTES, stdout);
    let mut reader = match Y4mReader::new(stream) {
        Ok(Some(reader)) => reader,
        Ok(None) => return,
        Err(error) => {
            let _ = filled.send(Err(error));
            return;
        }
    };
    loop {
        let mut picture = used.try_recv().unwrap_or_else(|_| Yuv420::empty());
        let read = match reader.read(&mut picture) {
            Ok(true) => Ok(picture),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        let is_over = read.is_err();
        if filled.send(read).is_err() || is_over {
            return;
        }
    }
}
