//! Recorded drives: openpilot's route logs and comma2k19, as signals, frames and labels.
//!
//! ```text
//! route       where segments and their files are
//! log         rlog and qlog: bzip2, zstd or plain, event by event, in constant memory
//!   schema      the structs of events, as views
//!   wire        Cap'n Proto's encoding, pointer by pointer
//! comma2k19   the data set's arrays
//! label       readings by time, the path ahead
//! video       pictures of the cameras' files, decoded by ffmpeg; kept on disk
//! prefetch    samples with their pictures, prepared ahead
//! drive       a log as signals: labels of a frame, summary, data set
//! ```
//!
//! ```
//! use spark_data::drive::Drive;
//! use spark_data::log::LogReader;
//!
//! // A message of one segment of four words, an event of 2 words of data and a pointer; then a cut one.
//! let words: [u64; 5] = [4 << 32, 2 << 32 | 1 << 48, 38_178_400_505, 88, 0];
//! let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
//! bytes.extend([0; 3]);
//!
//! let drive = Drive::read(&mut LogReader::new(&bytes[..])?);
//! assert_eq!(drive.counts["qRoadEncodeIdx"], 1);
//! println!("{}", drive.ended.expect("it is cut"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! What is broken costs what is broken: a cut log gives all events before the cut and says where it ended, a broken event is
//! counted and passed over. Nothing is allocated by what a file says of itself.
//!
//! Values of `initData` and `carParams` hold people's keys, positions and serial numbers: nothing here prints them.
//!
//! Deliberately absent: a decoder of video, for which the program ffmpeg is started ([`video`]); networks, whose inputs are made of
//! planes elsewhere.

pub mod comma2k19;
pub mod drive;
pub mod label;
pub mod log;
pub mod prefetch;
pub mod route;
pub mod schema;
pub mod video;
pub mod wire;

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
