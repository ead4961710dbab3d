//! Whether this process was started by the mpirun of the MPI that it was built for.

use spark_program::Usage;
use sparkpilot::shards::Asked;

/// The mpirun of another MPI starts as many processes, each of which believes that it is alone and would write the same files.
pub(crate) fn check_launcher(size: usize) -> Result<(), Usage> {
    let variable = |name: &str| {
        let value = std::env::var_os(name)?;
        Some(value.to_string_lossy().into_owned())
    };
    for launcher in ["open-mpi", "pmi"] {
        let asked: Option<Asked> = launcher.parse().ok();
        let Some(shard) = asked.and_then(|asked| asked.shard(variable).ok()) else {
            continue; // it has not started this process
        };
        let n = shard.of();
        if n != size as u64 {
            return Err(Usage(format!(
                "{n} processes were started, and MPI knows of {size}: this program was built for another MPI than that of this mpirun"
            )));
        }
    }
    Ok(())
}
