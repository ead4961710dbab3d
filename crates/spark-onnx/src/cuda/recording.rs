//! The memory of a session and its graph: everything that a run does on the device, recorded when the network is loaded.

#![allow(unsafe_code, reason = "records launches of kernels")]

use spark_mem::{Buffer, BufferKind, Device, Graph, HostRead, HostWrite, MemError, Stream};

use super::blocks::{Blocks, STATUS_BYTES};
use super::constants::Constants;
use super::kernels::{Kernels, Memory};
use super::launches::Launch;
use crate::plan::Plan;

/// What a session runs, and the memory that it runs in.
#[derive(Debug)]
pub(super) struct Recording {
    stream: Stream,
    memory: Memory,
    /// Where the device's memory is its own: what the graph copies in and out.
    host: Option<HostBlocks>,
    graph: Graph,
}

/// Pinned memory beside the blocks of inputs and outputs.
#[derive(Debug)]
struct HostBlocks {
    inputs: Buffer<u8>,
    outputs: Buffer<u8>,
}

impl Recording {
    /// Takes all memory, brings the constants there, whose weights `plan` forgets, and records the launches.
    ///
    /// # Errors
    ///
    /// Those of memory, compilers and the driver.
    ///
    /// # Safety
    ///
    /// Every view of `plan` lies inside its buffer ([`Plan::check_views`]); `blocks`, `launches` and `constants` were made
    /// of it together.
    pub(super) unsafe fn new(
        plan: &mut Plan,
        blocks: &Blocks,
        launches: &[Launch],
        constants: Constants,
        device: &Device,
    ) -> Result<Self, MemError> {
        let stream = device.new_stream()?;
        let kernels = Kernels::of(launches, device)?;
        let shared = device.shared_kind();
        let mut memory = Memory {
            constants: constants.bring(plan, blocks.constant_bytes, device, &stream)?,
            arena: device.buffer(BufferKind::Device, blocks.arena_bytes.max(1))?,
            inputs: device.buffer(shared, blocks.input_bytes.max(1))?,
            outputs: device.buffer(shared, blocks.output_bytes)?,
        };
        let mut host = match shared.is_host_visible() {
            true => None,
            false => Some(HostBlocks {
                inputs: device.buffer(BufferKind::Pinned, memory.inputs.len())?,
                outputs: device.buffer(BufferKind::Pinned, memory.outputs.len())?,
            }),
        };
        let graph = stream.capture(|stream| {
            if let Some(host) = &host {
                stream.copy(host.inputs.view(), memory.inputs.view_mut())?;
            }
            stream.fill_bytes(memory.outputs.range_mut(0..STATUS_BYTES)?, 0)?;
            for launch in launches {
                // SAFETY: the caller's promise; the memory was taken as `blocks` says, and `bring` has filled the
                // constants.
                unsafe { kernels.launch(launch, &mut memory, stream) }?;
            }
            match &mut host {
                Some(host) => stream.copy(memory.outputs.view(), host.outputs.view_mut()),
                None => Ok(()),
            }
        })?;
        Ok(Self {
            stream,
            memory,
            host,
            graph,
        })
    }

    /// The block of inputs, for the host to write all of them.
    ///
    /// # Errors
    ///
    /// As [`Buffer::overwrite`].
    pub(super) fn inputs(&mut self) -> Result<HostWrite<'_, u8>, MemError> {
        let block = match &mut self.host {
            Some(host) => &mut host.inputs,
            None => &mut self.memory.inputs,
        };
        block.overwrite(&self.stream)
    }

    /// Queues a run.
    ///
    /// # Errors
    ///
    /// As [`Graph::launch`].
    pub(super) fn launch(&self) -> Result<(), MemError> {
        self.graph.launch(&self.stream)
    }

    /// The block of outputs, once the run is over.
    ///
    /// # Errors
    ///
    /// As [`Buffer::read`].
    pub(super) fn outputs(&self) -> Result<HostRead<'_, u8>, MemError> {
        let block = match &self.host {
            Some(host) => &host.outputs,
            None => &self.memory.outputs,
        };
        block.read(&self.stream)
    }
}
