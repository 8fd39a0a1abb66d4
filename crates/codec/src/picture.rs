//! One picture: how it is described and decoded, and its pixels until they are encoded.

pub(crate) mod animation;
pub(crate) mod decode;
pub(crate) mod decoded;
pub(crate) mod depth;
pub(crate) mod guard;
mod losses;
pub(crate) mod native;
pub(crate) mod preview;
pub(crate) mod remark;

pub(crate) use native::{Native, Other};
