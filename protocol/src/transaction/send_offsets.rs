//! Offsets of a consumer group inside a transaction (KIP-98, KIP-447): they count if it commits.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, GroupId, TopicName, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::state::{State, TransactionMode};
use super::{FatalCause, ProduceError, TransactionEvent, TransactionManager};
use crate::group::MemberIdentity;
use crate::group::offsets::OffsetAndMetadata;
use crate::messages::{ApiKey, Request};
use crate::network::Destination;
use crate::{ErrorCode, Timestamp, TopicPartition};

/// Offsets that a transaction is to commit for a group, and as which member. The group's coordinator refuses those of a
/// member that is not in the group's generation any more: so a zombie's transaction can not commit (KIP-447).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffsets {
    /// `group.id`.
    pub group_id: Arc<str>,
    /// The member that read what the offsets say; with generation -1 it is not checked.
    pub member: MemberIdentity,
    /// The next offset to read, by partition.
    pub offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
}

/// Offsets on their way into the open transaction.
#[derive(Clone, Debug)]
pub(super) struct SendingOffsets {
    pub(super) offsets: GroupOffsets,
    /// The transaction's coordinator knows that the group takes part. Under TV2 the group's coordinator tells it.
    pub(super) added: bool,
    pub(super) started: Timestamp,
    pub(super) last: Option<Arc<str>>,
}

impl TransactionManager {
    /// Commits offsets of a group with the open transaction. Ends with [`TransactionEvent::OffsetsSent`].
    ///
    /// # Errors
    ///
    /// The state's own error, or [`ProduceError::InvalidState`], outside a transaction and while other offsets are sent.
    pub fn send_offsets(
        &mut self,
        now: Timestamp,
        offsets: GroupOffsets,
    ) -> Result<(), ProduceError> {
        let State::InTransaction(transaction) = &self.state else {
            return Err(self.refuse("send offsets"));
        };
        if self.sending_offsets.is_some() {
            return Err(ProduceError::InvalidState {
                verb: "send offsets",
                state: "sending others",
            });
        }
        if offsets.offsets.is_empty() {
            self.events.push_back(TransactionEvent::OffsetsSent(Ok(())));
            return Ok(());
        }
        let added = transaction.mode == TransactionMode::Tv2;
        self.sending_offsets = Some(SendingOffsets { offsets, added, started: now, last: None });
        Ok(())
    }

    /// True while offsets are on their way.
    #[must_use]
    pub const fn is_sending_offsets(&self) -> bool {
        self.sending_offsets.is_some()
    }

    pub(super) fn add_offsets(&self, group_id: &str) -> Option<Request> {
        let identity = self.identity?;
        Some(Request::AddOffsetsToTxn(
            AddOffsetsToTxnRequest::default()
                .with_transactional_id(self.wire_transactional_id()?)
                .with_producer_id(identity.producer_id.into())
                .with_producer_epoch(identity.producer_epoch)
                .with_group_id(GroupId(text(group_id))),
        ))
    }

    pub(super) fn txn_offset_commit(&self, sent: &GroupOffsets) -> Option<Request> {
        let identity = self.identity?;
        let mut topics: BTreeMap<&str, Vec<TxnOffsetCommitRequestPartition>> = BTreeMap::new();
        for (tp, offset) in &sent.offsets {
            topics.entry(&tp.topic).or_default().push(
                TxnOffsetCommitRequestPartition::default()
                    .with_partition_index(tp.partition)
                    .with_committed_offset(offset.offset)
                    .with_committed_leader_epoch(offset.leader_epoch)
                    .with_committed_metadata(Some(text(&offset.metadata))),
            );
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            TxnOffsetCommitRequestTopic::default()
                .with_name(TopicName(text(name)))
                .with_partitions(partitions)
        });
        Some(Request::TxnOffsetCommit(
            TxnOffsetCommitRequest::default()
                .with_transactional_id(self.wire_transactional_id()?)
                .with_group_id(GroupId(text(&sent.group_id)))
                .with_producer_id(identity.producer_id.into())
                .with_producer_epoch(identity.producer_epoch)
                .with_generation_id(sent.member.generation_or_epoch)
                .with_member_id(text(&sent.member.member_id))
                .with_group_instance_id(sent.member.group_instance_id.as_deref().map(text))
                .with_topics(topics.collect()),
        ))
    }

    pub(super) fn handle_add_offsets(
        &mut self,
        now: Timestamp,
        response: &AddOffsetsToTxnResponse,
    ) {
        match ErrorCode(response.error_code) {
            ErrorCode::NONE => {
                self.failures = 0;
                if let Some(sending) = &mut self.sending_offsets {
                    sending.added = true;
                }
            }
            code => self.offsets_refused(now, ApiKey::AddOffsetsToTxn, code, None),
        }
    }

    pub(super) fn handle_txn_offset_commit(
        &mut self,
        now: Timestamp,
        response: &TxnOffsetCommitResponse,
    ) {
        let mut refused: Option<(ErrorCode, TopicPartition)> = None;
        for topic in &response.topics {
            for partition in &topic.partitions {
                let code = ErrorCode(partition.error_code);
                // What can not be repeated decides.
                if code.is_error() && refused.as_ref().is_none_or(|(code, _)| passes(*code)) {
                    let name = topic.name.0.as_str();
                    refused = Some((code, TopicPartition::new(name, partition.partition_index)));
                }
            }
        }
        match refused {
            Some((code, tp)) => self.offsets_refused(now, ApiKey::TxnOffsetCommit, code, Some(tp)),
            None => {
                self.failures = 0;
                self.sending_offsets = None;
                self.events.push_back(TransactionEvent::OffsetsSent(Ok(())));
            }
        }
    }

    fn offsets_refused(
        &mut self,
        now: Timestamp,
        api: ApiKey,
        code: ErrorCode,
        topic_partition: Option<TopicPartition>,
    ) {
        match code {
            // Markers of the transaction before are being written.
            ErrorCode::CONCURRENT_TRANSACTIONS => self.retry_soon(now),
            // The network layer looks for coordinators that have moved.
            code if passes(code) => {
                self.retry(now, code, false);
                if let Some(sending) = &mut self.sending_offsets {
                    sending.last = Some(Arc::from(code.to_string()));
                }
            }
            ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH => {
                self.fail(self.fenced(api, code));
            }
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING
            | ErrorCode::INVALID_TXN_STATE
            | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_REQUEST => {
                let cause = FatalCause::Refused { api, code, topic_partition, message: None };
                self.fail(ProduceError::Fatal { cause });
            }
            // Among them: the member is not in the group's generation any more.
            code => self.fail(ProduceError::abortable(api, code, topic_partition)),
        }
    }

    /// What is on its way does not arrive any more.
    pub(super) fn drop_offsets(&mut self, error: &ProduceError) {
        if self.sending_offsets.take().is_some() {
            self.events.push_back(TransactionEvent::OffsetsSent(Err(error.clone())));
        }
    }

    pub(super) fn offsets_destination(&self, sending: &SendingOffsets) -> Destination {
        Destination::GroupCoordinator(Arc::clone(&sending.offsets.group_id))
    }
}

/// The same request may succeed later.
fn passes(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::REQUEST_TIMED_OUT
            | ErrorCode::KAFKA_STORAGE_ERROR
            | ErrorCode::NETWORK_EXCEPTION
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::CONCURRENT_TRANSACTIONS
    )
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
