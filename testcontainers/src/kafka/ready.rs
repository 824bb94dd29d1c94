//! Asking a broker over a plain socket whether it is ready: ApiVersions, then Metadata.
//!
//! Written by hand and only as far as needed, so that the launcher does not rest on the codecs under test.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const API_VERSIONS: i16 = 18;
const METADATA: i16 = 3;
const LONGEST_ANSWER: usize = 1 << 20;

/// Node ids of the brokers that the broker at this port of 127.0.0.1 knows as alive, itself included.
///
/// # Errors
///
/// If it can not be reached, does not answer within `limit` per step, or answers something else.
pub(crate) fn alive_brokers(port: u16, limit: Duration) -> io::Result<BTreeSet<i32>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let answer = exchange(&mut stream, API_VERSIONS, 0, &[])?;
    let error_code = Answer(&answer).i16()?;
    if error_code != 0 {
        return Err(io::Error::other(format!("ApiVersions answered error {error_code}")));
    }
    // An empty list of topics: only the brokers are of interest. Then no automatic creation.
    let answer = exchange(&mut stream, METADATA, 4, &[0, 0, 0, 0, 0])?;
    let mut answer = Answer(&answer);
    answer.i32()?; // throttle time
    let count = answer.i32()?;
    let mut node_ids = BTreeSet::new();
    for _ in 0..count {
        node_ids.insert(answer.i32()?);
        answer.skip_string()?; // host
        answer.i32()?; // port
        answer.skip_string()?; // rack
    }
    Ok(node_ids)
}

fn exchange(stream: &mut TcpStream, api: i16, version: i16, body: &[u8]) -> io::Result<Vec<u8>> {
    let client_id = b"millstream-testcontainers";
    let mut frame = Vec::new();
    frame.extend(api.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(1_i32.to_be_bytes());
    frame.extend(i16::try_from(client_id.len()).unwrap_or_default().to_be_bytes());
    frame.extend(client_id);
    frame.extend(body);
    let size = u32::try_from(frame.len()).map_err(io::Error::other)?;
    stream.write_all(&[&size.to_be_bytes(), frame.as_slice()].concat())?;
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let size = u32::from_be_bytes(size) as usize;
    if !(4..=LONGEST_ANSWER).contains(&size) {
        return Err(io::Error::other(format!("an answer of {size} bytes")));
    }
    let mut answer = vec![0; size];
    stream.read_exact(&mut answer)?;
    answer.drain(..4); // correlation id
    Ok(answer)
}

struct Answer<'a>(&'a [u8]);

impl Answer<'_> {
    fn i16(&mut self) -> io::Result<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> io::Result<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn skip_string(&mut self) -> io::Result<()> {
        // A length of -1 stands for null.
        let length = usize::try_from(self.i16()?).unwrap_or(0);
        self.0 = self.0.get(length..).ok_or_else(|| io::Error::other("the answer is too short"))?;
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (first, rest) = self
            .0
            .split_first_chunk()
            .ok_or_else(|| io::Error::other("the answer is too short"))?;
        self.0 = rest;
        Ok(*first)
    }
}
