//! What declares views of structs, and values that have names.

/// Declares a view of a struct: `field: type = how(where);`, with `else` and the default if that is not zero, or with
/// `if BIT is TAG` if it is a member of the union whose tag is at that bit.
macro_rules! log_struct {
    (
        $(#[$doc:meta])*
        $name:ident;
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $how:ident($at:literal) $(if $bit:literal is $tag:literal)? $(else $default:literal)?;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<'a>(crate::wire::StructReader<'a>);

        impl<'a> crate::wire::FromStruct<'a> for $name<'a> {
            fn from_struct(from: crate::wire::StructReader<'a>) -> Self {
                Self(from)
            }
        }

        #[allow(clippy::missing_errors_doc, reason = "every pointer of a message can be broken: `WireError` says how")]
        impl<'a> $name<'a> {
            /// Its bits and pointers, for fields that have no name here.
            pub fn reader(&self) -> crate::wire::StructReader<'a> {
                self.0
            }

            $(
                $(#[$field_doc])*
                pub fn $field(&self) -> $type {
                    $crate::schema::view::field!(self, $how($at) $(if $bit is $tag)? $(else $default)?)
                }
            )*
        }
    };
}

/// How one field is read.
macro_rules! field {
    ($self:ident, bool($at:literal) else true) => {
        !$self.0.bool($at)
    };
    ($self:ident, $how:ident($at:literal) else $default:literal) => {
        $self.0.$how($at) ^ $default
    };
    ($self:ident, $how:ident($at:literal) if $bit:literal is $tag:literal) => {
        ($self.0.u16($bit) == $tag).then(|| $self.0.$how($at))
    };
    ($self:ident, enumerant($at:literal)) => {
        $self.0.u16($at).into()
    };
    ($self:ident, $how:ident($at:literal)) => {
        $self.0.$how($at)
    };
}

/// Declares an enumeration: `Variant = number "name in the schema";`.
macro_rules! log_enum {
    (
        $(#[$doc:meta])*
        $name:ident;
        $($(#[$variant_doc:meta])* $variant:ident = $number:literal $text:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// A number that is newer than this list.
            Other(u16),
        }

        impl From<u16> for $name {
            fn from(number: u16) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Other(other),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($text),)*
                    Self::Other(number) => write!(f, "number {number}"),
                }
            }
        }
    };
}

pub(crate) use field;
pub(super) use {log_enum, log_struct};
