//! The module tree of one crate, and which file's names each of its files uses.
//!
//! ```text
//! src/lib.rs ──mod──> a.rs, a/mod.rs ──mod──> a/b.rs …      modules, each with its Scope
//! path in a module ──> its first name in scope ──> segment by segment ──> the file of the item
//!                                                  through re-exports and globs
//! ```
//!
//! - A path leads to the file that defines its item, not to those that it passes: naming
//!   `a::B` where `a` says `pub use b::B` is an arrow to `b`.
//! - `mod x;` is no arrow; `pub use x::Y;` is one.
//! - A name that no file defines (a macro made it, or another crate) belongs to the module
//!   through which it is reached.
//!
//! Name lookup follows the Rust Reference, "Names", as far as files need it. Deliberately
//! absent: the names of macros without a path, methods, and `#[cfg]` other than tests: code
//! of every platform is read.

use std::collections::{BTreeMap, BTreeSet};

use super::rust_text::{self, Import, Path, Scope};
use super::tree::TextFile;

/// Which file uses names of which: `arrows[&(from, to)]` are the names.
pub(super) type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// The modules of one crate, the root first.
pub(super) struct Modules<'a> {
    files: BTreeMap<&'a str, &'a str>,
    modules: Vec<Module>,
    /// Files that are no Rust text, with the reason.
    pub(super) unreadable: Vec<(String, String)>,
}

struct Module {
    /// The file it stands in.
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    scope: Scope,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(usize),
    /// Something that this module defines.
    ItemOf(usize),
}

/// What a path leads to, each with the position of the segment that names it.
type Found = BTreeSet<(Target, usize)>;

/// Names being looked up, so that imports in a ring end.
type InProgress = BTreeSet<(usize, String, bool)>;

impl<'a> Modules<'a> {
    /// Reads the crate whose root is the file `root`, and every file that it declares.
    pub(super) fn read(files: impl Iterator<Item = &'a TextFile>, root: &str) -> Self {
        let mut modules = Self {
            files: files
                .map(|file| (file.path.as_str(), file.text.as_str()))
                .collect(),
            modules: Vec::new(),
            unreadable: Vec::new(),
        };
        let folder = folder_of(root).to_owned();
        if let Some(scope) = modules.scope_of(root) {
            modules.add(root.to_owned(), folder, None, scope);
        }
        modules
    }

    fn scope_of(&mut self, path: &str) -> Option<Scope> {
        let text = self.files.get(path)?;
        match rust_text::read(text) {
            Ok(scope) => Some(scope),
            Err(reason) => {
                self.unreadable.push((path.to_owned(), reason.to_string()));
                None
            }
        }
    }

    /// Adds a module and what it declares; `folder` is where files of its own modules lie.
    fn add(
        &mut self,
        file: String,
        folder: String,
        parent: Option<usize>,
        mut scope: Scope,
    ) -> usize {
        let declared = std::mem::take(&mut scope.modules);
        let idx = self.modules.len();
        self.modules.push(Module {
            file: file.clone(),
            parent,
            children: BTreeMap::new(),
            scope,
        });
        for submodule in declared {
            let name = submodule.name;
            let inner = join(&folder, &name);
            let child = if let Some(scope) = submodule.scope {
                Some(self.add(file.clone(), inner, Some(idx), scope))
            } else {
                let candidates = match submodule.path {
                    Some(path) => {
                        let path = join(folder_of(&file), &path);
                        let folder = folder_of(&path).to_owned();
                        vec![(path, folder)]
                    }
                    None => vec![
                        (format!("{inner}.rs"), inner.clone()),
                        (join(&inner, "mod.rs"), inner),
                    ],
                };
                candidates.into_iter().find_map(|(path, folder)| {
                    let scope = self.scope_of(&path)?;
                    Some(self.add(path, folder, Some(idx), scope))
                })
            };
            if let Some(child) = child {
                self.modules[idx].children.insert(name, child);
            }
        }
        idx
    }

    /// Every arrow between two files of the crate.
    pub(super) fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (idx, module) in self.modules.iter().enumerate() {
            let mut draw = |target: usize, name: &str| {
                let to = &self.modules[target].file;
                if *to != module.file {
                    let pair = (module.file.clone(), to.clone());
                    arrows.entry(pair).or_default().insert(name.to_owned());
                }
            };
            // Modules that code goes through: the item is what counts, not the way there.
            let mut passed = BTreeSet::new();
            for path in &module.scope.paths {
                for (target, step) in self.resolve(idx, path, &mut InProgress::new()) {
                    passed.insert(path[0].as_str());
                    let (Target::Module(target) | Target::ItemOf(target)) = target;
                    draw(target, &path[step]);
                }
            }
            for import in &module.scope.imports {
                for (target, step) in self.resolve(idx, &import.path, &mut InProgress::new()) {
                    match target {
                        Target::ItemOf(target) => draw(target, &import.path[step]),
                        Target::Module(target) if import.is_glob => {
                            // A private glob counts by the words that it gives a meaning.
                            if import.is_public {
                                draw(target, "*");
                            }
                        }
                        Target::Module(target) => {
                            if import.is_public || !passed.contains(import.name.as_str()) {
                                draw(target, &import.name);
                            }
                        }
                    }
                }
            }
            let has_glob = module.scope.imports.iter().any(|import| import.is_glob);
            for word in module.scope.words.iter().filter(|_| has_glob) {
                if self.is_named(idx, word) {
                    continue;
                }
                for target in self.lookup(idx, word, false, idx, &mut InProgress::new()) {
                    if let Target::ItemOf(target) = target {
                        draw(target, word);
                    }
                }
            }
        }
        arrows
    }

    /// Whether `name` has a meaning in the module that no glob gives it.
    fn is_named(&self, module: usize, name: &str) -> bool {
        let module = &self.modules[module];
        module.scope.items.contains_key(name)
            || module.children.contains_key(name)
            || module
                .scope
                .imports
                .iter()
                .any(|import| !import.is_glob && import.name == name)
    }

    /// What `path`, written in `module`, leads to, and which segment names it; nothing when the
    /// path leaves the crate.
    fn resolve(&self, module: usize, path: &Path, seen: &mut InProgress) -> Found {
        let mut here = module;
        let mut idx = 0;
        while idx < path.len() {
            match path[idx].as_str() {
                "crate" => here = 0,
                "self" => {}
                "super" => match self.modules[here].parent {
                    Some(parent) => here = parent,
                    None => return Found::new(),
                },
                _ => break,
            }
            idx += 1;
        }
        let is_rooted = idx > 0;
        let mut targets = Found::from([(Target::Module(here), idx.saturating_sub(1))]);
        for (step, segment) in path.iter().enumerate().skip(idx) {
            let is_last = step + 1 == path.len();
            let mut next = Found::new();
            for (target, named_at) in targets {
                match target {
                    // A variant or an associated item stands where its type does.
                    Target::ItemOf(_) => {
                        next.insert((target, named_at));
                    }
                    Target::Module(target) => {
                        let found = self.lookup(target, segment, !is_last, module, seen);
                        let is_known = is_rooted || step > idx;
                        if found.is_empty() && is_known {
                            // Made by a macro, or of another crate.
                            next.insert((Target::ItemOf(target), step));
                        }
                        next.extend(found.into_iter().map(|target| (target, step)));
                    }
                }
            }
            targets = next;
        }
        targets
    }

    /// What `name` means in `module` to code of the module `reader`.
    fn lookup(
        &self,
        module: usize,
        name: &str,
        wants_module: bool,
        reader: usize,
        seen: &mut InProgress,
    ) -> BTreeSet<Target> {
        let key = (module, name.to_owned(), wants_module);
        if !seen.insert(key.clone()) {
            return BTreeSet::new();
        }
        let Module {
            children, scope, ..
        } = &self.modules[module];
        let mut targets = BTreeSet::new();
        targets.extend(children.get(name).map(|child| Target::Module(*child)));
        if scope.items.contains_key(name) {
            targets.insert(Target::ItemOf(module));
        }
        let reachable = |import: &&Import| !import.is_local || module == reader;
        for import in scope.imports.iter().filter(reachable) {
            if import.is_glob || import.name != name {
                continue;
            }
            let found = self.resolve(module, &import.path, seen);
            if found.is_empty() && module != reader {
                targets.insert(Target::ItemOf(module)); // another crate's, handed on here
            }
            targets.extend(found.into_iter().map(|(target, _)| target));
        }
        if targets.is_empty() {
            for import in scope.imports.iter().filter(reachable) {
                if !import.is_glob || !(import.is_public || self.is_within(reader, module)) {
                    continue;
                }
                for (target, _) in self.resolve(module, &import.path, seen) {
                    if let Target::Module(source) = target
                        && self.shows(source, name, reader)
                    {
                        targets.extend(self.lookup(source, name, wants_module, reader, seen));
                    }
                }
            }
        }
        seen.remove(&key);
        // A name may be a module and a function at once; the place says which is meant.
        let is_wanted = |target: &Target| matches!(target, Target::Module(_)) == wants_module;
        if targets.iter().any(is_wanted) {
            targets.retain(is_wanted);
        }
        targets
    }

    /// Whether a glob of `module` gives `name` to `reader`: private names go to its own modules.
    fn shows(&self, module: usize, name: &str, reader: usize) -> bool {
        if self.is_within(reader, module) {
            return true;
        }
        let scope = &self.modules[module].scope;
        let hides_item = scope.items.get(name) == Some(&false);
        let mut named = scope
            .imports
            .iter()
            .filter(|import| !import.is_glob && import.name == name)
            .peekable();
        let hides_import = named.peek().is_some() && named.all(|import| !import.is_public);
        !hides_item && !hides_import
    }

    /// Whether `module` is `ancestor` or inside it.
    fn is_within(&self, module: usize, ancestor: usize) -> bool {
        let mut here = Some(module);
        while let Some(module) = here {
            if module == ancestor {
                return true;
            }
            here = self.modules[module].parent;
        }
        false
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

#[cfg(test)]
mod tests;
