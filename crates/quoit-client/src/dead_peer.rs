//! Detection of a peer whose machine is gone. Without it a connection waits for ever for an answer.

use rustix::net::sockopt;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Number of unanswered keep-alive probes after which the operating system ends a connection.
const QUESTION_COUNT: u32 = 1;
/// The shortest keep-alive interval that the operating system accepts.
const SECOND: Duration = Duration::from_secs(1);

/// Has the operating system end a TCP connection whose peer has acknowledged nothing for `within`. With
/// unacknowledged data the connection ends after `within`. An idle connection is probed after `within`, at
/// least 1 s, and ends if the probe is not answered within the same time. A peer that is only slow to
/// answer still acknowledges at the TCP level, and its connection stays open.
///
/// # Errors
///
/// The operating system's error, if it refuses an option.
pub fn notice_dead_peer(stream: &impl AsFd, within: Duration) -> io::Result<()> {
    let milliseconds = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
    let interval = within.max(SECOND);
    sockopt::set_tcp_user_timeout(stream, milliseconds)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, interval)?;
    sockopt::set_tcp_keepintvl(stream, interval)?;
    sockopt::set_tcp_keepcnt(stream, QUESTION_COUNT)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_system_watches_the_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream =
            TcpStream::connect(listener.local_addr().expect("it has one")).expect("it listens");
        notice_dead_peer(&stream, SECOND).expect("the system can");
        assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(1_000));
        assert_eq!(sockopt::tcp_keepidle(&stream), Ok(SECOND));
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
    }
}
