//! Probes of single instructions for a GPU, and its answers beside the interpreter's.
//!
//! ```text
//! cargo run --release -p spark-ptx --example probes -- write sm_90a DIR      DIR/NAME.ptx, NAME.in, index.txt
//! (on a GPU, for each line of index.txt: load the text, launch, keep NAME.out)
//! cargo run --release -p spark-ptx --example probes -- compare sm_90a DIR    where the answers differ
//! cargo run --release -p spark-ptx --example probes -- hash sm_90a DIR       the GPU's answers as tests keep them
//! ```
//!
//! A line of `index.txt` is: name, blocks, threads, bytes of the output.

#![allow(clippy::print_stdout, reason = "an example's output is its product")]

#[path = "../tests/probes/mod.rs"]
mod probes;

use std::error::Error;
use std::fs;
use std::path::Path;

use probes::{Agreement, Probe};
use spark_ptx::Target;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, target, folder] = &words[..] else {
        return Err("wanted: write | compare | hash, a target, a folder".into());
    };
    let target = Target::parse(target).ok_or("no such target")?;
    let folder = Path::new(folder);
    match what.as_str() {
        "write" => write(target, folder),
        "compare" => compare(target, folder),
        "hash" => hash(target, folder),
        _ => Err("wanted: write, compare or hash".into()),
    }
}

fn write(target: Target, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let mut index = String::new();
    for probe in probes::all(target) {
        fs::write(
            folder.join(format!("{}.ptx", probe.name)),
            probe.ptx(target),
        )?;
        let bytes: Vec<u8> = probe
            .inputs
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        fs::write(folder.join(format!("{}.in", probe.name)), bytes)?;
        if let Err(why) = probe.interpret(target) {
            println!("{}: not interpreted: {why}", probe.name);
        }
        let Probe {
            name,
            blocks,
            threads,
            ..
        } = &probe;
        index += &format!("{name} {blocks} {threads} {}\n", 4 * probe.output_words());
    }
    fs::write(folder.join("index.txt"), index)?;
    Ok(())
}

/// What the GPU wrote.
fn answers(folder: &Path, probe: &Probe) -> Option<Vec<u32>> {
    let bytes = fs::read(folder.join(format!("{}.out", probe.name))).ok()?;
    let words = bytes.chunks_exact(4);
    let words = words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    Some(words.collect())
}

fn hash(target: Target, folder: &Path) -> Result<(), Box<dyn Error>> {
    for probe in probes::all(target) {
        let answers = answers(folder, &probe).ok_or("an answer is missing")?;
        if let Some(hash) = probe.hash(&answers) {
            println!("{} {hash:016x}", probe.name);
        }
    }
    Ok(())
}

fn compare(target: Target, folder: &Path) -> Result<(), Box<dyn Error>> {
    let (mut n_equal, mut n_apart) = (0, 0);
    for probe in probes::all(target) {
        let Some(got) = answers(folder, &probe) else {
            println!("{}: the GPU gave no answer", probe.name);
            continue;
        };
        let want = match probe.interpret(target) {
            Ok(want) => want,
            Err(why) => {
                println!("{}: not interpreted: {why}", probe.name);
                continue;
            }
        };
        let apart = if probe.agreement == Agreement::Open {
            (0..got.len()).filter(|at| got[*at] != want[*at]).collect()
        } else {
            probe.differences(&got, &want)
        };
        if apart.is_empty() {
            n_equal += 1;
            continue;
        }
        n_apart += 1;
        println!(
            "{}{}: {} of {} words differ",
            probe.name,
            if probe.agreement == Agreement::Open {
                " (open)"
            } else {
                ""
            },
            apart.len(),
            got.len()
        );
        let all = (probe.threads * probe.blocks) as usize;
        for at in apart.iter().take(4) {
            let thread = at % all;
            let inputs: Vec<String> = (0..probe.n_in)
                .map(|word| format!("{:08X}", probe.inputs[word * all + thread]))
                .collect();
            println!(
                "    word {} thread {thread}: GPU {:08X}, here {:08X}, of {}",
                at / all,
                got[*at],
                want[*at],
                inputs.join(" ")
            );
        }
    }
    println!("{n_equal} probes agree, {n_apart} do not");
    Ok(())
}
