//! As much of each protocol as it takes to ask a server whether it is there. No client library: those are what is tested.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

/// How long an answer may take that a test needs.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// How long to wait when the question is only whether the server is up yet: one that starts may take a connection and
/// forget it, so it is soon asked again.
pub(crate) const GLANCE: Duration = Duration::from_millis(500);

/// The first byte of MariaDB's greeting. An error, such as too many connections, begins with another.
pub(crate) const MARIADB_PROTOCOL: u8 = 10;

fn dial(port: u16, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// Sends `request` and reads until the server closes the connection.
pub(crate) fn ask(port: u16, patience: Duration, request: &[u8]) -> io::Result<String> {
    let mut stream = dial(port, patience)?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The body of the answer to an HTTP/1.0 request: that one ends with the connection and is never chunked.
pub(crate) fn http(port: u16, patience: Duration, method: &str, path: &str, body: &str) -> io::Result<String> {
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = ask(port, patience, request.as_bytes())?;
    match answer.split_once("\r\n\r\n") {
        Some((_, body)) => Ok(body.to_owned()),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, format!("no HTTP answer: {answer:?}"))),
    }
}

/// Whether PostgreSQL lets a client in. While it starts or recovers it answers with an error.
pub(crate) fn postgres_accepts(port: u16, patience: Duration) -> io::Result<bool> {
    const PROTOCOL_3: [u8; 4] = [0, 3, 0, 0];
    const START: &[u8] = b"user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(4 + PROTOCOL_3.len() + START.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut stream = dial(port, patience)?;
    stream.write_all(&[&length[..], &PROTOCOL_3[..], START].concat())?;
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    Ok(kind == *b"R")
}

/// The first packet MariaDB sends, without its header.
pub(crate) fn mariadb_greeting(port: u16, patience: Duration) -> io::Result<Vec<u8>> {
    let mut stream = dial(port, patience)?;
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let [low, middle, high, _] = header;
    let mut packet = vec![0; usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16];
    stream.read_exact(&mut packet)?;
    Ok(packet)
}

/// Redis' answer to one command, as text: a string or a number; an error begins with `-`.
pub(crate) fn redis(port: u16, patience: Duration, command: &[&str]) -> io::Result<String> {
    let mut request = format!("*{}\r\n", command.len());
    for word in command {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    let mut stream = dial(port, patience)?;
    stream.write_all(request.as_bytes())?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line.trim_end();
    match line.split_at_checked(1) {
        Some(("+" | ":", rest)) => Ok(rest.to_owned()),
        Some(("-", _)) => Ok(line.to_owned()),
        Some(("$", "-1")) => Ok("nil".to_owned()),
        Some(("$", length)) => {
            let length = length.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let mut text = vec![0; length];
            stream.read_exact(&mut text)?;
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("not an answer this understands: {line:?}"))),
    }
}
