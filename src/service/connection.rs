//! A client's connection with a deadline, and the HTTP spoken over it. So small a part of HTTP needs no library, and the small libraries
//! have no such limits.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};

/// How long a client may take to send its request, and how long to read the answer.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest request that is read, in bytes.
const LONGEST_QUESTION: u64 = 16 << 10;

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The method: GET, HEAD, POST.
    pub(super) method: String,
    /// The path, without what follows a question mark.
    pub(super) path: String,
    /// What was sent with it.
    pub(super) body: String,
}

/// The status, the content type, and the body.
pub(super) type Answer = (&'static str, &'static str, String);

/// A connection with a deadline, which it keeps however slow the client is. The socket does not block.
pub(super) struct Connection {
    socket: Arc<OwnedFd>,
    until: Instant,
}

impl Connection {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Self {
        Self { socket, until: Instant::now() + CLIENT_TIMEOUT }
    }

    /// Reads a request. `None` if it is no HTTP.
    pub(super) fn question(&mut self) -> io::Result<Option<Question>> {
        let mut from = BufReader::new(self.take(LONGEST_QUESTION));
        let mut line = || {
            let mut line = Vec::new();
            from.read_until(b'\n', &mut line)?;
            io::Result::Ok(String::from_utf8_lossy(line.trim_ascii()).into_owned())
        };
        let first = line()?;
        let mut length = 0;
        // The other lines do not matter, but have to be read.
        loop {
            let line = line()?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = Vec::new();
        from.take(length).read_to_end(&mut body)?;
        let mut words = first.split_ascii_whitespace();
        let (Some(method), Some(url), Some(_)) = (words.next(), words.next(), words.next()) else {
            return Ok(None);
        };
        let path = url.split('?').next().unwrap_or(url).to_owned();
        Ok(Some(Question {
            method: method.to_owned(),
            path,
            body: String::from_utf8_lossy(&body).into_owned(),
        }))
    }

    /// Sends an answer, without its body if only the `head` was asked for. One that took long to prepare is sent all the same.
    pub(super) fn answer(&mut self, (status, kind, body): &Answer, head: bool) -> io::Result<()> {
        self.until = Instant::now() + CLIENT_TIMEOUT;
        let length = body.len();
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        if !head {
            answer.push_str(body);
        }
        self.write_all(answer.as_bytes())?;
        shutdown(&self.socket, Shutdown::Write)?;
        // Closing a connection with unread data resets it, and the client may lose the answer.
        io::copy(self, &mut io::sink()).map(drop)
    }

    /// Waits until the socket is ready, or the time is up.
    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.socket, flags)], Some(&left))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.wait(PollFlags::IN)?;
        Ok(rustix::io::read(&self.socket, to)?)
    }
}

impl Write for Connection {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.wait(PollFlags::OUT)?;
        Ok(rustix::io::write(&self.socket, from)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    fn pair() -> (UnixStream, Connection) {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        (client, Connection::new(Arc::new(server.into())))
    }

    #[test]
    fn a_question_has_a_method_a_path_and_a_body() {
        let (mut client, mut connection) = pair();
        client.write_all(b"POST /retry?now HTTP/1.1\r\nhost: x\r\nCONTENT-length: 3\r\n\r\nabcdef").unwrap();
        let question = connection.question().unwrap().unwrap();
        assert_eq!(
            (question.method.as_str(), question.path.as_str(), question.body.as_str()),
            ("POST", "/retry", "abc")
        );
        let (mut client, mut connection) = pair();
        client.write_all(b"what?\r\n\r\n").unwrap();
        assert_eq!(connection.question().unwrap(), None);
    }

    #[test]
    fn an_answer_that_took_long_is_given() {
        let (mut client, mut connection) = pair();
        connection.until = Instant::now();
        let answering =
            thread::spawn(move || connection.answer(&("200 OK", "text/plain", "late\n".into()), false));
        let mut given = String::new();
        client.read_to_string(&mut given).unwrap();
        assert!(given.ends_with("\r\n\r\nlate\n"), "{given:?}");
        drop(client);
        answering.join().unwrap().unwrap();
    }

    #[test]
    fn a_connection_ends_in_time_whatever_the_other_end_does() {
        let (mut silent, mut connection) = pair();
        let mut in_time = |patience| {
            connection.until = Instant::now() + Duration::from_millis(patience);
            Connection { socket: Arc::clone(&connection.socket), until: connection.until }
        };
        assert!(in_time(10).question().is_err());
        // Every byte arrives within the time that is left, but the whole request does not.
        silent.write_all(b"GE").unwrap();
        assert!(in_time(10).question().is_err());
        assert!(in_time(100).write_all(&[0; 1 << 26]).is_err());
        assert!(in_time(0).write_all(b"a").is_err());
    }
}
