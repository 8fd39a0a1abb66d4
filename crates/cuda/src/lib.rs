//! The part of the CUDA driver that histeqd needs: contexts, streams, events, memory, modules.
//!
//! Streams, events and memory free themselves; contexts and modules stay until the process ends.
//! The driver's library is loaded when it is asked for.
//!
//! Copies and launches are asynchronous and therefore `unsafe`: the caller must keep the memory
//! they touch valid and otherwise unused until it has waited for them.
#![allow(unsafe_code)]

mod kernels;

use std::ffi::{CStr, CString, c_uint, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cudarc::driver::result::{self, DriverError, stream::StreamKind};
use cudarc::driver::sys::{
    self, CUdevice, CUdevice_attribute as Attribute, CUdeviceptr, CUevent_flags as EventFlags,
    CUfunction_attribute as FunctionAttribute, CUresult,
};

pub use kernels::{KernelName, LoadedKernels};

/// A failed driver call.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("CUDA: {} ({})", name(self.0), text(self.0))]
pub struct CudaError(DriverError);

impl CudaError {
    /// Returns whether the device has only run out of memory, and is still usable.
    pub fn is_out_of_memory(self) -> bool {
        self.0.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY
    }
}

impl From<DriverError> for CudaError {
    fn from(error: DriverError) -> Self {
        Self(error)
    }
}

fn name(error: DriverError) -> String {
    error.error_name().map_or_else(|_| format!("{:?}", error.0), |name| name.to_string_lossy().into_owned())
}

fn text(error: DriverError) -> String {
    error.error_string().map_or_else(|_| "unknown".to_owned(), |text| text.to_string_lossy().into_owned())
}

/// The result of driver calls.
pub type Result<T> = std::result::Result<T, CudaError>;

/// An address in device memory.
pub type Address = CUdeviceptr;

/// Loads the driver library and initializes it.
///
/// # Errors
/// The reason why CUDA cannot be used, as a text for the user.
pub fn load() -> std::result::Result<(), String> {
    // Calls panic without the library, even printing an error, or if an old one lacks a function.
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: loads the library as any CUDA program does; its initializers may run at any time.
        if !unsafe { sys::is_culib_present() } {
            return Err("there is no NVIDIA driver (libcuda.so.1 was not found)".to_owned());
        }
        result::init().map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_NO_DEVICE => "the NVIDIA driver finds no GPU".to_owned(),
            _ => CudaError(error).to_string(),
        })
    }));
    loaded.unwrap_or_else(|_| Err("the NVIDIA driver is too old: it lacks functions of CUDA 11.4".to_owned()))
}

/// Returns the CUDA version that the driver supports, in CUDA's encoding: 12040 is 12.4.
pub fn driver_version() -> Result<u32> {
    let mut version = 0;
    // SAFETY: writes one integer to the given place.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result()?;
    Ok(version as u32)
}

/// A GPU that the driver shows.
#[derive(Clone, Copy, Debug)]
pub struct Device(CUdevice);

impl Device {
    /// Returns how many GPUs there are.
    pub fn count() -> Result<u32> {
        Ok(result::device::get_count()? as u32)
    }

    /// Returns the GPU with this index in CUDA's order.
    pub fn get(ordinal: u32) -> Result<Self> {
        Ok(Self(result::device::get(ordinal as i32)?))
    }

    /// Returns its maker's name for it.
    pub fn name(self) -> Result<String> {
        Ok(result::device::get_name(self.0)?)
    }

    /// Returns `GPU-` and the UUID, as nvidia-smi prints it.
    pub fn uuid(self) -> Result<String> {
        let bytes = result::device::get_uuid(self.0)?.bytes;
        let mut text = "GPU".to_owned();
        for (i, byte) in bytes.iter().enumerate() {
            let dash = if matches!(i, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
            text += &format!("{dash}{:02x}", *byte as u8);
        }
        Ok(text)
    }

    /// Returns the size of its memory in bytes.
    pub fn memory(self) -> Result<u64> {
        // SAFETY: the handle came from the driver.
        Ok(unsafe { result::device::total_mem(self.0) }? as u64)
    }

    /// Returns its name on the PCI bus, as in /sys/bus/pci/devices.
    pub fn pci_bus_id(self) -> Result<String> {
        let mut buffer = [0_u8; 32];
        // SAFETY: the driver writes at most the given length, including the terminating NUL.
        unsafe { sys::cuDeviceGetPCIBusId(buffer.as_mut_ptr().cast(), buffer.len() as i32, self.0) }
            .result()?;
        let id = CStr::from_bytes_until_nul(&buffer).map_or_else(|_| "".into(), CStr::to_string_lossy);
        Ok(id.to_lowercase())
    }

    fn attribute(self, attribute: Attribute) -> Result<u32> {
        // SAFETY: the handle came from the driver.
        Ok(unsafe { result::device::get_attribute(self.0, attribute) }? as u32)
    }

    /// Returns the compute capability, major and minor.
    pub fn compute_capability(self) -> Result<(u32, u32)> {
        let major = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        Ok((major, self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?))
    }

    /// Returns whether memory can be allocated in the order of a stream.
    pub fn has_pools(self) -> Result<bool> {
        Ok(self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0)
    }

    /// Returns the number of its multiprocessors.
    pub fn multiprocessors(self) -> Result<u32> {
        self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    }

    /// Returns the most shared memory that a block can have, in bytes.
    pub fn shared_memory(self) -> Result<u32> {
        let usual = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?;
        Ok(self
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
            .map_or(usual, |most| most.max(usual)))
    }
}

/// A device's primary context. It is never released.
pub struct Context(sys::CUcontext);

// SAFETY: the driver's contexts may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Context {}

impl Context {
    /// Retains a device's primary context and makes it the current context of this thread.
    pub fn new(device: Device) -> Result<Self> {
        let context = Self::retain(device)?;
        context.bind()?;
        Ok(context)
    }

    /// Retains a device's primary context and leaves this thread's current context as it is.
    pub fn retain(device: Device) -> Result<Self> {
        // SAFETY: the driver's handle; the context is never released and outlives all created in
        // it.
        Ok(Self(unsafe { result::primary_ctx::retain(device.0) }?))
    }

    /// Makes it this thread's current context until the guard is dropped, which restores the last.
    pub fn enter(&self) -> Result<Entered> {
        // SAFETY: the context is never released.
        unsafe { sys::cuCtxPushCurrent_v2(self.0) }.result()?;
        Ok(Entered(PhantomData))
    }

    /// Makes it the current context of this thread.
    pub fn bind(&self) -> Result<()> {
        // SAFETY: the context is never released.
        Ok(unsafe { result::ctx::set_current(self.0) }?)
    }
}

/// A context that is current until this is dropped.
pub struct Entered(PhantomData<*const ()>);

impl Drop for Entered {
    fn drop(&mut self) {
        let mut context = std::ptr::null_mut();
        // SAFETY: writes a handle to the place given; this thread has pushed a context.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut context) };
    }
}

/// Returns the free memory of the current context's device, in bytes.
pub fn free_memory() -> Result<u64> {
    Ok(result::mem_get_info()?.0 as u64)
}

/// Pins host memory, where the system allows that, for copies at the bus's full speed.
///
/// Otherwise the memory is left as it is: copies are slower, but just as correct.
///
/// # Safety
/// The memory must stay mapped until [`unpin`].
pub unsafe fn pin(memory: &mut [u8]) -> Result<()> {
    // SAFETY: the slice is mapped memory, and the caller keeps it so.
    let pinned = unsafe {
        sys::cuMemHostRegister_v2(memory.as_mut_ptr().cast(), memory.len(), sys::CU_MEMHOSTREGISTER_PORTABLE)
    };
    match pinned {
        CUresult::CUDA_ERROR_NOT_PERMITTED
        | CUresult::CUDA_ERROR_NOT_SUPPORTED
        | CUresult::CUDA_ERROR_OPERATING_SYSTEM
        | CUresult::CUDA_ERROR_OUT_OF_MEMORY => Ok(()),
        other => Ok(other.result()?),
    }
}

/// Undoes [`pin`]; memory that was never pinned is left alone.
pub fn unpin(memory: &mut [u8]) {
    // SAFETY: the driver knows the registered memory and refuses any other, which does no harm.
    let _ = unsafe { sys::cuMemHostUnregister(memory.as_mut_ptr().cast()) };
}

/// Device memory, freed on drop.
#[derive(Default)]
pub struct Buffer {
    address: Address,
    bytes: u64,
}

impl Buffer {
    /// Allocates memory of undefined content.
    pub fn new(bytes: u64) -> Result<Self> {
        // SAFETY: a plain allocation in the current context.
        let address = unsafe { result::malloc_sync(bytes as usize) }?;
        Ok(Self { address, bytes })
    }

    /// Returns its address.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated by `new`, freed once; the driver waits for its last use. An error
            // here stems from an earlier operation.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Memory for allocations in stream order; it keeps freed memory, and is never destroyed.
pub struct Pool(sys::CUmemoryPool);

// SAFETY: the driver's pools may be used from any thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Creates a pool of a device's memory.
    pub fn new(device: Device) -> Result<Self> {
        // SAFETY: the driver's structures may be all zeros.
        let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
        properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.id = device.0;
        let mut pool = std::ptr::null_mut();
        // SAFETY: writes a handle to the place given.
        unsafe { sys::cuMemPoolCreate(&raw mut pool, &raw const properties) }.result()?;
        let mut kept = u64::MAX;
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the pool is the one just created, and the attribute is a 64-bit integer.
        unsafe { sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut kept).cast()) }.result()?;
        Ok(Self(pool))
    }

    /// Allocates memory of undefined content, for work that is in the stream after this call.
    pub fn allocate(&self, stream: &Stream, bytes: u64) -> Result<Address> {
        let mut address = 0;
        // SAFETY: writes an address to the place given; the pool is never destroyed.
        unsafe { sys::cuMemAllocFromPoolAsync(&raw mut address, bytes.max(1) as usize, self.0, stream.0) }
            .result()?;
        Ok(address)
    }
}

/// A queue of work on the device.
pub struct Stream(pub sys::CUstream);

impl Stream {
    /// Creates a stream that does not wait for others.
    pub fn new() -> Result<Self> {
        Ok(Self(result::stream::create(StreamKind::NonBlocking)?))
    }

    /// Returns another owner's stream; 0 and 1 are the legacy default stream, 2 is the thread's.
    ///
    /// # Safety
    /// It must be a stream of the current context whenever it is used.
    pub unsafe fn borrowed(handle: usize) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(handle as sys::CUstream))
    }

    /// Copies device memory to device memory.
    ///
    /// # Safety
    /// `from` must not be written, and `to` be otherwise unused, until the copy is done.
    pub unsafe fn copy(&self, from: Address, to: Address, bytes: u64) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { result::memcpy_dtod_async(to, from, bytes as usize, self.0) }?)
    }

    /// Frees memory of a [`Pool`], for work that is in the stream after this call.
    ///
    /// # Safety
    /// All work that uses the memory must be in this stream already, or have been waited for.
    pub unsafe fn free(&self, address: Address) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { result::free_async(address, self.0) }?)
    }

    /// Makes everything enqueued after this call wait for the event's last record.
    pub fn wait(&self, event: &Event) -> Result<()> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive and belong to the same context.
        Ok(unsafe { result::stream::wait_event(self.0, event.0, flags) }?)
    }

    /// Copies host memory to the device.
    ///
    /// # Safety
    /// Until the copy is done, `from` must stay valid and unwritten, the device memory else unused.
    pub unsafe fn upload(&self, from: &[u8], to: Address) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { result::memcpy_htod_async(to, from, self.0) }?)
    }

    /// Copies device memory to the host.
    ///
    /// # Safety
    /// `to` must stay valid and untouched, and the device memory unwritten, until the copy is done.
    pub unsafe fn download(&self, from: Address, to: &mut [u8]) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { result::memcpy_dtoh_async(to, from, self.0) }?)
    }

    /// Fills device memory with zeros.
    ///
    /// # Safety
    /// The bytes must be device memory that is not used otherwise until this is done.
    pub unsafe fn zero(&self, at: Address, bytes: u64) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        Ok(unsafe { result::memset_d8_async(at, 0, bytes as usize, self.0) }?)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once; the driver lets enqueued work finish.
        let _ = unsafe { result::stream::destroy(self.0) };
    }
}

/// A point in a stream's work.
pub struct Event(sys::CUevent);

impl Event {
    /// Creates an event; waiting for it sleeps instead of spinning.
    pub fn new() -> Result<Self> {
        let flags =
            EventFlags::CU_EVENT_BLOCKING_SYNC as c_uint | EventFlags::CU_EVENT_DISABLE_TIMING as c_uint;
        let mut event = std::ptr::null_mut();
        // SAFETY: writes a handle to the place given.
        unsafe { sys::cuEventCreate(&raw mut event, flags) }.result()?;
        Ok(Self(event))
    }

    /// Records it after everything that is in the stream at this point.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are alive and belong to the same context.
        Ok(unsafe { result::event::record(self.0, stream.0) }?)
    }

    /// Waits until its last record is reached.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the handle is alive.
        Ok(unsafe { result::event::synchronize(self.0) }?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created by `new`, destroyed once.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

/// Loaded code. It is never unloaded.
#[derive(Clone, Copy, Debug)]
pub struct Module(pub sys::CUmodule);

// SAFETY: the driver's modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads kernels for a GPU of this capability: compiled for it, or else from PTX.
    ///
    /// A driver refuses the former if it is too old for it, or set to (`CUDA_FORCE_PTX_JIT`).
    pub fn load(module: &histeqd_kernels::Module, capability: (u32, u32)) -> Result<Self> {
        let compiled = module.cubin(capability).and_then(|cubin| Self::from_cubin(&cubin).ok());
        compiled.map_or_else(|| Self::from_ptx(module.ptx()), Ok)
    }

    /// Loads kernels that are compiled for this GPU.
    pub fn from_cubin(cubin: &[u8]) -> Result<Self> {
        // SAFETY: an ELF file as the compiler made it, which the driver reads only during the call.
        Ok(Self(unsafe { result::module::load_data(cubin.as_ptr().cast()) }?))
    }

    /// Has the driver compile PTX, or take the result of an earlier compilation from its cache.
    fn from_ptx(ptx: String) -> Result<Self> {
        let ptx = CString::new(ptx).expect("PTX is text without zeros");
        // SAFETY: a NUL-terminated string, which the driver reads only during the call.
        Ok(Self(unsafe { result::module::load_data(ptx.as_ptr().cast()) }?))
    }

    /// Looks up one of its kernels.
    pub fn function(self, name: &str) -> Result<Function> {
        let name = CString::new(name).expect("names of kernels have no zeros");
        // SAFETY: modules are never unloaded.
        Ok(Function(unsafe { result::module::get_function(self.0, name) }?))
    }
}

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub struct Function(sys::CUfunction);

// SAFETY: the driver's functions may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// The dimensions of a launch.
#[derive(Clone, Copy)]
pub struct Launch {
    /// Blocks along x, y, z.
    pub grid: (u32, u32, u32),
    /// Threads of a block along x, y, z.
    pub block: (u32, u32, u32),
    /// Bytes of dynamic shared memory.
    pub shared: u32,
}

impl Function {
    /// Allows it so many bytes of dynamic shared memory.
    fn allow_shared(self, bytes: u32) -> Result<()> {
        let most = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: modules are never unloaded, and the function is there.
        Ok(unsafe { result::function::set_function_attribute(self.0, most, bytes as i32) }?)
    }

    /// Launches it in a stream.
    ///
    /// # Safety
    /// `arguments` must point to a value of the exact type of each of the kernel's parameters; the
    /// device memory that these point to must be the kernel's alone until it is done.
    pub unsafe fn launch(self, stream: &Stream, launch: Launch, arguments: &mut [*mut c_void]) -> Result<()> {
        let Launch { grid, block, shared } = launch;
        // SAFETY: guaranteed by the caller; functions and streams in use are never destroyed.
        Ok(unsafe { result::launch_kernel(self.0, grid, block, shared, stream.0, arguments) }?)
    }
}
