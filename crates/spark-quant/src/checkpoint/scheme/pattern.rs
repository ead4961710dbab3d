//! Which modules a configuration means.
//!
//! ```text
//! name           model.layers.0.mlp.up_proj     that module
//! regex          re:.*mlp.gate$                 from the start of the name, not necessarily to its end
//! class          Linear                         every module of that class; files do not know classes
//! wildcard       model.layers.0*                ModelOpt: * any text, ? any character
//! ancestor       model.layers.0                 ModelOpt: the module and all inside it
//! ```
//!
//! Sources: compressed-tensors 0.20, `utils/match.py`; ModelOpt 0.47, which summarizes excluded modules
//! by prefixes that end in `*`. Deliberately absent: the names of vLLM's fused modules.

use crate::error::QuantError;

/// How closely a pattern names a module; smaller is closer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closeness {
    Name,
    Regex,
    Class,
}

/// One entry of a list of modules.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// As written in the configuration.
    pub(super) text: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Name,
    Regex(Box<fancy_regex::Regex>),
    Class,
    Wildcard,
    Ancestor,
}

/// Longest regular expression that is compiled, in bytes.
const MAX_REGEX: usize = 4096;

impl Pattern {
    /// An entry of compressed-tensors' `targets` or `ignore`.
    pub(super) fn compressed(method: &str, field: &str, text: &str) -> Result<Self, QuantError> {
        let kind = match text.strip_prefix("re:") {
            Some(regex) => {
                let compiled = (regex.len() <= MAX_REGEX)
                    .then(|| fancy_regex::Regex::new(&format!(r"\A(?:{regex})")).ok())
                    .flatten();
                let compiled = compiled.ok_or_else(|| QuantError::Setting {
                    method: method.to_owned(),
                    field: field.to_owned(),
                    value: format!("{text:?}"),
                    want: "a regular expression this program knows".to_owned(),
                })?;
                Kind::Regex(Box::new(compiled))
            }
            // Names of modules are attributes, lower case or with dots; classes are neither.
            None if !text.contains('.') && text.starts_with(|c: char| c.is_ascii_uppercase()) => {
                Kind::Class
            }
            None => Kind::Name,
        };
        let text = text.to_owned();
        Ok(Self { text, kind })
    }

    /// An entry of ModelOpt's `exclude_modules` or `quantized_layers`.
    pub(super) fn modelopt(text: &str) -> Self {
        let kind = if text.contains(['*', '?']) {
            Kind::Wildcard
        } else {
            Kind::Ancestor
        };
        let text = text.to_owned();
        Self { text, kind }
    }

    /// A module by its name.
    pub(super) fn name(text: &str) -> Self {
        let (text, kind) = (text.to_owned(), Kind::Name);
        Self { text, kind }
    }

    /// Every module: configurations name the class `Linear` for it.
    pub(super) fn all() -> Self {
        let (text, kind) = ("Linear".to_owned(), Kind::Class);
        Self { text, kind }
    }

    /// Whether the entry is the name of one module.
    pub(super) fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Name)
    }

    /// How closely it names `module`, if at all. Nothing is known of classes: they fit every module.
    pub(super) fn fits(&self, method: &str, module: &str) -> Result<Option<Closeness>, QuantError> {
        let (fits, closeness) = match &self.kind {
            Kind::Name => (self.text == module, Closeness::Name),
            Kind::Regex(regex) => {
                let found = regex
                    .is_match(module)
                    .map_err(|error| QuantError::Setting {
                        method: method.to_owned(),
                        field: "regular expression".to_owned(),
                        value: format!("{:?}", self.text),
                        want: format!("one that can be decided for `{module}` ({error})"),
                    })?;
                (found, Closeness::Regex)
            }
            Kind::Class => (true, Closeness::Class),
            Kind::Wildcard => (
                wildcard(self.text.as_bytes(), module.as_bytes()),
                Closeness::Regex,
            ),
            Kind::Ancestor => {
                let rest = module.strip_prefix(self.text.as_str());
                let inside = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
                (inside && !self.text.is_empty(), Closeness::Name)
            }
        };
        Ok(fits.then_some(closeness))
    }
}

/// Whether a pattern with `*` and `?` fits a whole text; time is at most the product of both lengths.
fn wildcard(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star is, and how much of the text it has eaten so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    t = eaten + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &Pattern, module: &str, want: Option<Closeness>) {
        assert_eq!(
            pattern.fits("m", module).expect("decidable"),
            want,
            "{}",
            pattern.text
        );
    }

    #[test]
    fn patterns_fit_as_their_packages_say() {
        let compressed = |text| Pattern::compressed("m", "targets", text).expect("a pattern");
        let (name, regex, class) = (Closeness::Name, Closeness::Regex, Closeness::Class);
        check(&compressed("a.b"), "a.b", Some(name));
        check(&compressed("a.b"), "a.b.c", None);
        check(&compressed("lm_head"), "lm_head", Some(name));
        check(&compressed("re:a"), "abc", Some(regex));
        check(&compressed("re:b"), "abc", None);
        check(&compressed("re:.*gate$"), "l.0.gate", Some(regex));
        check(&compressed("re:.*gate$"), "l.0.gate_proj", None);
        check(
            &compressed("re:^(?!.*vision).*proj$"),
            "l.up_proj",
            Some(regex),
        );
        check(
            &compressed("re:^(?!.*vision).*proj$"),
            "vision.up_proj",
            None,
        );
        check(&compressed("re:a|b"), "xb", None);
        check(&compressed("Linear"), "anything", Some(class));
        check(&Pattern::modelopt("l.0*"), "l.0.mlp", Some(regex));
        check(
            &Pattern::modelopt("*router*"),
            "l.0.router.gate",
            Some(regex),
        );
        check(&Pattern::modelopt("l.?.mlp"), "l.7.mlp", Some(regex));
        check(&Pattern::modelopt("l.?.mlp"), "l.17.mlp", None);
        check(&Pattern::modelopt("l.0"), "l.0.mlp", Some(name));
        check(&Pattern::modelopt("l.0"), "l.01", None);
        assert!(Pattern::compressed("m", "targets", "re:(").is_err());
    }

    #[test]
    fn patterns_that_explode_end() {
        let text = "a".repeat(4000);
        assert!(!wildcard(&b"*a*a*a*a*a*a*b".repeat(4), text.as_bytes()));
        let pattern = Pattern::compressed("m", "ignore", "re:(a|a?)+(?=b)c$").expect("a pattern");
        // Refused or decided, but not for ever.
        let _ = pattern.fits("m", &text[..60]);
    }
}
