//! Findings: what is wrong, and where.
//!
//! ```text
//! kernel `add`, line 41 of the PTX (add.cu:7), block 3,0,0, warp 0, lane 31:
//! reads 4 bytes at 0x1000004b0, 176 bytes behind the 1024 bytes at 0x100000000
//! ```

use std::fmt;

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store.
    Write,
    /// A read and a write as one.
    Atomic,
}

/// The allocation next to an address that is in none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedAllocation {
    /// Its first address.
    pub base: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its name, if the caller gave one.
    pub name: Option<String>,
    /// Bytes from its end to the access's end, or negative, from its beginning to the access's.
    pub distance: i64,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// An access that is in no allocation, or leaves one.
    OutOfBounds {
        /// What the access does.
        access: AccessKind,
        /// Its state space.
        space: &'static str,
        /// Its address in that space.
        address: u64,
        /// Its length in bytes.
        bytes: u64,
        /// What it missed, if there is anything.
        missed: Option<MissedAllocation>,
    },
    /// An access by an instruction on one space that meets memory of another: constants by `.global`,
    /// or global memory by `.const`. Generic addresses reach both.
    WrongSpace {
        /// What the access does.
        access: AccessKind,
        /// The space that the instruction names.
        space: &'static str,
        /// The address.
        address: u64,
    },
    /// An address that is no multiple of what the access needs.
    Misaligned {
        /// Its state space.
        space: &'static str,
        /// Its address in that space.
        address: u64,
        /// What the address must be a multiple of.
        align: u64,
    },
    /// Memory is read that nobody has written.
    Uninitialised {
        /// Its state space.
        space: &'static str,
        /// Address of the first such byte.
        address: u64,
    },
    /// A register is read that the lane has not written.
    UninitialisedRegister,
    /// Threads of a block access shared memory without a barrier between them.
    SharedRace {
        /// What this access does.
        access: AccessKind,
        /// What the other access did.
        other: AccessKind,
        /// Address in shared memory.
        address: u64,
        /// Who made the other access.
        other_warp: u32,
        /// Its lane.
        other_lane: u32,
    },
    /// Blocks of a launch access global memory, one writes, and nothing orders them.
    GlobalRace {
        /// What this access does.
        access: AccessKind,
        /// Its address.
        address: u64,
        /// Number of the other block, x fastest.
        other_block: u64,
    },
    /// Threads of a block access global memory, one writes, and no barrier is between them.
    GlobalRaceInBlock {
        /// What this access does.
        access: AccessKind,
        /// What the other access did: a write or an atomic.
        other: AccessKind,
        /// Address of the word.
        address: u64,
        /// Who made the other access.
        other_warp: u32,
        /// Its lane.
        other_lane: u32,
    },
    /// The destination of `cp.async` is used before the copy was waited for.
    CopyNotAwaited {
        /// Address in shared memory.
        address: u64,
    },
    /// The source of `cp.async` was written before the copy was waited for.
    CopySourceChanged {
        /// Global address of the source.
        address: u64,
    },
    /// `cp.async` is asked for more bytes than it copies.
    CopySize {
        /// Bytes asked for.
        asked: u32,
        /// Bytes it copies.
        copies: u32,
    },
    /// Memory is written that was read by `.nc`, or the other way round.
    ReadOnlyWritten {
        /// Its address.
        address: u64,
    },
    /// Constant memory is written.
    ConstantWritten {
        /// Its address.
        address: u64,
    },
    /// Lanes of a warp, or warps, meet the same barrier at different instructions, of which one is
    /// `.aligned`, or lanes of a warp wait at several barriers.
    DivergentBarrier {
        /// Number of the barrier, 16 and above for those of a warp.
        barrier: u32,
    },
    /// An instruction that all lanes of a warp have to execute together, an `.aligned` one, is
    /// executed by some while others are elsewhere and need not come.
    DivergentAligned {
        /// Lanes that are elsewhere and have not exited.
        lanes: u32,
    },
    /// Nobody can go on: threads wait at barriers that the others never reach.
    Deadlock {
        /// Warps that wait, as a set.
        waiting: u32,
        /// Warps that are done, as a set.
        done: u32,
    },
    /// A warp arrives at a barrier where it has arrived already.
    SurplusArrival {
        /// Number of the barrier.
        barrier: u32,
    },
    /// Warps that only arrive complete a barrier at which nobody waits: who comes later waits for others.
    ArrivalsAlone {
        /// Number of the barrier.
        barrier: u32,
    },
    /// The number of threads of a barrier is not what others gave, or no multiple of 32, or its
    /// own number is above 15.
    BarrierOperands {
        /// Number of the barrier.
        barrier: u32,
        /// Threads that were given.
        threads: u32,
    },
    /// An `.aligned` instruction on matrices runs in a warp that lacks lanes, or after some have exited.
    ExitedLanes {
        /// Lanes that are not there.
        lanes: u32,
    },
    /// A value is taken from a lane that does not take part.
    AbsentLane {
        /// The lane asked for.
        lane: u32,
    },
    /// A lane executes an instruction with a member mask that leaves it out.
    OutsideOfMask {
        /// The mask.
        mask: u32,
    },
    /// A matrix instruction has operands without a meaning.
    Tensor {
        /// What is wrong.
        what: String,
    },
    /// A call, or a branch, of an address or an index that leads nowhere.
    BadTarget {
        /// The address or index.
        target: u64,
    },
    /// Calls are nested deeper, or take more memory, than a thread has.
    StackOverflow {
        /// Calls inside calls.
        depth: u32,
    },
    /// The kernel executed `trap`.
    Trap,
    /// The kernel ran longer than the launch allows: it hangs. The finding's place is what the warp
    /// that ran last was about to do.
    Budget {
        /// Instructions of warps that were allowed.
        limit: u64,
        /// Lanes of that warp that ran.
        running: u32,
        /// Lanes of it that had no turn until then, or waited at an instruction for others.
        waiting: u32,
        /// Line of the PTX text where the first of these stands, 0 if there is none.
        waiting_line: u32,
        /// Warps of the block that wait at barriers, as a set.
        at_barriers: u32,
    },
}

/// What is wrong, and where it was seen first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// Name of the kernel.
    pub kernel: String,
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// The PTX of that line.
    pub text: String,
    /// File and line of the source, where the PTX says them.
    pub source: Option<(String, u32)>,
    /// Index of the block.
    pub block: [u32; 3],
    /// Warp of the block.
    pub warp: u32,
    /// Lane of the warp.
    pub lane: u32,
    /// How often the same was seen at this instruction.
    pub count: u64,
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Atomic => "atomic access",
        })
    }
}

impl fmt::Display for MissedAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, base) = (self.len, self.base);
        match self.distance {
            behind @ 0.. => write!(f, "{behind} bytes behind the end of ")?,
            before => write!(
                f,
                "{} bytes before the beginning of ",
                before.unsigned_abs()
            )?,
        }
        match &self.name {
            Some(name) => write!(f, "`{name}`, {len} bytes at {base:#x}"),
            None => write!(f, "the {len} bytes at {base:#x}"),
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindingKind::OutOfBounds {
                access,
                space,
                address,
                bytes,
                missed,
            } => {
                write!(
                    f,
                    "{access} of {bytes} bytes at {address:#x} of {space} memory, "
                )?;
                match missed {
                    Some(missed) => write!(f, "{missed}"),
                    None => f.write_str("where there is no memory"),
                }
            }
            FindingKind::WrongSpace {
                access,
                space,
                address,
            } => write!(
                f,
                "{access} at {address:#x} by an instruction on {space} memory, which lies elsewhere"
            ),
            FindingKind::Misaligned {
                space,
                address,
                align,
            } => {
                write!(
                    f,
                    "address {address:#x} of {space} memory is no multiple of {align}"
                )
            }
            FindingKind::Uninitialised { space, address } => {
                write!(
                    f,
                    "{space} memory at {address:#x} is read and was never written"
                )
            }
            FindingKind::UninitialisedRegister => {
                f.write_str("a register is read that this lane has not written")
            }
            FindingKind::SharedRace {
                access,
                other,
                address,
                other_warp,
                other_lane,
            } => write!(
                f,
                "race in shared memory at {address:#x}: {access} after {other} by warp \
                 {other_warp}, lane {other_lane}, and no barrier between them"
            ),
            FindingKind::GlobalRace {
                access,
                address,
                other_block,
            } => write!(
                f,
                "race in global memory at {address:#x}: {access}, and block {other_block} of \
                 this launch wrote there"
            ),
            FindingKind::GlobalRaceInBlock {
                access,
                other,
                address,
                other_warp,
                other_lane,
            } => write!(
                f,
                "race in global memory at {address:#x}: {access} after {other} by warp \
                 {other_warp}, lane {other_lane}, and no barrier between them"
            ),
            FindingKind::CopyNotAwaited { address } => write!(
                f,
                "shared memory at {address:#x} is used before the copy to it was waited for"
            ),
            FindingKind::CopySourceChanged { address } => write!(
                f,
                "the source of a copy at {address:#x} changed before it was waited for"
            ),
            FindingKind::CopySize { asked, copies } => {
                write!(f, "a copy of {copies} bytes is asked to read {asked}")
            }
            FindingKind::ReadOnlyWritten { address } => write!(
                f,
                "memory at {address:#x} is written, and read by an instruction that needs it \
                 unchanged while the kernel runs"
            ),
            FindingKind::ConstantWritten { address } => {
                write!(f, "constant memory at {address:#x} is written")
            }
            FindingKind::DivergentBarrier { barrier } => {
                write!(f, "barrier {barrier} is met at different instructions")
            }
            FindingKind::DivergentAligned { lanes } => write!(
                f,
                "all lanes of a warp have to execute this together, lanes {lanes:#x} are elsewhere"
            ),
            FindingKind::Deadlock { waiting, done } => write!(
                f,
                "nobody can go on: warps {waiting:#b} wait at barriers, warps {done:#b} are done"
            ),
            FindingKind::SurplusArrival { barrier } => {
                write!(
                    f,
                    "the warp arrives twice at barrier {barrier} before it is complete"
                )
            }
            FindingKind::ArrivalsAlone { barrier } => write!(
                f,
                "barrier {barrier} is complete by warps that only arrive: nobody waits there, and who comes \
                 later waits for others"
            ),
            FindingKind::BarrierOperands { barrier, threads } => {
                write!(f, "barrier {barrier} of {threads} threads does not fit")
            }
            FindingKind::ExitedLanes { lanes } => {
                write!(
                    f,
                    "lanes {lanes:#x} are not there for an instruction of the warp"
                )
            }
            FindingKind::AbsentLane { lane } => {
                write!(
                    f,
                    "a value is taken from lane {lane}, which does not take part"
                )
            }
            FindingKind::OutsideOfMask { mask } => {
                write!(f, "the lane is not in the member mask {mask:#x}")
            }
            FindingKind::Tensor { what } => f.write_str(what),
            FindingKind::BadTarget { target } => write!(f, "{target:#x} leads nowhere"),
            FindingKind::StackOverflow { depth } => {
                write!(
                    f,
                    "{depth} calls inside calls are more than a thread has memory for"
                )
            }
            FindingKind::Trap => f.write_str("the kernel gave up: trap"),
            FindingKind::Budget {
                limit,
                running,
                waiting,
                waiting_line,
                at_barriers,
            } => {
                write!(
                    f,
                    "the kernel hangs: it did not end within {limit} instructions; lanes \
                     {running:#x} of the warp run here"
                )?;
                if *waiting != 0 {
                    write!(
                        f,
                        ", lanes {waiting:#x} wait, the first at line {waiting_line}: lanes of a \
                         warp take turns at fixed places, so that those which wait for others of \
                         their warp in a loop wait for ever"
                    )?;
                }
                if *at_barriers != 0 {
                    write!(f, "; warps {at_barriers:#b} wait at barriers")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`, line {} of the PTX", self.kernel, self.line)?;
        if let Some((file, line)) = &self.source {
            write!(f, " ({file}:{line})")?;
        }
        let [x, y, z] = self.block;
        write!(
            f,
            ", block {x},{y},{z}, warp {}, lane {}: ",
            self.warp, self.lane
        )?;
        write!(f, "{}", self.kind)?;
        if !self.text.is_empty() {
            write!(f, " [{}]", self.text)?;
        }
        if self.count > 1 {
            write!(f, ", {} times", self.count)?;
        }
        Ok(())
    }
}
