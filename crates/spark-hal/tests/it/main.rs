//! Whole machines, recorded and hostile, through the public interface.

mod cluster;
#[cfg(feature = "nvml")]
mod doctor;
#[cfg(feature = "nvml")]
mod doctor_container;
#[cfg(feature = "nvml")]
mod doctor_history;
mod doctor_history_proof;
#[cfg(feature = "nvml")]
mod doctor_journal;
#[cfg(feature = "nvml")]
mod doctor_known_bad;
#[cfg(feature = "nvml")]
mod doctor_load;
#[cfg(feature = "nvml")]
mod doctor_nccl;
#[cfg(feature = "nvml")]
mod doctor_publication;
#[cfg(feature = "nvml")]
mod doctor_python;
#[cfg(feature = "nvml")]
mod drivers;
mod hostile;
mod machines;
#[cfg(feature = "nvml")]
mod monitor;
mod mutations;
#[cfg(feature = "nvml")]
mod posed;
mod recorded;
mod unpacked;
