//! The recorder of anomalies: what came before a limit was crossed, on the disk before the machine freezes.
//!
//! ```text
//! watch ── looks, a queue that may fill ──> thread "recorder"
//!                                             Recordings::take: ring of the last minutes
//!                                             a limit is crossed: the ring becomes a file, synced
//!                                             the looks of half a minute after: appended, each synced
//! ```
//!
//! A disk that is slow fills the queue and holds nobody up; how many looks were lost is said.

mod recordings;

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spark_program::{output, place};
use sparkpilot::hal::monitor::Look;

use recordings::Recordings;

/// Looks that wait for the disk.
const QUEUE: usize = 64;
/// How long the end of the program waits for the disk.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

/// The thread, and what it says.
pub(super) struct Recorder {
    looks: Mutex<Option<SyncSender<Arc<Look>>>>,
    n_lost: AtomicU64,
    said: Arc<Mutex<String>>,
    is_over: Mutex<Receiver<()>>,
}

impl Recorder {
    /// Starts recording into this folder, which is made when it is not there.
    ///
    /// # Errors
    ///
    /// A folder that cannot be made or written to; a system that refuses a thread.
    pub(super) fn start(folder: &Path) -> Result<Self, Box<dyn Error>> {
        output::folder(folder)?;
        place::folder(folder)?;
        let (looks, inbox) = mpsc::sync_channel::<Arc<Look>>(QUEUE);
        let (over, is_over) = mpsc::channel();
        let said = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&said);
        let mut recordings = Recordings::of(folder);
        let record = move || {
            let say = |words: &str| {
                let mut said = shared.lock().unwrap_or_else(PoisonError::into_inner);
                words.clone_into(&mut said);
            };
            say(recordings.words());
            for look in inbox {
                recordings.take(&look);
                say(recordings.words());
            }
            // Nobody waits any more where this fails.
            let _ = over.send(());
        };
        std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(record)?;
        Ok(Self {
            looks: Mutex::new(Some(looks)),
            n_lost: AtomicU64::new(0),
            said,
            is_over: Mutex::new(is_over),
        })
    }

    pub(super) fn take(&self, look: &Arc<Look>) {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(looks) = &*looks
            && looks.try_send(Arc::clone(look)).is_err()
        {
            self.n_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What was recorded last, or why it cannot be; nothing while all is well.
    pub(super) fn words(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match self.n_lost.load(Ordering::Relaxed) {
            0 => said.clone(),
            n_lost => format!("the disk is slow, {n_lost} looks are not recorded; {said}"),
        }
    }

    /// Waits until what was taken is written, but not for ever.
    pub(super) fn finish(&self) {
        drop(
            self.looks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        // A disk that hangs keeps the thread, not the program.
        let _ = is_over.recv_timeout(LAST_PATIENCE);
    }
}
