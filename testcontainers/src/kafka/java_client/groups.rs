//! Members of consumer groups, and the assignors that lead them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;

use serde_json::{Value, json};

use super::json::{bytes_of, i32_of, to_hex};
use super::{JavaAssignment, JavaClient, JavaGroupMember, unexpected};
use crate::kafka::error::ClusterError;

impl JavaClient {
    /// Makes this JVM a member of a group, once. It writes what happens to `log`, each line a JSON list: `["assigned", ms,
    /// partition]`, `["revoked", ms, partition]`, `["lost", ms, partition]` (milliseconds since 1970), `["record", partition,
    /// offset]`, and `["failed", exception]`. Dropping the client kills it.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with the client's exception.
    pub fn join_group(
        &self,
        bootstrap_servers: &str,
        topics: &[&str],
        properties: &BTreeMap<String, String>,
        log: &Path,
    ) -> Result<(), ClusterError> {
        let command = json!({
            "op": "joinGroup",
            "bootstrap": bootstrap_servers,
            "topics": topics,
            "properties": properties,
            "log": log.display().to_string(),
        });
        self.ask(&command, |_| Some(())).map(drop)
    }

    /// SIGKILL to the JVM, and so to its member. Every later call fails.
    pub fn kill(&self) {
        let mut conversation = self.conversation.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended already.
        let _ = conversation.child.kill();
        let _ = conversation.child.wait();
    }

    /// Closes the member: it commits, if that is its way, and leaves.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with what ended the member before.
    pub fn leave_group(&self) -> Result<(), ClusterError> {
        self.ask(&json!({"op": "leaveGroup"}), |_| Some(())).map(drop)
    }

    /// Runs one of Java's assignors (by its class) as the group's leader would, for topics with these numbers of partitions.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with the client's exception.
    pub fn assign(
        &self,
        assignor_class: &str,
        topics: &BTreeMap<String, i32>,
        members: &[JavaGroupMember],
        generation: i32,
    ) -> Result<JavaAssignment, ClusterError> {
        let members: Vec<Value> = members
            .iter()
            .map(|member| {
                json!({
                    "id": member.member_id,
                    "instance": member.group_instance_id,
                    "subscription": to_hex(&member.subscription),
                })
            })
            .collect();
        let command = json!({
            "op": "assign",
            "assignor": assignor_class,
            "topics": topics,
            "members": members,
            "generation": generation,
        });
        let answer = self.ask(&command, |_| Some(()))?.1;
        let bytes = |field: &str| -> Option<BTreeMap<String, Vec<u8>>> {
            let entries = answer[field].as_object()?.iter();
            entries.map(|(id, hex)| Some((id.clone(), bytes_of(hex)??))).collect()
        };
        let (assignments, subscriptions) = (bytes("members"), bytes("subscriptions"));
        assignments
            .zip(subscriptions)
            .map(|(assignments, subscriptions)| JavaAssignment { assignments, subscriptions })
            .ok_or_else(|| unexpected("assign", &answer.to_string()))
    }

    /// The committed offsets of a group, by topic and partition.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with the client's exception.
    pub fn committed(
        &self,
        bootstrap_servers: &str,
        group: &str,
    ) -> Result<BTreeMap<(String, i32), i64>, ClusterError> {
        let command = json!({"op": "committed", "bootstrap": bootstrap_servers, "group": group});
        let answer = self.ask(&command, |_| Some(()))?.1;
        let entries = answer["offsets"].as_array().map(Vec::as_slice).unwrap_or_default();
        entries
            .iter()
            .map(|entry| {
                let topic = entry[0].as_str()?.to_owned();
                Some(((topic, i32_of(&entry[1])?), entry[2].as_i64()?))
            })
            .collect::<Option<_>>()
            .ok_or_else(|| unexpected("committed", &answer.to_string()))
    }
}
