//! One client's connection through the proxy.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::fault_proxy::rule::{Direction, FaultAction};
use crate::fault_proxy::shared::Shared;

/// A longer "frame" is some other protocol (TLS, HTTP), which is passed on as it is.
const LONGEST_FRAME: u32 = 128 << 20;

/// Requests under way, by correlation id.
type Unanswered = Mutex<HashMap<i32, UnderWay>>;

/// What the judgement of a response needs to know of its request.
#[derive(Debug)]
struct UnderWay {
    api: i16,
    client: Arc<str>,
    /// The connection ends with the answer.
    ends: bool,
}

/// Why a pump ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The sending side closed.
    Closed,
    /// A rule wants the connection closed.
    Cut,
}

/// Passes frames both ways until both sides are done, or a rule or handle cuts the connection.
pub(crate) async fn serve(client: TcpStream, upstream_port: u16, shared: Arc<Shared>) {
    let generation = shared.look(|state| state.cut_generation);
    let Ok(broker) = TcpStream::connect((Ipv4Addr::LOCALHOST, upstream_port)).await else { return };
    // Without these the proxy would add delays of its own; a socket that is closing can do without.
    let _ = client.set_nodelay(true);
    let _ = broker.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    let (from_broker, to_broker) = broker.into_split();
    let unanswered = Unanswered::default();
    let requests = pump(Direction::Request, from_client, to_broker, &unanswered, &shared);
    let responses = pump(Direction::Response, from_broker, to_client, &unanswered, &shared);
    tokio::select! {
        // Both must end: a held request outlives its client, and answers are drained while it does.
        _ = async { tokio::try_join!(until_cut(requests), until_cut(responses)) } => {}
        () = shared.wait_until(|state| state.stopped || state.cut_generation > generation) => {}
    }
}

async fn until_cut(pump: impl Future<Output = io::Result<End>>) -> Result<(), ()> {
    match pump.await {
        Ok(End::Cut) => Err(()),
        Ok(End::Closed) | Err(_) => Ok(()),
    }
}

async fn pump(
    direction: Direction,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    unanswered: &Unanswered,
    shared: &Shared,
) -> io::Result<End> {
    // A side that is gone must not keep the other from being read.
    let mut receiver_lives = true;
    let mut behind: Option<Vec<u8>> = None;
    loop {
        let mut size = [0; 4];
        if from.read_exact(&mut size).await.is_err() {
            if let Some(frame) = behind {
                let _ = to.write_all(&frame).await;
            }
            // Closing our half tells the other side; it may be closed already.
            let _ = to.shutdown().await;
            return Ok(End::Closed);
        }
        let length = u32::from_be_bytes(size);
        if !(4..=LONGEST_FRAME).contains(&length) {
            to.write_all(&size).await?;
            tokio::io::copy(&mut from, &mut to).await?;
            to.shutdown().await?;
            return Ok(End::Closed);
        }
        let mut frame = size.to_vec();
        // Grows as bytes arrive, so a length that lies costs nothing.
        let read = (&mut from).take(u64::from(length)).read_to_end(&mut frame).await?;
        if read < length as usize {
            let _ = to.shutdown().await;
            return Ok(End::Closed);
        }
        let action = match direction {
            Direction::Request => judge_request(&frame, unanswered, shared).await,
            Direction::Response => judge_response(&frame, unanswered, shared).await,
        };
        match &action {
            FaultAction::CutBefore => return Ok(End::Cut),
            FaultAction::BehindNext => {
                behind = Some(frame);
                continue;
            }
            FaultAction::Replace(bytes) => frame = replaced(&frame, bytes),
            _ => {}
        }
        shared.wait_until(|state| !state.blackhole).await;
        let times = if action == FaultAction::Twice { 2 } else { 1 };
        for frame in std::iter::repeat_n(&frame, times).chain(behind.take().as_ref()) {
            receiver_lives = receiver_lives && to.write_all(frame).await.is_ok();
        }
        if action == FaultAction::CutAfter {
            to.flush().await?;
            return Ok(End::Cut);
        }
    }
}

async fn judge_request(frame: &[u8], unanswered: &Unanswered, shared: &Shared) -> FaultAction {
    // Size, API key, version, correlation id.
    let (Some(api), Some(version), Some(correlation_id)) =
        (i16_at(frame, 4), i16_at(frame, 6), i32_at(frame, 8))
    else {
        return FaultAction::Pass;
    };
    let client = client_id(frame);
    let (action, rule) = shared.change(|state| {
        *state.requests.entry(api).or_default() += 1;
        state.versions.entry((Arc::clone(&client), api)).or_default().insert(version);
        state.judge(Direction::Request, api, &client)
    });
    wait(&action, rule, shared).await;
    if action == FaultAction::CutBefore {
        return action;
    }
    let ends = action == FaultAction::CutAfter;
    let request = UnderWay { api, client, ends };
    unanswered.lock().unwrap_or_else(PoisonError::into_inner).insert(correlation_id, request);
    // The connection ends with the answer, not now.
    if ends { FaultAction::Pass } else { action }
}

async fn judge_response(frame: &[u8], unanswered: &Unanswered, shared: &Shared) -> FaultAction {
    let Some(correlation_id) = i32_at(frame, 4) else { return FaultAction::Pass };
    let request = unanswered.lock().unwrap_or_else(PoisonError::into_inner).remove(&correlation_id);
    let Some(UnderWay { api, client, ends }) = request else { return FaultAction::Pass };
    if ends {
        return FaultAction::CutBefore;
    }
    let (action, rule) = shared.change(|state| state.judge(Direction::Response, api, &client));
    wait(&action, rule, shared).await;
    action
}

async fn wait(action: &FaultAction, rule: u64, shared: &Shared) {
    match action {
        FaultAction::Hold => shared.wait_until(|state| !state.holds(rule)).await,
        FaultAction::Delay(time) => tokio::time::sleep(*time).await,
        _ => {}
    }
}

/// The response `frame` with `bytes` behind its correlation id.
fn replaced(frame: &[u8], bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + bytes.len()).unwrap_or(u32::MAX);
    let correlation_id = frame.get(4..8).unwrap_or_default();
    [length.to_be_bytes().as_slice(), correlation_id, bytes].concat()
}

/// The client id, which stands behind the correlation id in every version of the header.
fn client_id(frame: &[u8]) -> Arc<str> {
    let length = i16_at(frame, 12).and_then(|length| usize::try_from(length).ok());
    let bytes = length.and_then(|length| frame.get(14..)?.get(..length));
    Arc::from(String::from_utf8_lossy(bytes.unwrap_or_default()))
}

fn i16_at(frame: &[u8], at: usize) -> Option<i16> {
    frame.get(at..)?.first_chunk().copied().map(i16::from_be_bytes)
}

fn i32_at(frame: &[u8], at: usize) -> Option<i32> {
    frame.get(at..)?.first_chunk().copied().map(i32::from_be_bytes)
}
