mod classic;
mod coordinator_model;
mod model_runs;
mod modern;
mod offsets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{GroupConfig, GroupEvent, GroupMember, TopicInfo};
use crate::network::{Destination, DisconnectReason, RequestError, RequestToken};
use crate::{ErrorCode, Request, Response, Timestamp, TopicPartition};

const SECOND: Duration = Duration::from_secs(1);

fn config() -> GroupConfig {
    GroupConfig::new(Arc::from("g"))
}

fn topics(names: &[&str]) -> BTreeSet<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn set(partitions: &[i32]) -> BTreeSet<TopicPartition> {
    partitions.iter().map(|partition| TopicPartition::new("t", *partition)).collect()
}

fn known(partitions: i32) -> BTreeMap<Arc<str>, TopicInfo> {
    BTreeMap::from([(Arc::from("t"), TopicInfo { partitions, topic_id: [7; 16] })])
}

fn lost_answer() -> RequestError {
    RequestError::Disconnected {
        destination: Destination::GroupCoordinator(Arc::from("g")),
        reason: DisconnectReason::Local,
        sent: true,
    }
}

/// A machine, its time, and shorthands for what a test says to it.
struct Script {
    member: GroupMember,
    now: Timestamp,
}

impl Script {
    fn new(member: GroupMember) -> Self {
        Self { member, now: Timestamp::from_micros(1) }
    }

    fn subscribe(&mut self) {
        self.member.subscribe(self.now, topics(&["t"]));
    }

    /// The next request, which there must be.
    fn sent(&mut self) -> (RequestToken, Request) {
        let outgoing = self.member.poll_request(self.now).expect("a request");
        assert_eq!(outgoing.destination, Destination::GroupCoordinator(Arc::from("g")));
        (outgoing.token, outgoing.request)
    }

    fn nothing_to_send(&mut self) {
        assert_eq!(self.member.poll_request(self.now).map(|sent| sent.request), None);
    }

    fn answer(&mut self, token: RequestToken, response: impl Into<Response>) {
        self.member.handle_response(self.now, token, Ok(response.into()));
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        if self.member.poll_timeout().is_some_and(|at| at <= self.now) {
            self.member.handle_timeout(self.now);
        }
    }

    fn events(&mut self) -> Vec<GroupEvent> {
        std::iter::from_fn(|| self.member.poll_event()).collect()
    }
}

fn broker_error(code: ErrorCode) -> GroupEvent {
    GroupEvent::Failed(super::GroupError::Broker { code, message: None })
}
