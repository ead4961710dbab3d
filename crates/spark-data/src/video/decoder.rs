//! The program ffmpeg as a decoder: a child process between a file and a pipe.
//!
//! ```text
//! file ──stdin──> ffmpeg -f mpegts|hevc -i pipe:0 … -f yuv4mpegpipe pipe:1 ──stdout──> pictures
//!                   └──stderr──> a thread that keeps the first words and drops the rest
//! ```
//!
//! - The demuxer is named, and the only protocol is the pipe: a hostile file opens no other file and no connection.
//! - `-xerror -err_detect explode`, and any word on stderr is an error: what ffmpeg sees of damage ends a video, where it would otherwise
//!   conceal what is missing. It does not see pictures that are gone as a whole, nor every flipped bit: whoever has a log compares
//!   numbers of pictures ([`Prefetch`](crate::prefetch::Prefetch) does).
//! - `-reinit_filter 0`, `-autoscale 0`, `-noautorotate`: pictures that change their size inside a video are an error, and nothing is scaled,
//!   turned or brought to another range.
//! - `-fps_mode passthrough`: one picture out for one in; by default ffmpeg repeats and drops them to keep a rate.
//! - How it ends says whose fault it is: words are of the video, but those of a decoder that gives no picture at all only if it still
//!   writes a bare one ([`Decoder::start_bare`]). A signal, or a failure without a word, is the machine's.
//! - The file itself is the child's stdin: nothing here writes into a pipe, which could end the process by SIGPIPE.
//!
//! Options are those of ffmpeg's manual, of versions from 5.1 on (`-fps_mode`).

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::error::VideoError;
use super::planes::PictureSize;

/// How videos are decoded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct VideoOptions {
    /// The program; looked for on PATH where it has no slash.
    pub program: PathBuf,
    /// How long a picture may take.
    pub patience: Duration,
    /// The size that pictures must have.
    pub size: Option<PictureSize>,
    /// Reading ends with [`VideoError::Cancelled`] soon after somebody sets it.
    pub cancelled: Arc<AtomicBool>,
    /// The same for those who prepare pictures on somebody's behalf.
    pub(crate) also_cancelled: Option<Arc<AtomicBool>>,
}

impl Default for VideoOptions {
    /// `ffmpeg`, a minute, any size.
    fn default() -> Self {
        Self {
            program: "ffmpeg".into(),
            patience: Duration::from_secs(60),
            size: None,
            cancelled: Arc::default(),
            also_cancelled: None,
        }
    }
}

impl VideoOptions {
    /// With this program, which takes the options of ffmpeg.
    #[must_use]
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self { program, ..self }
    }

    /// With so long to wait for a picture.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Whether nobody wants what is being read any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        is_set(&self.cancelled) || self.also_cancelled.as_ref().is_some_and(is_set)
    }

    /// Until this is set.
    #[must_use]
    pub fn with_cancelled(self, cancelled: Arc<AtomicBool>) -> Self {
        Self { cancelled, ..self }
    }

    /// With pictures of this size alone.
    #[must_use]
    pub fn with_size(self, size: PictureSize) -> Self {
        let size = Some(size);
        Self { size, ..self }
    }
}

/// What kind of file a video is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Container {
    /// `qcamera.ts`: an MPEG transport stream, packets of 188 bytes.
    MpegTs,
    /// `fcamera.hevc` and its like: raw HEVC behind start codes.
    Hevc,
}

const TS_PACKET: usize = 188;
const TS_SYNC: u8 = 0x47;

impl Container {
    /// By the first bytes, at least 189 of a transport stream.
    pub fn of(begin: &[u8]) -> Option<Self> {
        if begin.starts_with(&[0, 0, 0, 1]) || begin.starts_with(&[0, 0, 1]) {
            return Some(Self::Hevc);
        }
        let is_ts = begin.first() == Some(&TS_SYNC) && begin.get(TS_PACKET) == Some(&TS_SYNC);
        is_ts.then_some(Self::MpegTs)
    }

    /// ffmpeg's demuxer of it.
    fn demuxer(self) -> &'static str {
        match self {
            Self::MpegTs => "mpegts",
            Self::Hevc => "hevc",
        }
    }
}

/// Bytes of the decoder's words that are kept.
const KEPT_WORDS: usize = 2048;

/// A decoder that runs; ended and waited for when dropped.
#[derive(Debug)]
pub(super) struct Decoder {
    child: Child,
    words: Arc<Mutex<Vec<u8>>>,
    reader_of_words: Option<JoinHandle<()>>,
}

/// Waits for a thread that has nothing more to do once a child has ended. A program that the child has started itself may still hold
/// its pipe; then the thread is left to end with that.
pub(super) fn join_soon(thread: &mut Option<JoinHandle<()>>) {
    const PATIENCE: Duration = Duration::from_millis(500);
    let Some(thread) = thread.take() else {
        return;
    };
    let begun = Instant::now();
    while !thread.is_finished() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
    if thread.is_finished() {
        // What it has to say has been said elsewhere.
        let _ = thread.join();
    }
}

/// How a decoder ended that has written all it had.
pub(super) enum Ended {
    /// With 0 and without a word.
    Well,
    /// With another exit code, by a signal, or with words.
    Badly {
        status: String,
        said: Option<String>,
        signal: Option<i32>,
    },
    /// It did not, and was ended.
    Never,
}

/// A thread, or why there is none.
pub(super) fn thread(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("spark-data video".to_owned())
        .spawn(work)
}

impl Decoder {
    /// Starts it on a file; what it writes comes from the second.
    pub(super) fn start(
        path: &Path,
        options: &VideoOptions,
    ) -> Result<(Self, ChildStdout), VideoError> {
        let io = |source| VideoError::Io {
            path: path.to_owned(),
            source,
        };
        let (mut file, _) = spark_files::open(path).map_err(io)?;
        let container = container_of(&mut file).map_err(io)?;
        let container = container.ok_or_else(|| VideoError::UnknownContainer {
            path: path.to_owned(),
        })?;
        Self::of(path, file, &["-f", container.demuxer()], &[], options)
    }

    /// Starts it on one green picture of 16 by 16, which needs no video: what a decoder writes that works at all.
    pub(super) fn start_bare(options: &VideoOptions) -> Result<(Self, ChildStdout), VideoError> {
        let path = Path::new("/dev/zero");
        let file = File::open(path).map_err(|source| VideoError::Io {
            path: path.to_owned(),
            source,
        })?;
        let picture = ["-f", "rawvideo", "-pixel_format", "yuv420p"];
        let picture = [&picture[..], &["-video_size", "16x16"]].concat();
        Self::of(path, file, &picture, &["-frames:v", "1"], options)
    }

    /// Starts it on an open file, with what it is told of what it reads and of what it writes.
    fn of(
        path: &Path,
        file: File,
        input: &[&str],
        output: &[&str],
        options: &VideoOptions,
    ) -> Result<(Self, ChildStdout), VideoError> {
        let io = |source| VideoError::Io {
            path: path.to_owned(),
            source,
        };
        let program = options.program.display().to_string();
        let child = Command::new(&options.program)
            .args([
                "-nostdin",
                "-v",
                "error",
                "-xerror",
                "-err_detect",
                "explode",
            ])
            .args(["-threads", "1", "-protocol_whitelist", "pipe"])
            .args(["-reinit_filter", "0", "-noautorotate"])
            .args(input)
            .args(["-i", "pipe:0", "-map", "0:v:0"])
            .args(["-autoscale", "0", "-fps_mode", "passthrough"])
            .args(output)
            .args(["-f", "yuv4mpegpipe", "pipe:1"])
            .stdin(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|source| match source.kind() {
            // A script that is there lacks its interpreter.
            io::ErrorKind::NotFound if !options.program.exists() => {
                VideoError::NoDecoder { program }
            }
            _ => VideoError::NotStarted { program, source },
        })?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let words = Arc::new(Mutex::new(Vec::new()));
        // From here on the child is ended whatever happens.
        let mut decoder = Self {
            child,
            words: Arc::clone(&words),
            reader_of_words: None,
        };
        // Both are asked for above; the standard library gives them.
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
            return Err(io_error(path, "the decoder has no stdout or stderr"));
        };
        let reader = thread(move || keep_first_words(stderr, &words));
        decoder.reader_of_words = Some(reader.map_err(io)?);
        Ok((decoder, stdout))
    }

    /// How it ended, once it has written all. It is waited for so long, and not once somebody has cancelled.
    pub(super) fn finish(
        &mut self,
        patience: Duration,
        is_cancelled: impl Fn() -> bool,
    ) -> io::Result<Ended> {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if begun.elapsed() >= patience || is_cancelled() {
                self.kill();
                self.child.wait()?;
                return Ok(Ended::Never);
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        join_soon(&mut self.reader_of_words);
        Ok(match (status.success(), self.said()) {
            (true, None) => Ended::Well,
            (_, said) => Ended::Badly {
                status: status.to_string(),
                said,
                signal: signal_of(status),
            },
        })
    }

    /// The first line that it has said.
    pub(super) fn said(&self) -> Option<String> {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(&words);
        let line = said.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.escape_debug().collect())
    }

    /// Ends it: what it writes ends.
    pub(super) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        self.kill();
        // Whether it ended well is asked by `finish`.
        let _ = self.child.wait();
        join_soon(&mut self.reader_of_words);
    }
}

/// The signal that ended a decoder, or one that it ran itself, as a shell says it.
fn signal_of(status: ExitStatus) -> Option<i32> {
    const SIGNALS: std::ops::RangeInclusive<i32> = 1..=31;
    let of_shell = status.code().map(|code| code - 128);
    status
        .signal()
        .or(of_shell.filter(|signal| SIGNALS.contains(signal)))
}

fn io_error(path: &Path, what: &str) -> VideoError {
    VideoError::Io {
        path: path.to_owned(),
        source: io::Error::other(what),
    }
}

/// What kind of file it is; it is read from its beginning afterwards.
fn container_of(file: &mut File) -> io::Result<Option<Container>> {
    let mut begin = Vec::new();
    file.by_ref()
        .take(TS_PACKET as u64 + 1)
        .read_to_end(&mut begin)?;
    file.rewind()?;
    Ok(Container::of(&begin))
}

/// Reads to the end, so that the decoder never waits for a reader; keeps the beginning.
fn keep_first_words(mut stderr: impl Read, words: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    loop {
        match stderr.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => {
                let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
                let room = KEPT_WORDS - words.len();
                words.extend_from_slice(&buffer[..n.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_first_bytes() {
        let mut ts = [0; 189];
        (ts[0], ts[188]) = (TS_SYNC, TS_SYNC);
        assert_eq!(Container::of(&ts), Some(Container::MpegTs));
        assert_eq!(Container::of(&ts[..188]), None, "one packet is no stream");
        assert_eq!(Container::of(&[0, 0, 0, 1, 0x40]), Some(Container::Hevc));
        assert_eq!(Container::of(b"RIFF"), None);
        assert_eq!(Container::of(b""), None);
    }
}
