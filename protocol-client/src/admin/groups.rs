//! Groups: which there are, who is in them, and their end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use millstream_protocol::group::consumer_protocol::{Assignment, Subscription};
use millstream_protocol::messages::kp::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, GroupId,
    ListGroupsRequest, consumer_group_describe_response as modern,
    describe_groups_response as classic,
};
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, Request, Response, TopicPartition};

use super::ask::Answer;
use super::text;
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// By which protocol a group's members agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GroupType {
    /// The members assign (JoinGroup). Also groups that only keep offsets, and what else uses the protocol, as Connect.
    Classic,
    /// The coordinator assigns (KIP-848).
    Consumer,
    /// Another, by Kafka's name: `share`, `streams`.
    Other(String),
}

/// A group as its coordinator lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedGroup {
    /// Its id.
    pub group_id: String,
    /// The protocol its members agree by. Brokers before 3.8 do not tell: classic then.
    pub group_type: GroupType,
    /// What the members are: `consumer`, `connect`; empty for a group that only keeps offsets.
    pub protocol_type: String,
    /// `Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Assigning`, `Reconciling`, `Dead`; empty from brokers
    /// before 2.6.
    pub state: String,
    /// The broker that coordinates it.
    pub coordinator: i32,
}

/// A group with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupDescription {
    /// Its id.
    pub group_id: String,
    /// The protocol its members agree by.
    pub group_type: GroupType,
    /// Its state, as [`ListedGroup::state`].
    pub state: String,
    /// What the members are: `consumer`, `connect`; empty for a group that only keeps offsets.
    pub protocol_type: String,
    /// The assignor that the group uses, as `range` or `uniform`; empty without members.
    pub assignor: String,
    /// Bumped with each change of members or subscriptions; `None` for classic groups, which do not tell.
    pub group_epoch: Option<i32>,
    /// Its members, by id.
    pub members: Vec<GroupMemberDescription>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupMemberDescription {
    /// Its id, made by the coordinator or (KIP-848) by itself.
    pub member_id: String,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<String>,
    /// `client.rack`, if it told one (KIP-881, KIP-848).
    pub rack_id: Option<String>,
    /// `client.id`.
    pub client_id: String,
    /// Where it connects from, as `/127.0.0.1`.
    pub client_host: String,
    /// Its epoch (KIP-848); `None` in classic groups.
    pub member_epoch: Option<i32>,
    /// Topics it subscribes to by name.
    pub subscribed_topics: BTreeSet<String>,
    /// The pattern it subscribes by, if it does (KIP-848).
    pub subscribed_pattern: Option<String>,
    /// Partitions it owns.
    pub assignment: BTreeSet<TopicPartition>,
    /// Partitions it is to own when the rebalance is over; `None` in classic groups.
    pub target_assignment: Option<BTreeSet<TopicPartition>>,
}

impl KafkaClient {
    /// All groups of the cluster that the user may see, sorted by id: ListGroups 1 to 5 (KIP-518, KIP-848). Every broker is
    /// asked, for each coordinates some.
    ///
    /// # Errors
    ///
    /// [`ClientError::TimedOut`] if a broker does not answer: its groups would be missing; else as
    /// [any call](KafkaClient#errors-of-any-call).
    pub async fn list_groups(&self) -> Result<Vec<ListedGroup>, ClientError> {
        let mut attempts = self.attempts("list groups");
        let question = || Request::ListGroups(ListGroupsRequest::default());
        let listed = self
            .ask_every_broker(&mut attempts, question, |response| {
                let Response::ListGroups(response) = response else { return Ok(Vec::new()) };
                match ErrorCode(response.error_code) {
                    ErrorCode::NONE => Ok(response.groups),
                    code => Err((code, None)),
                }
            })
            .await?;
        let mut groups: Vec<_> = listed
            .into_iter()
            .map(|(node, group)| ListedGroup {
                group_id: group.group_id.to_string(),
                group_type: GroupType::of(&group.group_type),
                protocol_type: group.protocol_type.to_string(),
                state: group.group_state.to_string(),
                coordinator: node.0,
            })
            .collect();
        groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        // A group whose coordinator has just moved may be listed by both.
        groups.dedup_by(|a, b| a.group_id == b.group_id);
        Ok(groups)
    }

    /// Groups with their members, each asked of its coordinator by the protocol that it uses: DescribeGroups 1 to 6 or
    /// ConsumerGroupDescribe 0 to 1 (KIP-848), after ListGroups.
    ///
    /// # Errors
    ///
    /// By group: [`ClientError::Broker`] with GROUP_ID_NOT_FOUND for one that does not exist, or is neither a classic nor
    /// a consumer group; with a permission error. As a whole: as [`list_groups`](Self::list_groups).
    pub async fn describe_groups(
        &self,
        groups: &[&str],
    ) -> Result<BTreeMap<String, Result<GroupDescription, ClientError>>, ClientError> {
        let call = self.attempts("describe groups");
        let listed = self.list_groups().await?;
        let mut results = BTreeMap::new();
        for group in groups {
            let mut attempts = call.part(format!("describe group '{group}'"));
            let found = listed.iter().find(|listed| listed.group_id == *group);
            let result = match found.map(|listed| &listed.group_type) {
                Some(GroupType::Consumer) => self.describe_modern(&mut attempts, group).await,
                // One that is not listed may be one that the user may not see: its coordinator says so.
                Some(GroupType::Classic) | None => {
                    self.describe_classic(&mut attempts, group).await
                }
                Some(GroupType::Other(kind)) => Err(ClientError::of_code(
                    attempts.operation(),
                    ErrorCode::GROUP_ID_NOT_FOUND,
                    Some(format!("it is a {kind} group")),
                )),
            };
            results.insert((*group).to_owned(), result);
        }
        Ok(results)
    }

    async fn describe_classic(
        &self,
        attempts: &mut Attempts,
        group: &str,
    ) -> Result<GroupDescription, ClientError> {
        let question = |_: &Attempts| {
            let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(text(group))]);
            Ask::new(coordinator(group), Request::DescribeGroups(request))
        };
        self.ask(attempts, question, |attempts, response| {
            let Response::DescribeGroups(response) = response else { return Answer::left_out() };
            let Some(group) = response.groups.into_iter().next() else {
                return Answer::left_out();
            };
            match ErrorCode(group.error_code) {
                // Until version 6, a group that does not exist is described as dead.
                ErrorCode::NONE if &*group.group_state == "Dead" => {
                    Answer::Refused(ClientError::of_code(
                        attempts.operation(),
                        ErrorCode::GROUP_ID_NOT_FOUND,
                        None::<&str>,
                    ))
                }
                ErrorCode::NONE => Answer::Done(described_classic(group)),
                code => Answer::of_code(attempts, code, group.error_message.as_deref()),
            }
        })
        .await
    }

    async fn describe_modern(
        &self,
        attempts: &mut Attempts,
        group: &str,
    ) -> Result<GroupDescription, ClientError> {
        let question = |_: &Attempts| {
            let request =
                ConsumerGroupDescribeRequest::default().with_group_ids(vec![GroupId(text(group))]);
            Ask::new(coordinator(group), Request::ConsumerGroupDescribe(request))
        };
        self.ask(attempts, question, |attempts, response| {
            let Response::ConsumerGroupDescribe(response) = response else {
                return Answer::left_out();
            };
            let Some(group) = response.groups.into_iter().next() else {
                return Answer::left_out();
            };
            match ErrorCode(group.error_code) {
                ErrorCode::NONE => Answer::Done(described_modern(group)),
                code => Answer::of_code(attempts, code, group.error_message.as_deref()),
            }
        })
        .await
    }

    /// Deletes groups without members, with all their offsets: DeleteGroups 0 to 2 (KIP-229).
    ///
    /// # Errors
    ///
    /// By group: [`ClientError::Broker`] with NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, or a permission error; else as
    /// [any call](KafkaClient#errors-of-any-call).
    pub async fn delete_groups(
        &self,
        groups: &[&str],
    ) -> BTreeMap<String, Result<(), ClientError>> {
        let call = self.attempts("delete groups");
        let mut results = BTreeMap::new();
        for group in groups {
            let mut attempts = call.part(format!("delete group '{group}'"));
            let question = |_: &Attempts| {
                let request =
                    DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(group))]);
                Ask::new(coordinator(group), Request::DeleteGroups(request))
            };
            let result = self
                .ask(&mut attempts, question, |attempts, response| {
                    let Response::DeleteGroups(response) = response else {
                        return Answer::left_out();
                    };
                    let Some(result) = response.results.first() else {
                        return Answer::left_out();
                    };
                    match ErrorCode(result.error_code) {
                        ErrorCode::NONE => Answer::Done(()),
                        // A lost answer may have been our own success.
                        ErrorCode::GROUP_ID_NOT_FOUND if attempts.outcome_unknown() => {
                            Answer::Done(())
                        }
                        code => Answer::of_code(attempts, code, None::<&str>),
                    }
                })
                .await;
            results.insert((*group).to_owned(), result);
        }
        results
    }
}

impl GroupType {
    fn of(name: &str) -> Self {
        // Kafka writes `Consumer`; its tools take any case.
        match name.to_ascii_lowercase().as_str() {
            "" | "classic" => Self::Classic,
            "consumer" => Self::Consumer,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for GroupType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Other(name) => name,
        })
    }
}

pub(super) fn coordinator(group: &str) -> Destination {
    Destination::GroupCoordinator(Arc::from(group))
}

fn described_classic(group: classic::DescribedGroup) -> GroupDescription {
    let consumers = &*group.protocol_type == "consumer";
    let member = |member: classic::DescribedGroupMember| {
        let (metadata, assignment) = (member.member_metadata, member.member_assignment);
        // Members of other kinds than consumers have bytes of their own there, and a member that is still joining none.
        let subscription = consumers.then(|| Subscription::decode(metadata).ok()).flatten();
        let assignment = consumers.then(|| Assignment::decode(assignment).ok()).flatten();
        let (subscription, assignment) =
            (subscription.unwrap_or_default(), assignment.unwrap_or_default());
        GroupMemberDescription {
            member_id: member.member_id.to_string(),
            instance_id: member.group_instance_id.map(|id| id.to_string()),
            rack_id: subscription.rack_id.map(|rack| rack.to_string()),
            client_id: member.client_id.to_string(),
            client_host: member.client_host.to_string(),
            member_epoch: None,
            subscribed_topics: subscription.topics.iter().map(ToString::to_string).collect(),
            subscribed_pattern: None,
            assignment: assignment.partitions.into_iter().collect(),
            target_assignment: None,
        }
    };
    let mut members: Vec<_> = group.members.into_iter().map(member).collect();
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    GroupDescription {
        group_id: group.group_id.to_string(),
        group_type: GroupType::Classic,
        state: group.group_state.to_string(),
        protocol_type: group.protocol_type.to_string(),
        assignor: group.protocol_data.to_string(),
        group_epoch: None,
        members,
    }
}

fn described_modern(group: modern::DescribedGroup) -> GroupDescription {
    let partitions = |assignment: modern::Assignment| -> BTreeSet<TopicPartition> {
        let topics = assignment.topic_partitions.into_iter();
        topics
            .flat_map(|topic| {
                let name: Arc<str> = Arc::from(topic.topic_name.as_str());
                topic.partitions.into_iter().map(move |p| TopicPartition::new(Arc::clone(&name), p))
            })
            .collect()
    };
    let member = |member: modern::Member| GroupMemberDescription {
        member_id: member.member_id.to_string(),
        instance_id: member.instance_id.map(|id| id.to_string()),
        rack_id: member.rack_id.map(|id| id.to_string()),
        client_id: member.client_id.to_string(),
        client_host: member.client_host.to_string(),
        member_epoch: Some(member.member_epoch),
        subscribed_topics: member.subscribed_topic_names.iter().map(|t| t.to_string()).collect(),
        subscribed_pattern: member
            .subscribed_topic_regex
            .map(|pattern| pattern.to_string())
            .filter(|pattern| !pattern.is_empty()),
        assignment: partitions(member.assignment),
        target_assignment: Some(partitions(member.target_assignment)),
    };
    let mut members: Vec<_> = group.members.into_iter().map(member).collect();
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    GroupDescription {
        group_id: group.group_id.to_string(),
        group_type: GroupType::Consumer,
        state: group.group_state.to_string(),
        protocol_type: "consumer".to_owned(),
        assignor: group.assignor_name.to_string(),
        group_epoch: Some(group.group_epoch),
        members,
    }
}
