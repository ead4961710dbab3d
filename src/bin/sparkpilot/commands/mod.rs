//! One file for each command: its options, and what it prints.

#[cfg(feature = "dora")]
pub(crate) mod adapter;
pub(crate) mod bench;
pub(crate) mod cluster;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod doctor;
#[cfg(feature = "train")]
pub(crate) mod finetune;
pub(crate) mod info;
pub(crate) mod inspect;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod monitor;
pub(crate) mod quantize;
pub(crate) mod run;
pub(crate) mod sim;
pub(crate) mod zoo;
