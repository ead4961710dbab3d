//! What a run is begun with, and the file in its folder that keeps it.

use std::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use spark_program::shards::refuse_name_of_chunk;
use spark_program::{Usage, about, count, number, output, place};
use sparkpilot::shards::{ShardError, has_chunks};

use super::calibrated;

/// File of a run's folder that holds its options.
const FILE: &str = "run.json";
/// One alone does not vary.
const LEAST_INIT_FRAMES: u64 = 2;

/// File of a run's folder that events are written to.
pub(crate) const METRICS: &str = "metrics.jsonl";

/// The program for several processes.
const RANKS_PROGRAM: &str = "sparkpilot-mpi";

#[derive(Args, Serialize, Deserialize)]
pub(crate) struct Options {
    /// ONNX file of the network that is tuned
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) model: PathBuf,
    /// Inputs of many frames, caseN/in/<input>, a folder of recorded drives (logs and videos), or one of what `frames` made of them
    #[arg(long, value_name = "FILE.safetensors|FOLDER")]
    pub(crate) data: PathBuf,
    /// Of a folder's frames one of so many is taken; 4 by default, five a second
    #[arg(long, value_name = "N", value_parser = count(1, 1_000_000))]
    #[serde(default)]
    pub(crate) every: Option<usize>,
    /// Whose pictures are taken of a folder's drives; the small ones of the road by default
    #[arg(long, value_enum, value_name = "CAMERA")]
    #[serde(default)]
    pub(crate) camera: Option<CameraOf>,
    /// ONNX file of the teacher, of the same inputs and outputs; the network itself by default
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) teacher: Option<PathBuf>,
    /// Precision of the weights that the tuned network will be run in, which training sees
    #[arg(long, value_enum, value_name = "PRECISION")]
    pub(crate) qat: Option<Format>,
    /// Training sees how activations are rounded to that precision too, as tensor cores take them; without, they stay as they are. Needs --qat
    #[arg(long, requires = "qat")]
    #[serde(default)]
    pub(crate) qat_activations: bool,
    /// Round weights for what they meet on so many of the frames trained on, and begin with those; needs --qat
    #[arg(long, value_name = "N", value_parser = count(1, 1_000_000), requires = "qat")]
    #[serde(default)]
    pub(crate) calibrate: Option<usize>,
    /// What is taught of the outputs
    #[arg(long, value_enum, default_value_t = Taught::Numbers)]
    #[serde(default)]
    pub(crate) heads: Taught,
    /// Weight of a head in the loss, 1 by default; with 0 it is not taught, but judged all the same
    #[arg(long, value_name = "HEAD=WEIGHT", value_delimiter = ',', value_parser = weight)]
    #[serde(default)]
    pub(crate) head_weight: Vec<(String, f64)>,
    /// How often the frames are gone through, each time in another order, by whole steps: what is left over of --batch-size is passed over
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count(1, 1_000_000))]
    pub(crate) epochs: usize,
    /// Ends after so many steps, if the epochs (--epochs) have more
    #[arg(long, value_name = "N", value_parser = count(1, 1_000_000_000))]
    pub(crate) max_steps: Option<usize>,
    /// Frames of one step
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count(1, 4096))]
    pub(crate) batch_size: usize,
    /// Parts that a step's frames are computed in, each by itself, and whose gradients are added in order: what sparkpilot-mpi shares out; by default 1, and 8 in sparkpilot-mpi
    #[arg(long, value_name = "N", value_parser = count(1, 4096))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) virtual_shards: Option<usize>,
    /// Learning rate at its highest
    #[arg(long, value_name = "RATE", default_value_t = 1e-3, value_parser = number(1e-12, 10.0))]
    pub(crate) lr: f64,
    /// Rank of the adapters
    #[arg(long, value_name = "R", default_value_t = 4, value_parser = count(1, 4096))]
    pub(crate) dora_rank: usize,
    /// Scale of their updates, alpha over rank; the rank by default
    #[arg(long, value_name = "ALPHA", value_parser = number(1e-6, 1e6))]
    pub(crate) dora_alpha: Option<f64>,
    /// How adapters begin: eva as the directions in which what linear layers read varies most, which also shares out their ranks; default at random
    #[arg(long, value_enum, value_name = "HOW")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) init: Option<InitOf>,
    /// Of the frames trained on, how many are looked at for that; 256 by default
    #[arg(long, value_name = "N", value_parser = count(LEAST_INIT_FRAMES, 1_000_000), requires = "init")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) init_frames: Option<usize>,
    /// How likely each number that adapters read is dropped in a step, from 0 up to below 1; none by default. Evaluation, and the network that comes of it, have none
    #[arg(long, value_name = "P", value_parser = below_one)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lora_dropout: Option<f64>,
    /// Layers by the ends of their names, with commas; all that are not in groups and hold the rank by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = name)]
    pub(crate) targets: Vec<String>,
    /// Layers by the ends of their names, with commas, that are trained whole, with their biases: new or small ones at the network's end
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = name)]
    #[serde(default)]
    pub(crate) whole: Vec<String>,
    /// Biases that are trained too: of all layers, or of adapted ones; or those of all layers alone, without an adapter, which leaves rounded weights as they are
    #[arg(long, value_enum, value_name = "WHICH", conflicts_with = "whole")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) biases: Option<BiasesOf>,
    /// Run what training cannot change once for each frame, and train what is behind it on the results
    #[arg(long)]
    #[serde(default)]
    pub(crate) cache_trunk: bool,
    /// Compute results of the way forth a second time, rather than to keep them: less memory, more time
    #[arg(long)]
    #[serde(default)]
    pub(crate) recompute: bool,
    /// Share of the frames that is held back, the last ones
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = number(0.0, 0.9))]
    pub(crate) val_split: f64,
    /// Frames left out between those trained on and those held back
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count(0, 1_000_000))]
    pub(crate) gap: usize,
    /// Of the adapter's first values, what is dropped, and the order of the frames
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Steps between checkpoints
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = count(1, 1_000_000_000))]
    pub(crate) save_every: usize,
    /// What tells its frames from others, of both parts
    #[arg(skip)]
    #[serde(default)]
    pub(crate) frames: Option<[String; 2]>,
    /// What tells its network from others
    #[arg(skip)]
    #[serde(default)]
    pub(crate) network: Option<String>,
    /// Logs and videos of segments that it was begun without, as they could not be read; nothing before it is begun.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) left_out: Option<Vec<PathBuf>>,
}

/// How adapters begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InitOf {
    Default,
    Eva,
}

/// Which biases are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BiasesOf {
    All,
    Adapted,
    Alone,
}

impl Options {
    /// Parts of a step.
    pub(crate) fn virtual_shards(&self) -> usize {
        self.virtual_shards.unwrap_or(1)
    }

    /// Frames that go through the network at once.
    pub(crate) fn frames_at_once(&self) -> usize {
        self.batch_size / self.virtual_shards()
    }

    /// What two processes of one run have in common, by name: all but where files lie.
    pub(crate) fn lines(&self) -> Result<Vec<(String, String)>, Box<dyn Error>> {
        let serde_json::Value::Object(mut all) = serde_json::to_value(self)? else {
            return Err("options are no object".into());
        };
        for path in ["model", "data", "teacher", "left_out"] {
            all.remove(path);
        }
        let lines = all.into_iter();
        Ok(lines
            .map(|(name, value)| (name, value.to_string()))
            .collect())
    }

    /// Where its frames come from.
    pub(crate) fn source(&self) -> Result<Source, ShardError> {
        Ok(match self.data.is_dir() {
            false => Source::File,
            true if has_chunks(&self.data)? => Source::Ready,
            true => Source::Drives,
        })
    }

    /// The files and folders that a run reads, as they are called in its file.
    fn inputs_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut PathBuf)> {
        let inputs = [("model", &mut self.model), ("data", &mut self.data)];
        let teacher = self.teacher.as_mut().map(|path| ("teacher", path));
        inputs.into_iter().chain(teacher)
    }
}

/// What `--data` is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Source {
    /// Inputs of frames.
    File,
    /// Logs and videos.
    Drives,
    /// What `frames` made of them.
    Ready,
}

#[derive(Clone, Copy, PartialEq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    Fp8,
    Fp4,
}

#[derive(Clone, Copy, Default, PartialEq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Taught {
    /// Every number: mean squared differences, a head for each output
    #[default]
    Numbers,
    /// Heads of openpilot's networks by what they mean: distributions, probabilities, classes
    Driving,
}

#[derive(Clone, Copy, Default, PartialEq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CameraOf {
    /// qcamera.ts
    #[default]
    Preview,
    /// fcamera.hevc
    Road,
    /// ecamera.hevc
    Wide,
    /// dcamera.hevc
    Driver,
}

fn below_one(text: &str) -> Result<f64, String> {
    match number(0.0, 1.0)(text) {
        Ok(number) if number < 1.0 => Ok(number),
        _ => Err("expected a number from 0 up to below 1".to_owned()),
    }
}

fn weight(text: &str) -> Result<(String, f64), String> {
    match text.rsplit_once('=') {
        Some((head, weight)) if !head.trim().is_empty() => {
            Ok((head.trim().to_owned(), number(0.0, 1e6)(weight.trim())?))
        }
        _ => Err("expected HEAD=WEIGHT".to_owned()),
    }
}

fn name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a name without a letter means every layer".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// A run, and where its results go.
pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) folder: PathBuf,
    pub(crate) json: Option<PathBuf>,
    pub(crate) tensorboard: Option<PathBuf>,
    /// How many processes it is shared out among, and whether their sums are fast, where there are some.
    pub(crate) ranks: Option<(usize, bool)>,
    /// Folders that it made as it began, the innermost first.
    made: Vec<PathBuf>,
}

impl Run {
    /// Options that make a run; nothing is read yet. What they name it keeps from the root on, to be found from any folder.
    pub(crate) fn new(
        mut options: Options,
        folder: PathBuf,
        json: Option<PathBuf>,
        tensorboard: Option<PathBuf>,
    ) -> Result<Self, Box<dyn Error>> {
        if options.qat.is_none() && options.teacher.is_none() {
            return usage(
                "there is nothing to learn: --qat names the precision whose rounding is to be made up for, --teacher another network",
            );
        }
        if options.every.is_some() || options.camera.is_some() {
            match options.source()? {
                Source::Drives => {}
                Source::File => {
                    std::fs::metadata(&options.data).map_err(about(&options.data))?;
                    return usage(
                        "--every and --camera are of a folder of drives, and --data is none",
                    );
                }
                Source::Ready => {
                    return usage(
                        "--every and --camera were given to `frames`, which made those in --data",
                    );
                }
            }
        }
        if options.init_frames.is_some() && options.init != Some(InitOf::Eva) {
            return usage("--init-frames is of `--init eva`");
        }
        if options.init == Some(InitOf::Eva) && options.biases == Some(BiasesOf::Alone) {
            return usage("--init: `--biases alone` has no adapters");
        }
        let (batch, parts) = (options.batch_size, options.virtual_shards());
        if !batch.is_multiple_of(parts) {
            return usage(&format!(
                "--virtual-shards: the {batch} frames of a step (--batch-size) do not make {parts} parts of one size"
            ));
        }
        for (name, path) in options.inputs_mut() {
            *path = std::path::absolute(&*path).map_err(about(path))?;
            if path.to_str().is_none() {
                return usage(&format!("--{name}: {}", no_text(path)));
            }
        }
        let run = Self {
            options,
            folder,
            json,
            tensorboard,
            ranks: None,
            made: Vec::new(),
        };
        run.check_outputs()?;
        Ok(run)
    }

    /// The run that was begun in a folder.
    pub(crate) fn begun(
        folder: &Path,
        json: Option<PathBuf>,
        tensorboard: Option<PathBuf>,
    ) -> Result<Self, Box<dyn Error>> {
        Self::of_file(&Self::file(folder)?, folder, json, tensorboard)
    }

    /// The file of a run that was begun.
    pub(crate) fn file(folder: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
        let path = folder.join(FILE);
        if !path.exists() {
            return usage(&format!(
                "there is no run in `{}`: `train` begins one",
                folder.display()
            ));
        }
        Ok(spark_program::input::read(&path)?)
    }

    /// The run whose file this is.
    pub(crate) fn of_file(
        bytes: &[u8],
        folder: &Path,
        json: Option<PathBuf>,
        tensorboard: Option<PathBuf>,
    ) -> Result<Self, Box<dyn Error>> {
        let path = folder.join(FILE);
        if bytes.is_empty() {
            let path = path.display();
            return Err(format!(
                "`{path}` is empty: the run was ended before it had begun; remove it, and `train` begins one"
            )
            .into());
        }
        let mut options: Options = serde_json::from_slice(bytes)
            .map_err(|error| format!("`{}` is not what `train` wrote: {error}", path.display()))?;
        options.left_out.get_or_insert_default();
        let wrong = [
            (
                "virtual_shards",
                options.virtual_shards() == 0
                    || !options.batch_size.is_multiple_of(options.virtual_shards()),
            ),
            (
                "init_frames",
                options
                    .init_frames
                    .is_some_and(|n| (n as u64) < LEAST_INIT_FRAMES),
            ),
        ];
        if let Some((name, _)) = wrong.iter().find(|(_, is_wrong)| *is_wrong) {
            let path = path.display();
            return Err(format!("`{path}` is not what `train` wrote: {name}").into());
        }
        for (name, input) in options.inputs_mut() {
            if let Err(error) = std::fs::metadata(&*input) {
                let gone = format!("{name} is `{}`: {error}", input.display());
                return Err(about(&path)(io::Error::new(error.kind(), gone)).into());
            }
        }
        let run = Self {
            options,
            folder: folder.to_owned(),
            json,
            tensorboard,
            ranks: None,
            made: Vec::new(),
        };
        run.check_outputs()?;
        Ok(run)
    }

    /// Refuses to end well when somebody has taken the folder away meanwhile.
    pub(crate) fn is_still_there(&self) -> Result<(), Box<dyn Error>> {
        let path = self.folder.join(FILE);
        match path.try_exists() {
            Ok(true) => Ok(()),
            Ok(false) => Err(about(&path)(io::Error::from(ErrorKind::NotFound)).into()),
            Err(error) => Err(about(&path)(error).into()),
        }
    }

    /// Whether a folder has a run.
    pub(crate) fn is_begun(&self) -> bool {
        self.folder.join(FILE).exists() || self.adapter().exists()
    }

    /// Writes what the run was begun with.
    pub(crate) fn begin(
        &mut self,
        frames: [String; 2],
        network: String,
        left_out: Vec<PathBuf>,
    ) -> Result<(), Box<dyn Error>> {
        self.options.frames = Some(frames);
        self.options.network = Some(network);
        if let Some(path) = left_out.iter().find(|path| path.to_str().is_none()) {
            return Err(no_text(path).into());
        }
        self.options.left_out = Some(left_out);
        let text = serde_json::to_string_pretty(&self.options)?;
        let own = [
            self.folder.join("checkpoints"),
            self.adapter(),
            self.folder.clone(),
        ];
        self.made = own.into_iter().filter(|folder| !folder.exists()).collect();
        output::folder(&self.folder)?;
        // Another run may have begun here while this one read its frames.
        let path = self.folder.join(FILE);
        if let Err(error) = File::create_new(&path) {
            return match error.kind() {
                ErrorKind::AlreadyExists => usage(&format!(
                    "another run was begun in `{}` meanwhile: take another folder",
                    self.folder.display()
                )),
                _ => Err(about(&path)(error).into()),
            };
        }
        let written = output::write(&path, text + "\n");
        written.inspect_err(|_| self.forget())?;
        Ok(())
    }

    /// Takes it back with all that it wrote: it has learnt nothing, and why is told already.
    pub(crate) fn forget(&self) {
        let calibrated = calibrated::path(&self.folder);
        let own = [FILE, METRICS].map(|name| self.folder.join(name));
        for path in own.iter().chain([&calibrated]) {
            let _ = std::fs::remove_file(path); // it need not be there
        }
        for folder in &self.made {
            // What others have put beside it stays.
            let _ = match *folder == self.folder {
                true => std::fs::remove_dir(folder),
                false => std::fs::remove_dir_all(folder),
            };
        }
    }

    /// Refuses another network than the run was begun with, and other frames: some that are held back now may have been trained on.
    pub(crate) fn hold_against(
        &self,
        frames: &[String; 2],
        network: &str,
    ) -> Result<(), Box<dyn Error>> {
        if self
            .options
            .network
            .as_ref()
            .is_some_and(|begun| begun != network)
        {
            let calibrated = calibrated::path(&self.folder);
            let (path, way_on) = match self.options.calibrate {
                Some(_) => (
                    &calibrated,
                    format!(": without it, `{}` makes it again", self.command("resume")),
                ),
                None => (&self.options.model, String::new()),
            };
            let path = path.display();
            return Err(
                format!("`{path}` is not the network that the run was begun with{way_on}").into(),
            );
        }
        match &self.options.frames {
            Some(begun) if begun != frames => Err(format!(
                "the frames in `{}` are not those that the run was begun with: there were {} to train on and {} held back (number, checksum), there are {} and {}",
                self.options.data.display(), begun[0], begun[1], frames[0], frames[1]
            )
            .into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn adapter(&self) -> PathBuf {
        self.folder.join("adapter")
    }

    /// What somebody types to have this done with the run.
    pub(crate) fn command(&self, what: &str) -> String {
        let program = std::env::args_os().next().map(PathBuf::from);
        let program = program.as_deref().and_then(Path::file_name);
        let program = match program.map(|name| name.to_string_lossy()) {
            // The example, which has no other commands, and the program for several processes, which has these.
            Some(name) if name == "finetune" => name.into_owned(),
            Some(name) if name == RANKS_PROGRAM && what == "resume" => name.into_owned(),
            Some(name) if name == RANKS_PROGRAM => "sparkpilot finetune".to_owned(),
            Some(name) => format!("{name} finetune"),
            None => "sparkpilot finetune".to_owned(),
        };
        let folder = self.folder.display().to_string();
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
        let folder = match folder.chars().all(is_plain) {
            true => folder,
            false => format!("'{}'", folder.replace('\'', r"'\''")),
        };
        let ranks = self.ranks.filter(|_| program == RANKS_PROGRAM);
        match ranks {
            None => format!("{program} {what} --output {folder}"),
            Some((n, is_fast)) => {
                let sum = if is_fast { " --fast-sum" } else { "" };
                format!("mpirun -n {n} {program} {what} --output {folder}{sum}")
            }
        }
    }

    /// Refuses a place for results among what is read and kept.
    pub(crate) fn keep_off(&self, option: &str, place: &Path) -> Result<(), Box<dyn Error>> {
        let whole = |path: &Path| std::fs::canonicalize(path).ok();
        let place = std::path::absolute(place).map_err(about(place))?;
        // What is not there yet will lie in the nearest folder that is.
        let place = place.ancestors().find_map(whole);
        for folder in [&self.options.data, &self.folder.join("checkpoints")] {
            let is_below = |place: &PathBuf| {
                whole(folder).is_some_and(|folder| folder.is_dir() && place.starts_with(folder))
            };
            if place.as_ref().is_some_and(is_below) {
                let folder = folder.display();
                return usage(&format!("{option}: what lies below `{folder}` is kept"));
            }
        }
        Ok(())
    }

    /// Refuses a run that would write over what it reads, or over what no run has written.
    pub(crate) fn keep_files(&self) -> Result<(), Box<dyn Error>> {
        let inputs = [&self.options.model, &self.options.data].map(PathBuf::as_path);
        let inputs = inputs.into_iter().chain(self.options.teacher.as_deref());
        let own = [FILE, METRICS].map(|name| self.folder.join(name));
        let calibrated = calibrated::path(&self.folder);
        let own = own.iter().chain([&calibrated]).map(PathBuf::as_path);
        output::keep_apart(inputs, own.clone())?;
        // A run that was begun is not begun again, so these are of no run.
        match own.into_iter().find(|path| path.exists()) {
            Some(path) => usage(&format!(
                "--output: `{}` is of no run, and this one would write over it; take another folder",
                path.display()
            )),
            None => Ok(()),
        }
    }

    /// The result's file is none that is read, and can be written: asked before the work, not after it.
    fn check_outputs(&self) -> Result<(), Box<dyn Error>> {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        if real(&self.options.data).is_some_and(|data| real(&self.folder) == Some(data)) {
            return usage("--output: a run lies in another folder than its frames (--data)");
        }
        if let Some(folder) = &self.tensorboard {
            self.keep_off("--tensorboard", folder)?;
            let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            let own = [self.folder.join("checkpoints"), self.adapter()];
            if let Some(own) = own.iter().find(|own| whole(folder).starts_with(whole(own))) {
                return usage(&format!(
                    "--tensorboard: `{}` is the run's own",
                    own.display()
                ));
            }
            place::folder(folder)?;
        }
        let Some(json) = &self.json else {
            return Ok(());
        };
        if self.options.val_split == 0.0 {
            return usage("--json: without frames that are held back there is no result");
        }
        if output::is_stdout(json) {
            return usage("--json: stdout has the words of a run; name a file");
        }
        let inputs = [&self.options.model, &self.options.data];
        let mut inputs: Vec<&Path> = inputs.into_iter().map(PathBuf::as_path).collect();
        inputs.extend(self.options.teacher.as_deref());
        let own = [FILE, METRICS, "adapter/adapter_config.json"];
        let own = own.map(|name| self.folder.join(name));
        let tensors = self.adapter().join("adapter_model.safetensors");
        inputs.extend(own.iter().map(PathBuf::as_path));
        inputs.push(&tensors);
        let (adapter, checkpoints) = (self.adapter(), self.folder.join("checkpoints"));
        inputs.extend([adapter.as_path(), checkpoints.as_path()]);
        let calibrated = calibrated::path(&self.folder);
        inputs.extend([calibrated.as_path(), self.folder.as_path()]);
        output::keep_apart(inputs, [json.as_path()])?;
        refuse_name_of_chunk(json)?;
        let parent = json
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        self.keep_off("--json", parent.unwrap_or(Path::new(".")))?;
        let is_own = |parent: &Path| {
            let [parent, own] = [parent, &self.folder].map(|path| std::path::absolute(path).ok());
            parent.is_some() && parent == own
        };
        match parent {
            // The run makes its own folder.
            Some(parent) if is_own(parent) && !parent.exists() => place::folder(parent)?,
            _ => place::file(json)?,
        }
        Ok(())
    }
}

/// Why a run's file cannot name a path.
fn no_text(path: &Path) -> String {
    let path = path.display();
    format!("`{path}` has a name that is no text (UTF-8), which `{FILE}` keeps; take another name")
}

/// Of what is done with frames one after the other.
pub(crate) type Done = Result<(), Box<dyn Error>>;

pub(crate) fn usage<T>(why: &str) -> Result<T, Box<dyn Error>> {
    Err(Box::new(Usage(why.to_owned())))
}

/// An error without the promise to go between threads.
pub(crate) fn plain(error: Box<dyn Error + Send + Sync>) -> Box<dyn Error> {
    error
}
