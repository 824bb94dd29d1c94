//! Sockets, timers and files around the cluster, all on one thread.
//!
//! A connection has one request at work at a time, as on a real broker, where the channel is muted until the answer is
//! out; what a client pipelines waits in its socket.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::TcpListener as StdListener;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::{Buf, Bytes};
use millstream_protocol::frame::FrameDecoder;
use millstream_protocol::{EncodedFrame, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};
use tokio::task::LocalSet;

use crate::core::{Cluster, Outgoing};
use crate::data_dir::{DataDir, DataDirError};

/// Bytes that may be read ahead while a request is at work.
const READ_AHEAD: usize = 1 << 20;

/// Pieces handed to one vectored write.
const MAX_SLICES: usize = 64;

/// Pause after a failed accept: the system is out of file descriptors, and trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the handle asks of the broker's thread.
pub(crate) enum Command {
    Run(Box<dyn FnOnce(&mut Cluster) + Send>),
    Stop,
}

/// Milliseconds since 1970.
pub(crate) fn wall_clock_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Serves until told to stop.
pub(crate) fn run(
    runtime: &Runtime,
    listener: StdListener,
    cluster: Cluster,
    data_dir: Option<DataDir>,
    request_max_bytes: usize,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let shared = Rc::new(Shared {
        origin: Instant::now(),
        broker: RefCell::new(Broker { cluster, data_dir, mailboxes: HashMap::new() }),
        timers_moved: Notify::new(),
        failed: Notify::new(),
    });
    let tasks = LocalSet::new();
    let timers = Rc::clone(&shared);
    tasks.spawn_local(async move { timers.tick().await });
    let accepting = Rc::clone(&shared);
    tasks.spawn_local(async move {
        if let Ok(listener) = TcpListener::from_std(listener) {
            accept(&accepting, &listener, request_max_bytes).await;
        }
    });
    let until_stopped = async {
        loop {
            tokio::select! {
                () = shared.failed.notified() => return,
                command = commands.recv() => match command {
                    None | Some(Command::Stop) => return,
                    Some(Command::Run(step)) => shared.step(|cluster, _, _| step(cluster)),
                },
            }
        }
    };
    tasks.block_on(runtime, until_stopped);
}

/// The cluster and its surroundings.
struct Broker {
    cluster: Cluster,
    data_dir: Option<DataDir>,
    mailboxes: HashMap<u64, mpsc::UnboundedSender<Outgoing>>,
}

impl Broker {
    /// Keeps what must be kept, then hands out the answers.
    fn flush(&mut self) -> Result<(), DataDirError> {
        while let Some(effect) = self.cluster.poll_storage() {
            if let Some(data_dir) = &mut self.data_dir {
                data_dir.apply(effect)?;
            }
        }
        if let Some(data_dir) = &mut self.data_dir {
            data_dir.sync()?;
        }
        while let Some(outgoing) = self.cluster.poll_outgoing() {
            let (Outgoing::Response { connection, .. }
            | Outgoing::Done { connection }
            | Outgoing::Close { connection }) = &outgoing;
            if let Some(mailbox) = self.mailboxes.get(connection) {
                // A connection that is gone does not read its mail.
                let _ = mailbox.send(outgoing);
            }
        }
        Ok(())
    }
}

struct Shared {
    origin: Instant,
    broker: RefCell<Broker>,
    timers_moved: Notify,
    failed: Notify,
}

impl Shared {
    fn step(&self, step: impl FnOnce(&mut Cluster, Timestamp, i64)) {
        let now = self.now();
        let mut broker = self.broker.borrow_mut();
        let before = broker.cluster.poll_timeout();
        step(&mut broker.cluster, now, wall_clock_ms());
        if let Err(error) = broker.flush() {
            // An answer must not promise what is not kept.
            tracing::error!(error = &error as &dyn std::error::Error, "the dev broker stops");
            self.failed.notify_one();
            return;
        }
        let after = broker.cluster.poll_timeout();
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.timers_moved.notify_one();
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO.after(self.origin.elapsed())
    }

    /// Gives the cluster its time whenever something is due.
    async fn tick(&self) {
        loop {
            let due = self.broker.borrow().cluster.poll_timeout();
            match due {
                None => self.timers_moved.notified().await,
                Some(due) => {
                    let wait = due.since(self.now());
                    if !wait.is_zero() {
                        tokio::select! {
                            () = tokio::time::sleep(wait) => {}
                            () = self.timers_moved.notified() => continue,
                        }
                    }
                    self.step(Cluster::handle_timeout);
                    // Others must have their turn even if something is always due.
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

async fn accept(shared: &Rc<Shared>, listener: &TcpListener, request_max_bytes: usize) {
    let mut next_connection = 0;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        next_connection += 1;
        let connection = next_connection;
        let shared = Rc::clone(shared);
        tokio::task::spawn_local(async move {
            let (mailbox, mail) = mpsc::unbounded_channel();
            shared.broker.borrow_mut().mailboxes.insert(connection, mailbox);
            if let Err(error) = serve(&shared, connection, stream, mail, request_max_bytes).await {
                tracing::debug!(connection, %error, "connection ends");
            }
            shared.broker.borrow_mut().mailboxes.remove(&connection);
            shared.step(|cluster, _, _| cluster.handle_disconnect(connection));
        });
    }
}

/// Answers a connection's requests until it ends.
async fn serve(
    shared: &Shared,
    connection: u64,
    mut stream: TcpStream,
    mut mail: mpsc::UnboundedReceiver<Outgoing>,
    request_max_bytes: usize,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut decoder = FrameDecoder::new(request_max_bytes);
    loop {
        let frame = match decoder.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                if stream.read_buf(decoder.read_buffer()).await? == 0 {
                    return Ok(());
                }
                continue;
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        shared.step(|cluster, now, wall_clock_ms| {
            cluster.handle_request(now, wall_clock_ms, connection, frame);
        });
        match answer(&mut stream, &mut decoder, &mut mail).await? {
            Some(Outgoing::Response { frame, .. }) => write_frame(&mut stream, frame).await?,
            Some(Outgoing::Done { .. }) => {}
            Some(Outgoing::Close { .. }) | None => return Ok(()),
        }
    }
}

/// The outcome of the request at work; `None` if the peer has gone meanwhile.
async fn answer(
    stream: &mut TcpStream,
    decoder: &mut FrameDecoder,
    mail: &mut mpsc::UnboundedReceiver<Outgoing>,
) -> io::Result<Option<Outgoing>> {
    loop {
        if let Ok(outgoing) = mail.try_recv() {
            return Ok(Some(outgoing));
        }
        let may_read = decoder.buffered_bytes() < READ_AHEAD;
        tokio::select! {
            outgoing = mail.recv() => return Ok(outgoing),
            // Reading is how one learns that a peer has gone, while a Fetch of its waits.
            read = stream.read_buf(decoder.read_buffer()), if may_read => {
                if read? == 0 {
                    return Ok(None);
                }
            }
        }
    }
}

/// Sends a frame's pieces without joining them.
async fn write_frame(stream: &mut TcpStream, frame: EncodedFrame) -> io::Result<()> {
    let mut pieces: VecDeque<Bytes> = frame.chunks.into();
    while !pieces.is_empty() {
        let slices: Vec<IoSlice<'_>> =
            pieces.iter().take(MAX_SLICES).map(|piece| IoSlice::new(piece)).collect();
        let mut written = stream.write_vectored(&slices).await?;
        while let Some(piece) = pieces.front_mut() {
            if written < piece.len() {
                piece.advance(written);
                break;
            }
            written -= piece.len();
            pieces.pop_front();
        }
    }
    Ok(())
}
