//! `sparkpilot_<version>_<architecture>.deb`, a package of Debian and Ubuntu.
//!
//! ```text
//! DEBIAN/control   needs libc6 of 2.28 or later and nothing else
//! DEBIAN/md5sums   for `dpkg --verify`
//! usr/…            as `stage` lays it out; no script is run when it is installed or removed
//! ```
//!
//! Written by `dpkg-deb`, which every machine has that could try the package: it keeps the format, owners and, given
//! `SOURCE_DATE_EPOCH`, times in its own hands, and one crate fewer is compiled than with a packager of cargo.
//! Deliberately absent: a source package; Debian's own would be built by Debian's cargo.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::stage::{Content, Style, fill, put};
use super::targets::{GLIBC, Target};
use crate::command;
use crate::error::Error;

/// What a package says of itself.
#[derive(Debug)]
pub(super) struct About {
    /// Cargo's version of the program.
    pub(super) version: String,
    /// The manifest's sentence.
    pub(super) description: String,
    /// Name and address, as `DEBFULLNAME` and `DEBEMAIL` give them to Debian's tools.
    pub(super) maintainer: String,
}

impl About {
    /// A maintainer by the variables that Debian's tools read. Without them an address that cannot exist: none is invented.
    pub(super) fn maintainer_of_environment() -> String {
        let set = |name: &str| {
            std::env::var(name)
                .ok()
                .filter(|text| !text.trim().is_empty())
        };
        let name = set("DEBFULLNAME").unwrap_or_else(|| "The spark authors".to_owned());
        let address = set("DEBEMAIL").unwrap_or_else(|| "nobody@sparkpilot.invalid".to_owned());
        format!("{} <{}>", name.trim(), address.trim())
    }

    /// Debian sorts `~` before everything: 1.0.0~rc.1 is older than 1.0.0.
    pub(super) fn debian_version(&self) -> String {
        self.version.replacen('-', "~", 1)
    }
}

/// How long a package is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// As small as Debian's packages are.
    Release,
    /// A quarter of the time, for packages that are looked at and thrown away.
    Trial,
}

impl About {
    /// Writes the package; `folder` is where its files are laid out and must not be there. Times in it are `epoch`.
    ///
    /// # Errors
    ///
    /// What dpkg-deb refuses, files that cannot be written.
    pub(super) fn pack(
        &self,
        folder: &Path,
        content: &Content,
        target: Target,
        package: &Path,
        (epoch, effort): (u64, Effort),
    ) -> Result<(), Error> {
        fill(&folder.join("usr"), content, Style::Debian)?;
        let sums = sums(folder)?;
        put(&folder.join("DEBIAN/md5sums"), sums.as_bytes(), 0o644)?;
        let control = control(self, target, installed_bytes(&folder.join("usr"))?);
        put(&folder.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
        let level = match effort {
            Effort::Release => "-z6",
            Effort::Trial => "-z1",
        };
        let mut dpkg = Command::new("dpkg-deb");
        dpkg.env("SOURCE_DATE_EPOCH", epoch.to_string())
            .env("LC_ALL", "C");
        // Ubuntu's own default is zstd, which Debian 11 does not read.
        dpkg.args(["--root-owner-group", "-Zxz", level, "--build"]);
        command::run(dpkg.arg(folder).arg(package))
    }
}

fn control(about: &About, target: Target, n_bytes: u64) -> String {
    let (major, minor) = GLIBC;
    format!(
        "Package: sparkpilot\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: {}\n\
         Installed-Size: {}\n\
         Depends: libc6 (>= {major}.{minor})\n\
         Suggests: ffmpeg\n\
         Section: science\n\
         Priority: optional\n\
         Description: {}\n \
         Measures openpilot's driving models on this machine, says what is wrong with it,\n \
         quantizes, tunes and compares networks, and drives them through scenarios.\n \
         NVIDIA's libraries are used where they are installed, and not needed.\n \
         ffmpeg reads the videos of recorded drives.\n",
        about.debian_version(),
        target.debian,
        about.maintainer,
        n_bytes.div_ceil(1024),
        about.description,
    )
}

/// Lines of md5sum for everything that is installed, in the order of names.
fn sums(folder: &Path) -> Result<String, Error> {
    let mut paths = Vec::new();
    files(&folder.join("usr"), &mut paths)?;
    let mut md5sum = Command::new("md5sum");
    md5sum.current_dir(folder).arg("--");
    for path in &paths {
        md5sum.arg(path.strip_prefix(folder).unwrap_or(path));
    }
    command::output_of(&mut md5sum)
}

fn installed_bytes(folder: &Path) -> Result<u64, Error> {
    let mut paths = Vec::new();
    files(folder, &mut paths)?;
    let mut n_bytes = 0;
    for path in paths {
        n_bytes += fs::metadata(&path)
            .map_err(Error::io("examine", &path))?
            .len();
    }
    Ok(n_bytes)
}

/// Every file below a folder, in the order of names.
fn files(folder: &Path, paths: &mut Vec<std::path::PathBuf>) -> Result<(), Error> {
    let entries = fs::read_dir(folder).map_err(Error::io("list", folder))?;
    let entries: Result<Vec<_>, _> = entries.collect();
    let mut entries = entries.map_err(Error::io("list", folder))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        match path.is_dir() {
            true => files(&path, paths)?,
            false => paths.push(path),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::stage::tests::{content, scratch};
    use super::super::targets::TARGETS;
    use super::*;

    fn about(version: &str) -> About {
        About {
            version: version.to_owned(),
            description: "Drives".to_owned(),
            maintainer: "A <a@b.invalid>".to_owned(),
        }
    }

    #[test]
    fn a_candidate_is_older_than_its_release() {
        assert_eq!(about("1.0.0-rc.1").debian_version(), "1.0.0~rc.1");
        assert_eq!(about("1.0.0").debian_version(), "1.0.0");
    }

    #[test]
    fn control_says_what_is_needed() {
        let control = control(&about("1.0.0"), TARGETS[1], 2049);
        for line in [
            "Architecture: arm64\n",
            "Depends: libc6 (>= 2.28)\n",
            "Installed-Size: 3\n",
        ] {
            assert!(control.contains(line), "{control}");
        }
    }

    /// Skipped where Debian's tools are not.
    #[test]
    fn the_same_files_give_the_same_package_of_root() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            println!("skipped: there is no dpkg-deb");
            return;
        }
        let folder = scratch("deb");
        let content = content(&folder);
        let package = |name: &str| {
            let package = folder.join(format!("{name}.deb"));
            let about = about("1.0.0");
            let when = (1_700_000_000, Effort::Trial);
            about
                .pack(&folder.join(name), &content, TARGETS[0], &package, when)
                .unwrap();
            fs::read(package).unwrap()
        };
        let first = package("first");
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert!(first == package("second"));
        let listing = Command::new("dpkg-deb")
            .arg("--contents")
            .arg(folder.join("first.deb"))
            .output();
        let listing = String::from_utf8(listing.unwrap().stdout).unwrap();
        for name in [
            "./usr/bin/sparkpilot",
            "./usr/share/man/man1/sparkpilot.1.gz",
            "./usr/share/doc/sparkpilot/copyright",
        ] {
            let line = listing.lines().find(|line| line.ends_with(name));
            assert!(
                line.is_some_and(|line| line.contains("root/root")),
                "{name}: {listing}"
            );
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
