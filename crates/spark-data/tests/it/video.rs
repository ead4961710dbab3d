//! The small road camera's minute, picture by picture; what is no video; decoders that misbehave.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use spark_data::drive::{Camera, Drive};
use spark_data::log::{Body, LogReader};
use spark_data::video::{PictureSize, Pictures, VideoError, VideoOptions, Y4mError, Yuv420};
use spark_testing::{test_data, test_videos};

const DEMO: &str = "data/drive/demo_a2a0ccea32023010_2023-07-27--13-01-19--0";
const SIZE: PictureSize = PictureSize {
    width: 526,
    height: 330,
};

/// The video, if there is ffmpeg to decode it.
pub(crate) fn demo_video() -> Option<PathBuf> {
    Some(test_videos(DEMO)?.join("qcamera.ts"))
}

/// A folder that goes away with the value.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("video-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// A program in place of the decoder. The shell writes it: a file that this process has open to write, or a child that another
    /// test is starting just now, could not be run.
    pub(crate) fn program(&self, script: &str) -> VideoOptions {
        let path = self.0.join("decoder");
        let write = "printf '#!/bin/sh\n%s\n' \"$1\" > \"$0\" && chmod +x \"$0\"";
        let status = Command::new("sh")
            .args(["-c", write])
            .arg(&path)
            .arg(script)
            .status();
        assert!(status.unwrap().success());
        VideoOptions::default().with_program(path)
    }

    /// A file that begins as a raw HEVC stream.
    pub(crate) fn hevc(&self) -> PathBuf {
        self.write("fcamera.hevc", &[0, 0, 0, 1, 0x40, 1, 12, 1])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// All pictures, or the first error, and how many came before it.
fn all(path: &Path, options: &VideoOptions) -> (u64, Result<(), VideoError>) {
    let mut pictures = match Pictures::open(path, options) {
        Ok(pictures) => pictures,
        Err(error) => return (0, Err(error)),
    };
    let mut picture = Yuv420::empty();
    loop {
        match pictures.next(&mut picture) {
            Ok(true) => {}
            Ok(false) => return (pictures.position(), Ok(())),
            Err(error) => return (pictures.position(), Err(error)),
        }
    }
}

/// Every figure of expected.json that is of the video; those of its container by the log beside it, which has a line for each picture.
#[test]
fn the_minute_is_what_two_other_decoders_gave() {
    let Some(path) = demo_video() else {
        return;
    };
    let expected = std::fs::read(test_data("data/drive/expected.json").unwrap()).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let mut want = expected["demo_qcamera"].as_object().unwrap().clone();
    // What only words say of it, and what another pixel format gives.
    for told in ["file", "container", "codec", "decoder", "note"] {
        assert!(want.remove(told).unwrap().is_string());
    }
    let mut check = |name: &str, got: Value| {
        assert_eq!(want.remove(name).unwrap(), got, "{name}");
    };

    let bytes = std::fs::read(&path).unwrap();
    check("bytes", bytes.len().into());
    check("sha256", sha256(&bytes).into());
    let mut pictures = Pictures::open(&path, &VideoOptions::default().with_size(SIZE)).unwrap();
    let mut picture = Yuv420::empty();
    let mut every = Sha256::new();
    let mut details = expected["demo_qcamera"]["frames_detail"]
        .as_object()
        .unwrap()
        .clone();
    while pictures.next(&mut picture).unwrap() {
        every.update(picture.bytes());
        let number = (pictures.position() - 1).to_string();
        let Some(detail) = details.remove(&number) else {
            continue;
        };
        let planes = [("y", picture.y()), ("u", picture.u()), ("v", picture.v())];
        for (plane, bytes) in planes {
            assert_eq!(
                detail[format!("{plane}_plane_sha256")],
                sha256(bytes),
                "{number}"
            );
        }
        assert_eq!(detail["yuv420p_sha256"], sha256(picture.bytes()));
        let y = picture.y();
        let sum: u64 = y.iter().map(|y| u64::from(*y)).sum();
        assert_eq!(detail["sum_y"], sum);
        let mean = sum as f64 / y.len() as f64;
        assert!((detail["mean_y"].as_f64().unwrap() - mean).abs() < 1e-12);
        let range = (y.iter().min().copied(), y.iter().max().copied());
        assert_eq!((detail["min_y"].as_u64(), detail["max_y"].as_u64()), {
            (range.0.map(u64::from), range.1.map(u64::from))
        });
    }
    assert!(details.is_empty(), "{details:?}");
    check(
        "frames_detail",
        expected["demo_qcamera"]["frames_detail"].clone(),
    );
    check("frames", pictures.position().into());
    check("all_frames_yuv420p_sha256", hex(&every.finalize()).into());
    check("width", picture.size().width.into());
    check("height", picture.size().height.into());
    check("chroma_width", picture.size().chroma().width.into());
    check("chroma_height", picture.size().chroma().height.into());

    let log = path.with_file_name("qlog.bz2");
    let drive = Drive::read(&mut LogReader::open(&log).unwrap());
    let frames = drive.frames[&Camera::RoadPreview].all();
    check("packets", frames.len().into());
    let keys: Vec<u32> = frames
        .iter()
        .filter(|it| it.is_key)
        .map(|it| it.index)
        .collect();
    check("keyframes", keys.len().into());
    check("keyframe_indices_first5", keys[..5].into());
    let span_s = (frames[1199].end_of_frame - frames[0].end_of_frame) as f64 * 1e-9;
    check("fps", ((1199.0 / span_s).round() as u64).into());
    // Times of the container count 90,000 a second, from microseconds.
    check("time_base", "1/90000".into());
    let pts = |at: usize| (frames[at].end_of_frame / 1000 * 9 + 50) / 100;
    check("first_pts", pts(0).into());
    check("last_pts", pts(1199).into());
    for (number, detail) in expected["demo_qcamera"]["frames_detail"]
        .as_object()
        .unwrap()
    {
        assert_eq!(detail["pts"], pts(number.parse().unwrap()), "{number}");
    }
    // An access unit delimiter and parameter sets are 34 bytes more than the log counts.
    check(
        "first_packet_bytes",
        (first_picture_bytes(&log) + 34).into(),
    );
    assert!(want.is_empty(), "not compared: {want:?}");
}

/// Bytes of the first picture of the small road camera, as the log counts them.
fn first_picture_bytes(log: &Path) -> u32 {
    let mut log = LogReader::open(log).unwrap();
    let mut first = None;
    while let Some(event) = log.next_event() {
        if let Body::QRoadEncodeIdx(index) = event.unwrap().body().unwrap() {
            first.get_or_insert(index.n_bytes());
        }
    }
    first.unwrap()
}

#[test]
fn pictures_are_passed_over_and_not_gone_back_to() {
    let Some(path) = demo_video() else {
        return;
    };
    let mut pictures = Pictures::open(&path, &VideoOptions::default()).unwrap();
    let mut picture = Yuv420::empty();
    pictures.skip_to(100, &mut picture).unwrap();
    let sum: u64 = picture.y().iter().map(|y| u64::from(*y)).sum();
    assert_eq!((sum, pictures.position()), (12_404_075, 101));
    let back = pictures.skip_to(100, &mut picture).unwrap_err();
    assert!(
        matches!(
            back,
            VideoError::Backwards {
                index: 100,
                next: 101,
                ..
            }
        ),
        "{back}"
    );
    let beyond = pictures.skip_to(1200, &mut picture).unwrap_err();
    assert!(
        matches!(
            beyond,
            VideoError::Short {
                pictures: 1200,
                index: 1200,
                ..
            }
        ),
        "{beyond}"
    );
    assert!(!pictures.next(&mut picture).unwrap(), "and nothing more");
}

#[test]
fn damaged_videos_say_where_they_broke() {
    let Some(path) = demo_video() else {
        return;
    };
    let folder = Folder::new();
    let whole = std::fs::read(&path).unwrap();
    let options = VideoOptions::default();
    // Cut between packets: fewer pictures, and whoever wants more is told.
    let cut = folder.write("cut.ts", &whole[..188 * 5000]);
    let (n, ended) = all(&cut, &options);
    assert!((100..1200).contains(&n), "{n}");
    if let Err(error) = ended {
        assert!(
            matches!(error, VideoError::Decoder { pictures, .. } if pictures == n),
            "{error}"
        );
    }
    let mut flipped = whole.clone();
    for at in (400_000..900_000).step_by(1001) {
        flipped[at] ^= 0x55;
    }
    let flipped = folder.write("flipped.ts", &flipped);
    let (n, ended) = all(&flipped, &options);
    let error = ended.unwrap_err();
    assert!(n < 1200);
    let VideoError::Decoder { pictures, said, .. } = &error else {
        panic!("{error}");
    };
    assert!(*pictures == n && !said.is_empty(), "{error}");
    assert!(error.to_string().contains("flipped.ts"), "{error}");
    // The first packet and then nothing of use.
    let mut empty = whole[..188 * 2].to_vec();
    empty.extend([0x47; 188 * 100]);
    let (n, ended) = all(&folder.write("empty.ts", &empty), &options);
    assert!(
        n == 0 && ended.as_ref().is_err_and(VideoError::is_of_video),
        "{ended:?}"
    );
    let other = VideoOptions::default().with_size(PictureSize {
        width: 1928,
        height: 1208,
    });
    let (_, ended) = all(&path, &other);
    assert!(
        matches!(ended, Err(VideoError::Size { got, .. }) if got == SIZE),
        "{ended:?}"
    );
}

#[test]
fn what_is_no_video_is_refused_before_a_decoder_is_started() {
    let folder = Folder::new();
    let options = VideoOptions::default().with_program("no-such-program");
    for bytes in [&b""[..], b"\x47", b"RIFF....AVI ", &[0x47; 188]] {
        let path = folder.write("video.ts", bytes);
        let (_, refused) = all(&path, &options);
        assert!(
            matches!(refused, Err(VideoError::UnknownContainer { .. })),
            "{refused:?}"
        );
    }
    let (_, missing) = all(&folder.0.join("missing.ts"), &options);
    assert!(matches!(missing, Err(VideoError::Io { .. })), "{missing:?}");
    let (_, is_folder) = all(&folder.0, &options);
    assert!(
        is_folder
            .unwrap_err()
            .to_string()
            .contains("not a regular file")
    );
    let (_, absent) = all(&folder.hevc(), &options);
    let told = absent.unwrap_err().to_string();
    assert!(
        told.contains("no-such-program") && told.contains("apt install ffmpeg"),
        "{told}"
    );
}

#[test]
fn a_decoder_that_misbehaves_is_an_error_with_its_words() {
    let folder = Folder::new();
    let video = folder.hevc();
    let head = "printf 'YUV4MPEG2 W2 H2 F20:1 C420jpeg\\n'";
    let picture = "printf 'FRAME\\n123456'";
    let ended = |script: &str| all(&video, &folder.program(script));
    let (n, fine) = ended(&format!("{head}; {picture}; {picture}"));
    assert!(n == 2 && fine.is_ok(), "{fine:?}");
    let (n, none) = ended("exit 0");
    assert!(
        n == 0 && none.is_ok(),
        "a video without a picture: {none:?}"
    );

    let (n, failed) = ended(&format!(
        "{head}; {picture}; echo 'bad slice' >&2; echo more >&2; exit 69"
    ));
    let told = failed.unwrap_err().to_string();
    assert!(
        n == 1 && told.contains("after 1 pictures") && told.contains("bad slice"),
        "{told}"
    );
    assert!(told.contains("69") && !told.contains("more"), "{told}");
    // A cut picture of a decoder that failed is the decoder's failure, else the stream's.
    let (_, failed) = ended(&format!(
        "{head}; printf 'FRAME\\n12'; echo broken >&2; exit 1"
    ));
    assert!(failed.unwrap_err().to_string().contains("broken"));
    let (_, cut) = ended(&format!("{head}; printf 'FRAME\\n12'"));
    assert!(
        matches!(
            &cut,
            Err(VideoError::Stream {
                source: Y4mError::Cut {
                    got: 2,
                    want: 6,
                    ..
                },
                ..
            })
        ),
        "{cut:?}"
    );
    let (_, garbage) = ended("head -c 100000 /dev/zero");
    assert!(
        matches!(garbage, Err(VideoError::Stream { .. })),
        "{garbage:?}"
    );
    let (_, huge) = ended("printf 'YUV4MPEG2 W999999 H999999\\n'");
    assert!(matches!(huge, Err(VideoError::Stream { .. })), "{huge:?}");
    let (_, killed) = ended("kill -9 $$");
    assert!(killed.unwrap_err().to_string().contains("signal"));
    // More words than a pipe holds; words are of damage, whatever the exit code.
    let (n, loud) = ended(&format!(
        "head -c 1000000 /dev/zero | tr '\\0' x >&2; {head}; {picture}"
    ));
    assert!(
        n == 1 && matches!(loud, Err(VideoError::Decoder { .. })),
        "{loud:?}"
    );
    let (_, in_line) = ended("printf 'YUV4MPEG2 W2'; echo the reason >&2; exit 1");
    assert!(in_line.unwrap_err().to_string().contains("the reason"));
    let no_interpreter = folder.program("exit 0");
    let text = "#!/no/such/interpreter\n";
    std::fs::write(&no_interpreter.program, text).unwrap();
    let (_, refused) = all(&video, &no_interpreter);
    assert!(
        matches!(refused, Err(VideoError::NotStarted { .. })),
        "{refused:?}"
    );
    let not_a_program = VideoOptions::default().with_program(&folder.0);
    let (_, refused) = all(&video, &not_a_program);
    assert!(
        matches!(refused, Err(VideoError::NotStarted { .. })),
        "{refused:?}"
    );
}

/// Only what a decoder that works says of a video is the video's fault.
#[test]
fn a_decoder_that_fails_by_itself_is_told_from_a_broken_video() {
    let folder = Folder::new();
    let video = folder.hevc();
    let picture = "printf 'YUV4MPEG2 W2 H2\\nFRAME\\n123456'";
    let ended = |script: &str| all(&video, &folder.program(script)).1.unwrap_err();
    for script in [
        "kill -9 $$",
        // As a shell says that ffmpeg below it was killed.
        "echo Killed >&2; exit 137",
        "exit 1",
        "echo no libavcodec.so.59 >&2; exit 127",
        &format!("{picture}; kill -9 $$"),
        &format!("{picture}; printf 'FRAME\\n12'; kill -9 $$"),
        &format!("{picture}; exit 255"),
    ] {
        let error = ended(script);
        let is_told = matches!(error, VideoError::DecoderFailed { .. });
        assert!(is_told && !error.is_of_video(), "{script}: {error:?}");
    }
    let said = ended("echo no libavcodec.so.59 >&2; exit 127").to_string();
    assert!(
        said.contains("libavcodec") && said.contains("127"),
        "{said}"
    );
    for script in [
        "head -c 1000 /dev/zero",
        &format!("{picture}; printf 'FRAME\\n12'"),
        &format!("{picture}; echo"),
    ] {
        let error = ended(script);
        let is_told = matches!(error, VideoError::Stream { .. });
        assert!(is_told && !error.is_of_video(), "{script}: {error:?}");
    }
    // One that writes a bare picture and none of this video.
    let bare = format!("case \" $* \" in *\" rawvideo \"*) {picture}; exit 0;; esac");
    for script in [
        format!("{bare}; echo no frame >&2; exit 183"),
        format!("{picture}; echo bad slice >&2; exit 69"),
        "printf 'YUV4MPEG2 W2 H2 C420p10\\n'".to_owned(),
    ] {
        let error = ended(&script);
        assert!(error.is_of_video(), "{script}: {error:?}");
    }
}

#[test]
fn a_decoder_that_hangs_is_given_up_and_keeps_nobody() {
    let folder = Folder::new();
    let video = folder.hevc();
    let hangs = folder.program("printf 'YUV4MPEG2 W2 H2\\nFRAME\\n123456'; exec sleep 60");
    let begun = Instant::now();
    let (n, stalled) = all(&video, &hangs.clone().with_patience(Duration::from_secs(3)));
    assert!(
        n == 1 && matches!(stalled, Err(VideoError::Stalled { .. })),
        "{stalled:?}"
    );
    let cancelled = Arc::new(AtomicBool::new(false));
    let cancel = Arc::clone(&cancelled);
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        cancel.store(true, Ordering::Relaxed);
    });
    let (n, ended) = all(&video, &hangs.clone().with_cancelled(cancelled));
    assert!(
        n == 1 && matches!(ended, Err(VideoError::Cancelled { .. })),
        "{ended:?}"
    );
    canceller.join().unwrap();
    drop(Pictures::open(&video, &hangs).unwrap());
    let closes =
        folder.program("printf 'YUV4MPEG2 W2 H2\\nFRAME\\n123456'; exec >&- 2>&-; exec sleep 60");
    let (n, killed) = all(&video, &closes.with_patience(Duration::from_secs(3)));
    assert!(
        n == 1 && matches!(killed, Err(VideoError::Stalled { .. })),
        "{killed:?}"
    );
    // A program of the decoder's own that outlives it and holds its pipes.
    let leaves = folder.program("sleep 30 & printf 'YUV4MPEG2 W2 H2\\nFRAME\\n123456'; wait");
    let (n, stalled) = all(
        &video,
        &leaves.clone().with_patience(Duration::from_secs(3)),
    );
    assert!(
        n == 1 && matches!(stalled, Err(VideoError::Stalled { .. })),
        "{stalled:?}"
    );
    drop(Pictures::open(&video, &leaves).unwrap());
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn nothing_comes_after_an_error() {
    let folder = Folder::new();
    let fails =
        folder.program("printf 'YUV4MPEG2 W2 H2\\nFRAME\\n123456'; echo broken >&2; exit 1");
    let mut pictures = Pictures::open(&folder.hevc(), &fails).unwrap();
    let mut picture = Yuv420::empty();
    assert!(pictures.next(&mut picture).unwrap());
    assert!(matches!(
        pictures.next(&mut picture),
        Err(VideoError::Decoder { .. })
    ));
    for _ in 0..2 {
        assert!(matches!(
            pictures.next(&mut picture),
            Err(VideoError::Failed { .. })
        ));
        assert!(matches!(
            pictures.skip_to(5, &mut picture),
            Err(VideoError::Failed { .. })
        ));
    }
    // Pictures that come all the time keep nobody from cancelling.
    let endless =
        folder.program("printf 'YUV4MPEG2 W2 H2\\n'; while :; do printf 'FRAME\\n123456'; done");
    let cancelled = Arc::new(AtomicBool::new(false));
    let mut pictures = Pictures::open(
        &folder.hevc(),
        &endless.with_cancelled(Arc::clone(&cancelled)),
    )
    .unwrap();
    assert!(pictures.next(&mut picture).unwrap());
    cancelled.store(true, Ordering::Relaxed);
    assert!(matches!(
        pictures.next(&mut picture),
        Err(VideoError::Cancelled { .. })
    ));
}

/// A raw HEVC stream of a test picture, by ffmpeg; none where it has no encoder.
fn hevc_of(folder: &Folder, size: &str) -> Option<Vec<u8>> {
    let path = folder.0.join(format!("{size}.hevc"));
    let source = format!("testsrc=size={size}:rate=20:duration=1");
    let encode = Command::new("ffmpeg")
        .args([
            "-nostdin", "-v", "error", "-f", "lavfi", "-i", &source, "-pix_fmt", "yuv420p",
        ])
        .args([
            "-c:v",
            "libx265",
            "-x265-params",
            "log-level=none:bframes=0:keyint=10",
        ])
        .args(["-f", "hevc"])
        .arg(&path)
        .status();
    if !encode.is_ok_and(|status| status.success()) {
        assert!(
            !spark_testing::settings::is_ci(),
            "CI's ffmpeg has an encoder"
        );
        return None;
    }
    Some(std::fs::read(path).unwrap())
}

#[test]
fn hevc_without_a_picture_or_of_two_sizes_is_an_error() {
    if demo_video().is_none() {
        return;
    }
    let folder = Folder::new();
    let (Some(small), Some(large)) = (hevc_of(&folder, "64x48"), hevc_of(&folder, "128x96")) else {
        return;
    };
    let options = VideoOptions::default();
    let whole = folder.write("whole.hevc", &small);
    let (n, fine) = all(&whole, &options);
    assert!(n == 20 && fine.is_ok(), "{n} {fine:?}");
    let two = folder.write("two.hevc", &[small.as_slice(), &large].concat());
    let (n, ended) = all(&two, &options);
    assert!(n <= 20 && ended.is_err(), "{n} {ended:?}");
    // Start codes and the types of what they begin: pictures that are no keys are 0 to 9.
    let starts: Vec<usize> = (0..small.len() - 5)
        .filter(|at| small[*at..*at + 4] == [0, 0, 0, 1] || small[*at..*at + 3] == [0, 0, 1])
        .collect();
    let header = |at: usize| if small[at + 2] == 1 { at + 3 } else { at + 4 };
    let pictures: Vec<usize> = (0..starts.len())
        .filter(|idx| (small[header(starts[*idx])] >> 1) & 0x3F < 10)
        .collect();
    let lost = pictures[5];
    let lacking = [&small[..starts[lost]], &small[starts[lost + 1]..]].concat();
    let (n, ended) = all(&folder.write("lacking.hevc", &lacking), &options);
    assert!(
        n < 20 && matches!(ended, Err(VideoError::Decoder { .. })),
        "{n} {ended:?}"
    );
}
