//! The pictures of a video, one after another.
//!
//! ```text
//! a thread reads ahead ──pictures, at most two──> next()
//!                      <──used ones, to be filled──
//! ```

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::decoder::{Decoder, Ended, VideoOptions, join_soon, thread};
use super::error::VideoError;
use super::planes::{PictureSize, Yuv420};
use super::y4m::{Y4mError, Y4mReader};

/// Pictures that are read ahead.
const AHEAD: usize = 2;
/// How long a decoder may take to end whose stream is broken.
const SHORTLY: Duration = Duration::from_millis(300);
/// How long a wait is not interrupted.
const GLANCE: Duration = Duration::from_millis(20);
/// Ends a decoder whose pictures nobody reads any more, as their stream is broken.
const SIGPIPE: i32 = 13;
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
    state: State,
    /// Whether it is the picture that shows what a decoder's failure is of.
    is_bare: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Reads,
    /// The last picture has been read, and the decoder was content.
    Over,
    Failed,
}

/// What the thread that reads ahead has to say.
type Read = Result<Yuv420, ReadError>;

#[derive(Debug)]
enum ReadError {
    Stream(Y4mError),
    Size { got: PictureSize, want: PictureSize },
}

impl Pictures {
    /// Starts the decoder.
    ///
    /// # Errors
    ///
    /// [`VideoError::Io`], [`VideoError::UnknownContainer`], [`VideoError::NoDecoder`], [`VideoError::NotStarted`].
    pub fn open(path: &Path, options: &VideoOptions) -> Result<Self, VideoError> {
        Self::of(path, Decoder::start(path, options)?, options)
    }

    /// What a decoder writes that runs.
    fn of(
        path: &Path,
        (decoder, stdout): (Decoder, ChildStdout),
        options: &VideoOptions,
    ) -> Result<Self, VideoError> {
        let (filled, receiver) = mpsc::sync_channel(AHEAD);
        let (used, returned) = mpsc::channel();
        let want = options.size;
        let reader = thread(move || read_ahead(stdout, want, &filled, &returned));
        let reader = reader.map_err(|source| VideoError::Io {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            options: options.clone(),
            decoder,
            filled: Some(receiver),
            used,
            thread: Some(reader),
            n_read: 0,
            state: State::Reads,
            is_bare: false,
        })
    }

    /// The next picture; false when there is none, and the decoder found nothing wrong.
    ///
    /// # Errors
    ///
    /// [`VideoError::Decoder`] for a video whose damage the decoder saw, [`VideoError::DecoderFailed`] where it may be whole, [`VideoError::Size`], [`VideoError::Stream`],
    /// [`VideoError::Stalled`], [`VideoError::Cancelled`]. After an error it is [`VideoError::Failed`].
    pub fn next(&mut self, picture: &mut Yuv420) -> Result<bool, VideoError> {
        match self.state {
            State::Over => return Ok(false),
            State::Failed => return Err(self.failed()),
            State::Reads => {}
        }
        let read = self.receive().and_then(|read| match read {
            None => self.end().map(|()| None),
            Some(read) => self.accept(read).map(Some),
        });
        match read {
            Ok(Some(read)) => {
                let before = std::mem::replace(picture, read);
                // The thread may have ended.
                let _ = self.used.send(before);
                self.n_read += 1;
                Ok(true)
            }
            Ok(None) => {
                self.state = State::Over;
                Ok(false)
            }
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    /// What the thread says next; nothing once the decoder has written all.
    fn receive(&self) -> Result<Option<Read>, VideoError> {
        let begun = Instant::now();
        loop {
            if self.options.is_cancelled() {
                return Err(self.cancelled());
            }
            let Some(filled) = &self.filled else {
                return Ok(None);
            };
            match filled.recv_timeout(self.options.patience.min(GLANCE)) {
                Ok(read) => return Ok(Some(read)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if begun.elapsed() >= self.options.patience {
                return Err(self.stalled());
            }
        }
    }

    fn accept(&mut self, read: Read) -> Result<Yuv420, VideoError> {
        let path = self.path.clone();
        match read {
            Ok(read) => Ok(read),
            Err(ReadError::Size { got, want }) => Err(VideoError::Size { path, got, want }),
            Err(ReadError::Stream(source)) => {
                // A decoder that failed has the better reason.
                let is_cancelled = || self.options.is_cancelled();
                match self.decoder.finish(SHORTLY, is_cancelled) {
                    Ok(Ended::Badly {
                        status,
                        said,
                        signal,
                    }) if said.is_some() || signal.is_some_and(|it| it != SIGPIPE) => {
                        Err(self.broken(status, said, signal))
                    }
                    _ => Err(VideoError::Stream { path, source }),
                }
            }
        }
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
        let options = self.options.clone();
        let ended = self
            .decoder
            .finish(options.patience, || options.is_cancelled());
        let ended = ended.map_err(|source| VideoError::Io {
            path: self.path.clone(),
            source,
        })?;
        match ended {
            Ended::Well => Ok(()),
            Ended::Badly {
                status,
                said,
                signal,
            } => Err(self.broken(status, said, signal)),
            Ended::Never if options.is_cancelled() => Err(self.cancelled()),
            Ended::Never => Err(self.stalled()),
        }
    }

    /// Of whom a failure is: of the video if the decoder says a word of it, but for one that gives no picture of anything.
    fn broken(&self, status: String, said: Option<String>, signal: Option<i32>) -> VideoError {
        let (path, pictures) = (self.path.clone(), self.n_read);
        match (said, signal) {
            (Some(said), None) if self.is_bare || pictures > 0 || self.writes_bare() => {
                VideoError::Decoder {
                    path,
                    pictures,
                    status,
                    said,
                }
            }
            (said, _) => VideoError::DecoderFailed {
                path,
                pictures,
                status,
                said: said.unwrap_or_else(|| "it said nothing".to_owned()),
            },
        }
    }

    /// Whether the decoder gives a picture that needs no video.
    fn writes_bare(&self) -> bool {
        let options = VideoOptions {
            size: None,
            ..self.options.clone()
        };
        let started = Decoder::start_bare(&options);
        let bare = started.and_then(|started| Self::of("/dev/zero".as_ref(), started, &options));
        let Ok(mut bare) = bare else {
            return false;
        };
        bare.is_bare = true;
        let mut picture = Yuv420::empty();
        matches!(bare.next(&mut picture), Ok(true)) && matches!(bare.next(&mut picture), Ok(false))
    }

    fn stalled(&self) -> VideoError {
        let said = self.decoder.said();
        VideoError::Stalled {
            path: self.path.clone(),
            pictures: self.n_read,
            waited: self.options.patience,
            said: said.map_or_else(String::new, |said| format!("; it said: {said}")),
        }
    }

    fn cancelled(&self) -> VideoError {
        VideoError::Cancelled {
            path: self.path.clone(),
            pictures: self.n_read,
        }
    }

    fn failed(&self) -> VideoError {
        let path = self.path.clone();
        VideoError::Failed { path }
    }

    fn give_up(&mut self) {
        self.state = State::Failed;
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
fn read_ahead(
    stdout: ChildStdout,
    want: Option<PictureSize>,
    filled: &SyncSender<Read>,
    used: &Receiver<Yuv420>,
) {
    let stream = BufReader::with_capacity(PIPE_BYTES, stdout);
    let reader = Y4mReader::new(stream).map_err(ReadError::Stream);
    // Before memory is taken for the first picture.
    let reader = reader.and_then(|reader| match (&reader, want) {
        (Some(reader), Some(want)) if reader.size() != want => Err(ReadError::Size {
            got: reader.size(),
            want,
        }),
        _ => Ok(reader),
    });
    let mut reader = match reader {
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
            Err(error) => Err(ReadError::Stream(error)),
        };
        let is_over = read.is_err();
        if filled.send(read).is_err() || is_over {
            return;
        }
    }
}
