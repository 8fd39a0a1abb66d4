//! The command line of a worker process.

use clap::Args;

use crate::device::worker::WorkerArgs;
use lanes::Unit;

/// The arguments of `histeqd worker`.
#[derive(Debug, Args)]
pub struct WorkerCommand {
    /// Print the GPUs as JSON instead of working
    #[arg(long)]
    pub list: bool,
    /// Use this GPU
    #[arg(long, value_name = "ORDINAL", conflicts_with = "cpu")]
    pub gpu: Option<u32>,
    /// Use the GPU with this UUID, if it has another ordinal now
    #[arg(long, requires = "gpu")]
    pub uuid: Option<String>,
    /// Compute on the CPU
    #[arg(long, value_name = "NUMBER", required_unless_present_any = ["gpu", "list"])]
    pub cpu: Option<u32>,
    /// Number of lanes
    #[arg(long, default_value_t = 1)]
    pub lanes: usize,
    /// Decode, equalize and encode JPEGs
    #[arg(long)]
    pub jpeg: bool,
    /// How many workers the device had before this one
    #[arg(long, default_value_t = 0)]
    pub life: u32,
}

impl WorkerCommand {
    /// Returns the arguments that the worker is started with.
    pub fn args(&self) -> WorkerArgs {
        let unit = self.gpu.map_or(Unit::Cpu(self.cpu.unwrap_or_default()), Unit::Gpu);
        WorkerArgs { unit, lanes: self.lanes, uuid: self.uuid.clone(), is_for_jpegs: self.jpeg }
    }
}
