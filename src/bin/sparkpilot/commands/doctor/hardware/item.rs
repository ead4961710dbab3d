//! One item of the checklist: to which part it belongs, and how it stands.

/// How an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Done,
    Failed,
    ByHand,
    NotHere,
}

/// The parts of the list, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Environment,
    Models,
    Monitoring,
    Training,
    Memory,
    Integration,
    Stress,
    Unpublished,
}

/// One item of the list.
#[derive(Debug, Clone)]
pub(in super::super) struct Item {
    pub(super) part: Part,
    /// What is to be so.
    pub(super) what: &'static str,
    pub(super) state: State,
    /// What was seen, why it cannot be, or what to run.
    pub(super) said: String,
}

impl Item {
    pub(in super::super) fn has_failed(&self) -> bool {
        self.state == State::Failed
    }
}

impl Part {
    pub(super) const ALL: [Self; 8] = [
        Self::Environment,
        Self::Models,
        Self::Monitoring,
        Self::Training,
        Self::Memory,
        Self::Integration,
        Self::Stress,
        Self::Unpublished,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Models => "models",
            Self::Monitoring => "monitoring",
            Self::Training => "training",
            Self::Memory => "memory",
            Self::Integration => "integration",
            Self::Stress => "stress",
            Self::Unpublished => "what nobody has published",
        }
    }
}

impl State {
    pub(super) const ALL: [Self; 4] = [Self::Done, Self::Failed, Self::ByHand, Self::NotHere];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::ByHand => "by hand",
            Self::NotHere => "not here",
        }
    }
}
