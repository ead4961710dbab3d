//! The order of a load, and how its time is shared out.

use spark_hal::config::{CudaUse, DeviceChoice, config};
use spark_hal::doctor::Load;
use spark_hal::doctor::load::GpuLoad;
use spark_hal::monitor::Sampler;
use spark_hal::nvml::GpuSample;
use spark_mem::{Device, DeviceKind, DeviceOptions};

use crate::arithmetic::Chains;
use crate::error::LoadError;
use crate::host;
use crate::memory_work::{Copying, Reading};
use crate::meter::{Meter, Piece, Progress};
use crate::options::LoadOptions;
use crate::product::{FORMATS, Product};
use crate::watch::{Watch, readings};

/// Part of the time that the processors get beside a GPU.
const PART_OF_HOST: u32 = 6;

/// A GPU, and what looks at it.
pub(crate) struct Watched {
    pub(crate) device: Device,
    /// A look before the device was opened.
    pub(crate) before: Option<GpuSample>,
    /// What looks at this GPU alone; `None` without NVML.
    pub(crate) sampler: Option<Sampler>,
}

/// Loads the processors and the GPU that the settings choose (`SPARK_DEVICE`, `CUDA`), and says what they did.
///
/// `goes_on` hears how far it is, some times a second; when it answers no, the load ends with what it has.
pub fn run(options: &LoadOptions, goes_on: &mut dyn FnMut(&Progress) -> bool) -> Load {
    run_on(open(), options, goes_on)
}

/// The GPU that the settings choose; or why there is none.
fn open() -> Result<Watched, String> {
    let config = config();
    let choice = match (config.device, config.cuda) {
        (DeviceChoice::Cpu, _) => return Err("SPARK_DEVICE=cpu chooses the CPU".to_owned()),
        (_, CudaUse::Never) => return Err("CUDA=0 forbids it".to_owned()),
        (choice @ DeviceChoice::Cuda(_), _) => choice,
        (DeviceChoice::Auto, _) => DeviceChoice::Cuda(None),
    };
    // Looked at before anything of ours is there.
    let before = Sampler::open(&[]).ok().map(|mut sampler| sampler.look());
    let options = DeviceOptions::default().with_device(choice);
    let device = Device::open_with(options).map_err(|why| why.to_string())?;
    let number = number_of(&device);
    let before = before.into_iter().flatten();
    let mut before = before.filter(|sample| Some(sample.gpu) == number);
    Ok(Watched {
        before: before.next().and_then(readings),
        sampler: number.and_then(|number| Sampler::open(&[number]).ok()),
        device,
    })
}

/// NVML's number of a device.
fn number_of(device: &Device) -> Option<u32> {
    let DeviceKind::Cuda(ordinal) = device.info().kind else {
        return None;
    };
    let mut gpus = spark_hal::nvidia_gpus().iter();
    let gpu = gpus.find(|gpu| gpu.cuda_ordinal == Some(ordinal))?;
    gpu.nvml_index
}

/// The same on a device that is open.
pub(crate) fn run_on(
    watched: Result<Watched, String>,
    options: &LoadOptions,
    goes_on: &mut dyn FnMut(&Progress) -> bool,
) -> Load {
    let mut meter = Meter::new(options.duration, goes_on);
    let share = match &watched {
        Ok(_) => options.duration / PART_OF_HOST,
        Err(_) => options.duration,
    };
    let host = host::measure(&mut meter, share);
    let gpu = watched.map(|watched| load_gpu(watched, options, &mut meter));
    Load {
        asked: options.duration,
        took: meter.elapsed(),
        is_partial: meter.is_stopped(),
        host,
        gpu,
    }
}

fn load_gpu(watched: Watched, options: &LoadOptions, meter: &mut Meter<'_>) -> GpuLoad {
    let info = watched.device.info();
    let mut load = GpuLoad {
        name: info.name.clone(),
        compute: info.compute,
        n_multiprocessors: info.n_multiprocessors,
        before: watched.before,
        phases: Vec::new(),
        failure: None,
    };
    let watch = watched.sampler.and_then(Watch::start);
    let done = {
        // Of its own, so that the watch can be stopped after it.
        let mut of_gpu = Loading {
            device: &watched.device,
            options,
            meter: &mut *meter,
            load: &mut load,
        };
        of_gpu.all(watch.as_ref())
    };
    if let Err(error) = done {
        load.failure = Some(error.to_string());
    }
    if let Some(watch) = watch {
        watch.stop();
    }
    load
}

struct Loading<'a, 'm, 'g> {
    device: &'a Device,
    options: &'a LoadOptions,
    meter: &'m mut Meter<'g>,
    load: &'m mut GpuLoad,
}

impl Loading<'_, '_, '_> {
    /// Every piece in its turn; what was done stays where one fails.
    fn all(&mut self, watch: Option<&Watch>) -> Result<(), LoadError> {
        let stream = self.device.new_stream()?;
        let size = &self.options.size;
        let compute = self.load.compute;
        let has = |precision: &spark_hal::Precision| {
            compute.is_none_or(|compute| compute.supports(*precision))
        };
        let products: Vec<_> = size
            .products
            .iter()
            .flat_map(|shape| {
                FORMATS
                    .into_iter()
                    .filter(has)
                    .map(move |format| (format, *shape))
            })
            .collect();
        let mut n_left = 3 + products.len();
        let device = self.device;
        self.piece(&mut n_left, watch, || {
            Reading::new(device, &stream, size.bytes)
        })?;
        self.piece(&mut n_left, watch, || {
            Copying::new(device, &stream, size.bytes)
        })?;
        self.piece(&mut n_left, watch, || Chains::new(device, &stream))?;
        for (precision, shape) in products {
            self.piece(&mut n_left, watch, || {
                Product::new(device, &stream, precision, shape)
            })?;
        }
        // Errors of work that nobody waited for.
        Ok(stream.synchronize()?)
    }

    fn piece<P: Piece>(
        &mut self,
        n_left: &mut usize,
        watch: Option<&Watch>,
        make: impl FnOnce() -> Result<P, LoadError>,
    ) -> Result<(), LoadError> {
        if self.meter.is_stopped() {
            return Ok(());
        }
        let mut piece = make()?;
        let share = self.meter.share(*n_left);
        *n_left -= 1;
        let phase = self.meter.measure(&mut piece, share, watch)?;
        // A shape that is made smaller for a slow device may have been measured already.
        if self.load.phase(phase.work).is_none() {
            self.load.phases.push(phase);
        }
        Ok(())
    }
}
