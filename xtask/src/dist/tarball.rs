//! `sparkpilot-<version>-<triple>.tar.gz`: one folder, to be looked at or unpacked under a prefix.
//!
//! The same files give the same bytes, whoever packs them and when: names in order, owners 0, times those of the
//! commit. gzip, not xz, which small containers lack.

use std::path::Path;
use std::process::Command;

use crate::command;
use crate::error::Error;

/// Packs `folder/name` into `archive`; every time in it is `epoch`, seconds since 1970.
///
/// # Errors
///
/// What tar and gzip refuse.
pub(super) fn pack(folder: &Path, name: &str, archive: &Path, epoch: u64) -> Result<(), Error> {
    let mut tar = Command::new("tar");
    // In the order of bytes, not of somebody's language.
    tar.env("LC_ALL", "C");
    tar.args(["--create", "--format=gnu", "--sort=name"]);
    tar.args(["--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{epoch}"));
    tar.arg("--use-compress-program=gzip -n");
    tar.arg("--file").arg(archive);
    tar.arg("--directory").arg(folder).arg(name);
    command::run(&mut tar)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::stage::{self, Style};
    use super::*;

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let folder = stage::tests::scratch("tarball");
        let content = stage::tests::content(&folder);
        let archive = |place: &str, epoch| {
            stage::fill(&folder.join(place).join("it"), &content, Style::AnyPrefix).unwrap();
            let archive = folder.join(format!("{place}.tar.gz"));
            pack(&folder.join(place), "it", &archive, epoch).unwrap();
            fs::read(archive).unwrap()
        };
        let first = archive("first", 1_700_000_000);
        // Times of files have seconds.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert!(first == archive("second", 1_700_000_000));
        assert!(first != archive("third", 1_700_000_001));
        let listing = Command::new("tar")
            .arg("-tvzf")
            .arg(folder.join("first.tar.gz"))
            .output();
        let listing = String::from_utf8(listing.unwrap().stdout).unwrap();
        let program = listing
            .lines()
            .find(|line| line.ends_with("it/bin/sparkpilot"));
        assert!(
            program.is_some_and(|line| line.starts_with("-rwxr-xr-x 0/0")),
            "{listing}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
