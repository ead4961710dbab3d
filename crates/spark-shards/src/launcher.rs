//! Which shard this process is, as the program that started it says in environment variables.
//!
//! ```text
//!                rank, from 0               of how many
//! open-mpi       OMPI_COMM_WORLD_RANK       OMPI_COMM_WORLD_SIZE
//! pmi            PMI_RANK                   PMI_SIZE               MPICH, Intel MPI, srun --mpi=pmi2
//! torchrun       RANK                       WORLD_SIZE
//! slurm          SLURM_PROCID               SLURM_NTASKS           tasks of srun: where SLURM_STEP_ID is set
//! slurm-array    SLURM_ARRAY_TASK_ID        SLURM_ARRAY_TASK_COUNT
//!                less _MIN, by _STEP
//! kubernetes     JOB_COMPLETION_INDEX       not told: `auto/N`, `kubernetes/N`
//!
//! auto           all that are set must agree; an array is around them: element · tasks + task, of elements · tasks
//! ```
//!
//! What contradicts is an error that names the variables, as is half of a pair, a rank beyond its number, and
//! what is no number. Launchers do start each other (mpirun in an allocation of Slurm, torchrun under srun), and
//! then variables of both are set and mean different things: `--shard open-mpi` says which to read.
//!
//! A batch script itself has `SLURM_PROCID=0` and the number of tasks, but is no task of a step; only srun sets
//! `SLURM_STEP_ID` (sbatch(1), srun(1)). Arrays that are lists (`--array=1,5,7`) have no rank that
//! one of their elements could know. PMIx hands out ranks as `PMIX_RANK` without their number, so it is not read.
//!
//! Deliberately absent: talking to any launcher.

use std::fmt;
use std::str::FromStr;

use crate::Shard;
use crate::plan::whole;

/// Who started this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// mpirun of Open MPI.
    OpenMpi,
    /// mpiexec of MPICH and its relatives.
    Pmi,
    /// torchrun.
    Torchrun,
    /// srun, in a step.
    Slurm,
    /// sbatch --array.
    SlurmArray,
    /// A Job of Kubernetes whose completions are indexed.
    Kubernetes,
}

use Launcher::{Kubernetes, OpenMpi, Pmi, Slurm, SlurmArray, Torchrun};

impl Launcher {
    /// All of them.
    pub const ALL: [Self; 6] = [OpenMpi, Pmi, Torchrun, Slurm, SlurmArray, Kubernetes];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            OpenMpi => "open-mpi",
            Pmi => "pmi",
            Torchrun => "torchrun",
            Slurm => "slurm",
            SlurmArray => "slurm-array",
            Kubernetes => "kubernetes",
        }
    }

    fn set_in_every_process(self) -> &'static str {
        match self {
            Slurm => "SLURM_STEP_ID",
            other => other.variables().0,
        }
    }

    /// The variable of the rank, and that of its number if there is one.
    fn variables(self) -> (&'static str, Option<&'static str>) {
        match self {
            OpenMpi => ("OMPI_COMM_WORLD_RANK", Some("OMPI_COMM_WORLD_SIZE")),
            Pmi => ("PMI_RANK", Some("PMI_SIZE")),
            Torchrun => ("RANK", Some("WORLD_SIZE")),
            Slurm => ("SLURM_PROCID", Some("SLURM_NTASKS")),
            SlurmArray => ("SLURM_ARRAY_TASK_ID", Some("SLURM_ARRAY_TASK_COUNT")),
            Kubernetes => ("JOB_COMPLETION_INDEX", None),
        }
    }
}

/// What a user asks for with `--shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Asked {
    /// `K/N`.
    Given(Shard),
    /// `auto`, or the name of a launcher; with `/N` how many shards there are.
    Launched {
        /// Whose variables are read; all by default.
        by: Option<Launcher>,
        /// How many shards there must be, for launchers that do not say.
        of: Option<u64>,
    },
}

impl FromStr for Asked {
    type Err = LauncherError;

    fn from_str(text: &str) -> Result<Self, LauncherError> {
        let (name, of) = match text.split_once('/') {
            Some((name, of)) => (name, Some(of)),
            None => (text, None),
        };
        let by = Launcher::ALL.into_iter().find(|it| it.name() == name);
        let refused = || LauncherError::Asked {
            text: text.to_owned(),
        };
        if by.is_none() && name != "auto" {
            return text.parse().map(Self::Given).map_err(|_| refused());
        }
        let of = of.map(|of| whole(of).filter(|&of| of > 0).ok_or_else(refused));
        let of = of.transpose()?;
        Ok(Self::Launched { by, of })
    }
}

impl Asked {
    /// The shard of this process; `variable` gives the value of an environment variable.
    ///
    /// # Errors
    ///
    /// [`LauncherError`] if no launcher says, or several contradict, or what they say cannot be.
    pub fn shard(self, variable: impl Fn(&str) -> Option<String>) -> Result<Shard, LauncherError> {
        let (by, of) = match self {
            Self::Given(shard) => return Ok(shard),
            Self::Launched { by, of } => (by, of),
        };
        let claim = match by {
            Some(by) => Claim::of(by, of, &variable)?.ok_or(LauncherError::NotSet {
                launcher: by.name(),
                variable: by.set_in_every_process(),
            })?,
            None => agreed(of, &variable)?.ok_or(LauncherError::Nobody)?,
        };
        if let Some(of) = of
            && of != claim.of
        {
            return Err(LauncherError::OtherNumber {
                asked: of,
                told: claim.to_string(),
            });
        }
        // A claim's rank is below its number.
        Shard::new(claim.rank + 1, claim.of).map_err(|_| LauncherError::Beyond {
            told: claim.to_string(),
        })
    }
}

/// Why this process does not know which shard it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LauncherError {
    /// Nobody says.
    #[error(
        "no launcher says which shard this process is (Open MPI, PMI, torchrun, Slurm and Kubernetes were looked for); give --shard K/N"
    )]
    Nobody,
    /// What was asked for is neither a share nor the name of who says one.
    #[error(
        "`{text}` is no shard: expected K/N, with K from 1 to N, or auto, auto/N with N above 0, or the name of a launcher instead of auto: {}",
        Launcher::ALL.map(Launcher::name).join(", ")
    )]
    Asked {
        /// What was given.
        text: String,
    },
    /// The one that was asked for says nothing.
    #[error("{launcher} did not start this process: {variable} is not set")]
    NotSet {
        /// Its name.
        launcher: &'static str,
        /// The variable that it sets.
        variable: &'static str,
    },
    /// A variable without the one that belongs to it.
    #[error("{set} is set and {missing} is not")]
    Half {
        /// What is set.
        set: &'static str,
        /// What belongs to it.
        missing: &'static str,
    },
    /// A value that is no whole number, or no possible one.
    #[error("{variable} is `{value}`, expected {want}")]
    Value {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        want: &'static str,
    },
    /// A rank beyond the number of processes.
    #[error("{told}: ranks begin at 0 and end below their number")]
    Beyond {
        /// Variables and values.
        told: String,
    },
    /// Kubernetes says which index, not of how many.
    #[error(
        "JOB_COMPLETION_INDEX does not say of how many; give --shard auto/N, N being the Job's completions"
    )]
    NumberUnknown,
    /// An array whose indices are not evenly spaced.
    #[error("{told}: the array is a list, of which no element knows its place; give --shard K/N")]
    List {
        /// Variables and values.
        told: String,
    },
    /// An element that its array does not have.
    #[error("{told}: the array has no such element")]
    Outside {
        /// Variables and values.
        told: String,
    },
    /// An array that ends before it begins, or goes on by steps of 0.
    #[error("{told}: there is no such array")]
    NoArray {
        /// Variables and values.
        told: String,
    },
    /// The script of a batch job or the shell of an allocation, which is not one of its tasks.
    #[error(
        "this is the batch script or the shell of an allocation, and none of its {n_tasks} tasks (SLURM_STEP_ID is not set); start it with srun, or give --shard K/N"
    )]
    BatchScript {
        /// Number of tasks of the job.
        n_tasks: u64,
    },
    /// Two launchers say different things.
    #[error("{one}, and {other}: they contradict; say whose to follow (--shard {names})")]
    Contradiction {
        /// Variables and values of the one.
        one: String,
        /// Those of the other.
        other: String,
        /// The names of both, for a command line.
        names: String,
    },
    /// There are not as many shards as was asked for.
    #[error("--shard says {asked} shards, and {told}")]
    OtherNumber {
        /// What was asked for.
        asked: u64,
        /// Variables and values.
        told: String,
    },
    /// A number of processes beyond what can be counted.
    #[error("an array and its tasks are too many processes to count")]
    TooMany,
}

/// What a launcher says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    rank: u64,
    of: u64,
    launcher: Launcher,
    /// The variables and their values.
    told: String,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

impl Claim {
    /// What a launcher says; nothing if it did not start this process.
    fn of(
        launcher: Launcher,
        of: Option<u64>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, LauncherError> {
        // An allocation's shell and a batch script have tasks and are none.
        if launcher == Slurm && variable("SLURM_STEP_ID").is_none_or(|it| it.is_empty()) {
            return Ok(None);
        }
        let (rank_name, of_name) = launcher.variables();
        let rank = number(rank_name, variable)?;
        let told_of = match of_name {
            Some(name) => number(name, variable)?,
            None => rank.and(of),
        };
        let (rank, of) = match (rank, told_of, of_name) {
            (None, None, _) => return Ok(None),
            (Some(_), None, None) => return Err(LauncherError::NumberUnknown),
            (Some(_), None, Some(missing)) => {
                let set = rank_name;
                return Err(LauncherError::Half { set, missing });
            }
            (None, Some(_), _) => {
                let set = of_name.unwrap_or(rank_name);
                let missing = rank_name;
                return Err(LauncherError::Half { set, missing });
            }
            (Some(rank), Some(of), _) => (rank, of),
        };
        if launcher == SlurmArray {
            return array(rank, of, variable).map(Some);
        }
        let told = match of_name {
            Some(of_name) => format!("{rank_name} is {rank} and {of_name} {of}"),
            None => format!("{rank_name} is {rank} of {of}"),
        };
        if rank >= of {
            return Err(LauncherError::Beyond { told });
        }
        Ok(Some(Self {
            rank,
            of,
            launcher,
            told,
        }))
    }
}

/// The element of an array.
fn array(
    id: u64,
    count: u64,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Claim, LauncherError> {
    let set = "SLURM_ARRAY_TASK_ID";
    let needed = |missing| number(missing, variable)?.ok_or(LauncherError::Half { set, missing });
    let least = needed("SLURM_ARRAY_TASK_MIN")?;
    let most = needed("SLURM_ARRAY_TASK_MAX")?;
    // Slurm leaves the step out, or says 1, where there is none.
    let step = number("SLURM_ARRAY_TASK_STEP", variable)?.unwrap_or(1);
    let told = format!(
        "SLURM_ARRAY_TASK_ID is {id} of {least} to {most} by {step}, SLURM_ARRAY_TASK_COUNT {count}"
    );
    if step == 0 || least > most || count == 0 {
        return Err(LauncherError::NoArray { told });
    }
    if !(least..=most).contains(&id) {
        return Err(LauncherError::Outside { told });
    }
    let is_even = (most - least) / step + 1 == count && (id - least).is_multiple_of(step);
    if !is_even {
        return Err(LauncherError::List { told });
    }
    Ok(Claim {
        rank: (id - least) / step,
        of: count,
        launcher: SlurmArray,
        told,
    })
}

/// What all launchers say together; nothing if there is none.
fn agreed(
    of: Option<u64>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Claim>, LauncherError> {
    let mut inner: Option<Claim> = None;
    for launcher in [OpenMpi, Pmi, Torchrun, Slurm, Kubernetes] {
        let Some(claim) = Claim::of(launcher, of, variable)? else {
            continue;
        };
        let Some(before) = &inner else {
            inner = Some(claim);
            continue;
        };
        if (before.rank, before.of) != (claim.rank, claim.of) {
            let names = [before.launcher, claim.launcher].map(Launcher::name);
            return Err(LauncherError::Contradiction {
                one: before.told.clone(),
                other: claim.told,
                names: names.join(" or "),
            });
        }
    }
    let outer = Claim::of(SlurmArray, None, variable)?;
    let n_tasks = number("SLURM_NTASKS", variable)?.unwrap_or(1);
    match (outer, inner) {
        (_, None) if n_tasks > 1 => Err(LauncherError::BatchScript { n_tasks }),
        (outer, None) => Ok(outer),
        (None, inner) => Ok(inner),
        (Some(outer), Some(inner)) => {
            let of = outer.of.checked_mul(inner.of);
            let of = of.ok_or(LauncherError::TooMany)?;
            Ok(Some(Claim {
                // Below `of`, as both ranks are below their numbers.
                rank: outer.rank * inner.of + inner.rank,
                of,
                launcher: inner.launcher,
                told: format!("{}, and {}", outer.told, inner.told),
            }))
        }
    }
}

fn number(
    name: &'static str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<u64>, LauncherError> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    // Beyond this nobody counts processes, and sums of two fit.
    let read = whole(&value).filter(|&number| number <= u64::from(u32::MAX));
    match read {
        Some(number) => Ok(Some(number)),
        None => Err(LauncherError::Value {
            variable: name,
            value,
            want: "a whole number below 4294967296",
        }),
    }
}
