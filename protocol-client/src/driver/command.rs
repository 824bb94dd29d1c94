//! What handles ask of the driver.

use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::fetch::{FetchConfig, FetchStart};
use millstream_protocol::network::{AddressFailure, ConnectionClass, Destination, RequestError};
use millstream_protocol::{Request, Response, TopicPartition};
use tokio::sync::oneshot;

use crate::consumer::ConsumerShared;
use crate::producer::ProducerShared;

/// A message from a handle.
#[derive(Debug)]
pub(crate) enum Command {
    Request(RequestCommand),
    OpenConsumer {
        consumer: u32,
        starts: Vec<FetchStart>,
        config: FetchConfig,
        shared: Arc<ConsumerShared>,
    },
    Consumer {
        consumer: u32,
        action: ConsumerAction,
    },
    OpenProducer {
        producer: u32,
        shared: Arc<ProducerShared>,
    },
    CloseProducer {
        producer: u32,
    },
    /// A producer's machine has something to send or to tell, or a reader has taken much.
    Wake,
    RefreshMetadata,
    /// A lane's control connections are not needed any more.
    CloseLane {
        lane: u32,
    },
    /// Which addresses do not serve, and why.
    AddressFailures {
        reply: oneshot::Sender<Vec<AddressFailure>>,
    },
    Close {
        done: oneshot::Sender<()>,
    },
}

/// One request of a call, with the way its answer takes back.
#[derive(Debug)]
pub(crate) struct RequestCommand {
    pub(crate) destination: Destination,
    pub(crate) class: ConnectionClass,
    pub(crate) lane: u32,
    pub(crate) request: Request,
    pub(crate) max_version: Option<i16>,
    pub(crate) timeout: Duration,
    pub(crate) reply: oneshot::Sender<Result<Response, RequestError>>,
}

/// What a consumer's handle wants.
#[derive(Debug)]
pub(crate) enum ConsumerAction {
    Assign(FetchStart),
    Unassign(TopicPartition),
    Pause(TopicPartition),
    Resume(TopicPartition),
    Close,
}
