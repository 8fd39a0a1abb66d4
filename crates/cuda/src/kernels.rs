//! The kernels of one GPU, loaded when they are first launched.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Device, Function, Launch, Module, Result, Stream};

/// The bytes of dynamic shared memory that any kernel may use without opting in.
///
/// They are 48 KiB less the most static shared memory of a kernel.
const USUAL_SHARED: u32 = 6 << 10;

/// A kernel's name in two parts: its task, and the kind of pixels if there is a kernel for each.
pub type KernelName = (&'static str, &'static str);

/// Makes an array of pointers to a kernel's arguments.
#[macro_export]
macro_rules! arguments {
    ($($argument:ident),*) => { &mut [$((&raw const $argument).cast_mut().cast::<std::ffi::c_void>()),*] };
}

/// The kernels of one GPU.
///
/// Modules stay loaded until the process ends.
#[derive(Debug)]
pub struct LoadedKernels {
    capability: (u32, u32),
    loaded: Mutex<Loaded>,
}

#[derive(Debug, Default)]
struct Loaded {
    modules: HashMap<&'static str, Module>,
    functions: HashMap<KernelName, Allowed>,
}

/// A kernel, and the dynamic shared memory that it is allowed, in bytes.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    function: Function,
    shared: u32,
}

impl LoadedKernels {
    /// Returns the kernels of a GPU, not loaded yet.
    pub fn new(device: Device) -> Result<Self> {
        Ok(Self { capability: device.compute_capability()?, loaded: Mutex::default() })
    }

    /// Returns the GPU's compute capability, major and minor.
    pub const fn capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Returns a module, and loads it the first time.
    pub fn module(&self, module: &histeqd_kernels::Module) -> Result<Module> {
        self.lock().module(module, self.capability)
    }

    /// Launches a kernel of a module.
    ///
    /// # Safety
    /// As [`Function::launch`].
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        module: &histeqd_kernels::Module,
        name: KernelName,
        launch: Launch,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let function = self.function(module, name, launch.shared)?;
        // SAFETY: guaranteed by the caller.
        unsafe { function.launch(stream, launch, arguments) }
    }

    /// Returns a kernel that may use so many bytes of dynamic shared memory.
    fn function(&self, module: &histeqd_kernels::Module, name: KernelName, shared: u32) -> Result<Function> {
        let mut loaded = self.lock();
        let mut known = match loaded.functions.get(&name) {
            Some(known) if shared <= known.shared => return Ok(known.function),
            Some(known) => *known,
            None => {
                let function =
                    loaded.module(module, self.capability)?.function(&[name.0, name.1].concat())?;
                Allowed { function, shared: USUAL_SHARED }
            }
        };
        if shared > known.shared {
            known.function.allow_shared(shared)?;
            known.shared = shared;
        }
        loaded.functions.insert(name, known);
        Ok(known.function)
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loaded {
    fn module(&mut self, module: &histeqd_kernels::Module, capability: (u32, u32)) -> Result<Module> {
        if let Some(loaded) = self.modules.get(module.name) {
            return Ok(*loaded);
        }
        let loaded = Module::load(module, capability)?;
        self.modules.insert(module.name, loaded);
        Ok(loaded)
    }
}
