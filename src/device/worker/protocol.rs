//! The messages between the main process and a worker: one per packet, over one Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::device::task::Offload;
use crate::slot::SlotId;
use codec::coders::CompressedJpeg;
use equalize::{ByteOrders, Layout};
use lanes::{GpuInfo, Order};

/// A message from the main process to a worker.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub enum ToWorker {
    /// The descriptor sent along is the slot's memory from here on.
    ///
    /// Any earlier memory of the slot is released.
    Map {
        /// The slot.
        slot: SlotId,
        /// Size of the memory in bytes.
        bytes: u64,
        /// A number that distinguishes this memory from earlier memory of the slot.
        generation: u64,
    },
    /// The slot's memory is released.
    Unmap {
        /// The slot.
        slot: SlotId,
    },
    /// The order is to be carried out on the picture at the start of the slot.
    ///
    /// The slot is the worker's until it answers.
    Work {
        /// The slot.
        slot: SlotId,
        /// The picture in it.
        layout: Layout,
        /// The byte orders of its pixels, before and after the work.
        byte_orders: ByteOrders,
        /// The work to do.
        order: Order,
    },
    /// The order is to be carried out on the JPEG at the start of the slot.
    ///
    /// It is decoded for that, and replaced by the result if its pixels change. The slot is the
    /// worker's until it answers.
    Recode {
        /// The slot.
        slot: SlotId,
        /// The JPEG in it.
        jpeg: CompressedJpeg,
        /// The work to do.
        order: Order,
    },
    /// The content of the slot is to be replaced by the result of this work.
    ///
    /// The slot is the worker's until it answers.
    Offload {
        /// The slot.
        slot: SlotId,
        /// The work, which also describes the content.
        offload: Offload,
    },
}

/// A message from a worker to the main process.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub enum FromWorker {
    /// The worker can work; sent once, first. `None` if it computes on the CPU.
    Ready(Option<GpuInfo>),
    /// The worker cannot work, for this reason; it then ends.
    Refused(String),
    /// The slot holds the result and is the main process's again.
    Done {
        /// The slot.
        slot: SlotId,
        /// Size in bytes of the JPEG that the slot holds instead of pixels, if it does.
        encoded: Option<u64>,
    },
    /// The slot holds the result of offloaded work, and is the main process's again.
    Offloaded {
        /// The slot.
        slot: SlotId,
    },
    /// The content of the slot is left to others.
    ///
    /// A JPEG or offloaded work is left to the CPU, pixels to any other device. The slot's
    /// bytes are undefined, and it is the main process's again.
    Declined {
        /// The slot.
        slot: SlotId,
        /// The reason; empty if there is no need to report it.
        reason: String,
    },
    /// The worker does less than it should, for this reason.
    Note(String),
    /// The device failed. The worker then ends, because a CUDA context is unusable after an error.
    Failed {
        /// The slot on which it failed, if it is known.
        slot: Option<SlotId>,
        /// The reason.
        reason: String,
    },
}

/// The longest message in bytes. Reasons are cut to fit.
const LONGEST: usize = 4096;

/// One end of the socket.
pub struct Channel(OwnedFd);

impl Channel {
    /// Creates two connected ends.
    ///
    /// # Errors
    /// The system's.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(a), Self(b)))
    }

    /// Sends a message, and optionally a descriptor along with it.
    ///
    /// # Errors
    /// The system's; `BrokenPipe` if the other end is gone; `WouldBlock` as in
    /// [`Channel::wait_at_most`].
    pub fn send(&self, message: &impl Serialize, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [0; LONGEST];
        let bytes = postcard::to_slice(message, &mut space).map_err(io::Error::other)?;
        let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let packet = [IoSlice::new(bytes)];
        loop {
            match rustix::net::sendmsg(&self.0, &packet, &mut ancillary, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return sent.map(drop).map_err(io::Error::from),
            }
        }
    }

    /// Waits for the next message; returns `None` if the other end is gone.
    ///
    /// # Errors
    /// The system's, or `InvalidData` if a packet is not a message.
    pub fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Option<OwnedFd>)>> {
        let mut space = [0; LONGEST];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut room);
        let received = loop {
            let mut packet = [IoSliceMut::new(&mut space)];
            match rustix::net::recvmsg(&self.0, &mut packet, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                // An end that is closed with messages unread resets the connection. The reset is
                // reported once, before the messages that it sent.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                received => break received?.bytes,
            }
        };
        if received == 0 {
            return Ok(None);
        }
        let message = postcard::from_bytes(&space[..received])
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let fd = ancillary.drain().find_map(|item| match item {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Ok(Some((message, fd)))
    }

    /// Makes [`Channel::send`] fail with `WouldBlock` after waiting for room for this long.
    ///
    /// # Errors
    /// The system's.
    pub fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        // Zero would mean no timeout at all.
        let time = time.max(Duration::from_millis(1));
        Ok(set_socket_timeout(&self.0, Timeout::Send, Some(time))?)
    }

    /// Shuts down both directions; the other end sees it at once.
    pub fn shut_down(&self) {
        // This can only fail if the other end is already gone.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }

    /// Returns a second handle to the same end.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Channel {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

/// Cuts a reason to the length that a message can carry.
pub fn shorten(mut reason: String) -> String {
    let cut = (0..=reason.len().min(LONGEST / 2)).rev().find(|&at| reason.is_char_boundary(at)).unwrap_or(0);
    reason.truncate(cut);
    reason
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Memory;

    #[test]
    fn a_message_arrives_with_its_descriptor() {
        let (ours, theirs) = Channel::pair().unwrap();
        let memory = Memory::shared(100).unwrap();
        ours.send(&ToWorker::Map { slot: 3, bytes: 100, generation: 9 }, Some(memory.as_fd())).unwrap();
        let (message, fd) = theirs.receive::<ToWorker>().unwrap().unwrap();
        assert!(matches!(message, ToWorker::Map { slot: 3, bytes: 100, generation: 9 }));
        assert_eq!(Memory::from_fd(fd.unwrap(), 100, 9).unwrap().bytes().len(), 100);
    }

    #[test]
    fn the_end_of_the_other_side_is_told() {
        let (ours, theirs) = Channel::pair().unwrap();
        drop(ours);
        assert!(theirs.receive::<FromWorker>().unwrap().is_none());
    }

    #[test]
    fn the_last_messages_of_an_end_that_leaves_others_unread_arrive() {
        let (ours, theirs) = Channel::pair().unwrap();
        ours.send(&ToWorker::Unmap { slot: 1 }, None).unwrap();
        for reason in ["first", "last"] {
            theirs.send(&FromWorker::Refused(reason.to_owned()), None).unwrap();
        }
        drop(theirs);
        let mut received = Vec::new();
        while let Some((FromWorker::Refused(reason), _)) = ours.receive().unwrap() {
            received.push(reason);
        }
        assert_eq!(received, ["first", "last"]);
    }

    #[test]
    fn who_never_reads_is_not_waited_for() {
        let (ours, _theirs) = Channel::pair().unwrap();
        ours.wait_at_most(Duration::from_millis(20)).unwrap();
        let full = (0..100_000).find_map(|slot| ours.send(&ToWorker::Unmap { slot }, None).err());
        assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn the_longest_reason_fits() {
        let (ours, theirs) = Channel::pair().unwrap();
        ours.send(&FromWorker::Refused(shorten("é".repeat(9000))), None).unwrap();
        assert!(matches!(theirs.receive().unwrap(), Some((FromWorker::Refused(_), None))));
    }
}
