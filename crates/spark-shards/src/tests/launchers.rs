//! What launchers say, and what they say that cannot be.

use crate::{Asked, Launcher};

/// The shard, or the error's text.
fn shard(asked: &str, set: &[(&str, &str)]) -> Result<String, String> {
    let asked: Asked = asked.parse().map_err(|error| format!("{error}"))?;
    let variable = |name: &str| {
        let found = set.iter().find(|(it, _)| *it == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let shard = asked.shard(variable).map_err(|error| error.to_string());
    shard.map(|shard| shard.to_string())
}

#[track_caller]
fn is(asked: &str, set: &[(&str, &str)], want: &str) {
    assert_eq!(shard(asked, set).as_deref(), Ok(want));
}

#[track_caller]
fn refused(asked: &str, set: &[(&str, &str)], names: &[&str]) {
    let told = shard(asked, set).expect_err("it cannot be known");
    for name in names {
        assert!(told.contains(name), "{name}: {told}");
    }
}

const OPEN_MPI: [(&str, &str); 2] = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "8")];
const TASK: [(&str, &str); 3] = [
    ("SLURM_STEP_ID", "0"),
    ("SLURM_PROCID", "1"),
    ("SLURM_NTASKS", "4"),
];
/// sbatch --array=10-40:10
const ELEMENT: [(&str, &str); 5] = [
    ("SLURM_ARRAY_TASK_ID", "30"),
    ("SLURM_ARRAY_TASK_MIN", "10"),
    ("SLURM_ARRAY_TASK_MAX", "40"),
    ("SLURM_ARRAY_TASK_STEP", "10"),
    ("SLURM_ARRAY_TASK_COUNT", "4"),
];

#[test]
fn every_launcher_is_understood() {
    is("3/5", &OPEN_MPI, "3/5");
    is("auto", &OPEN_MPI, "3/8");
    is("auto", &[("PMI_RANK", "0"), ("PMI_SIZE", "2")], "1/2");
    is("auto", &[("RANK", "3"), ("WORLD_SIZE", "4")], "4/4");
    is("auto", &TASK, "2/4");
    is("auto", &ELEMENT, "3/4");
    is("auto/6", &[("JOB_COMPLETION_INDEX", "5")], "6/6");
    is("kubernetes/6", &[("JOB_COMPLETION_INDEX", "0")], "1/6");
    is("auto/8", &OPEN_MPI, "3/8");
    for launcher in Launcher::ALL {
        refused(launcher.name(), &[], &[launcher.name(), "is not set"]);
    }
}

#[test]
fn several_that_agree_are_one() {
    // srun --mpi=pmi2 sets both.
    let both = [&TASK[..], &[("PMI_RANK", "1"), ("PMI_SIZE", "4")]].concat();
    is("auto", &both, "2/4");
}

#[test]
fn an_array_stands_around_its_tasks() {
    // The third of four elements, the second of four tasks in each.
    is("auto", &[&ELEMENT[..], &TASK].concat(), "10/16");
    is("auto", &[&ELEMENT[..], &OPEN_MPI].concat(), "19/32");
    is("slurm-array", &[&ELEMENT[..], &TASK].concat(), "3/4");
    is("slurm", &[&ELEMENT[..], &TASK].concat(), "2/4");
    let mut seen = Vec::new();
    for element in ["10", "20", "30", "40"] {
        for task in ["0", "1", "2", "3"] {
            let mut set = [&ELEMENT[..], &TASK].concat();
            set[0].1 = element;
            set[6].1 = task;
            seen.push(shard("auto", &set).unwrap());
        }
    }
    let want: Vec<String> = (1..=16).map(|k| format!("{k}/16")).collect();
    assert_eq!(seen, want, "every share once");
}

#[test]
fn a_batch_script_is_no_task() {
    let script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")];
    refused("auto", &script, &["batch script", "4 tasks", "srun"]);
    refused("slurm", &script, &["SLURM_STEP_ID is not set"]);
    // Elements of an array often are scripts of one task, and mpirun is often started by a script.
    let of_one = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")];
    is("auto", &[&ELEMENT[..], &of_one].concat(), "3/4");
    is("auto", &[&ELEMENT[..], &of_one[..1]].concat(), "3/4");
    is("auto", &[&script[..], &OPEN_MPI].concat(), "3/8");
    refused("auto", &of_one, &["no launcher"]);
    // The shell of an allocation has no rank at all; a variable without a value is not set.
    refused("auto", &script[1..], &["shell", "4 tasks", "srun"]);
    let empty = [&script[..], &[("SLURM_STEP_ID", "")]].concat();
    refused("auto", &empty, &["4 tasks", "srun"]);
    refused("slurm", &empty, &["SLURM_STEP_ID is not set"]);
    is("auto", &[&empty[..], &OPEN_MPI].concat(), "3/8");
    refused("auto", &[&ELEMENT[..], &script].concat(), &["batch script"]);
}

#[test]
fn contradictions_name_both() {
    let both = [&TASK[..], &OPEN_MPI].concat();
    refused(
        "auto",
        &both,
        &[
            "OMPI_COMM_WORLD_RANK is 2",
            "SLURM_PROCID is 1",
            "--shard open-mpi or slurm",
        ],
    );
    is("open-mpi", &both, "3/8");
    is("slurm", &both, "2/4");
    refused("auto/7", &OPEN_MPI, &["7", "OMPI_COMM_WORLD_SIZE 8"]);
}

#[test]
fn halves_and_nonsense_are_named() {
    refused("auto", &[], &["no launcher", "K/N"]);
    refused("auto", &OPEN_MPI[..1], &["OMPI_COMM_WORLD_SIZE is not"]);
    refused("auto", &OPEN_MPI[1..], &["OMPI_COMM_WORLD_RANK is not"]);
    refused(
        "auto",
        &[("RANK", "4"), ("WORLD_SIZE", "4")],
        &["RANK is 4", "below"],
    );
    refused(
        "auto",
        &[("RANK", "0"), ("WORLD_SIZE", "0")],
        &["WORLD_SIZE 0"],
    );
    for junk in [
        "",
        "two",
        "-1",
        "1.0",
        " 1",
        "99999999999",
        "99999999999999999999999",
    ] {
        refused(
            "auto",
            &[("PMI_RANK", junk), ("PMI_SIZE", "2")],
            &["PMI_RANK", junk],
        );
    }
    refused("auto", &[("JOB_COMPLETION_INDEX", "0")], &["auto/N"]);
    refused(
        "auto/6",
        &[("JOB_COMPLETION_INDEX", "6")],
        &["JOB_COMPLETION_INDEX is 6 of 6"],
    );
    for wrong in [
        "auto/0", "auto/", "auto/x", "slurm/-1", "nobody", "", "AUTO",
    ] {
        let names = Launcher::ALL.map(Launcher::name);
        refused(
            wrong,
            &OPEN_MPI,
            &[&["K/N", "auto, auto/N", wrong], &names[..]].concat(),
        );
    }
}

#[test]
fn arrays_that_are_lists_have_no_places() {
    // --array=10,15,40
    let mut list = ELEMENT;
    list[4].1 = "3";
    list[3].1 = "1";
    refused("auto", &list, &["SLURM_ARRAY_TASK_COUNT 3", "list"]);
    let mut beside = ELEMENT;
    beside[0].1 = "31";
    refused("auto", &beside, &["list"]);
    let (outside, absent) = ("no such element", "no such array");
    for (place, value, word) in [
        (0, "50", outside),
        (0, "0", outside),
        (1, "31", outside),
        (1, "41", absent),
        (3, "0", absent),
        (4, "0", absent),
    ] {
        let mut set = ELEMENT;
        set[place].1 = value;
        refused("auto", &set, &["SLURM_ARRAY_TASK_ID", word]);
    }
    refused("auto", &ELEMENT[..2], &["SLURM_ARRAY_TASK_COUNT"]);
    // Without a step it is 1, as Slurm says of `--array=0-7`.
    let plain = [
        ("SLURM_ARRAY_TASK_ID", "7"),
        ("SLURM_ARRAY_TASK_MIN", "0"),
        ("SLURM_ARRAY_TASK_MAX", "7"),
        ("SLURM_ARRAY_TASK_COUNT", "8"),
    ];
    is("auto", &plain, "8/8");
}
