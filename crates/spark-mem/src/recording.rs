//! What is recorded: the work of one stream and of those that joined it, and what must come first.
//!
//! ```text
//! a:  w1 ── record(e) ── w2 ────────────── w4          clocks: how many pieces of each stream come
//! b:          wait(e) ── w1 ── w2 ── ↗                 before the next piece of a stream
//!                                                      b after wait(e): a 1; b 0
//! piece on b that writes what piece 2 of a reads: 2 > 1, so b waits for a first
//! ```
//!
//! Streams that record one graph are put in order by events where the program says so, and besides
//! where two pieces of work use the same bytes, one of them writing, without an event between
//! them. So the order of a graph never depends on luck, and branches on parts of one arena stay
//! apart. Nothing here asks the driver.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use crate::backend::Handle;
use crate::lock::lock;
use crate::memory::allocation::{Access, Allocation};
use crate::memory::block::{Block, Queue};
use crate::ranges::ByRange;
use crate::stats::Direction;

/// A graph being recorded. Its streams share it.
#[derive(Debug)]
pub(crate) struct Recording {
    /// Nobody else's.
    id: u64,
    thread: ThreadId,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    members: Vec<Member>,
    /// Memory that is used, in the order of first use.
    memories: Vec<Memory>,
    /// Which of `memories` a piece of memory is, by its address.
    place_of: HashMap<usize, usize>,
    copies: Vec<(Direction, usize)>,
    kept: Vec<Block>,
    is_over: bool,
}

/// A stream that records.
#[derive(Debug)]
struct Member {
    /// Keeps the stream, which the driver must not lose meanwhile.
    queue: Arc<dyn Queue>,
    n_works: usize,
    clock: Clock,
}

/// How many pieces of work of each member come before something.
type Clock = Vec<usize>;

/// A piece of memory, and the work on it that what comes later may have to wait for.
#[derive(Debug)]
struct Memory {
    allocation: Arc<Allocation>,
    is_written: bool,
    works: ByRange<Work>,
}

/// A use of memory by a piece of work: the `number`th, from 1 on, of a member.
#[derive(Debug)]
struct Work {
    writes: bool,
    member: usize,
    number: usize,
}

/// A mark within a recording: which, and what comes before it.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) recording: std::sync::Weak<Recording>,
    clock: Clock,
}

/// What a recording leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// Memory that the graph uses, and whether it writes it.
    pub(crate) uses: Vec<(Arc<Allocation>, bool)>,
    /// Direction and bytes of the copies that every launch of the graph makes.
    pub(crate) copies: Vec<(Direction, usize)>,
    /// Memory that can be given back now.
    pub(crate) kept: Vec<Block>,
}

fn at(clock: &Clock, member: usize) -> usize {
    clock.get(member).copied().unwrap_or(0)
}

fn merge(into: &mut Clock, from: &Clock) {
    if into.len() < from.len() {
        into.resize(from.len(), 0);
    }
    for (mine, its) in into.iter_mut().zip(from) {
        *mine = (*mine).max(*its);
    }
}

impl Notes {
    /// The clock of a member's end: all before its next piece of work, its own included.
    fn end_of(&self, member: usize) -> Clock {
        let mut clock = self.members[member].clock.clone();
        let own = vec![0; member]
            .into_iter()
            .chain([self.members[member].n_works]);
        merge(&mut clock, &own.collect());
        clock
    }

    /// The place of this memory, from now on if it had none.
    fn place(&mut self, allocation: &Arc<Allocation>) -> usize {
        let next = self.memories.len();
        let place = *self.place_of.entry(address(allocation)).or_insert(next);
        if place == next {
            self.memories.push(Memory {
                allocation: Arc::clone(allocation),
                is_written: false,
                works: ByRange::default(),
            });
        }
        place
    }
}

impl Member {
    /// Whether this work comes before what member number `own`, this one, does next.
    fn comes_after(&self, own: usize, work: &Work) -> bool {
        work.member == own || at(&self.clock, work.member) >= work.number
    }
}

fn address(allocation: &Arc<Allocation>) -> usize {
    Arc::as_ptr(allocation).addr()
}

impl Recording {
    /// A recording of this thread, by the stream that begins it.
    pub(crate) fn new(queue: Arc<dyn Queue>) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        let recording = Self {
            id: 1 + LAST_ID.fetch_add(1, Ordering::Relaxed),
            thread: std::thread::current().id(),
            notes: Mutex::default(),
        };
        recording.add_member(queue, Clock::new());
        recording
    }

    /// A number that no other recording has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn is_of_this_thread(&self) -> bool {
        self.thread == std::thread::current().id()
    }

    /// Whether it has ended. Somebody who asks for one of its marks may keep it a little longer.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.notes).is_over
    }

    fn add_member(&self, queue: Arc<dyn Queue>, clock: Clock) -> usize {
        let mut notes = lock(&self.notes);
        notes.members.push(Member {
            queue,
            n_works: 0,
            clock,
        });
        notes.members.len() - 1
    }

    /// A stream joins, behind a mark. Gives its number.
    pub(crate) fn join(&self, queue: Arc<dyn Queue>, mark: &Mark) -> usize {
        self.add_member(queue, mark.clock.clone())
    }

    /// A mark behind what a member has recorded so far.
    pub(crate) fn mark(self: &Arc<Self>, member: usize) -> Mark {
        Mark {
            recording: Arc::downgrade(self),
            clock: lock(&self.notes).end_of(member),
        }
    }

    /// A member has waited for a mark.
    pub(crate) fn passed(&self, member: usize, mark: &Mark) {
        merge(&mut lock(&self.notes).members[member].clock, &mark.clock);
    }

    /// Streams whose end a member must wait for before a piece of work, which has no event between
    /// itself and work on the same bytes.
    pub(crate) fn unordered(&self, member: usize, accesses: &[Access<'_>]) -> Vec<(usize, Handle)> {
        let notes = lock(&self.notes);
        let mut others: Vec<usize> = Vec::new();
        if notes.members.len() == 1 {
            return Vec::new();
        }
        for access in accesses {
            let Some(place) = notes.place_of.get(&address(access.allocation)) else {
                continue;
            };
            for work in notes.memories[*place].works.meeting(&access.bytes) {
                if (access.writes || work.writes)
                    && !notes.members[member].comes_after(member, work)
                    && !others.contains(&work.member)
                {
                    others.push(work.member);
                }
            }
        }
        let handle = |other: usize| (other, notes.members[other].queue.raw());
        others.into_iter().map(handle).collect()
    }

    /// Streams that joined, for which the first one waits in the end. Those that it has waited for
    /// already are among them: that costs an event and adds no edge that was not there.
    pub(crate) fn joined(&self) -> Vec<(usize, Handle)> {
        let notes = lock(&self.notes);
        let members = notes.members.iter().enumerate().skip(1);
        members
            .map(|(idx, member)| (idx, member.queue.raw()))
            .collect()
    }

    /// A member has waited for the end of another.
    pub(crate) fn passed_end(&self, member: usize, other: usize) {
        let mut notes = lock(&self.notes);
        let end = notes.end_of(other);
        merge(&mut notes.members[member].clock, &end);
    }

    /// Notes a piece of work of a member, and that the graph keeps the memory it uses.
    pub(crate) fn note(&self, member: usize, accesses: &[Access<'_>]) {
        let mut notes = lock(&self.notes);
        notes.members[member].n_works += 1;
        let number = notes.members[member].n_works;
        for access in accesses {
            let place = notes.place(access.allocation);
            let Notes {
                members, memories, ..
            } = &mut *notes;
            let memory = &mut memories[place];
            memory.is_written |= access.writes;
            // What comes after this comes after all that this replaces: what it has waited for, if
            // it writes; what the same stream did no more with, if it reads.
            memory.works.remove_within(&access.bytes, |work| {
                let is_more = access.writes || (!work.writes && work.member == member);
                is_more && members[member].comes_after(member, work)
            });
        }
        for access in accesses {
            let place = notes.place(access.allocation);
            let work = Work {
                writes: access.writes,
                member,
                number,
            };
            notes.memories[place]
                .works
                .insert(access.bytes.clone(), work);
        }
    }

    pub(crate) fn note_copy(&self, direction: Direction, n_bytes: usize) {
        lock(&self.notes).copies.push((direction, n_bytes));
    }

    /// Keeps memory that was dropped meanwhile; gives it back if the recording is over.
    pub(crate) fn keep(&self, block: Block) -> Option<Block> {
        let mut notes = lock(&self.notes);
        if notes.is_over {
            return Some(block);
        }
        notes.kept.push(block);
        None
    }

    /// Ends it: what it leaves behind, and the streams that recorded.
    pub(crate) fn end(&self) -> (Recorded, Vec<Arc<dyn Queue>>) {
        let mut notes = lock(&self.notes);
        notes.is_over = true;
        notes.place_of.clear();
        let memories = std::mem::take(&mut notes.memories);
        let use_of = |memory: Memory| (memory.allocation, memory.is_written);
        let recorded = Recorded {
            uses: memories.into_iter().map(use_of).collect(),
            copies: std::mem::take(&mut notes.copies),
            kept: std::mem::take(&mut notes.kept),
        };
        let members = std::mem::take(&mut notes.members);
        (
            recorded,
            members.into_iter().map(|member| member.queue).collect(),
        )
    }
}
