//! Both packages of every target, and what they hold.
//!
//! ```text
//! program, pages, licences, documents ─> Content ─┬─> Style::AnyPrefix ─> tarball
//!                                                 └─> Style::Debian ────> deb
//! ```
//!
//! Times in them are those of the commit, or `SOURCE_DATE_EPOCH`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::deb::{About, Effort};
use super::pages::Pages;
use super::stage::{Content, Style};
use super::targets::Target;
use super::{checksums, licences, stage, tarball};
use crate::command;
use crate::error::Error;
use crate::workspace::Workspace;

/// Makes a folder without anything in it.
pub(super) fn empty(folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Error::io("empty", folder))?;
    }
    fs::create_dir_all(folder).map_err(Error::io("make", folder))
}

/// The packages of one target.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) target: Target,
    /// Cargo's.
    pub(super) version: String,
    pub(super) tarball: PathBuf,
    pub(super) deb: PathBuf,
}

/// Where a release is laid out and written.
#[derive(Debug)]
pub(super) struct Release<'w> {
    pub(super) workspace: &'w Workspace,
    pub(super) parts: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) effort: Effort,
}

impl Release<'_> {
    /// Both packages of a program.
    pub(super) fn pack(
        &self,
        target: Target,
        program: PathBuf,
        pages: &Pages,
    ) -> Result<Packed, Error> {
        let epoch = epoch(self.workspace)?;
        let about = self.about()?;
        let notices = licences::notices(self.workspace, target)?;
        let mut content = Content {
            program,
            manual: pages.manual.clone(),
            completions: pages.completions.clone(),
            documents: self.documents(&notices)?,
        };
        let name = format!("sparkpilot-{}-{}", about.version, target.triple);
        stage::fill(&self.parts.join(&name), &content, Style::AnyPrefix)?;
        let tarball = self.folder.join(format!("{name}.tar.gz"));
        tarball::pack(&self.parts, &name, &tarball, epoch)?;
        content.documents = self.documents_of_debian(&notices)?;
        let version = about.debian_version();
        let name = format!("sparkpilot_{version}_{}", target.debian);
        let deb = self.folder.join(format!("{name}.deb"));
        about.pack(
            &self.parts.join(&name),
            &content,
            target,
            &deb,
            (epoch, self.effort),
        )?;
        Ok(Packed {
            target,
            version: about.version,
            tarball,
            deb,
        })
    }

    fn about(&self) -> Result<About, Error> {
        let facade = self
            .workspace
            .packages
            .iter()
            .find(|package| package.name == "sparkpilot");
        let facade =
            facade.ok_or_else(|| Error::Usage("there is no crate `sparkpilot`".to_owned()))?;
        Ok(About {
            version: facade.version.clone(),
            description: facade.description.clone(),
            maintainer: About::maintainer_of_environment(),
        })
    }

    /// What stands beside the program in an archive: pages under their own names, so that links between them lead somewhere.
    fn documents(&self, notices: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let root = &self.workspace.root;
        let mut documents = vec![(
            "THIRD-PARTY-LICENCES.txt".to_owned(),
            notices.as_bytes().to_vec(),
        )];
        let mut names: Vec<String> = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]
            .map(str::to_owned)
            .into();
        let guides = root.join("docs");
        for entry in fs::read_dir(&guides).map_err(Error::io("list", &guides))? {
            let name = entry.map_err(Error::io("list", &guides))?.file_name();
            let name = name.to_string_lossy().into_owned();
            if name.ends_with(".md") {
                names.push(format!("docs/{name}"));
            }
        }
        for name in names {
            let path = root.join(&name);
            let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
            documents.push((name, bytes));
        }
        Ok(documents)
    }

    /// The same under the names of Debian's policy: `copyright` holds all terms, `changelog` is the changelog.
    fn documents_of_debian(&self, notices: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let mut documents = self.documents(notices)?;
        let mut terms = b"sparkpilot: MIT OR Apache-2.0, whichever you like better.\n".to_vec();
        for name in ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENCES.txt"] {
            if let Some(idx) = documents.iter().position(|(it, _)| it == name) {
                terms.push(b'\n');
                terms.extend(documents.remove(idx).1);
            }
        }
        for (name, _) in &mut documents {
            if name == "CHANGELOG.md" {
                "changelog".clone_into(name);
            }
        }
        documents.push(("copyright".to_owned(), terms));
        Ok(documents)
    }

    pub(super) fn sum_up(&self, packed: &[Packed]) -> Result<(), Error> {
        let paths = packed.iter().flat_map(|it| [&it.tarball, &it.deb]);
        let name = |path: &PathBuf| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let names: Vec<String> = paths.map(name).collect();
        checksums::write(&self.folder, &names)?;
        checksums::check(&self.folder)?;
        for name in names {
            let path = self.folder.join(&name);
            let n_bytes = fs::metadata(&path)
                .map_err(Error::io("examine", &path))?
                .len();
            println!("{} ({:.1} MB)", path.display(), n_bytes as f64 / 1e6);
        }
        Ok(())
    }
}

/// The time that everything in a release has: the commit's, unless `SOURCE_DATE_EPOCH` says another one.
fn epoch(workspace: &Workspace) -> Result<u64, Error> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let words = ["log", "-1", "--format=%ct"];
            command::output_of(Command::new("git").args(words).current_dir(&workspace.root))?
        }
    };
    text.trim().parse().map_err(|_| {
        Error::Usage(format!(
            "SOURCE_DATE_EPOCH={}: whole seconds since 1970 are needed",
            text.trim()
        ))
    })
}
