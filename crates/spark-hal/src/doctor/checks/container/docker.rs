//! What docker is told of NVIDIA's runtime: by its settings, and by the command line that systemd starts it with.
//!
//! ```text
//! the machine's   /etc/docker/daemon.json            docker.service, docker.service.d/*.conf of the system
//! a user's own    ~/.config/docker/daemon.json       the same of the user (rootless docker)
//!
//! {"runtimes": {NAME: {"path": PROGRAM}}}            NAME is nvidia, or PROGRAM is nvidia-container-runtime
//! ExecStart=... --add-runtime NAME=PROGRAM           an empty ExecStart= takes back those before it
//! ```
//!
//! Of units only `ExecStart` is read, and variables in it where they are set in `Environment=`, `/etc/default/docker` or
//! `/etc/sysconfig/docker`. Which runtime is the default one plays no part: one that is registered can be asked for.
//!
//! Sources: Docker, "dockerd" (daemon configuration file, `--add-runtime`) and "Rootless mode"; systemd.unit(5), systemd.service(5).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::doctor::facts::Facts;
use crate::doctor::verdict::{Severity, Verdict, found, not_examined, seen};
use crate::reading::Reading;

/// The program, of which newer toolkits have kinds (`nvidia-container-runtime.cdi`).
const PROGRAM: &str = "nvidia-container-runtime";
/// Folders in which systemd's services find programs (systemd.exec(5), `$PATH`), and NixOS's.
pub(super) const FOLDERS: [&str; 7] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/run/current-system/sw/bin",
];
/// Units of the machine; the later ones take precedence.
const UNITS: [&str; 5] = [
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/usr/local/lib/systemd/system",
    "/run/systemd/system",
    "/etc/systemd/system",
];
const VARIABLES: [&str; 2] = ["/etc/default/docker", "/etc/sysconfig/docker"];
/// Most drop-ins of one folder that are read.
const FILES_LIMIT: usize = 64;

/// A docker that may run here.
pub(super) struct Docker {
    /// Its file of settings.
    pub(super) settings: String,
    /// How it is told of NVIDIA's runtime.
    pub(super) register: &'static str,
    /// What it is told; or why that cannot be said.
    pub(super) told: Result<Told, Verdict>,
}

/// What a docker is told.
pub(super) struct Told {
    /// NVIDIA's runtime, if it is registered.
    pub(super) runtime: Option<Runtime>,
    /// Whether specifications are read, if that is said.
    pub(super) reads_specifications: Option<bool>,
}

/// A registered runtime.
pub(super) struct Runtime {
    /// Where it is registered, and under which name.
    pub(super) registered: String,
    /// Its program, if it is named.
    pub(super) program: Option<String>,
}

/// The machine's docker, and the user's own where there are settings of one.
pub(super) fn dockers(facts: &Facts) -> Vec<Docker> {
    let of_machine = |settings: &str| {
        let command = Command::read(facts, &UNITS.map(str::to_owned));
        told(facts, settings, &command)
    };
    let settings = "/etc/docker/daemon.json";
    let mut dockers = vec![Docker {
        settings: settings.to_owned(),
        register: "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
        told: of_machine(settings),
    }];
    let home = facts.variable("HOME").filter(|home| home.starts_with('/'));
    if let Some(home) = home {
        let settings = format!("{home}/.config/docker/daemon.json");
        let command = Command::read(facts, &[format!("{home}/.config/systemd/user")]);
        if facts.root.exists(&settings) || !command.words.is_empty() {
            dockers.push(Docker {
                told: told(facts, &settings, &command),
                settings,
                register: "nvidia-ctk runtime configure --runtime=docker --config=$HOME/.config/docker/daemon.json && \
                           systemctl --user restart docker",
            });
        }
    }
    dockers
}

fn told(facts: &Facts, path: &str, command: &Command) -> Result<Told, Verdict> {
    let settings = settings(facts, path)?;
    let mut runtimes = Vec::new();
    for (name, runtime) in settings["runtimes"].as_object().into_iter().flatten() {
        // Shims of containerd name their program elsewhere.
        let program = [&runtime["path"], &runtime["options"]["BinaryName"]];
        let program = program.into_iter().find_map(Value::as_str);
        if runtime.is_object() {
            runtimes.push((name.as_str(), program, format!("{path}, runtimes.{name}")));
        }
    }
    for runtime in command.values_of("--add-runtime") {
        if let Some((name, program)) = runtime.split_once('=') {
            let registered = format!("{}, --add-runtime {name}", command.place);
            runtimes.push((name, Some(program), registered));
        }
    }
    let is_nvidia = |name: &str, program: Option<&str>| {
        let file = program.and_then(|program| program.rsplit('/').next());
        name == "nvidia" || file.is_some_and(|file| file.starts_with(PROGRAM))
    };
    let mut runtimes = runtimes.into_iter();
    let runtime = runtimes.find(|(name, program, _)| is_nvidia(name, *program));
    Ok(Told {
        runtime: runtime.map(|(_, program, registered)| Runtime {
            registered,
            program: program.map(str::to_owned),
        }),
        reads_specifications: settings["features"]["cdi"].as_bool(),
    })
}

/// Settings: none where there is no file or an empty one, as docker takes it.
fn settings(facts: &Facts, path: &str) -> Result<Value, Verdict> {
    let text = match facts.root.text(path) {
        Reading::Value(text) => text,
        Reading::NotSupported => String::new(),
        Reading::Failed(why) => {
            return Err(not_examined(format!(
                "needs {path}, or `docker info`: {why}"
            )));
        }
    };
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let why = match serde_json::from_str::<Value>(text) {
        Ok(settings) if settings.is_object() => return Ok(settings),
        Ok(_) => "it is no object".to_owned(),
        Err(why) => why.to_string(),
    };
    // Docker reads deeper ones than this program does.
    if why.contains("recursion limit") {
        return Err(not_examined(format!(
            "needs {path} of fewer than 128 levels, or `docker info`: this one is nested deeper"
        )));
    }
    Err(found(
        Severity::Error,
        "docker's settings are not valid JSON: docker does not start",
        vec![seen(path, why)],
        format!(
            "mend {path}: python3 -m json.tool {path} says where it is wrong; then sudo systemctl restart docker"
        ),
    ))
}

/// The words that systemd starts docker with.
struct Command {
    /// The file that they are of.
    place: String,
    words: Vec<String>,
}

impl Command {
    /// Of the units in these folders, the later ones of which take precedence.
    fn read(facts: &Facts, folders: &[String]) -> Self {
        let mut drop_ins = BTreeMap::new();
        for folder in folders {
            let folder = format!("{folder}/docker.service.d");
            let names = facts
                .root
                .entries_where(&folder, |name| name.ends_with(".conf"));
            for name in names.value().unwrap_or_default().iter().take(FILES_LIMIT) {
                drop_ins.insert(name.clone(), format!("{folder}/{name}"));
            }
        }
        let units = folders.iter().rev();
        let mut units = units.map(|folder| format!("{folder}/docker.service"));
        let unit = units.find(|unit| facts.root.exists(unit));
        let mut command = Self {
            place: String::new(),
            words: Vec::new(),
        };
        let mut variables = BTreeMap::new();
        for path in unit.into_iter().chain(drop_ins.into_values()) {
            let text = facts.root.text(&path).value().unwrap_or_default();
            let text = text.replace("\\\n", " ");
            for line in text.lines() {
                match line.trim().split_once('=') {
                    Some(("ExecStart", "")) => command.words.clear(),
                    Some(("ExecStart", words)) => {
                        command.place.clone_from(&path);
                        command.words.extend(words_of(words));
                    }
                    Some(("Environment", set)) => set_variable(&mut variables, unquoted(set)),
                    _ => {}
                }
            }
        }
        for path in VARIABLES {
            let text = facts.root.text(path).value().unwrap_or_default();
            text.lines()
                .for_each(|line| set_variable(&mut variables, line.trim()));
        }
        let with_values = command.words.iter().flat_map(|word| {
            let name = word.strip_prefix('$');
            let name = name.map(|name| name.trim_matches(['{', '}']));
            match name.map(|name| variables.get(name)) {
                None => vec![word.clone()],
                Some(value) => value.map_or_else(Vec::new, |value| words_of(value)),
            }
        });
        command.words = with_values.collect();
        command
    }

    /// `--option VALUE` and `--option=VALUE`.
    fn values_of(&self, option: &str) -> impl Iterator<Item = &str> {
        let words = self.words.iter().zip(self.words.iter().skip(1));
        let behind = words
            .filter(move |(word, _)| *word == option)
            .map(|(_, value)| value.as_str());
        let within = self.words.iter().filter_map(move |word| {
            let value = word.strip_prefix(option)?;
            value.strip_prefix('=')
        });
        behind.chain(within)
    }
}

fn words_of(text: &str) -> Vec<String> {
    let words = text.split_whitespace();
    words.map(|word| unquoted(word).to_owned()).collect()
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\''])
}

/// Takes `NAME=VALUE` in, the value quoted or not.
fn set_variable(variables: &mut BTreeMap<String, String>, line: &str) {
    if let Some((name, value)) = line.split_once('=') {
        variables.insert(name.to_owned(), unquoted(value).to_owned());
    }
}
